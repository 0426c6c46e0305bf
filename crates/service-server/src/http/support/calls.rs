//! The calls of the support listener: the path of each, the fields that it takes, and the flow that it runs.

use std::net::IpAddr;

use axum::{
    Json,
    response::{IntoResponse as _, Response},
};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use service_rules::email::Address;

use crate::{
    app::App,
    flows::support::{
        SupportError, SupportOperator,
        limits::{self, LimitedBy},
        mails::{self, Resent},
        sessions, users,
    },
    http::{
        body::typed,
        errors::{ApiError, support as errors},
    },
};

/// The most events or mails that one call lists.
const MAX_LISTED: u16 = 1_000;

/// A call, which is also a command of `serviced admin`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SupportCall {
    FindUser,
    ShowUser,
    ListSessions,
    ListTokens,
    ListEvents,
    RevokeSession,
    ShowLimits,
    ResetLimits,
    ListMail,
    ResendMail,
}

/// A user, by an email address or an ID.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct UserFields {
    whom: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct EventsFields {
    whom: String,
    limit: Option<u16>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RevokeFields {
    id: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LimitFields {
    whom: String,
    from: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct MailFields {
    to: Option<String>,
    limit: Option<u16>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ResendFields {
    id: Option<String>,
    #[serde(default)]
    all: bool,
}

impl SupportCall {
    pub const ALL: [Self; 10] = [
        Self::FindUser,
        Self::ShowUser,
        Self::ListSessions,
        Self::ListTokens,
        Self::ListEvents,
        Self::RevokeSession,
        Self::ShowLimits,
        Self::ResetLimits,
        Self::ListMail,
        Self::ResendMail,
    ];

    /// The path, which has the words of the command.
    #[must_use]
    pub const fn path(self) -> &'static str {
        match self {
            Self::FindUser => "/v1/user/find",
            Self::ShowUser => "/v1/user/show",
            Self::ListSessions => "/v1/user/sessions",
            Self::ListTokens => "/v1/user/tokens",
            Self::ListEvents => "/v1/user/events",
            Self::RevokeSession => "/v1/session/revoke",
            Self::ShowLimits => "/v1/limit/show",
            Self::ResetLimits => "/v1/limit/reset",
            Self::ListMail => "/v1/mail/list",
            Self::ResendMail => "/v1/mail/resend",
        }
    }

    /// The name in the log and in metrics.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::FindUser => "user_find",
            Self::ShowUser => "user_show",
            Self::ListSessions => "user_sessions",
            Self::ListTokens => "user_tokens",
            Self::ListEvents => "user_events",
            Self::RevokeSession => "session_revoke",
            Self::ShowLimits => "limit_show",
            Self::ResetLimits => "limit_reset",
            Self::ListMail => "mail_list",
            Self::ResendMail => "mail_resend",
        }
    }

    /// Whether the call changes something, and counts against the limit on changes.
    #[must_use]
    pub const fn changes(self) -> bool {
        matches!(self, Self::RevokeSession | Self::ResetLimits | Self::ResendMail)
    }

    /// Runs the call with its own fields.
    pub(super) async fn run(self, app: &App, operator: &SupportOperator, fields: Value) -> Result<Response, ApiError> {
        match self {
            Self::FindUser => respond(users::find(app, operator, &whom(fields)?).await, "whom"),
            Self::ShowUser => respond(users::show(app, operator, &whom(fields)?).await, "whom"),
            Self::ListSessions => respond(users::sessions(app, operator, &whom(fields)?).await, "whom"),
            Self::ListTokens => respond(users::cli_tokens(app, operator, &whom(fields)?).await, "whom"),
            Self::ListEvents => {
                let EventsFields { whom, limit } = typed(fields)?;
                let limit = listed(limit.unwrap_or(50))?;
                respond(users::events(app, operator, &whom, limit).await, "whom")
            }
            Self::RevokeSession => {
                let RevokeFields { id } = typed(fields)?;
                respond(sessions::revoke(app, operator, &id).await, "id")
            }
            Self::ShowLimits => respond(limits::show(app, operator, &limited(fields)?).await, "whom"),
            Self::ResetLimits => respond(limits::reset(app, operator, &limited(fields)?).await, "whom"),
            Self::ListMail => {
                let MailFields { to, limit } = typed(fields)?;
                let limit = listed(limit.unwrap_or(100))?;
                let to = to.as_deref().map(Address::parse).transpose();
                let to = to.map_err(|_| errors::invalid_field("to", "must be an email address"))?;
                respond(mails::list(app, operator, to.as_ref(), limit).await, "to")
            }
            Self::ResendMail => {
                let ResendFields { id, all } = typed(fields)?;
                if id.is_some() == all {
                    return Err(errors::invalid_field("id", "must be a mail ID, or all must be true, and not both"));
                }
                let which = Resent::parse(id.as_deref()).map_err(|error| errors::support(error, "id"))?;
                respond(mails::resend(app, operator, &which).await, "id")
            }
        }
    }
}

fn whom(fields: Value) -> Result<String, ApiError> {
    let UserFields { whom } = typed(fields)?;
    Ok(whom)
}

fn limited(fields: Value) -> Result<LimitedBy, ApiError> {
    let LimitFields { whom, from } = typed(fields)?;
    let from = from.map(|from| from.parse::<IpAddr>()).transpose();
    let from = from.map_err(|_| errors::invalid_field("from", "must be a network address such as 203.0.113.7"))?;
    LimitedBy::parse(&whom, from).map_err(|error| errors::support(error, "whom"))
}

fn listed(limit: u16) -> Result<u16, ApiError> {
    let is_valid = (1..=MAX_LISTED).contains(&limit);
    is_valid.then_some(limit).ok_or_else(|| errors::invalid_field("limit", "must be a number from 1 to 1000"))
}

/// The response to a call, or its error. `field` names what was looked for.
fn respond<T: Serialize>(done: Result<T, SupportError>, field: &str) -> Result<Response, ApiError> {
    done.map(|value| Json(value).into_response()).map_err(|error| errors::support(error, field))
}
