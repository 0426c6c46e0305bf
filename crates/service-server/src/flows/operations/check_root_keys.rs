//! Checks that this node has the same root keys under the same ids as the other nodes.
//!
//! Nodes open what other nodes have sealed. With different keys under one id they could not, and no other check would find
//! the cause. So the database keeps a value that each key derives from a constant.

use subtle::ConstantTimeEq as _;

use crate::{app::App, store};

pub async fn check(app: &App) -> anyhow::Result<()> {
    let db = app.database.connect().await?;
    for (id, own) in app.root_keys.check_values() {
        let known = store::root_key_checks::find_or_insert(&db, id, &own).await?;
        anyhow::ensure!(
            bool::from(known.ct_eq(&own)),
            "root key {id} in secrets.root_keys is not the root key {id} that was used before with this database"
        );
    }
    Ok(())
}
