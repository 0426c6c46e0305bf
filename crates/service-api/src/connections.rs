//! Single sign-on of a workspace: its connections to identity providers, and the domains whose users sign in there.

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::{
    JsonObject, Timestamp,
    forms::{ONE_LINE, TRIMMED_ASCII},
    ids::{ConnectionId, UserId, WorkspaceId},
    instant,
    token::ProviderSecret,
};

/// The maximum length of a connection's name, in characters.
pub const MAX_NAME: usize = 100;
/// The maximum length of an issuer, in characters.
pub const MAX_ISSUER: usize = 500;
/// The maximum length of a client ID at a provider, in characters.
pub const MAX_CLIENT_ID: usize = 500;
/// The maximum length of a client secret, in characters.
pub const MAX_CLIENT_SECRET: usize = 1_000;
/// The maximum number of break-glass owners of a connection.
pub const MAX_BREAK_GLASS: usize = 10;
/// The default of `sessionHours`.
pub const SESSION_HOURS: u16 = 12;
/// The default of `tokenDays`.
pub const TOKEN_DAYS: u16 = 30;

/// How the service authenticates at the provider's token endpoint.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AuthMethod {
    /// With the client secret, in the header `Authorization`.
    #[default]
    ClientSecretBasic,
    /// With the client secret, in the body.
    ClientSecretPost,
    /// With a JWT that the service signs with ES256. The provider has to know `publicKey` of the connection.
    PrivateKeyJwt,
}

impl AuthMethod {
    pub const ALL: [Self; 3] = [Self::ClientSecretBasic, Self::ClientSecretPost, Self::PrivateKeyJwt];

    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::ClientSecretBasic => "client_secret_basic",
            Self::ClientSecretPost => "client_secret_post",
            Self::PrivateKeyJwt => "private_key_jwt",
        }
    }

    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|method| method.as_str() == text)
    }
}

/// A signature algorithm of ID tokens. Symmetric ones and `none` are never accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum SigningAlgorithm {
    #[serde(rename = "RS256")]
    Rs256,
    #[serde(rename = "PS256")]
    Ps256,
    #[serde(rename = "ES256")]
    Es256,
    #[serde(rename = "ES384")]
    Es384,
    #[serde(rename = "EdDSA")]
    EdDsa,
}

impl SigningAlgorithm {
    pub const ALL: [Self; 5] = [Self::Rs256, Self::Ps256, Self::Es256, Self::Es384, Self::EdDsa];

    /// The name of the algorithm in a JWT.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Rs256 => "RS256",
            Self::Ps256 => "PS256",
            Self::Es256 => "ES256",
            Self::Es384 => "ES384",
            Self::EdDsa => "EdDSA",
        }
    }

    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|algorithm| algorithm.as_str() == text)
    }
}

/// The role of users whose account is created when they first sign in through a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum DefaultRole {
    #[default]
    Member,
    Viewer,
}

/// What happens to existing sessions and tokens of a domain's users when single sign-on becomes required.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ExistingCredentials {
    /// They are revoked, unless they began with a sign-in through the connection.
    Revoke,
    /// They stay valid until they expire.
    Keep,
}

/// What an update does with an optional field: a missing field stays as it is, and `null` removes the value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Change<T> {
    #[default]
    Keep,
    Remove,
    Set(T),
}

impl<T> Change<T> {
    /// Whether the field was left out.
    #[must_use]
    pub const fn is_keep(&self) -> bool {
        matches!(self, Self::Keep)
    }
}

impl<T: Serialize> Serialize for Change<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Keep | Self::Remove => serializer.serialize_none(),
            Self::Set(value) => serializer.serialize_some(value),
        }
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Change<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Option::deserialize(deserializer)?.map_or(Self::Remove, Self::Set))
    }
}

impl<T: JsonSchema> JsonSchema for Change<T> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        Option::<T>::schema_name()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        Option::<T>::json_schema(generator)
    }
}

/// Reads an optional field that must not be `null`.
fn present<'de, T: Deserialize<'de>, D: Deserializer<'de>>(deserializer: D) -> Result<Option<T>, D::Error> {
    T::deserialize(deserializer).map(Some)
}

