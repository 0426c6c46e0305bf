//! `service session list` and `service session revoke`: the sessions of a user, and revoking them.

use std::{cell::RefCell, fmt};

use serde_json::json;
use service_api::{
    ids::{BrowserSessionId, GrantId},
    page::Page,
    sessions::{MadeTreatment, Session, SignedInBrowser},
};

use crate::{
    arguments::SessionCommand,
    completion_cache::{ListedKind, remember},
    connection::Connection,
    context::Context,
    duration::format_count,
    failure::{Failure, FailureCode},
    prompt,
    table::{Cell, Table, strip_control},
};

pub(super) async fn run(context: &Context, command: SessionCommand) -> Result<(), Failure> {
    match command {
        SessionCommand::List => list(context).await,
        SessionCommand::Revoke { others: true, made, .. } => revoke_others(context, made.into()).await,
        SessionCommand::Revoke { ids, made, .. } => revoke(context, &ids, made.into()).await,
    }
}

/// The client of a browser, for a script.
const BROWSER_CLIENT: &str = "browser";

/// A session of a client, or a browser.
#[derive(Clone, Copy, Debug)]
enum SessionId {
    Client(GrantId),
    Browser(BrowserSessionId),
}

impl SessionId {
    fn parse(text: &str) -> Result<Self, Failure> {
        let browser = || text.parse().map(Self::Browser);
        text.parse().map(Self::Client).or_else(|_| browser()).map_err(|_| session_not_found(text))
    }
}

impl fmt::Display for SessionId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Client(id) => id.fmt(formatter),
            Self::Browser(id) => id.fmt(formatter),
        }
    }
}

async fn list(context: &Context) -> Result<(), Failure> {
    let connection = Connection::open(context)?;
    let browsers = RefCell::new(Vec::new());
    let pages = connection.list_all(context, async |client, token, cursor| {
        let page = client.list_sessions(token, cursor).await?;
        browsers.borrow_mut().extend(page.browsers);
        Ok(Page { data: page.data, next_cursor: page.next_cursor })
    });
    let sessions = pages.await?;
    let browsers = browsers.into_inner();
    let clients = sessions.iter().map(|session| (session.id.to_string(), session.client.name.as_str()));
    let entries = clients.chain(browsers.iter().map(|browser| (browser.id.to_string(), "Browser")));
    remember(context, &connection, ListedKind::Session, entries);
    let table = sessions_table(&sessions, &browsers);
    let object = json!({ "sessions": sessions, "browsers": browsers });
    context.output.result(&object, &table.render(&context.output))
}

fn sessions_table(sessions: &[Session], browsers: &[SignedInBrowser]) -> Table {
    let mut table = Table::new(&["ID", "CLIENT", "SIGNED IN", "LAST USED", "FROM", ""]).shown(&[
        "",
        "CLIENT",
        "LAST USED",
        "FROM",
        "SIGNED IN",
        "ID",
    ]);
    for session in sessions {
        table.add_row([
            Cell::whole(session.id.to_string()),
            Cell::pair(&session.client.name, &session.client.id),
            Cell::time(Some(session.created_at)),
            Cell::time(Some(session.last_used_at)),
            Cell::text(&session.last_used_from),
            Cell::mark(session.current, "current"),
        ]);
    }
    for browser in browsers {
        table.add_row([
            Cell::whole(browser.id.to_string()),
            Cell::pair("Browser", BROWSER_CLIENT),
            Cell::time(Some(browser.signed_in_at)),
            Cell::time(Some(browser.last_used_at)),
            Cell::text(""),
            Cell::mark(false, ""),
        ]);
    }
    table
}

/// What happens to the tokens and invitations that were created in the session, as part of the prompt.
const fn describe_treatment(made: MadeTreatment) -> &'static str {
    match made {
        MadeTreatment::Recommended => {
            " This also revokes MCP tokens, invitations, and CLI tokens unused for 7 days that were created there."
        }
        MadeTreatment::Keep => " Tokens and invitations created there are kept.",
        MadeTreatment::Revoke => " This also revokes all tokens and invitations created there.",
    }
}

async fn revoke(context: &Context, ids: &[String], made: MadeTreatment) -> Result<(), Failure> {
    let ids = ids.iter().map(|id| SessionId::parse(id)).collect::<Result<Vec<_>, _>>()?;
    let connection = Connection::open(context)?;
    let which = if ids.len() == 1 { ids[0].to_string() } else { format!("{} sessions", ids.len()) };
    let question = format!("Revoke {which}?{}", describe_treatment(made));
    if !prompt::confirm_action(context.terminal(), context.global.yes, "revoke", &question).await? {
        return Err(Failure::new(FailureCode::ConfirmationRequired, "Nothing was revoked."));
    }
    for id in &ids {
        let revoked = connection.call(context, async |client, token| match *id {
            SessionId::Client(id) => client.end_session(token, id, made).await,
            SessionId::Browser(id) => client.end_browser(token, id, made).await,
        });
        let revoked = revoked.await;
        revoked.map_err(|failure| {
            if failure.code == FailureCode::NotFound { session_not_found(&id.to_string()) } else { failure }
        })?;
        context.output.success(&format!("Revoked {id}."));
    }
    let revoked: Vec<_> = ids.iter().map(|id| json!({ "id": id.to_string() })).collect();
    context.output.result(&json!({ "revoked": revoked }), "")
}

async fn revoke_others(context: &Context, made: MadeTreatment) -> Result<(), Failure> {
    let connection = Connection::open(context)?;
    let question = format!("Revoke all your other sessions, and sign out every browser?{}", describe_treatment(made));
    if !prompt::confirm_action(context.terminal(), context.global.yes, "revoke", &question).await? {
        return Err(Failure::new(FailureCode::ConfirmationRequired, "Nothing was revoked."));
    }
    let done = connection.call(context, async |client, token| client.end_other_sessions(token, made).await).await?;
    let sessions = format_count(done.ended, "other session");
    let browsers = match done.browsers {
        0 => String::new(),
        count => format!(", and signed out {}", format_count(count, "browser")),
    };
    context.output.success(&format!("Revoked {sessions}{browsers}."));
    context.output.result(&json!({ "ended": done.ended, "browsers": done.browsers }), "")
}

fn session_not_found(id: &str) -> Failure {
    Failure::new(FailureCode::NotFound, format!("Session {} not found.", strip_control(id)))
        .hint("service session list")
}
