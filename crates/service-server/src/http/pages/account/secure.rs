//! `/account/secure`: what is signed in, and revoking all of it but this browser.

use askama::Template;
use axum::{Extension, extract::State, response::Response};
use service_api::secure_account::SecureAccount;

use crate::{
    app::App,
    flows::{
        RequestMeta,
        account::{AccountError, secure, secure::RevocableThings},
    },
    http::{
        errors::ApiError,
        pages::{
            STYLESHEET,
            account::{AccountPage, Frame, Reader, after_form, not_shown},
            done::Done,
            forms::{FormOutcome, FormProblem, with_problem},
            page,
            request_browser::{Form, RequestBrowser},
            see_other, with_cookie,
        },
        query::Query,
    },
    locales::{Text, Texts},
};

/// What the names of the boxes begin with that keep a passkey.
const KEEP: &str = "keep-";

#[derive(Template)]
#[template(path = "pages/account/secure.html")]
struct SecurePage<'a> {
    t: &'a Texts,
    title: &'a str,
    stylesheet: &'a str,
    frame: Frame<'a>,
    sections: Vec<Section<'a>>,
    passkeys: Vec<PasskeyChoice>,
}

/// Things of one kind that will be revoked.
struct Section<'a> {
    heading: &'a Text,
    things: Vec<String>,
    /// Where all of them are.
    all: &'static str,
}

struct PasskeyChoice {
    /// The name of its box.
    field: String,
    text: String,
    stays: bool,
}

pub async fn show(
    State(app): State<App>,
    Extension(meta): Extension<RequestMeta>,
    RequestBrowser(browser): RequestBrowser,
    query: Query,
) -> Result<Response, ApiError> {
    let Some(browser) = browser else { return see_other("/sign-in") };
    secure_page(Reader::of(&app, &meta, &browser).after(&query), None).await
}

/// Revokes everything but this browser.
pub async fn secure(
    State(app): State<App>,
    Extension(meta): Extension<RequestMeta>,
    mut form: Form,
) -> Result<Response, ApiError> {
    let keep = form.names_after(KEEP).filter_map(|id| id.parse().ok()).collect();
    let request = SecureAccount { keep_passkeys: Some(keep) };
    let secured = secure::secure_from_browser(&app, &meta, &mut form.browser, &request).await;
    let response = after(Reader::of(&app, &meta, &form.browser), secured.map(|_| Done::AccountSecured)).await?;
    Ok(with_cookie(response, &form.browser))
}

/// The list again, or the page where the user has to sign in first.
async fn after(reader: Reader<'_>, done: Result<Done, AccountError>) -> Result<Response, ApiError> {
    match after_form(reader, done, AccountPage::Security).await? {
        FormOutcome::Redirect(response) => Ok(response),
        FormOutcome::Problem(problem) => secure_page(reader, Some(problem)).await,
    }
}

async fn secure_page(reader: Reader<'_>, problem: Option<FormProblem>) -> Result<Response, ApiError> {
    let Reader { app, browser, t, .. } = reader;
    let found = match secure::list(app, browser).await {
        Ok(found) => found,
        Err(failure) => return not_shown(failure, AccountPage::Security),
    };
    let (status, problem) = with_problem(problem);
    let texts = &t.account.secure;
    let moments = reader.moments();
    let passkeys = found.passkeys.iter().map(|(passkey, stays)| PasskeyChoice {
        field: format!("{KEEP}{}", passkey.id),
        text: texts.keep.with("name", &passkey.name).with("date", moments.of(passkey.created_at).text).to_string(),
        stays: *stays,
    });
    let passkeys = passkeys.collect();
    let template = SecurePage {
        t,
        title: &texts.title,
        stylesheet: STYLESHEET,
        frame: Frame::of(reader, AccountPage::Security, problem),
        sections: sections(reader, &found),
        passkeys,
    };
    page(t, status, &template, None)
}

fn sections<'a>(reader: Reader<'a>, found: &RevocableThings) -> Vec<Section<'a>> {
    let (t, moments) = (reader.t, reader.moments());
    let (account, texts) = (&t.account, &t.account.secure);
    let used = |name: &str, at| texts.used.with("name", name).with("date", moments.of(at).text).to_string();
    let others = found.sessions.browsers.iter().filter(|listed| listed.id != reader.browser.id);
    let browsers = others.map(|listed| used(&t.device(listed.origin.agent), listed.last_seen_at));
    let sessions = found.sessions.clients.iter().flat_map(|client| {
        let name = &client.client.name;
        client.sessions.iter().map(move |session| (name, session))
    });
    let sessions = sessions.map(|(name, session)| {
        let used = texts.used_from.with("name", name).with("date", moments.of(session.last_used_at).text);
        used.with("address", &session.last_used_from).to_string()
    });
    let tokens = found.tokens.iter().map(|token| match token.last_used_at {
        Some(at) => used(&token.name, at),
        None => texts.unused.with("name", &token.name).to_string(),
    });
    let apps = found.apps.iter().map(|app| used(&app.client.name, app.last_used_at));
    let invitations = (found.invitations > 0).then(|| texts.invitations.count(found.invitations).to_string());
    let section = |heading, things, all: AccountPage| Section { heading, things, all: all.path() };
    let all = [
        section(&account.nav.sessions, browsers.chain(sessions).collect(), AccountPage::Sessions),
        section(&account.nav.tokens, tokens.collect(), AccountPage::Tokens),
        section(&account.nav.apps, apps.collect(), AccountPage::Apps),
        section(&account.nav.workspaces, invitations.into_iter().collect(), AccountPage::Workspaces),
    ];
    all.into_iter().filter(|section: &Section<'_>| !section.things.is_empty()).collect()
}
