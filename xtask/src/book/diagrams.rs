//! Draws the diagrams of the documents as SVG. In the documents they are text in the language of Mermaid, of which a small part is
//! understood here, so that the site needs no script and no network.

use anyhow::{Context as _, Result, bail};

use super::{flowcharts, sequences};

const BEGIN: &str = "```mermaid\n";
const END: &str = "\n```";

/// Replaces every block in the language `mermaid` by its drawing.
pub(super) fn draw_all(text: &str) -> Result<String> {
    let mut drawn = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once(BEGIN) {
        let (source, after) = after.split_once(END).context("it has no end")?;
        drawn.push_str(before);
        drawn.push_str(&draw(source)?);
        rest = after;
    }
    drawn.push_str(rest);
    Ok(drawn)
}

/// Draws one diagram. The SVG has no empty line: in Markdown that would end it.
fn draw(source: &str) -> Result<String> {
    let mut lines = source.lines().map(str::trim).filter(|line| !line.is_empty());
    let kind = lines.next().context("it is empty")?;
    let title =
        lines.next().and_then(|line| line.strip_prefix("accTitle:")).context("its second line is no accTitle")?;
    let statements: Vec<_> = lines.collect();
    let svg = match kind {
        "sequenceDiagram" => sequences::draw(&statements)?,
        "flowchart LR" => flowcharts::draw(&statements)?,
        other => bail!("{other} is not drawn; sequenceDiagram and flowchart LR are"),
    };
    Ok(svg.finish(title.trim()))
}

#[cfg(test)]
mod tests {
    #[test]
    fn blocks_become_pictures_and_the_rest_stays() {
        let text = "# A\n\n```mermaid\nsequenceDiagram\naccTitle: A & B\na->>b: <hi>\n```\n\nEnd.\n";
        let drawn = super::draw_all(text).unwrap();
        assert!(drawn.starts_with("# A\n\n<svg "), "{drawn}");
        assert!(drawn.ends_with("</svg>\n\nEnd.\n"), "{drawn}");
        assert!(drawn.contains("<title>A &amp; B</title>") && drawn.contains("&lt;hi&gt;"), "{drawn}");
        assert!(!drawn.trim_start_matches("# A\n\n").trim_end_matches("\n\nEnd.\n").contains("\n\n"), "{drawn}");
    }

    #[test]
    fn what_is_not_understood_is_an_error() {
        for source in
            ["pie\naccTitle: x\n\"a\": 1", "sequenceDiagram\na->>b: x", "flowchart LR\naccTitle: x\nnonsense !"]
        {
            assert!(super::draw(source).is_err(), "{source}");
        }
    }
}
