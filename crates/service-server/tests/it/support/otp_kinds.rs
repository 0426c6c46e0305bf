//! Addresses of every kind, and responses that must not tell them apart.

use anyhow::Result;
use service_testkit::{response::TestResponse, server::TestServer};

/// An answer without what differs between any two: ids and the date.
pub(crate) fn outline(response: &TestResponse) -> String {
    let ids =
        [response.field("otpId"), response.field("request_id"), response.header("x-request-id").unwrap_or_default()];
    let mut headers: Vec<String> = response.headers.iter().map(|(name, value)| format!("{name}: {value:?}")).collect();
    headers.retain(|line| !line.starts_with("date: "));
    headers.sort();
    let whole = format!("{}\n{}\n\n{}", response.status, headers.join("\n"), response.text);
    ids.iter().filter(|id| !id.is_empty()).fold(whole, |text, id| text.replace(id, "<id>"))
}

/// An account that has signed in, one that was closed since, and unknown addresses.
pub(crate) async fn three_kinds(server: &TestServer) -> Result<[&'static str; 3]> {
    let [known, disabled, unknown] = ["knows@acme.test", "close@acme.test", "never@acme.test"];
    server.sign_in(known, "read").await?;
    server.sign_in(disabled, "read").await?;
    server.sql(&format!("update users set disabled_at = now() where email = '{disabled}'")).await?;
    server.advance(86_400);
    Ok([known, disabled, unknown])
}
