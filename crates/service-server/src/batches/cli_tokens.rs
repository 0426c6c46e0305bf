//! CLI tokens that are not cached and arrive together: one statement reads them.

use service_api::ids::CliTokenId;

use super::reads::{SharedReads, SharedTable};
use crate::{
    database::{Connection, Error},
    store::{self, cli_tokens::StoredCliToken, several::FoundRows},
};

/// Reads CLI tokens for all requests of this node.
pub type CliTokenReads = SharedReads<CliTokenTable>;

pub enum CliTokenTable {}

impl SharedTable for CliTokenTable {
    type Id = CliTokenId;
    type Row = StoredCliToken;

    const NAME: &'static str = "cli_token_batches";

    async fn find(db: &Connection, id: CliTokenId) -> Result<Option<StoredCliToken>, Error> {
        store::cli_tokens::find(db, id).await
    }

    async fn find_several(db: &Connection, ids: &[CliTokenId]) -> Result<FoundRows<CliTokenId, StoredCliToken>, Error> {
        store::cli_tokens::find_several(db, ids).await
    }
}
