//! The connections of a workspace to identity providers, as its owners manage them.
//!
//! 1. An owner creates a draft: a name and an issuer suffice. The provider is told the redirect URI, and the owner adds the
//!    client ID and the secret that the provider shows.
//! 2. The owner tries the connection. Then it can be enabled, and users of its domains are sent to the provider.
//! 3. The owner can require it. Users of its domains can then sign in only there, apart from break-glass owners.
//!
//! A secret is sealed when it arrives, and never returned. Of a key, which is generated here, the public half is returned.

use serde_json::{Value, json};
use service_api::{
    audit_events::EventName,
    connections::{
        AuthMethod, ConnectionHealth, ConnectionImpact, CreateConnection, DefaultRole, SigningAlgorithm, SsoConnection,
        UpdateConnection,
    },
    ids::{ConnectionId, Id as _, UserId, WorkspaceId},
    page::Page,
    workspaces::Role,
};
use service_rules::{Timestamp, connections::check_issuer, rotation, space::Right};

use uuid::Uuid;

use crate::{
    app::App,
    crypto::random,
    database::Connection,
    flows::{
        Actor,
        operator::Operator,
        sign_in::step_up::RecentSignIn,
        sso::{
            connection_error::ConnectionError,
            connection_fields::{self, Changed, invalid},
            provider, routes,
        },
        workspaces::access,
    },
    issuers::trusted_issuer::TrustedIssuer,
    store::{self, connections::StoredConnection, deletions::ContentKey, emails::CountedAt, trusted_issuers},
};

/// The maximum number of connections of a workspace.
pub const MAX_CONNECTIONS: usize = 10;
/// The number of users whose credentials one statement counts.
const USERS_PER_COUNT: i64 = 2_000;

/// A connection of a workspace, as a request names both.
#[derive(Clone, Copy, Debug)]
pub struct ConnectionPath<'a> {
    pub workspace_id: &'a str,
    pub connection_id: &'a str,
}

/// Lists the connections of a workspace, oldest first.
pub async fn list(app: &App, actor: &Actor<'_>, id: &str) -> Result<Page<SsoConnection>, ConnectionError> {
    let db = app.database.connect().await?;
    let id = access::enter(app, &db, actor, id, Right::Own).await?;
    let connections = store::connections::list(&db, id).await?;
    let data = connections.into_iter().map(|connection| view(app, connection)).collect::<anyhow::Result<_>>()?;
    Ok(Page { data, next_cursor: None })
}

pub async fn find(app: &App, actor: &Actor<'_>, path: ConnectionPath<'_>) -> Result<SsoConnection, ConnectionError> {
    let db = app.database.connect().await?;
    let id = access::enter(app, &db, actor, path.workspace_id, Right::Own).await?;
    Ok(view(app, find_in(&db, id, path.connection_id).await?)?)
}

/// Creates a connection that is not enabled.
pub async fn create(
    app: &App,
    actor: &Actor<'_>,
    _: RecentSignIn,
    id: &str,
    new: &CreateConnection,
) -> Result<SsoConnection, ConnectionError> {
    let now = app.clock.now();
    check_issuer(&new.issuer, may_use_http(app, &new.issuer)).map_err(|error| invalid("issuer", error.to_string()))?;
    let db = app.database.begin().await?;
    let workspace_id = access::lock(app, &db, actor, id, Right::Own).await?;
    if store::connections::list(&db, workspace_id).await?.len() >= MAX_CONNECTIONS {
        return Err(ConnectionError::TooMany);
    }
    let mut connection = draft(actor, workspace_id, &new.issuer, now)?;
    connection_fields::apply(app, &db, &mut connection, &connection_fields::of_new(new), now).await?;
    trusted_issuers::insert(&db, workspace_id, &connection.issuer, now).await?;
    store::connections::insert(&db, &connection).await?;
    let details = json!({ "connection": connection.id, "issuer": new.issuer });
    actor.event(EventName::ConnectionCreated, now, details)?.in_workspace(workspace_id).insert(&db).await?;
    db.commit().await?;
    Ok(view(app, connection)?)
}

