//! Looks up every link of the built site: pages, anchors, pictures, scripts. A page must load nothing from another host.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

use anyhow::Result;

/// Attributes whose value a browser loads by itself, with the elements that have them.
const LOADED: [(&str, &str); 5] =
    [("script", "src"), ("link", "href"), ("img", "src"), ("iframe", "src"), ("source", "src")];

/// The result of a check.
pub(super) struct Found {
    pub(super) pages: usize,
    pub(super) links: usize,
    pub(super) problems: Vec<String>,
}

/// A page: the ids that a link can name, and its links.
#[derive(Default)]
struct Page {
    anchors: BTreeSet<String>,
    links: Vec<Link>,
}

struct Link {
    target: String,
    /// A browser loads it without a click.
    loaded: bool,
}

pub(super) fn check(site: &Path) -> Result<Found> {
    let mut files = BTreeSet::new();
    list(site, "", &mut files)?;
    let mut pages = BTreeMap::new();
    for path in files.iter().filter(|path| Path::new(path).extension().is_some_and(|ending| ending == "html")) {
        pages.insert(path.clone(), Page::read(&fs::read_to_string(site.join(path))?));
    }
    let (mut links, mut problems) = (0, Vec::new());
    for (path, page) in &pages {
        for link in &page.links {
            links += 1;
            if let Some(problem) = judge(path, link, &files, &pages) {
                problems.push(format!("{path}: {} {problem}", link.target));
            }
        }
    }
    for path in files.iter().filter(|path| Path::new(path).extension().is_some_and(|ending| ending == "css")) {
        let text = fs::read_to_string(site.join(path))?;
        if text.contains("url(http") || text.contains("@import") {
            problems.push(format!("{path}: loads something from elsewhere"));
        }
    }
    Ok(Found { pages: pages.len(), links, problems })
}

/// What is wrong with a link, if anything is.
fn judge(page: &str, link: &Link, files: &BTreeSet<String>, pages: &BTreeMap<String, Page>) -> Option<&'static str> {
    let target = link.target.as_str();
    if target.contains("://") || target.starts_with("//") {
        return link.loaded.then_some("is loaded from another host");
    }
    if target.starts_with("mailto:") || target.starts_with("data:") {
        return None;
    }
    let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
    let file = file.split('?').next().unwrap_or_default();
    let path = if file.is_empty() { Some(page.to_owned()) } else { resolve(page, file) };
    let Some(path) = path.filter(|path| files.contains(path)) else {
        return Some("does not exist");
    };
    let known = anchor.is_empty() || pages.get(&path).is_none_or(|page| page.anchors.contains(anchor));
    (!known).then_some("names a heading that does not exist")
}

/// The path of a link from the top of the site.
fn resolve(page: &str, target: &str) -> Option<String> {
    let mut parts: Vec<_> = page.split('/').collect();
    parts.pop();
    for part in target.split('/') {
        match part {
            ".." => drop(parts.pop()?),
            "." | "" => {}
            part => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

fn list(folder: &Path, prefix: &str, files: &mut BTreeSet<String>) -> Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let path = format!("{prefix}{}", entry.file_name().to_string_lossy());
        if entry.file_type()?.is_dir() {
            list(&entry.path(), &format!("{path}/"), files)?;
        } else {
            files.insert(path);
        }
    }
    Ok(())
}

impl Page {
    fn read(html: &str) -> Self {
        let mut page = Self::default();
        for (element, attributes) in elements(html) {
            for (name, value) in attributes {
                match name {
                    "id" => drop(page.anchors.insert(value)),
                    "href" | "src" => {
                        let loaded = LOADED.contains(&(element, name));
                        page.links.push(Link { target: value, loaded });
                    }
                    _ => {}
                }
            }
        }
        page
    }
}

/// The elements of a page with their attributes. Scripts and comments are passed over.
fn elements(html: &str) -> Vec<(&str, Vec<(&str, String)>)> {
    let mut found = Vec::new();
    let mut rest = html;
    while let Some((_, after)) = rest.split_once('<') {
        if let Some(comment) = after.strip_prefix("!--") {
            rest = comment.split_once("-->").map_or("", |(_, after)| after);
            continue;
        }
        let name_end = after.find(|one: char| !one.is_ascii_alphanumeric()).unwrap_or(after.len());
        let (name, after) = after.split_at(name_end);
        let (attributes, after) = attributes(after);
        rest = if name == "script" { after.split_once("</script>").map_or("", |(_, after)| after) } else { after };
        if !name.is_empty() {
            found.push((name, attributes));
        }
    }
    found
}

/// The attributes up to the end of a tag, and what follows the tag.
fn attributes(text: &str) -> (Vec<(&str, String)>, &str) {
    let mut found = Vec::new();
    let mut rest = text;
    loop {
        rest = rest.trim_start_matches(|one: char| one.is_whitespace() || one == '/');
        if rest.is_empty() || rest.starts_with('>') {
            return (found, rest.strip_prefix('>').unwrap_or(rest));
        }
        let end = rest.find(|one: char| one.is_whitespace() || "=>/".contains(one)).unwrap_or(rest.len()).max(1);
        let name = &rest[..end];
        rest = rest[end..].trim_start();
        let mut value = "";
        if let Some(after) = rest.strip_prefix('=') {
            let after = after.trim_start();
            let quote = after.chars().next().filter(|one| "\"'".contains(*one));
            (value, rest) = match quote {
                Some(quote) => after[1..].split_once(quote).unwrap_or((&after[1..], "")),
                None => {
                    after.split_at(after.find(|one: char| one.is_whitespace() || one == '>').unwrap_or(after.len()))
                }
            };
        }
        found.push((name, value.replace("&amp;", "&")));
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    fn problems(files: &[(&str, &str)]) -> Vec<String> {
        let site = tempfile::tempdir().unwrap();
        fs::create_dir(site.path().join("docs")).unwrap();
        for (path, text) in files {
            fs::write(site.path().join(path), text).unwrap();
        }
        super::check(site.path()).unwrap().problems
    }

    #[test]
    fn pages_anchors_and_files_are_looked_up() {
        let found = problems(&[
            (
                "a.html",
                r#"<h2 id="one">x</h2><a href="docs/b.html#two">b</a> <a href=docs/gone.html>c</a><a href='#three'>"#,
            ),
            (
                "docs/b.html",
                r#"<p id="two"><a href="../a.html#one"></a><a class="x" href="../a.html#no"></a><img src="c.png">"#,
            ),
        ]);
        assert_eq!(
            found,
            [
                "a.html: docs/gone.html does not exist",
                "a.html: #three names a heading that does not exist",
                "docs/b.html: ../a.html#no names a heading that does not exist",
                "docs/b.html: c.png does not exist",
            ]
        );
    }

    #[test]
    fn a_page_links_to_other_hosts_and_loads_nothing_from_them() {
        let found = problems(&[(
            "a.html",
            r#"<a href="https://service.example/"></a><script src="https://cdn.example/x.js">"<a href=y>"</script>
               <!-- <img src="z.png"> --><link rel=stylesheet href="//fonts.example/f.css">"#,
        )]);
        assert_eq!(
            found,
            [
                "a.html: https://cdn.example/x.js is loaded from another host",
                "a.html: //fonts.example/f.css is loaded from another host",
            ]
        );
    }
}
