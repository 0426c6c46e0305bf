//! The fields of a connection that owners enter, checked and applied.

use serde_json::Value;
use service_api::{
    JsonObject,
    connections::{
        AuthMethod, Change, CreateConnection, DefaultRole, ExistingCredentials, MAX_BREAK_GLASS, MAX_CLIENT_ID,
        MAX_CLIENT_SECRET, MAX_NAME, SESSION_HOURS, SigningAlgorithm, TOKEN_DAYS, UpdateConnection,
    },
    ids::{ConnectionId, UserId, WorkspaceId},
    token::ProviderSecret,
    workspaces::Role,
};
use service_rules::{Timestamp, cli_tokens::FieldError, connections::check_jwks, display_name::DisplayName};

use crate::{
    app::App,
    database::Connection,
    flows::sso::{break_glass, connection_error::ConnectionError},
    issuers::client_key::ClientKey,
    store::{self, connections::StoredConnection},
};

const MAX_SESSION_HOURS: u16 = 720;
const MAX_TOKEN_DAYS: u16 = 366;

/// What an update changed, for the audit log.
#[derive(Default)]
pub(super) struct Changed {
    /// The names of the changed fields, without `enabled` and `required`.
    pub(super) fields: Vec<&'static str>,
    pub(super) enabled: Option<bool>,
    pub(super) required: Option<bool>,
    /// What happens to existing sessions and tokens.
    pub(super) existing: Option<ExistingCredentials>,
    pub(super) token_days: bool,
}

impl Changed {
    pub(super) fn is_nothing(&self) -> bool {
        self.fields.is_empty() && self.enabled.is_none() && self.required.is_none()
    }
}

/// The fields of a new connection as those of an update, so that both are checked by the same code.
pub(super) fn of_new(new: &CreateConnection) -> UpdateConnection {
    UpdateConnection {
        name: Some(new.name.clone()),
        client_id: new.client_id.clone(),
        client_secret: new.client_secret.clone(),
        auth_method: Some(new.auth_method.unwrap_or_default()),
        algorithms: Some(new.algorithms.clone().unwrap_or_else(|| SigningAlgorithm::ALL.to_vec())),
        jwks: new.jwks.clone().map_or(Change::Keep, Change::Set),
        default_role: Some(new.default_role.unwrap_or_default()),
        session_hours: Some(new.session_hours.unwrap_or(SESSION_HOURS)),
        token_days: Some(new.token_days.unwrap_or(TOKEN_DAYS)),
        break_glass: Some(new.break_glass.clone().unwrap_or_default()),
        enabled: None,
        required: None,
        existing: None,
    }
}

/// Checks the fields of an update and applies them to a connection.
pub(super) async fn apply(
    app: &App,
    db: &Connection,
    connection: &mut StoredConnection,
    update: &UpdateConnection,
    now: Timestamp,
) -> Result<Changed, ConnectionError> {
    let mut changed = Changed::default();
    apply_provider(app, connection, update, &mut changed)?;
    apply_policy(app, connection, update, &mut changed)?;
    if let Some(owners) = &update.break_glass {
        check_owners(db, connection.workspace_id, owners).await?;
        if *owners != connection.break_glass {
            connection.break_glass.clone_from(owners);
            changed.fields.push("breakGlass");
            // The tokens of break-glass owners have no limit.
            connection.limit_from = connection.limit_from.or(connection.required_at);
        }
    }
    apply_state(db, connection, update, &mut changed, now).await?;
    Ok(changed)
}

