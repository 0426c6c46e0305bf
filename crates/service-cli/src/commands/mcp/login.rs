//! `service mcp login`: creates MCP tokens and stores them beside the session, for `service mcp serve`.

use serde_json::json;
use service_api::{
    mcp_tokens::{CreateMcpTokens, McpTokens},
    oauth::SERVICE_MCP,
    scope::Scopes,
    token::{McpRefresh, Token},
    workspaces::PERSONAL,
};
use service_client::{Access, Client, TokenStore as _, lock_all};

use super::super::{
    login::{join_scopes, pkce},
    workspace::{NamedSpace, choose::choose_space},
};
use crate::{
    clock,
    connection::{Connection, Credential},
    context::{Context, session_failed, store_failed},
    credentials::{McpRecord, SavedMcpTokens, SavedWorkspace, SignedInUser, StoreKind},
    explain,
    failure::{Failure, FailureCode},
    mcp_arguments::McpLoginArgs,
};

/// The scope of the first MCP tokens, if the user names none.
const DEFAULT_SCOPE: &str = "read";

pub(super) async fn run(context: &Context, arguments: &McpLoginArgs) -> Result<(), Failure> {
    // MCP tokens are created by a user session, never by the token in `SERVICE_TOKEN`.
    let connection = Connection::open_saved(context)?;
    let saved = context.saved_mcp_tokens(&connection.origin)?;
    let scope = scope_to_request(arguments, &saved)?;
    let question = "Workspace for the MCP tokens (number): ";
    let space = choose_space(context, &connection, arguments.personal, question).await?;
    let request = CreateMcpTokens { workspace_id: Some(space.id.clone()), scope: Some(scope), scopes: None };
    let created = connection.call(context, async |client, token| client.create_mcp_tokens(token, &request).await).await;
    let created = created.map_err(|failure| match failure.code {
        FailureCode::NotFound => explain::workspace_not_found(&space.id),
        _ => failure,
    })?;
    let new = new_record(context, &connection, &space, &created)?;
    let summary = Summary { user: new.user.clone(), store: new.store, scopes: new.scopes };
    let replaced = match store(&saved, new, &created).await {
        Ok(replaced) => replaced,
        Err(failure) => {
            // Tokens that were not stored are revoked, because no client has them.
            drop(connection.client.revoke(SERVICE_MCP, &created.tokens.refresh_token).await);
            return Err(failure);
        }
    };
    revoke_replaced(context, &connection.client, &replaced).await;
    print_result(context, &saved, &space, &summary, replaced.record.is_some())
}

/// The scopes to request: those of the arguments, or those of the tokens that are replaced.
fn scope_to_request(arguments: &McpLoginArgs, saved: &SavedMcpTokens) -> Result<String, Failure> {
    if !arguments.scopes.is_empty() {
        return join_scopes(&arguments.scopes);
    }
    let previous = saved.record().map_err(store_failed)?.map(|record| record.scopes.to_string());
    Ok(previous.filter(|scopes| !scopes.is_empty()).unwrap_or_else(|| DEFAULT_SCOPE.to_owned()))
}

/// The record of new tokens, in the store of the session.
fn new_record(
    context: &Context,
    connection: &Connection,
    space: &NamedSpace,
    created: &McpTokens,
) -> Result<McpRecord, Failure> {
    let Credential::Saved(session) = &connection.credential else {
        return Err(explain::not_signed_in(&context.profile, &connection.origin));
    };
    let access = Access::of(&created.tokens, clock::now());
    let name = space.name.clone().unwrap_or_else(|| space.id.clone());
    Ok(McpRecord {
        user: session.record.user.clone(),
        store: session.record.store,
        entry: pkce::random_text()?,
        workspace: (space.id != PERSONAL).then(|| SavedWorkspace { id: space.id.clone(), name }),
        scopes: Scopes::parse(&created.tokens.scope),
        access_token: access.token,
        access_expires_at: access.expires_at,
    })
}

/// The tokens that new ones have replaced.
struct Replaced {
    record: Option<McpRecord>,
    refresh_token: Option<Token<McpRefresh>>,
    /// Whether the refresh token was deleted from this machine.
    is_deleted: bool,
}

/// Stores new tokens. Returns those that they replace, which still work.
async fn store(saved: &SavedMcpTokens, new: McpRecord, created: &McpTokens) -> Result<Replaced, Failure> {
    let _locks = lock_all(saved.locks().map_err(store_failed)?).await.map_err(session_failed)?;
    let record = saved.record().map_err(store_failed)?;
    let refresh_token = saved.refresh_token().ok().flatten();
    saved.store(new, &created.tokens.refresh_token).map_err(store_failed)?;
    let deleted = record.as_ref().map_or(Ok(()), |record| saved.delete_refresh_token(record));
    Ok(Replaced { record, refresh_token, is_deleted: deleted.is_ok() })
}

async fn revoke_replaced(context: &Context, client: &Client, replaced: &Replaced) {
    if !replaced.is_deleted {
        context.output.warn("Couldn't remove the previous MCP refresh token from this computer.");
    }
    let revoked = match (&replaced.refresh_token, &replaced.record) {
        (Some(token), _) => client.revoke(SERVICE_MCP, token).await,
        (None, Some(record)) => client.revoke_access(SERVICE_MCP, &record.access_token).await,
        (None, None) => Ok(()),
    };
    if revoked.is_err() {
        context.output.warn("Couldn't revoke the previous MCP tokens. Review your sessions with: service session list");
    }
}

/// What the user is told about new tokens.
struct Summary {
    user: SignedInUser,
    store: StoreKind,
    scopes: Scopes,
}

fn print_result(
    context: &Context,
    saved: &SavedMcpTokens,
    space: &NamedSpace,
    Summary { user, store, scopes }: &Summary,
    replaced: bool,
) -> Result<(), Failure> {
    context.output.success(&format!("Created MCP tokens for {}.", space.in_sentence()));
    let (words, place) = (scopes.words().collect::<Vec<_>>().join(", "), store.display_name(&saved.path()));
    context.output.info(&format!("  Scopes: {words}. Stored in: {place}"));
    context.output.info("  `service mcp serve` uses them. To configure a client: service mcp config <client> --stdio");
    let workspace = (space.id != PERSONAL).then(|| json!({ "id": space.id, "name": space.name }));
    let object = json!({
        "status": "created", "user": user, "workspace": workspace, "scopes": scopes, "store": store,
        "replaced": replaced, "apiUrl": saved.origin.as_str(),
    });
    context.output.result(&object, "")
}
