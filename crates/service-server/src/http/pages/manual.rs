//! The description of the API: `/openapi.json` for programs, `/docs` for people. Both are made once, from the contract, when
//! one of them is asked for.

use std::sync::{Arc, LazyLock};

use askama::Template;
use axum::{
    body::Bytes,
    http::{StatusCode, header},
    response::{IntoResponse, Response},
};
use pulldown_cmark::{CowStr, Event, HeadingLevel, Options, Parser, Tag, TagEnd, html};
use service_api::openapi;

use crate::{
    app::App,
    http::{
        errors::ApiError,
        pages::{STYLESHEET, page, style},
        query::Query,
    },
    locales::{Language, Texts},
};

#[derive(Clone)]
pub struct Manual(Arc<LazyLock<Written, Writing>>);

/// Writes both when one of them is first asked for.
type Writing = Box<dyn FnOnce() -> Written + Send>;

struct Written {
    openapi: Bytes,
    html: String,
    chapters: Vec<Chapter>,
}

struct Chapter {
    anchor: String,
    title: String,
}

impl Manual {
    #[must_use]
    pub fn of(base_url: &str) -> Self {
        let base_url = base_url.to_owned();
        Self(Arc::new(LazyLock::new(Box::new(move || {
            let (html, chapters) = to_html(&openapi::manual(&base_url));
            Written { openapi: openapi::document(&base_url).to_string().into(), html, chapters }
        }))))
    }
}

#[derive(Template)]
#[template(path = "pages/manual.html")]
struct ManualPage<'a> {
    t: &'a Texts,
    title: &'a str,
    stylesheet: &'a str,
    chapters: &'a [Chapter],
    html: &'a str,
}

#[must_use]
pub fn openapi(manual: &Manual, _: Query) -> impl IntoResponse + use<> {
    let headers = [(header::CONTENT_TYPE, "application/json"), (header::CACHE_CONTROL, "public, max-age=300")];
    (headers, manual.0.openapi.clone())
}

pub async fn stylesheet() -> impl IntoResponse {
    style(Bytes::from_static(include_bytes!("../../../assets/manual.css")))
}

/// The manual, which there is in English only.
pub fn show(app: &App, manual: &Manual) -> Result<Response, ApiError> {
    let t = app.locales.of(Language::English);
    let Written { html, chapters, .. } = &**manual.0;
    page(t, StatusCode::OK, &ManualPage { t, title: &t.manual.title, stylesheet: STYLESHEET, chapters, html }, None)
}

/// Markdown of ours as HTML, whose headings can be linked to, and whose tables and examples can be moved about in by
/// keyboard where they are wider than the screen.
fn to_html(markdown: &str) -> (String, Vec<Chapter>) {
    let mut events: Vec<Event<'_>> = Vec::new();
    let mut chapters = Vec::new();
    let mut heading: Option<(usize, HeadingLevel, String)> = None;
    for event in Parser::new_ext(markdown, Options::ENABLE_TABLES) {
        match event {
            Event::Start(Tag::Heading { level, .. }) => {
                heading = Some((events.len(), level, String::new()));
                events.push(Event::Html(CowStr::Borrowed("")));
            }
            Event::End(TagEnd::Heading(_)) => {
                let Some((at, level, title)) = heading.take() else { continue };
                let anchor = openapi::anchor(&title);
                events[at] = Event::Html(format!("<{level} id=\"{anchor}\">").into());
                events.push(Event::Html(format!("</{level}>\n").into()));
                if level == HeadingLevel::H2 {
                    chapters.push(Chapter { anchor, title });
                }
            }
            Event::Start(Tag::Table(columns)) => {
                events.push(Event::Html(
                    "<div class=\"wide\" tabindex=\"0\" role=\"group\" aria-label=\"Table\">".into(),
                ));
                events.push(Event::Start(Tag::Table(columns)));
            }
            Event::End(TagEnd::Table) => {
                events.push(Event::End(TagEnd::Table));
                events.push(Event::Html("</div>\n".into()));
            }
            Event::Start(Tag::CodeBlock(_)) => events.push(Event::Html("<pre tabindex=\"0\"><code>".into())),
            Event::End(TagEnd::CodeBlock) => events.push(Event::Html("</code></pre>\n".into())),
            event => {
                if let (Some((_, _, title)), Event::Text(text) | Event::Code(text)) = (&mut heading, &event) {
                    title.push_str(text);
                }
                events.push(event);
            }
        }
    }
    let mut text = String::new();
    html::push_html(&mut text, events.into_iter());
    // A head that says nothing is none.
    (text.replace("<th></th>", "<td></td>"), chapters)
}
