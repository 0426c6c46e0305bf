//! The pages for a browser that returns. They load nothing, run no script, and leave no code in the address bar.

use http_body_util::Full;
use hyper::{
    Response, StatusCode,
    body::Bytes,
    header::{self, HeaderValue},
};

pub(super) type HtmlResponse = Response<Full<Bytes>>;

pub(super) fn show(status: StatusCode, title: &str, text: &str) -> HtmlResponse {
    let html = format!(
        "<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content=\"width=device-width\">\
         <title>{title}</title><style>:root{{color-scheme:light dark}}body{{font:1.1rem/1.5 system-ui,sans-serif;\
         max-width:32rem;margin:20vh auto;padding:0 1rem}}</style><h1>{title}</h1><p>{text}</p></html>"
    );
    let mut page = Response::new(Full::new(Bytes::from(html)));
    *page.status_mut() = status;
    let headers = page.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
    with_security_headers(page)
}

/// Redirects the browser, so that the code leaves its address bar and history.
pub(super) fn redirect_to_done() -> HtmlResponse {
    let mut page = Response::new(Full::new(Bytes::new()));
    *page.status_mut() = StatusCode::SEE_OTHER;
    page.headers_mut().insert(header::LOCATION, HeaderValue::from_static("/done"));
    with_security_headers(page)
}

fn with_security_headers(mut page: HtmlResponse) -> HtmlResponse {
    let headers = page.headers_mut();
    let policy = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'; base-uri 'none'";
    headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(policy));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    headers.insert(header::X_FRAME_OPTIONS, HeaderValue::from_static("DENY"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    page
}