/// Changes a connection. Fields that are left out stay as they are.
pub async fn update(
    app: &App,
    actor: &Actor<'_>,
    _: RecentSignIn,
    path: ConnectionPath<'_>,
    update: &UpdateConnection,
) -> Result<SsoConnection, ConnectionError> {
    let db = app.database.begin().await?;
    let id = access::lock(app, &db, actor, path.workspace_id, Right::Own).await?;
    let mut connection = lock_in(&db, id, path.connection_id).await?;
    routes::lock_all(app, &db, id).await?;
    // Sign-ins by code that came before the locks are from before this time.
    let now = app.clock.now();
    let session_hours = connection.session_hours;
    let changed = connection_fields::apply(app, &db, &mut connection, update, now).await?;
    // The rows are written also without a change, so that a repeated request is confirmed only if the first one was.
    trusted_issuers::update(&db, &connection.issuer).await?;
    store::connections::update(&db, &connection).await?;
    if !changed.is_nothing() {
        // In the order in which a sign-in locks and writes them.
        routes::rewrite(app, &db, id).await?;
        let is_shorter = connection.session_hours < session_hours;
        if is_shorter {
            store::connection_grants::shorten(&db, connection.id, connection.session_hours).await?;
        }
        if changed.token_days {
            store::user_connections::update_token_days(&db, connection.id, connection.token_days).await?;
        }
        if changed.required == Some(false) {
            store::user_connections::delete_limits(&db, connection.id).await?;
        }
        if is_shorter {
            store::browser_sessions::shorten(&db, connection.id, connection.session_hours).await?;
        }
        for (name, details) in events(&connection, &changed) {
            actor.event(name, now, details)?.in_workspace(id).insert(&db).await?;
        }
    }
    db.commit().await?;
    Ok(view(app, connection)?)
}

/// The events of what an update changed: one for its fields, and one each for enabling and requiring it.
fn events(connection: &StoredConnection, changed: &Changed) -> Vec<(EventName, Value)> {
    let id = connection.id;
    let mut events = Vec::new();
    if !changed.fields.is_empty() {
        let mut details = json!({ "connection": id, "fields": changed.fields });
        if changed.fields.contains(&"breakGlass") {
            details["breakGlass"] = json!(connection.break_glass);
        }
        events.push((EventName::ConnectionChanged, details));
    }
    if let Some(enabled) = changed.enabled {
        events.push((EventName::ConnectionEnabled, json!({ "connection": id, "enabled": enabled })));
    }
    if let Some(required) = changed.required {
        let details = json!({ "connection": id, "required": required, "existing": changed.existing });
        events.push((EventName::ConnectionRequired, details));
    }
    events
}

/// Deletes a connection with the identities of its users. Deleting it again changes nothing.
pub async fn delete(
    app: &App,
    actor: &Actor<'_>,
    _: RecentSignIn,
    path: ConnectionPath<'_>,
) -> Result<(), ConnectionError> {
    let now = app.clock.now();
    let connection_id: ConnectionId = path.connection_id.parse().map_err(|_| ConnectionError::NotFound)?;
    let db = app.database.begin().await?;
    let id = access::lock(app, &db, actor, path.workspace_id, Right::Own).await?;
    let thing = ContentKey { space_id: id.uuid(), kind: ConnectionId::KIND, id: connection_id.uuid() };
    match lock_in(&db, id, path.connection_id).await {
        Ok(connection) => {
            routes::lock_all(app, &db, id).await?;
            routes::delete_connection(&db, &connection, now).await?;
            routes::rewrite(app, &db, id).await?;
            store::deletions::insert(&db, thing, now).await?;
            let details = json!({ "connection": connection_id });
            actor.event(EventName::ConnectionDeleted, now, details)?.in_workspace(id).insert(&db).await?;
        }
        Err(ConnectionError::NotFound) if store::deletions::touch(&db, thing).await? => {}
        Err(error) => return Err(error),
    }
    Ok(db.commit().await?)
}

/// Counts what requiring a connection would revoke.
pub async fn impact(
    app: &App,
    actor: &Actor<'_>,
    path: ConnectionPath<'_>,
) -> Result<ConnectionImpact, ConnectionError> {
    let now = app.clock.now();
    let db = app.database.connect().await?;
    let id = access::enter(app, &db, actor, path.workspace_id, Right::Own).await?;
    let connection = find_in(&db, id, path.connection_id).await?;
    let domains = store::workspace_domains::verified_domains_of(&db, connection.id, id).await?;
    let at = CountedAt { now, idle_since: rotation::idle_since(now) };
    let mut impact = ConnectionImpact { domains, ..ConnectionImpact::default() };
    let mut after = UserId::from(Uuid::nil());
    loop {
        let users = store::emails::list_users_by_domains(&db, &impact.domains, after, USERS_PER_COUNT).await?;
        let Some(last) = users.last() else { return Ok(impact) };
        after = *last;
        // What is left out here is what the background task spares (`required.rs`).
        let counts = store::emails::count_credentials(&db, &users, connection.id, at).await?;
        impact.users += users.len() as u64;
        impact.sessions += (counts.browsers + counts.sessions).unsigned_abs();
        impact.cli_tokens += counts.cli_tokens.unsigned_abs();
        impact.mcp_tokens += counts.mcp_tokens.unsigned_abs();
        impact.app_grants += counts.app_grants.unsigned_abs();
    }
}

/// Lists the connections of a workspace for an operator.
pub async fn list_for_operator(app: &App, id: WorkspaceId) -> anyhow::Result<Vec<SsoConnection>> {
    let connections = store::connections::list(&app.database.connect().await?, id).await?;
    connections.into_iter().map(|connection| view(app, connection)).collect()
}

