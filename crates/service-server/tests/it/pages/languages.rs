//! Pages and mails are written in the language that a request prefers.

use anyhow::Result;
use reqwest::Method;
use serde_json::json;
use service_testkit::{
    server::{Setup, TestServer, with_server},
    tab::{Shown, Tab},
};

use crate::pages::markup::{every_page, without_passkeys};

/// The language that a page says it is in.
fn check_language(page: &Shown, language: &str) {
    let header = |name: &str| page.headers.get(name).and_then(|value| value.to_str().ok());
    assert!(page.text.contains(&format!("<html lang=\"{language}\">")), "{}", page.text);
    assert_eq!((header("content-language"), header("vary")), (Some(language), Some("accept-language")));
}

#[test]
fn pages_are_in_the_language_that_the_browser_prefers() -> Result<()> {
    let german = ["Anmelden", "Ihr Konto", "Mit diesem Link stimmt etwas nicht", "Token „ci“ erstellt"];
    let english = ["Sign in", "Your account", "Something’s wrong with this link", "Token “ci” created"];
    for (preferred, language, expected) in
        [("de-DE,de;q=0.9,en;q=0.8", "de", german), ("fr, en-GB;q=0.5", "en", english)]
    {
        Setup::default().set("limits.otp_sends_per_context", "1/60").run(async |server| {
            let tab = Tab::in_language(server, preferred)?;
            let pages = every_page(server, &tab).await?;
            for page in &pages {
                check_language(page, language);
                assert!(!without_passkeys(&page.text).contains(['{', '}']), "{}", page.text);
            }
            let mut whole: String = pages.iter().map(|page| page.text.as_str()).collect();
            whole += &tab.get("/account/activity").await?.text;
            for said in expected {
                assert!(whole.contains(said), "{said}");
            }
            Ok(())
        })?;
    }
    Ok(())
}

#[test]
fn the_api_answers_in_english_whatever_is_preferred() -> Result<()> {
    with_server(async |server| {
        let refusal = async |language: &str| {
            let request = server.http.request(Method::GET, "/v1/whoami").header("accept-language", language);
            let response = server.http.send(request).await?;
            assert!(!response.headers.contains_key("content-language"));
            anyhow::Ok(response.field("error_description").to_owned())
        };
        assert_eq!(refusal("de").await?, refusal("en").await?);
        let manual = Tab::in_language(server, "de")?.get("/docs").await?;
        assert!(manual.text.contains("<html lang=\"en\">"), "the manual is in English");
        Ok(())
    })
}

/// The subject and the text of the mail that a request with this language causes.
async fn code_mail(server: &TestServer, language: &str, email: &str) -> Result<(String, String)> {
    let request = server.http.request(Method::POST, "/v1/otp-tokens").header("accept-language", language);
    server.http.send(request.json(&json!({ "email": email }))).await?;
    let mail = server.mailbox.next_mail_to(email).await?;
    server.leaks.register("otp code", &mail.code().unwrap_or_default());
    assert!(!format!("{}{}", mail.subject, mail.text).contains(['{', '}']), "{}", mail.text);
    Ok((mail.subject, mail.text))
}

#[test]
fn a_mail_is_in_the_language_of_the_request_that_caused_it() -> Result<()> {
    with_server(async |server| {
        let (subject, text) = code_mail(server, "de", "ann@acme.test").await?;
        assert!(subject.starts_with("Service: Code "), "{subject}");
        assert!(text.contains("Er läuft in 10 Minuten ab.") && text.contains("15. Januar 2027, 08:00 UTC"), "{text}");
        let (subject, text) = code_mail(server, "fr", "bob@acme.test").await?;
        assert!(subject.starts_with("Service code: "), "{subject}");
        assert!(text.contains("Expires in 10 minutes.") && text.contains("15 January 2027, 08:00 UTC"), "{text}");
        let ann = server.sign_in("cid@acme.test", "read write").await?;
        let request = server.http.request(Method::POST, "/v1/cli/tokens").header("accept-language", "de");
        let made = server.http.send(request.bearer_auth(&ann.access_token).json(&json!({ "name": "ci" }))).await?;
        server.leaks.register("access_token", made.field("access_token"));
        let mail = server.mailbox.next_mail_to("cid@acme.test").await?;
        assert_eq!(mail.subject, "Neues CLI-Token erstellt");
        assert!(mail.html.contains("<html lang=\"de\">"), "{}", mail.html);
        Ok(())
    })
}