/// How the provider is reached. A connection that is not enabled has to be tried again after a change.
fn apply_provider(
    app: &App,
    connection: &mut StoredConnection,
    update: &UpdateConnection,
    changed: &mut Changed,
) -> Result<(), ConnectionError> {
    let before = changed.fields.len();
    if let Some(client_id) = &update.client_id {
        check_text("clientId", client_id, MAX_CLIENT_ID)?;
        set(&mut connection.client_id, Some(client_id.clone()), "clientId", changed);
    }
    apply_credential(app, connection, update, changed)?;
    if let Some(algorithms) = &update.algorithms {
        set(&mut connection.issuer.algorithms, names(algorithms)?, "algorithms", changed);
    }
    match &update.jwks {
        Change::Keep => {}
        Change::Remove => set(&mut connection.issuer.jwks, None, "jwks", changed),
        Change::Set(jwks) => set(&mut connection.issuer.jwks, Some(keys(jwks)?), "jwks", changed),
    }
    if changed.fields.len() > before && connection.enabled_at.is_none() {
        connection.tried_at = None;
    }
    Ok(())
}

/// How the service authenticates at the provider: with the secret that an owner enters, or with a key that is generated once.
fn apply_credential(
    app: &App,
    connection: &mut StoredConnection,
    update: &UpdateConnection,
    changed: &mut Changed,
) -> Result<(), ConnectionError> {
    let had_key = connection.auth_method == AuthMethod::PrivateKeyJwt;
    if let Some(method) = update.auth_method {
        set(&mut connection.auth_method, method, "authMethod", changed);
    }
    let has_key = connection.auth_method == AuthMethod::PrivateKeyJwt;
    if had_key != has_key {
        // A secret is no key, and a key is no secret.
        connection.client_secret = None;
    }
    match &update.client_secret {
        Some(_) if has_key => {
            return Err(invalid("clientSecret", "is not used with private_key_jwt. Leave it out").into());
        }
        Some(secret) => {
            connection.client_secret = Some(seal_secret(app, connection.id, secret)?);
            changed.fields.push("clientSecret");
        }
        None if has_key && connection.client_secret.is_none() => {
            let key = ClientKey::generate()?;
            connection.client_secret = Some(seal(app, connection.id, key.to_pkcs8())?);
        }
        None if had_key && !has_key && connection.enabled_at.is_some() => {
            let message = "is needed for this method while the connection is enabled. Send it in the same request";
            return Err(invalid("clientSecret", message).into());
        }
        None => {}
    }
    Ok(())
}

/// What users get, and for how long.
fn apply_policy(
    app: &App,
    connection: &mut StoredConnection,
    update: &UpdateConnection,
    changed: &mut Changed,
) -> Result<(), ConnectionError> {
    if let Some(name) = &update.name {
        let name = DisplayName::parse(name, MAX_NAME, &app.config.brand.own_names)?.into_string();
        set(&mut connection.name, name, "name", changed);
    }
    if let Some(role) = update.default_role {
        set(&mut connection.default_role, role_of(role), "defaultRole", changed);
    }
    if let Some(hours) = update.session_hours {
        let hours = in_range("sessionHours", hours, MAX_SESSION_HOURS)?;
        set(&mut connection.session_hours, hours, "sessionHours", changed);
    }
    if let Some(days) = update.token_days {
        let days = in_range("tokenDays", days, MAX_TOKEN_DAYS)?;
        changed.token_days = days != connection.token_days;
        set(&mut connection.token_days, days, "tokenDays", changed);
    }
    Ok(())
}

/// Whether users are sent to the provider, and whether they have to be.
async fn apply_state(
    db: &Connection,
    connection: &mut StoredConnection,
    update: &UpdateConnection,
    changed: &mut Changed,
    now: Timestamp,
) -> Result<(), ConnectionError> {
    if update.existing.is_some() && update.required != Some(true) {
        return Err(invalid("existing", "is for requests that set required to true").into());
    }
    if let Some(enabled) = update.enabled.filter(|enabled| *enabled != connection.enabled_at.is_some()) {
        if enabled && connection.tried_at.is_none() {
            return Err(ConnectionError::NotTried);
        }
        connection.enabled_at = enabled.then_some(now);
        changed.enabled = Some(enabled);
    }
    let was_required = connection.required_at.is_some();
    // A connection that sends no user to the provider cannot be required.
    let required = update.required.unwrap_or(was_required && update.enabled != Some(false));
    if required && connection.enabled_at.is_none() {
        return Err(ConnectionError::NotEnabled);
    }
    if required && !break_glass::has_owner(db, connection, None).await? {
        return Err(ConnectionError::NoBreakGlass);
    }
    if required == was_required {
        return Ok(());
    }
    (changed.required, changed.existing) = (Some(required), update.existing);
    match (required, update.existing) {
        (true, None) => return Err(invalid("existing", "is required: send \"revoke\" or \"keep\"").into()),
        (true, Some(existing)) => connection.require(now, existing == ExistingCredentials::Revoke),
        (false, _) => connection.stop_requiring(),
    }
    Ok(())
}

