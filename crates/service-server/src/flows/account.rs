//! The account page: where somebody is signed in, what they let apps do, their tokens, and what happened lately.

use std::collections::BTreeMap;

use serde_json::json;
use service_api::{
    audit_events::{AuditEvent, EventName},
    cli_tokens::{CreateCliToken, CreatedCliToken, ListedCliToken, StatusFilter},
    errors::Reason,
    ids::{BrowserSessionId, GrantId, WorkspaceId},
    oauth::SERVICE_WEB,
    scope::Scopes,
    sessions::Session,
};
use service_rules::{
    lifetimes,
    signing::later,
    space::{Place, Reach},
};

use crate::{
    app::App,
    failure::Failure,
    flows::{
        Asker, audit_events,
        browser::Browser,
        cli_tokens,
        end_access::EndingTransaction,
        maker::{Maker, Standing},
        refresh,
    },
    store::{
        self,
        browser_sessions::{ListedBrowser, Person},
        grants::Listed,
    },
};

/// Nobody has more sessions or tokens than a page can show.
const SHOWN: u16 = 100;
const EVENTS_SHOWN: u16 = 20;

pub struct Overview {
    pub email: String,
    pub sessions: Vec<Session>,
    pub browsers: Vec<ListedBrowser>,
    pub tokens: Vec<ListedCliToken>,
    pub events: Vec<AuditEvent>,
    /// The workspaces of this person, by name.
    pub workspaces: BTreeMap<WorkspaceId, String>,
}

#[derive(Debug)]
pub enum Refusal {
    SignIn,
    /// The person has to prove again who they are.
    SignInAgain,
    NotFound,
    Token(cli_tokens::Refusal),
}

fn person(browser: &Browser) -> Result<&Person, Failure<Refusal>> {
    browser.person.as_ref().ok_or(Failure::Refused(Refusal::SignIn))
}

pub async fn overview(app: &App, browser: &Browser) -> Result<Overview, Failure<Refusal>> {
    let person = person(browser)?;
    let now = app.clock.now();
    let db = app.database.connect().await?;
    let listed = Listed { now, used_after: refresh::idle_since(now), before: None, limit: SHOWN.into() };
    let sessions = store::grants::list_by_user(&db, person.user_id, &listed).await?;
    let browsers = store::browser_sessions::list_by_user(&db, person.user_id, now).await?;
    let workspaces = store::memberships::list_workspaces(&db, person.user_id).await?.into_iter().collect();
    drop(db);
    let tokens = cli_tokens::list(app, person.user_id, StatusFilter::All, SHOWN, None).await;
    let asked =
        audit_events::Asked { event: None, about: None, since: None, until: None, limit: EVENTS_SHOWN, cursor: None };
    let events = audit_events::list(app, person.user_id, Place::Personal, &asked).await;
    let broken = |_| anyhow::anyhow!("a list without a cursor refused its cursor");
    Ok(Overview {
        email: person.email.clone(),
        sessions,
        browsers,
        tokens: tokens.map_err(|failure| failure.broken_or(broken))?.data,
        events: events.map_err(|failure| failure.broken_or(broken))?.data,
        workspaces,
    })
}

/// Ends a session in a browser, or one of an app: then all that the app has of this person, and what they agreed to.
pub async fn end_session(app: &App, asker: &Asker, browser: &Browser, id: &str) -> Result<(), Failure<Refusal>> {
    let person = person(browser)?;
    let now = app.clock.now();
    let not_found = || Failure::Refused(Refusal::NotFound);
    let mut transaction = EndingTransaction::begin(app, now).await?;
    store::users::lock(transaction.db(), person.user_id).await?;
    if let Ok(other) = id.parse::<BrowserSessionId>() {
        if !store::browser_sessions::delete_one(transaction.db(), other, person.user_id).await? {
            return Err(not_found());
        }
        let mut event = asker.event(EventName::SessionEnded, now, json!({ "by": browser.id }))?;
        event.user_id = Some(person.user_id);
        event.subject = Some(id.to_owned());
        store::audit_events::insert(transaction.db(), &event).await?;
        return Ok(transaction.commit().await?);
    }
    let id: GrantId = id.parse().map_err(|_| not_found())?;
    let grant = store::grants::find(transaction.db(), id).await?;
    let grant = grant.filter(|grant| grant.user_id == person.user_id).ok_or_else(not_found)?;
    let because = Reason::RevokedByUser;
    let withdrawn = store::consents::delete_by_client(transaction.db(), person.user_id, &grant.client.id).await?;
    let ended = if withdrawn > 0 {
        let others = store::grants::list_by_client(transaction.db(), person.user_id, &grant.client.id).await?;
        for other in &others {
            transaction.end_grant(*other, because).await?;
        }
        !others.is_empty()
    } else {
        transaction.end_grant(id, because).await?
    };
    if ended || withdrawn > 0 {
        let name = if withdrawn > 0 { EventName::ConsentWithdrawn } else { EventName::SessionEnded };
        let mut event = asker.event(name, now, json!({ "by": browser.id }))?;
        event.user_id = Some(person.user_id);
        event.client_id = Some(&grant.client.id);
        event.workspace_id = grant.workspace_id;
        event.subject = Some(id.to_string());
        store::audit_events::insert(transaction.db(), &event).await?;
    }
    Ok(transaction.commit().await?)
}

/// Makes a token for automation, for somebody who has just proved who they are.
pub async fn create_token(
    app: &App,
    asker: &Asker,
    browser: &Browser,
    request: &CreateCliToken,
) -> Result<CreatedCliToken, Failure<Refusal>> {
    let person = person(browser)?;
    if !browser.signed_in_since(later(app.clock.now(), -lifetimes::RECENT_SIGN_IN)) {
        return Err(Failure::Refused(Refusal::SignInAgain));
    }
    let maker = Maker {
        user_id: person.user_id,
        client_id: SERVICE_WEB,
        scopes: Scopes::READ_WRITE,
        reach: Reach::Anywhere(None),
        standing: Standing::Browser(browser.id),
        asker,
    };
    let created = cli_tokens::create(app, &maker, request, None).await;
    created.map_err(|failure| failure.map(Refusal::Token))
}

pub async fn revoke_token(app: &App, asker: &Asker, browser: &Browser, id: &str) -> Result<(), Failure<Refusal>> {
    let user_id = person(browser)?.user_id;
    let ended = cli_tokens::end_own(app, asker, user_id, id, false).await;
    ended.map_err(|failure| failure.map(Refusal::Token))
}

/// Signs this browser out.
pub async fn sign_out(app: &App, asker: &Asker, browser: &Browser) -> anyhow::Result<()> {
    let db = app.database.begin().await?;
    store::browser_sessions::delete(&db, browser.id).await?;
    if let Some(person) = &browser.person {
        let mut event = asker.event(EventName::SessionEnded, app.clock.now(), json!({ "by": browser.id }))?;
        event.user_id = Some(person.user_id);
        event.subject = Some(browser.id.to_string());
        store::audit_events::insert(&db, &event).await?;
    }
    Ok(db.commit().await?)
}
