//! Builds the book in the directory that is named as the argument, as its `book.toml` says.

use std::process::ExitCode;

use mdbook_driver::MDBook;

fn main() -> ExitCode {
    let Some(directory) = std::env::args_os().nth(1) else {
        eprintln!("usage: book DIRECTORY");
        return ExitCode::from(2);
    };
    match MDBook::load(directory).and_then(|book| book.build()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: the book cannot be built: {error:#}");
            ExitCode::FAILURE
        }
    }
}
