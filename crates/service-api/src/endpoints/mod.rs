//! Every endpoint, with what it takes to call it.
//!
//! The router, the client and the access tests all read this table.

mod contents;
mod pages;

pub use self::{contents::*, pages::*};
use crate::scope::{Action, Resource, Scope};

#[derive(Debug)]
pub struct Endpoint {
    pub method: Method,
    pub path: &'static str,
    pub access: Access,
    pub body: Body,
    /// The query parameters it knows; any other is refused, so that a misspelt one is noticed.
    pub query: &'static [&'static str],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    Get,
    Post,
    Patch,
    Delete,
}

impl Method {
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Post => "POST",
            Self::Patch => "PATCH",
            Self::Delete => "DELETE",
        }
    }
}

/// Who may call an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Called to obtain a token, or meant for everybody: no token is asked for.
    Public,
    /// A client that proves itself with a secret.
    Client,
    /// A bearer token that carries this scope.
    Bearer(Scope),
    /// The same; in a workspace, only of an owner.
    Owner(Scope),
    /// A bearer token with this scope of somebody who signed in: a token for automation does not do.
    SignedIn(Scope),
    /// A person's browser, by its cookie: a page.
    Browser,
    /// An access token of the MCP pair that is refreshed, or of its user in one of our own clients.
    McpPair,
}

/// Which bodies an endpoint reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Body {
    None,
    Json,
    /// Also as a form, which is what stock OAuth clients send.
    JsonOrForm,
    /// What a page of ours sends.
    Form,
}

pub const LOGIN_OPTIONS: Endpoint = public(Method::Post, "/v1/login-options", Body::Json);
pub const OTP_TOKENS: Endpoint = public(Method::Post, "/v1/otp-tokens", Body::Json);
pub const TOKEN: Endpoint = public(Method::Post, "/oauth/token", Body::JsonOrForm);
pub const REVOKE: Endpoint = public(Method::Post, "/oauth/revoke", Body::JsonOrForm);
pub const INTROSPECT: Endpoint = Endpoint {
    method: Method::Post,
    path: "/oauth/introspect",
    access: Access::Client,
    body: Body::JsonOrForm,
    query: &[],
};
pub const TOKEN_LEAKS: Endpoint = public(Method::Post, "/v1/token-leaks", Body::Json);
pub const JWKS: Endpoint = public(Method::Get, "/.well-known/jwks.json", Body::None);
pub const WHOAMI: Endpoint = Endpoint {
    method: Method::Get,
    path: "/v1/whoami",
    access: Access::Bearer(Scope::any(Action::Read)),
    body: Body::None,
    query: &["workspaceId"],
};

pub const LIST_AUDIT_EVENTS: Endpoint = Endpoint {
    method: Method::Get,
    path: "/v1/audit-events",
    access: Access::Owner(Scope::of(Action::Read, Resource::Audit)),
    body: Body::None,
    query: &["workspaceId", "event", "userId", "since", "until", "limit", "cursor"],
};

pub const LIST_SESSIONS: Endpoint = Endpoint {
    method: Method::Get,
    path: "/v1/sessions",
    access: Access::SignedIn(Scope::of(Action::Read, Resource::Sessions)),
    body: Body::None,
    query: &["limit", "cursor"],
};
pub const END_SESSION: Endpoint = Endpoint {
    method: Method::Delete,
    path: "/v1/sessions/{sessionId}",
    access: Access::SignedIn(Scope::of(Action::Write, Resource::Sessions)),
    body: Body::None,
    query: &[],
};
pub const END_OTHER_SESSIONS: Endpoint = Endpoint {
    method: Method::Post,
    path: "/v1/sessions/revoke-others",
    access: Access::SignedIn(Scope::of(Action::Write, Resource::Sessions)),
    body: Body::None,
    query: &[],
};

pub const CREATE_CLI_TOKEN: Endpoint = Endpoint {
    method: Method::Post,
    path: "/v1/cli/tokens",
    access: Access::SignedIn(Scope::of(Action::Write, Resource::Tokens)),
    body: Body::Json,
    query: &[],
};
pub const LIST_CLI_TOKENS: Endpoint = Endpoint {
    method: Method::Get,
    path: "/v1/cli/tokens",
    access: Access::SignedIn(Scope::of(Action::Read, Resource::Tokens)),
    body: Body::None,
    query: &["status", "limit", "cursor"],
};
/// A token needs no scope to end itself.
pub const REVOKE_CLI_TOKEN: Endpoint = Endpoint {
    method: Method::Delete,
    path: "/v1/cli/tokens/{tokenId}",
    access: Access::SignedIn(Scope::of(Action::Write, Resource::Tokens)),
    body: Body::None,
    query: &[],
};
pub const ROTATE_CLI_TOKEN: Endpoint = Endpoint {
    method: Method::Post,
    path: "/v1/cli/tokens/{tokenId}/rotate",
    access: Access::SignedIn(Scope::of(Action::Write, Resource::Tokens)),
    body: Body::Json,
    query: &[],
};