/// `POST /v1/workspaces/{workspaceId}/connections`
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CreateConnection {
    /// The name that users see: "Sign in with {name}".
    #[schemars(length(min = 1, max = MAX_NAME), regex(pattern = ONE_LINE))]
    pub name: String,
    /// The issuer, exactly as the provider's discovery document and its ID tokens spell it.
    #[schemars(url, length(max = MAX_ISSUER))]
    pub issuer: String,
    /// The client ID that the provider gave to the service. It can follow later.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = MAX_CLIENT_ID), regex(pattern = TRIMMED_ASCII))]
    pub client_id: Option<String>,
    /// The client secret that the provider gave to the service. It is stored encrypted and never returned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = MAX_CLIENT_SECRET), regex(pattern = TRIMMED_ASCII))]
    pub client_secret: Option<ProviderSecret>,
    /// How the service authenticates at the provider. Default: `client_secret_basic`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auth_method: Option<AuthMethod>,
    /// The algorithms that ID tokens may be signed with. Default: all that the service knows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1))]
    pub algorithms: Option<Vec<SigningAlgorithm>>,
    /// The provider's public keys as a JWK Set, if they must not be read from its discovery document.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jwks: Option<JsonObject>,
    /// The role of users whose account is created when they first sign in. Default: `member`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default_role: Option<DefaultRole>,
    /// Hours after which a session has to sign in through the connection again. Default: 12.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 720))]
    pub session_hours: Option<u16>,
    /// Days after which tokens of a user stop working if the user does not sign in through the connection. Default: 30.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 366))]
    pub token_days: Option<u16>,
    /// Owners who can sign in by email code although single sign-on is required.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = MAX_BREAK_GLASS))]
    pub break_glass: Option<Vec<UserId>>,
}

/// `PATCH /v1/workspaces/{workspaceId}/connections/{connectionId}`. A missing field stays as it is.
#[derive(Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct UpdateConnection {
    /// The name that users see.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    #[schemars(with = "String", length(min = 1, max = MAX_NAME), regex(pattern = ONE_LINE))]
    pub name: Option<String>,
    /// The client ID that the provider gave to the service.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    #[schemars(with = "String", length(min = 1, max = MAX_CLIENT_ID), regex(pattern = TRIMMED_ASCII))]
    pub client_id: Option<String>,
    /// A new client secret, which replaces the stored one.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    #[schemars(with = "String", length(min = 1, max = MAX_CLIENT_SECRET), regex(pattern = TRIMMED_ASCII))]
    pub client_secret: Option<ProviderSecret>,
    /// How the service authenticates at the provider.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    #[schemars(with = "AuthMethod")]
    pub auth_method: Option<AuthMethod>,
    /// The algorithms that ID tokens may be signed with.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    #[schemars(with = "Vec<SigningAlgorithm>", length(min = 1))]
    pub algorithms: Option<Vec<SigningAlgorithm>>,
    /// The provider's public keys. `null`: read them from the discovery document again.
    #[serde(default, skip_serializing_if = "Change::is_keep")]
    pub jwks: Change<JsonObject>,
    /// The role of users whose account is created when they first sign in.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    #[schemars(with = "DefaultRole")]
    pub default_role: Option<DefaultRole>,
    /// Hours after which a session has to sign in through the connection again.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    #[schemars(with = "u16", range(min = 1, max = 720))]
    pub session_hours: Option<u16>,
    /// Days after which tokens of a user stop working if the user does not sign in through the connection.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    #[schemars(with = "u16", range(min = 1, max = 366))]
    pub token_days: Option<u16>,
    /// Owners who can sign in by email code although single sign-on is required.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    #[schemars(with = "Vec<UserId>", length(max = MAX_BREAK_GLASS))]
    pub break_glass: Option<Vec<UserId>>,
    /// Whether users of its domains are sent to the provider. It can be enabled after an owner has tried it.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    #[schemars(with = "bool")]
    pub enabled: Option<bool>,
    /// Whether users of its domains can sign in only through the connection. Needs a break-glass owner.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    #[schemars(with = "bool")]
    pub required: Option<bool>,
    /// What happens to existing sessions and tokens. Needed when `required` becomes `true`.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    #[schemars(with = "ExistingCredentials")]
    pub existing: Option<ExistingCredentials>,
}

/// Whether a provider answered lately.
#[derive(Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ConnectionHealth {
    /// When the provider last answered as it should.
    #[serde(with = "instant::WrittenIfAny", default, skip_serializing_if = "Option::is_none")]
    pub last_success_at: Option<Timestamp>,
    /// What went wrong, and what to do about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_error: Option<String>,
    /// When it last failed.
    #[serde(with = "instant::WrittenIfAny", default, skip_serializing_if = "Option::is_none")]
    pub last_error_at: Option<Timestamp>,
}

