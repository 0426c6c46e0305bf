//! The web interface of the mailbox: a page for people and JSON for programs.

use axum::extract::{Request, State};
use axum::http::uri::Authority;
use axum::http::{StatusCode, Uri, header};
use axum::middleware::{self, Next};
use axum::response::{Html, IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use reqwest::Url;

use super::{Mail, Mailbox};

pub(super) fn router(mailbox: Mailbox) -> Router {
    Router::new()
        .route("/", get(page))
        .route("/mails", get(list).delete(clear))
        .layer(middleware::from_fn(refuse_other_hosts))
        .with_state(mailbox)
}

/// Refuses requests for other host names. Otherwise a web page whose name resolves to this machine could read the codes
/// (DNS rebinding).
async fn refuse_other_hosts(request: Request, next: Next) -> Response {
    let host = request.headers().get(header::HOST).and_then(|host| host.to_str().ok());
    let authority = host.and_then(|host| host.parse::<Authority>().ok());
    let is_local = authority.is_some_and(|authority| matches!(authority.host(), "localhost" | "127.0.0.1" | "[::1]"));
    if is_local { next.run(request).await } else { StatusCode::MISDIRECTED_REQUEST.into_response() }
}

/// Mails are untrusted text. Whatever passes the escaping cannot run or load anything.
const CONTENT_SECURITY_POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'";

const PAGE_START: &str = r#"<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="refresh" content="3">
<title>Mailbox</title>
<style>
:root { color-scheme: light dark; }
body { font: 1rem/1.5 system-ui, sans-serif; max-width: 48rem; margin: 2rem auto; padding: 0 1rem; }
article { border: 1px solid light-dark(#ccc, #555); border-radius: .5rem; padding: 1rem; margin: 1rem 0; }
h2 { font-size: 1.1rem; margin: 0; }
p { color: light-dark(#555, #aaa); margin: .25rem 0; }
pre { white-space: pre-wrap; overflow-wrap: anywhere; margin: 1rem 0 0; }
</style>
</head>
<body>
<h1>Mailbox</h1>
"#;

async fn page(State(mailbox): State<Mailbox>) -> impl IntoResponse {
    let mails = mailbox.mails();
    let mut page = PAGE_START.to_owned();
    if mails.is_empty() {
        page.push_str("<p>No mails yet.</p>\n");
    }
    for mail in mails.iter().rev() {
        page.push_str(&article(mail));
    }
    page.push_str("</body>\n</html>\n");
    ([(header::CONTENT_SECURITY_POLICY, CONTENT_SECURITY_POLICY)], Html(page))
}

fn article(mail: &Mail) -> String {
    format!(
        "<article>\n<h2>{}</h2>\n<p>To {}, <time datetime=\"{time}\">{time:.0}</time></p>\n<pre>{}</pre>\n</article>\n",
        escaped(&mail.subject),
        escaped(&mail.to.join(", ")),
        escaped(&mail.text),
        time = mail.received_at,
    )
}

async fn list(State(mailbox): State<Mailbox>, uri: Uri) -> Json<Vec<Mail>> {
    let mut mails = mailbox.mails();
    if let Some(address) = wanted_recipient(&uri) {
        mails.retain(|mail| mail.is_to(&address));
    }
    Json(mails)
}

async fn clear(State(mailbox): State<Mailbox>) -> StatusCode {
    mailbox.clear();
    StatusCode::NO_CONTENT
}

fn wanted_recipient(uri: &Uri) -> Option<String> {
    let url = Url::parse("http://mailbox.test").and_then(|base| base.join(&uri.to_string())).ok()?;
    url.query_pairs().find_map(|(name, value)| (name == "to").then(|| value.into_owned()))
}

fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            other => escaped.push(other),
        }
    }
    escaped
}
