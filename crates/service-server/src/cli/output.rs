//! Output of `serviced` for the operator.

#[expect(clippy::print_stdout, reason = "what an operator asked for")]
pub(crate) fn say(text: &str) {
    println!("{text}");
}

#[expect(clippy::print_stderr, reason = "what an operator must know")]
pub(crate) fn say_error(text: &str) {
    eprintln!("{text}");
}
