//! A user's CLI tokens: listing, creating and revoking them on the account page.

use std::collections::BTreeMap;

use crate::{
    app::App,
    flows::{
        RequestMeta,
        account::{AccountError, actor, signed_in},
        revocation::RevocationTransaction,
        sign_in::{browser_session::Browser, step_up},
        tokens::cli_tokens,
    },
    store,
};
use serde_json::json;
use service_api::{
    audit_events::EventName,
    cli_tokens::{CreateCliToken, CreatedCliToken, ListedCliToken, StatusFilter},
    errors::Reason,
    ids::WorkspaceId,
    page::Page,
};

const TOKENS_PER_PAGE: u16 = 25;

/// A page of a user's CLI tokens.
pub struct TokenList {
    pub tokens: Page<ListedCliToken>,
    /// Live tokens that were created by a session which was found compromised long after. Only on the first page.
    pub suspected: Vec<ListedCliToken>,
    /// The names of the user's workspaces.
    pub workspaces: BTreeMap<WorkspaceId, String>,
}

pub async fn list(app: &App, browser: &Browser, cursor: Option<&str>) -> Result<TokenList, AccountError> {
    let user_id = signed_in(browser)?.user_id;
    let tokens = cli_tokens::list(app, user_id, StatusFilter::All, TOKENS_PER_PAGE, cursor).await?;
    let db = app.database.connect().await?;
    let workspaces = store::members::list_workspaces(&db, user_id).await?;
    let workspaces = workspaces.iter().map(|workspace| (workspace.id, workspace.with_owner())).collect();
    let suspected = match cursor {
        None => store::cli_tokens::list_suspected(&db, user_id, app.clock.now()).await?,
        Some(_) => Vec::new(),
    };
    Ok(TokenList { tokens, suspected, workspaces })
}

/// Creates a CLI token for a user who signed in recently. A second request with the same idempotency key creates none.
pub async fn create(
    app: &App,
    meta: &RequestMeta,
    browser: &Browser,
    request: &CreateCliToken,
    idempotency_key: Option<&str>,
) -> Result<CreatedCliToken, AccountError> {
    let actor = actor(browser, meta)?;
    let sign_in = step_up::require_recent_sign_in(app, &actor).await?;
    Ok(cli_tokens::create(app, &actor, sign_in, request, idempotency_key).await?)
}

/// The name of a token of the user.
pub async fn find_name(app: &App, browser: &Browser, id: &str) -> Result<String, AccountError> {
    let user_id = signed_in(browser)?.user_id;
    let db = app.database.connect().await?;
    Ok(cli_tokens::find_own(&db, user_id, id).await?.name.into_string())
}

/// Revokes a token of the user. Returns its name.
pub async fn revoke(app: &App, meta: &RequestMeta, browser: &Browser, id: &str) -> Result<String, AccountError> {
    let name = find_name(app, browser, id).await?;
    cli_tokens::revoke_own(app, meta, signed_in(browser)?.user_id, id, false).await?;
    Ok(name)
}

/// Lists the live tokens of the user that a session created which was found compromised long after.
pub async fn list_suspected(app: &App, browser: &Browser) -> Result<Vec<ListedCliToken>, AccountError> {
    let user_id = signed_in(browser)?.user_id;
    let db = app.database.connect().await?;
    Ok(store::cli_tokens::list_suspected(&db, user_id, app.clock.now()).await?)
}

/// Revokes the CLI tokens that a compromised session had created long before.
pub async fn revoke_suspected(app: &App, meta: &RequestMeta, browser: &Browser) -> Result<(), AccountError> {
    let actor = actor(browser, meta)?;
    let now = app.clock.now();
    let mut transaction = RevocationTransaction::begin(app, now).await?;
    for token in store::cli_tokens::list_suspected(transaction.db(), actor.user_id, now).await? {
        transaction.revoke_cli_token(token.id, Reason::RevokedByUser).await?;
        let event = actor.user_event(EventName::CliTokenRevoked, now, json!({ "by": browser.id }))?;
        event.in_workspace(token.workspace_id).subject(token.id).insert(transaction.db()).await?;
    }
    Ok(transaction.commit().await?)
}
