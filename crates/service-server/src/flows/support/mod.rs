//! What operators look up and change for a user who asks for help, by `serviced admin` or with a tool of their own that calls
//! the support listener.
//!
//! Every call is an audit event that names the operator and the reason, in the transaction that reads or changes. Operators
//! see the networks of a user, not the addresses.

pub mod clients;
pub mod limits;
pub mod mails;
pub mod sessions;
pub mod users;

use std::net::IpAddr;

use serde_json::{Value, json};
use service_api::{
    audit_events::EventName,
    ids::{CliTokenId, GrantId, UserId},
};
use service_rules::{Timestamp, email::Address, network};

use crate::{
    app::App,
    database::{self, Connection},
    flows::{operator::Operator, sign_in::email_key::email_key},
    store::{self, audit_events::NewAuditEvent},
};

/// Why a call of support found or changed nothing.
#[derive(Debug, thiserror::Error)]
pub enum SupportError {
    #[error("{0} is not an email address, nor the ID of a user, a session or a CLI token")]
    NotAName(String),
    #[error("{0} is neither an email address nor a network address")]
    NotLimited(String),
    /// The network that a user signs in from is given for a network instead of a user.
    #[error("the network to look at beside it is for email addresses only")]
    FromWithNetwork,
    #[error("{0} is not a mail ID, mail_…")]
    NotAMail(String),
    #[error("not found")]
    NotFound,
    #[error(transparent)]
    Database(#[from] database::Error),
    #[error(transparent)]
    Defect(#[from] anyhow::Error),
}

/// An operator who has said why.
pub struct SupportOperator(Operator);

impl SupportOperator {
    /// `None`: the operator has not said why.
    #[must_use]
    pub fn new(operator: Operator) -> Option<Self> {
        operator.has_reason().then_some(Self(operator))
    }

    /// The operator, who has said why.
    #[must_use]
    pub fn into_operator(self) -> Operator {
        self.0
    }

    fn event<'a>(&self, name: EventName, now: Timestamp, details: Value) -> anyhow::Result<NewAuditEvent<'a>> {
        self.0.event(name, now, details)
    }

    /// Records that an operator looked for something that does not exist, so that probing for accounts is seen. Returns the
    /// error.
    async fn record_not_found(
        &self,
        db: Connection,
        now: Timestamp,
        viewed: &str,
    ) -> Result<SupportError, SupportError> {
        let event = self.event(EventName::SupportViewed, now, json!({ "viewed": viewed, "found": false }))?;
        event.insert(&db).await?;
        db.commit().await?;
        Ok(SupportError::NotFound)
    }
}

/// Returns the user with this email address or ID, or to whom the session or CLI token with this ID belongs.
async fn find_user(app: &App, db: &Connection, whom: &str) -> Result<UserId, SupportError> {
    let found = if let Ok(address) = Address::parse(whom) {
        find_by_address(app, db, &address).await?
    } else if let Ok(id) = whom.parse::<UserId>() {
        store::users::find(db, id).await?.map(|_| id)
    } else if let Ok(id) = whom.parse::<GrantId>() {
        store::grants::find(db, id).await?.map(|grant| grant.user_id)
    } else if let Ok(id) = whom.parse::<CliTokenId>() {
        store::cli_tokens::find(db, id).await?.map(|token| token.user_id)
    } else {
        return Err(SupportError::NotAName(whom.to_owned()));
    };
    found.ok_or(SupportError::NotFound)
}

/// Returns the user with this email address.
async fn find_by_address(app: &App, db: &Connection, address: &Address) -> Result<Option<UserId>, database::Error> {
    let account = store::emails::find_user(db, email_key(app, db, address).await?).await?;
    Ok(account.map(|account| account.user_id))
}

/// The network of an address, as operators see it.
fn network_of(address: &str) -> String {
    address.parse::<IpAddr>().map_or_else(|_| String::new(), |address| network::recorded(address).to_string())
}