/// Disables a connection for an operator: its users sign in by code again. `false`: there is no enabled one.
pub async fn disable(app: &App, operator: &Operator, id: ConnectionId) -> anyhow::Result<bool> {
    let now = app.clock.now();
    let db = app.database.begin().await?;
    let Some(found) = store::connections::find(&db, id).await? else { return Ok(false) };
    store::workspaces::lock(&db, found.workspace_id).await?;
    store::connections::lock(&db, id).await?;
    let Some(mut connection) = store::connections::find(&db, id).await? else { return Ok(false) };
    if connection.enabled_at.is_none() {
        return Ok(false);
    }
    connection.enabled_at = None;
    connection.stop_requiring();
    store::connections::update(&db, &connection).await?;
    store::user_connections::delete_limits(&db, connection.id).await?;
    routes::rewrite(app, &db, connection.workspace_id).await?;
    let details = json!({ "connection": id, "enabled": false });
    let event = operator.event(EventName::ConnectionEnabled, now, details)?;
    event.in_workspace(connection.workspace_id).insert(&db).await?;
    db.commit().await?;
    Ok(true)
}

fn draft(
    actor: &Actor<'_>,
    workspace_id: WorkspaceId,
    issuer: &str,
    now: Timestamp,
) -> Result<StoredConnection, ConnectionError> {
    Ok(StoredConnection {
        id: random::id_in(workspace_id.shard(), now)?,
        workspace_id,
        issuer: TrustedIssuer {
            id: random::id_in(workspace_id.shard(), now)?,
            issuer: issuer.to_owned(),
            jwks: None,
            algorithms: Vec::new(),
            purposes: vec![trusted_issuers::SIGN_IN.to_owned()],
        },
        health: ConnectionHealth::default(),
        name: String::new(),
        client_id: None,
        auth_method: AuthMethod::default(),
        client_secret: None,
        default_role: Role::Member,
        session_hours: 0,
        token_days: 0,
        break_glass: Vec::new(),
        created_by: actor.user_id,
        created_at: now,
        tried_at: None,
        enabled_at: None,
        required_at: None,
        revoke_existing: false,
        revoke_before: None,
        limit_from: None,
    })
}

/// Finds a connection of a workspace.
pub(super) async fn find_in(db: &Connection, id: WorkspaceId, text: &str) -> Result<StoredConnection, ConnectionError> {
    let connection_id: ConnectionId = text.parse().map_err(|_| ConnectionError::NotFound)?;
    let found = store::connections::find(db, connection_id).await?;
    found.filter(|connection| connection.workspace_id == id).ok_or(ConnectionError::NotFound)
}

/// Finds a connection of a workspace and locks it.
async fn lock_in(db: &Connection, id: WorkspaceId, text: &str) -> Result<StoredConnection, ConnectionError> {
    let found = find_in(db, id, text).await?;
    store::connections::lock(db, found.id).await?;
    find_in(db, id, text).await
}

/// Whether an operator has listed this issuer. Only issuers on this machine can be listed with http.
fn may_use_http(app: &App, issuer: &str) -> bool {
    app.config.sso.allowed_issuers.iter().any(|allowed| allowed.issuer == issuer)
}

/// A connection as the API shows it, without its secret or its private key.
pub(super) fn view(app: &App, connection: StoredConnection) -> anyhow::Result<SsoConnection> {
    let base_url = &app.config.base_url;
    let count = |number: i16| number.unsigned_abs();
    let public_key = provider::public_key(app, &connection)?;
    Ok(SsoConnection {
        id: connection.id,
        workspace_id: connection.workspace_id,
        issuer: connection.issuer.issuer,
        client_id: connection.client_id,
        auth_method: connection.auth_method,
        has_client_secret: connection.client_secret.is_some() && public_key.is_none(),
        public_key,
        redirect_uri: format!("{base_url}/sso/callback/{}", connection.id),
        backchannel_logout_uri: format!("{base_url}/sso/backchannel-logout/{}", connection.id),
        algorithms: connection.issuer.algorithms.iter().filter_map(|name| SigningAlgorithm::parse(name)).collect(),
        jwks: connection.issuer.jwks.and_then(|jwks| match jwks {
            serde_json::Value::Object(jwks) => Some(jwks),
            _ => None,
        }),
        default_role: if connection.default_role == Role::Viewer { DefaultRole::Viewer } else { DefaultRole::Member },
        session_hours: count(connection.session_hours),
        token_days: count(connection.token_days),
        break_glass: connection.break_glass,
        enabled: connection.enabled_at.is_some(),
        required: connection.required_at.is_some(),
        created_at: connection.created_at,
        tried_at: connection.tried_at,
        enabled_at: connection.enabled_at,
        required_at: connection.required_at,
        health: connection.health,
        name: connection.name,
    })
}