/// A workspace's connection to an identity provider. Its client secret is never returned.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SsoConnection {
    /// The ID of the connection.
    pub id: ConnectionId,
    /// The workspace of the connection.
    pub workspace_id: WorkspaceId,
    /// The name that users see.
    pub name: String,
    /// The issuer of the provider.
    pub issuer: String,
    /// The client ID that the provider gave to the service.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_id: Option<String>,
    /// How the service authenticates at the provider.
    pub auth_method: AuthMethod,
    /// Whether a client secret is stored.
    pub has_client_secret: bool,
    /// The public key of the service at the provider, as a JWK Set. Register it there. Present with `private_key_jwt`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub public_key: Option<JsonObject>,
    /// The redirect URI to register at the provider.
    pub redirect_uri: String,
    /// The back-channel logout URI to register at the provider.
    pub backchannel_logout_uri: String,
    /// The algorithms that ID tokens may be signed with.
    pub algorithms: Vec<SigningAlgorithm>,
    /// The pasted public keys. Absent: they are read from the discovery document.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jwks: Option<JsonObject>,
    /// The role of users whose account is created when they first sign in.
    pub default_role: DefaultRole,
    /// Hours after which a session has to sign in through the connection again.
    pub session_hours: u16,
    /// Days after which tokens of a user stop working if the user does not sign in through the connection.
    pub token_days: u16,
    /// Owners who can sign in by email code although single sign-on is required.
    pub break_glass: Vec<UserId>,
    /// Whether users of its domains are sent to the provider.
    pub enabled: bool,
    /// Whether users of its domains can sign in only through the connection.
    pub required: bool,
    /// When it was created.
    #[serde(with = "instant::Written")]
    pub created_at: Timestamp,
    /// When an owner last signed in through the connection to try it.
    #[serde(with = "instant::WrittenIfAny", default, skip_serializing_if = "Option::is_none")]
    pub tried_at: Option<Timestamp>,
    /// When it was enabled.
    #[serde(with = "instant::WrittenIfAny", default, skip_serializing_if = "Option::is_none")]
    pub enabled_at: Option<Timestamp>,
    /// When it became required.
    #[serde(with = "instant::WrittenIfAny", default, skip_serializing_if = "Option::is_none")]
    pub required_at: Option<Timestamp>,
    /// Whether the provider answered lately.
    pub health: ConnectionHealth,
}

/// What requiring single sign-on would revoke: sessions and tokens of users of the connection's domains that did not begin
/// with a sign-in through the connection.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ConnectionImpact {
    /// The verified domains of the connection.
    pub domains: Vec<String>,
    /// Accounts with an email address in these domains.
    pub users: u64,
    /// Their sessions, in browsers and in first-party apps.
    pub sessions: u64,
    /// Their CLI tokens.
    pub cli_tokens: u64,
    /// Their MCP token pairs.
    pub mcp_tokens: u64,
    /// Their sessions with other apps that they authorized.
    pub app_grants: u64,
}

/// The state of a domain that a workspace claims.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum DomainStatus {
    /// The DNS record was not found yet.
    Pending,
    /// The DNS record was found at the last check.
    Verified,
    /// The DNS record was not found at the last check. Users of the domain are still sent to the provider.
    Failing,
    /// The DNS record was not found at three checks in a row, or another workspace has verified the domain. Users of the
    /// domain are no longer sent to the provider.
    Lost,
}

/// The DNS record that proves a claim.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DnsRecord {
    /// The name of the record.
    pub name: String,
    /// The type of the record: `TXT`.
    #[serde(rename = "type")]
    pub record_type: String,
    /// The value of the record.
    pub value: String,
}

/// A domain that a workspace claims.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WorkspaceDomain {
    /// The domain in the ASCII form of IDNA, in lower case.
    pub domain: String,
    /// Whether the DNS record was found.
    pub status: DomainStatus,
    /// The DNS record that proves the claim. Create it at your DNS provider.
    pub record: DnsRecord,
    /// The connection that users of the domain sign in with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connection_id: Option<ConnectionId>,
    /// When the domain was claimed.
    #[serde(with = "instant::Written")]
    pub created_at: Timestamp,
    /// When the DNS record was first found.
    #[serde(with = "instant::WrittenIfAny", default, skip_serializing_if = "Option::is_none")]
    pub verified_at: Option<Timestamp>,
    /// When the DNS record was last looked for.
    #[serde(with = "instant::WrittenIfAny", default, skip_serializing_if = "Option::is_none")]
    pub checked_at: Option<Timestamp>,
    /// When the DNS record is looked for again.
    #[serde(with = "instant::WrittenIfAny", default, skip_serializing_if = "Option::is_none")]
    pub next_check_at: Option<Timestamp>,
    /// Why the last check failed, and what to do about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_error: Option<String>,
}

/// `POST /v1/workspaces/{workspaceId}/domains`
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ClaimDomain {
    /// The domain of the email addresses, such as `acme.example`. Its subdomains are not included.
    #[schemars(length(min = 1, max = 253))]
    pub domain: String,
    /// The connection that users of the domain sign in with. It can follow later.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connection_id: Option<ConnectionId>,
}

/// `PATCH /v1/workspaces/{workspaceId}/domains/{domain}`
#[derive(Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct UpdateDomain {
    /// The connection that users of the domain sign in with. `null`: none.
    #[serde(default, skip_serializing_if = "Change::is_keep")]
    pub connection_id: Change<ConnectionId>,
}
