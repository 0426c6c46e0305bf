//! What a browser that comes back is shown. No remote address, no script, and no code in the address bar.

use http_body_util::Full;
use hyper::{
    Response, StatusCode,
    body::Bytes,
    header::{self, HeaderValue},
};

pub(super) type Page = Response<Full<Bytes>>;

pub(super) fn show(status: StatusCode, title: &str, text: &str) -> Page {
    let html = format!(
        "<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content=\"width=device-width\">\
         <title>{title}</title><style>:root{{color-scheme:light dark}}body{{font:1.1rem/1.5 system-ui,sans-serif;\
         max-width:32rem;margin:20vh auto;padding:0 1rem}}</style><h1>{title}</h1><p>{text}</p></html>"
    );
    let mut page = Response::new(Full::new(Bytes::from(html)));
    *page.status_mut() = status;
    let headers = page.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
    close(page)
}

/// Sends the browser on, so that the code leaves its address bar and history.
pub(super) fn go_to_done() -> Page {
    let mut page = Response::new(Full::new(Bytes::new()));
    *page.status_mut() = StatusCode::SEE_OTHER;
    page.headers_mut().insert(header::LOCATION, HeaderValue::from_static("/done"));
    close(page)
}

fn close(mut page: Page) -> Page {
    let headers = page.headers_mut();
    let policy = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'; base-uri 'none'";
    headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(policy));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    headers.insert(header::X_FRAME_OPTIONS, HeaderValue::from_static("DENY"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    page
}
