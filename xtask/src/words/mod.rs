//! `cargo xtask words`: counts the habits of naming and writing that we are leaving behind, and fails when one of the
//! figures is above its ceiling in `xtask/words.toml`.

mod phrases;
mod prose;
mod settings;
mod shapes;

use anyhow::{Result, bail};

use self::settings::Settings;
use crate::{files, say};

#[derive(clap::Args)]
pub(crate) struct WordsOptions {
    /// List every occurrence behind these figures, such as `nested-results`; `all` lists everything
    #[arg(long, value_name = "FIGURE")]
    list: Vec<String>,
}

/// One occurrence of what a figure counts.
struct Hit {
    path: String,
    line: usize,
    text: String,
}

/// A count with a ceiling.
struct Figure {
    name: &'static str,
    what: &'static str,
    hits: Vec<Hit>,
}

pub(crate) fn run(options: &WordsOptions) -> Result<()> {
    let settings = Settings::read()?;
    let figures = measure(&settings)?;
    let mut above = Vec::new();
    say("figure ceiling");
    for figure in &figures {
        let (found, ceiling) = (figure.hits.len(), settings.ceiling(figure.name)?);
        let note = if found < ceiling { " (lower the ceiling)" } else { "" };
        say(&format!("{found:6} {ceiling:7}  {:20} {}{note}", figure.name, figure.what));
        let listed = options.list.iter().any(|name| name == figure.name || name == "all");
        if listed || found > ceiling {
            for hit in &figure.hits {
                say(&format!("    {}:{}: {}", hit.path, hit.line, hit.text));
            }
        }
        if found > ceiling {
            above.push(figure.name);
        }
    }
    settings.ensure_no_other_ceilings(&figures.iter().map(|figure| figure.name).collect::<Vec<_>>())?;
    if !above.is_empty() {
        bail!("above the ceiling: {}; write it another way, the ceilings only fall", above.join(", "));
    }
    Ok(())
}

fn measure(settings: &Settings) -> Result<Vec<Figure>> {
    let files = files::read_all()?;
    let mut figures = prose::measure(&files, settings);
    figures.extend(shapes::measure(&files)?);
    figures.push(phrases::measure(&files, settings)?);
    Ok(figures)
}
