//! The apps that a user authorized, and removing their access.

use std::collections::BTreeMap;

use service_api::{consents::Consent, ids::WorkspaceId, page::Page};

use crate::{
    app::App,
    flows::{
        RequestMeta,
        account::{AccountError, signed_in},
        oauth::consents,
        sign_in::browser_session::Browser,
    },
    store,
};

const APPS_PER_PAGE: u16 = 20;

pub struct Apps {
    pub consents: Page<Consent>,
    /// The names of the user's workspaces.
    pub workspaces: BTreeMap<WorkspaceId, String>,
}

pub async fn list(app: &App, browser: &Browser, cursor: Option<&str>) -> Result<Apps, AccountError> {
    let user_id = signed_in(browser)?.user_id;
    let consents = consents::list(app, user_id, APPS_PER_PAGE, cursor).await?;
    let db = app.database.connect().await?;
    let workspaces = store::members::list_workspaces(&db, user_id).await?;
    let workspaces = workspaces.iter().map(|workspace| (workspace.id, workspace.with_owner())).collect();
    Ok(Apps { consents, workspaces })
}

/// The name of an app that the user authorized.
pub async fn find_name(app: &App, browser: &Browser, id: &str) -> Result<String, AccountError> {
    let user_id = signed_in(browser)?.user_id;
    let id = id.parse().map_err(|_| AccountError::NotFound)?;
    let db = app.database.connect().await?;
    store::consents::find_client_name(&db, user_id, id).await?.ok_or(AccountError::NotFound)
}

/// Withdraws the user's consent for an app, and revokes its sessions. Returns the app's name.
pub async fn withdraw(app: &App, meta: &RequestMeta, browser: &Browser, id: &str) -> Result<String, AccountError> {
    let user_id = signed_in(browser)?.user_id;
    let name = find_name(app, browser, id).await?;
    consents::withdraw(app, meta, user_id, &browser.id.to_string(), id).await?;
    Ok(name)
}