async fn check_owners(db: &Connection, id: WorkspaceId, owners: &[UserId]) -> Result<(), ConnectionError> {
    if owners.len() > MAX_BREAK_GLASS {
        return Err(invalid("breakGlass", format!("can name at most {MAX_BREAK_GLASS} owners")).into());
    }
    for (place, user_id) in owners.iter().enumerate() {
        if owners[..place].contains(user_id) {
            return Err(invalid("breakGlass", "names an owner twice").into());
        }
        if store::memberships::find_role(db, *user_id, id).await? != Some(Role::Owner) {
            return Err(invalid("breakGlass", "can only name owners of the workspace, by their user ID").into());
        }
    }
    Ok(())
}

fn set<T: PartialEq>(field: &mut T, value: T, name: &'static str, changed: &mut Changed) {
    if *field != value {
        *field = value;
        changed.fields.push(name);
    }
}

fn seal_secret(app: &App, id: ConnectionId, secret: &ProviderSecret) -> Result<Vec<u8>, ConnectionError> {
    check_text("clientSecret", secret.expose(), MAX_CLIENT_SECRET)?;
    seal(app, id, secret.expose().as_bytes())
}

fn seal(app: &App, id: ConnectionId, credential: &[u8]) -> Result<Vec<u8>, ConnectionError> {
    Ok(app.root_keys.seal(&StoredConnection::secret_place(id), credential)?)
}

fn names(algorithms: &[SigningAlgorithm]) -> Result<Vec<String>, FieldError> {
    let mut names = Vec::<String>::new();
    for algorithm in algorithms {
        if !names.iter().any(|name| name == algorithm.as_str()) {
            names.push(algorithm.as_str().to_owned());
        }
    }
    if names.is_empty() { Err(invalid("algorithms", "must name at least one algorithm")) } else { Ok(names) }
}

fn keys(jwks: &JsonObject) -> Result<Value, FieldError> {
    check_jwks(jwks).map_err(|error| invalid("jwks", error.to_string()))?;
    Ok(Value::Object(jwks.clone()))
}

fn in_range(field: &'static str, value: u16, max: u16) -> Result<i16, FieldError> {
    let wrong = || invalid(field, format!("must be a number from 1 to {max}"));
    if value == 0 || value > max { Err(wrong()) } else { i16::try_from(value).map_err(|_| wrong()) }
}

/// Checks a text that is sent to the provider as it is.
fn check_text(field: &'static str, text: &str, max: usize) -> Result<(), FieldError> {
    let is_plain = !text.is_empty() && text.len() <= max && text.bytes().all(|byte| (b' '..=b'~').contains(&byte));
    let message = || format!("must be 1 to {max} ASCII characters, as the provider shows it");
    if is_plain && text.trim() == text { Ok(()) } else { Err(invalid(field, message())) }
}

pub(super) const fn role_of(role: DefaultRole) -> Role {
    match role {
        DefaultRole::Member => Role::Member,
        DefaultRole::Viewer => Role::Viewer,
    }
}

pub(super) fn invalid(field: &'static str, message: impl Into<String>) -> FieldError {
    FieldError { field, message: message.into() }
}