pub const CREATE_MCP_TOKENS: Endpoint = Endpoint {
    method: Method::Post,
    path: "/v1/mcp/tokens",
    access: Access::SignedIn(Scope::of(Action::Write, Resource::Tokens)),
    body: Body::Json,
    query: &[],
};
pub const REFRESH_MCP_TOKENS: Endpoint = Endpoint {
    method: Method::Post,
    path: "/v1/mcp/tokens/refresh",
    access: Access::McpPair,
    body: Body::Json,
    query: &[],
};

pub const REGISTER: Endpoint = public(Method::Post, "/oauth/register", Body::Json);
pub const SERVER_METADATA: Endpoint = public(Method::Get, "/.well-known/oauth-authorization-server", Body::None);
pub const RESOURCE_METADATA: Endpoint = public(Method::Get, "/.well-known/oauth-protected-resource", Body::None);
pub const API_METADATA: Endpoint = public(Method::Get, "/.well-known/oauth-protected-resource/v1", Body::None);
pub const MCP_METADATA: Endpoint = public(Method::Get, "/.well-known/oauth-protected-resource/mcp", Body::None);

pub const OPENAPI: Endpoint = public(Method::Get, "/openapi.json", Body::None);

pub const ALL: &[&Endpoint] = &[
    &LOGIN_OPTIONS,
    &OTP_TOKENS,
    &TOKEN,
    &REVOKE,
    &INTROSPECT,
    &JWKS,
    &WHOAMI,
    &LIST_PROJECTS,
    &CREATE_PROJECT,
    &READ_PROJECT,
    &UPDATE_PROJECT,
    &DELETE_PROJECT,
    &LIST_PACKS,
    &CREATE_PACK,
    &READ_PACK,
    &UPDATE_PACK,
    &DELETE_PACK,
    &LIST_PLAYBOOKS,
    &CREATE_PLAYBOOK,
    &READ_PLAYBOOK,
    &UPDATE_PLAYBOOK,
    &DELETE_PLAYBOOK,
    &LIST_CASES,
    &CREATE_CASE,
    &READ_CASE,
    &UPDATE_CASE,
    &DELETE_CASE,
    &LIST_RECORDS,
    &CREATE_RECORD,
    &READ_RECORD,
    &UPDATE_RECORD,
    &DELETE_RECORD,
    &SEARCH_PACKS,
    &LIST_WORKSPACES,
    &CREATE_WORKSPACE,
    &READ_WORKSPACE,
    &RENAME_WORKSPACE,
    &DELETE_WORKSPACE,
    &LIST_MEMBERS,
    &CHANGE_ROLE,
    &REMOVE_MEMBER,
    &LIST_INVITATIONS,
    &INVITE,
    &REVOKE_INVITATION,
    &LIST_AUDIT_EVENTS,
    &LIST_SESSIONS,
    &END_SESSION,
    &END_OTHER_SESSIONS,
    &CREATE_CLI_TOKEN,
    &LIST_CLI_TOKENS,
    &REVOKE_CLI_TOKEN,
    &ROTATE_CLI_TOKEN,
    &CREATE_MCP_TOKENS,
    &REFRESH_MCP_TOKENS,
    &TOKEN_LEAKS,
    &REGISTER,
    &SERVER_METADATA,
    &RESOURCE_METADATA,
    &API_METADATA,
    &MCP_METADATA,
    &OPENAPI,
    &AUTHORIZE,
    &AUTHORIZE_BY_FORM,
    &HOME,
    &STYLESHEET,
    &MANUAL_STYLESHEET,
    &MANUAL,
    &SIGN_IN,
    &SHOW_SIGN_IN,
    &SEND_CODE,
    &SHOW_CODE,
    &ENTER_CODE,
    &RESEND_CODE,
    &SHOW_CONSENT,
    &DECIDE,
    &SWITCH_ACCOUNT,
    &ACCOUNT,
    &ACCOUNT_END_SESSION,
    &ACCOUNT_CREATE_TOKEN,
    &ACCOUNT_REVOKE_TOKEN,
    &SIGN_OUT,
];

const fn public(method: Method, path: &'static str, body: Body) -> Endpoint {
    Endpoint { method, path, access: Access::Public, body, query: &[] }
}
