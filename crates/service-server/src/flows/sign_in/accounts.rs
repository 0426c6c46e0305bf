//! Accounts: each is created by the first sign-in with its email address.

use serde_json::json;
use service_api::{audit_events::EventName, ids::UserId};
use service_rules::Timestamp;

use crate::{
    crypto::random,
    database::Connection,
    flows::RequestMeta,
    store::{self, emails::EmailKey},
};

/// The account that an address belongs to.
pub(crate) struct ClaimedAccount {
    pub(crate) user_id: UserId,
    pub(crate) is_new: bool,
}

/// Creates the account of an address, unless another transaction has created it.
pub(crate) async fn find_or_create(
    meta: &RequestMeta,
    db: &Connection,
    email: EmailKey<'_>,
    now: Timestamp,
) -> anyhow::Result<ClaimedAccount> {
    let new: UserId = random::id(now)?;
    let user_id = store::emails::claim(db, email, new, now).await?;
    if user_id == new {
        store::users::insert(db, new, email.address, now).await?;
        let event = meta.event(EventName::UserCreated, now, json!({ "email": email.address.as_str() }))?;
        event.user(new).insert(db).await?;
    }
    Ok(ClaimedAccount { user_id, is_new: user_id == new })
}
