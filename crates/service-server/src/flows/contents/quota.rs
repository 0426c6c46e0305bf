//! Quotas of a space: how many contents of one kind it may have, and how many bytes.

use service_api::contents::Kind;

use crate::{database::Connection, flows::contents::ContentError, store, store::contents::SpaceOwner};

/// Contents of one kind in one space; and deleted ones that can be restored.
pub(super) const MAX_CONTENTS_PER_KIND: i64 = 10_000;
/// Bytes of all contents in one space; and of all deleted ones.
pub(super) const MAX_SPACE_BYTES: i64 = 512 * 1024 * 1024;

/// The bytes that a content takes up in a space.
#[derive(Clone, Copy, Debug)]
pub(super) struct Footprint {
    pub(super) space: SpaceOwner,
    pub(super) bytes: i64,
}

/// Adds what was written to what its space holds. If that exceeds a quota, the caller drops the transaction.
pub(super) async fn take(db: &Connection, kind: Kind, written: Footprint) -> Result<(), ContentError> {
    if !store::space_usage::take(db, written.space, written.bytes, MAX_SPACE_BYTES).await? {
        return Err(ContentError::ByteQuotaExceeded);
    }
    // The row of the usage is locked, so no other transaction adds contents to this space before this one ends.
    if store::contents::has_many(db, written.space, kind, MAX_CONTENTS_PER_KIND + 1).await? {
        return Err(ContentError::CountQuotaExceeded);
    }
    Ok(())
}

/// Accounts for a change or a move. Of two spaces the one with the lower id is locked first, so that opposite moves do not
/// deadlock.
pub(super) async fn settle(db: &Connection, kind: Kind, from: Footprint, to: Footprint) -> Result<(), ContentError> {
    if from.space == to.space {
        let grown = to.bytes - from.bytes;
        return if grown > 0 {
            take(db, kind, Footprint { bytes: grown, ..to }).await
        } else {
            Ok(store::space_usage::give_back(db, from.space, -grown).await?)
        };
    }
    if from.space.id < to.space.id {
        store::space_usage::give_back(db, from.space, from.bytes).await?;
        take(db, kind, to).await
    } else {
        take(db, kind, to).await?;
        Ok(store::space_usage::give_back(db, from.space, from.bytes).await?)
    }
}
