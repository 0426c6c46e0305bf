//! Deleting rows whose retention has ended: `docs/retention.md` says what is kept, and for how long.
//!
//! 1. Keys of network addresses in audit events.
//! 2. Sessions that expired or were revoked: the table is walked in parts, a few every minute.
//! 3. Workspaces that were deleted: their content first, also what was deleted from them, then all that names them.
//!
//! Each step has a connection and a deadline of its own, so that a slow one does not keep the others from their turn.

use service_api::ids::{Id as _, WorkspaceId};
use service_rules::{Timestamp, lifetimes, signing::later, space::Space};
use uuid::Uuid;

use crate::{
    app::App,
    database::Connection,
    flows::audit::keys,
    store::{
        self,
        contents::SpaceOwner,
        grants::{DeletedPart, TablePart},
    },
};

/// Grants that one step reads, and steps in one pass. Every node walks the table, so the numbers are small.
const GRANTS_PER_STEP: i64 = 2_000;
const GRANT_STEPS_PER_PASS: usize = 3;
/// Contents that one step deletes. A content may be large, and a step has a deadline.
const CONTENTS_PER_STEP: i64 = 200;

/// Deletes rows whose retention has ended, and returns how many. The next pass continues where this one stops.
pub async fn delete_ended(app: &App) -> anyhow::Result<u64> {
    let db = app.background_database.connect().await?;
    let (database_time, now) = (store::database_time(&db).await?, app.clock.now());
    drop(db);
    // A row that a wrong clock deletes is lost.
    anyhow::ensure!(!app.clock.is_off(now, database_time), "this node's clock differs from the database's");
    let ended_before = later(now, -lifetimes::ENDED_KEPT);
    let steps = [
        keys::delete_old_days(app, now).await,
        delete_grants(app, ended_before).await,
        delete_workspaces(app, ended_before).await,
    ];
    let mut deleted = 0;
    for step in steps {
        deleted += step?;
    }
    Ok(deleted)
}

async fn delete_grants(app: &App, ended_before: Timestamp) -> anyhow::Result<u64> {
    let unused_since = later(ended_before, -lifetimes::REFRESH_IDLE);
    let mut deleted = 0;
    for _ in 0..GRANT_STEPS_PER_PASS {
        let part = TablePart { after: app.grants_walk.position(), rows: GRANTS_PER_STEP };
        let db = app.background_database.connect().await?;
        let DeletedPart { deleted: gone, next } =
            store::grants::delete_ended(&db, part, ended_before, unused_since).await?;
        deleted += gone;
        app.grants_walk.set_position(next.unwrap_or(Uuid::nil()));
        if next.is_none() {
            break;
        }
    }
    Ok(deleted)
}

async fn delete_workspaces(app: &App, deleted_before: Timestamp) -> anyhow::Result<u64> {
    let mut deleted = 0;
    while !app.stop.is_cancelled() {
        let db = app.background_database.begin().await?;
        let Some(id) = store::workspaces::lock_deleted(&db, deleted_before).await? else { break };
        let space = SpaceOwner::of(Space::Workspace(id), Uuid::nil().into());
        let (gone, is_empty) = delete_some_content(&db, space).await?;
        deleted += gone;
        if is_empty {
            forget_workspace(&db, id).await?;
            deleted += 1;
        }
        db.commit().await?;
    }
    Ok(deleted)
}

/// Deletes a part of the content of a space, also what was deleted from it. Returns how much, and whether nothing is left.
pub(in crate::flows) async fn delete_some_content(db: &Connection, space: SpaceOwner) -> anyhow::Result<(u64, bool)> {
    store::contents::enter(db, &[space]).await?;
    let mut gone = store::contents::delete_some(db, space, CONTENTS_PER_STEP).await?;
    if gone < CONTENTS_PER_STEP.unsigned_abs() {
        gone += store::deletions::delete_some(db, space.id, CONTENTS_PER_STEP - gone.cast_signed()).await?;
    }
    Ok((gone, gone < CONTENTS_PER_STEP.unsigned_abs()))
}

/// Deletes the last rows of a workspace whose contents are deleted.
async fn forget_workspace(db: &Connection, id: WorkspaceId) -> anyhow::Result<()> {
    store::space_usage::delete(db, id.uuid()).await?;
    store::workspaces::delete(db, id).await?;
    Ok(())
}
