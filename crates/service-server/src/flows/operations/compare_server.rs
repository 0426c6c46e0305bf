//! Comparing the database server with the recorded one, before this node serves requests.
//!
//! 1. Nearly always it is the same server, and the heartbeat that this node wrote last is in it.
//! 2. Otherwise one node decides, under a lock, whether this is a failover or a restored backup.
//! 3. A failover is recorded. A restored backup is fenced: every node answers 503 until an operator has finished the
//!    restore.

use serde_json::json;
use service_api::audit_events::EventName;
use service_rules::restore::{self, Anchor, LONGEST_FAILOVER_SECONDS, Seen};

use crate::{
    app::App,
    database::{FormerPrimary, restore_fence},
    flows::node_event,
    store::{
        self,
        installation::{self, Installation},
    },
};

/// Compares over the connection for heartbeats. Returns how many restores were finished so far.
pub async fn compare(app: &App) -> anyhow::Result<i32> {
    let db = app.heartbeat_database.connect().await?;
    let mut found = installation::find(&db, app.node_id).await?;
    if found.is_none() {
        installation::insert(&db).await?;
        found = installation::find(&db, app.node_id).await?;
    }
    let found = require(found)?;
    drop(db);
    let found = if is_as_written(app, &found)? { found } else { decide(app).await? };
    let restores = found.recorded.restores;
    // The connection may have led to a standby that was promoted since.
    app.servers.record(&found.server).map_err(|FormerPrimary| anyhow::anyhow!("this server is a former primary"))?;
    // First the fence, because connections that waited for the comparison continue after it.
    app.restore_fence.record(found.fenced);
    app.servers.record_comparison(found.server, found.fenced.is_some());
    Ok(restores)
}

/// Whether the server is the recorded one, or a fence is up already, so that there is nothing to decide.
fn is_as_written(app: &App, found: &Installation) -> anyhow::Result<bool> {
    let (server, recorded) = (&found.server, &found.recorded);
    let same = recorded.system == server.system && recorded.timeline == i64::from(server.timeline);
    let remembered = app.restore_fence.last_confirmed();
    // The database has lost heartbeats of this node that it had confirmed, or all of them. What that means is decided by
    // the newest heartbeat of any node: the row of a node that was silent for a day is deleted.
    let lost = remembered.is_some_and(|anchor| {
        anchor.restores == recorded.restores
            && found
                .own_beat_at
                .is_none_or(|own| anchor.beat_at.as_second() - own.as_second() > LONGEST_FAILOVER_SECONDS)
    });
    // The file is looked at once: from then on this node remembers more than the file does.
    let from_file = remembered.is_none() && anchor_in_file(app)?.is_some();
    Ok(found.fenced.is_some() || same && !lost && !from_file)
}

async fn decide(app: &App) -> anyhow::Result<Installation> {
    let now = app.clock.now();
    let db = app.heartbeat_database.begin().await?;
    store::installation::lock(&db).await?;
    let mut found = require(installation::find(&db, app.node_id).await?)?;
    if found.fenced.is_some() {
        return Ok(found);
    }
    let seen = Seen {
        system: found.server.system.clone(),
        timeline: i64::from(found.server.timeline),
        newest_beat_at: installation::find_newest_beat(&db).await?,
        anchor: youngest(app.restore_fence.last_confirmed(), anchor_in_file(app)?),
    };
    found.fenced = restore::judge(&found.recorded, &seen, now);
    match found.fenced {
        None => installation::update_server(&db, &found.server).await?,
        Some(suspicion) => {
            installation::mark_fenced(&db, suspicion, now).await?;
            let details = json!({ "because": suspicion.as_str() });
            node_event(EventName::RestoreFenced, now, details)?.insert(&db).await?;
        }
    }
    db.commit().await?;
    Ok(found)
}

fn anchor_in_file(app: &App) -> anyhow::Result<Option<Anchor>> {
    app.config.restore.anchor_file.as_deref().map_or(Ok(None), restore_fence::read_anchor)
}

fn youngest(one: Option<Anchor>, other: Option<Anchor>) -> Option<Anchor> {
    [one, other].into_iter().flatten().max_by_key(|anchor| (anchor.restores, anchor.beat_at))
}

fn require(found: Option<Installation>) -> anyhow::Result<Installation> {
    found.ok_or_else(|| anyhow::anyhow!("nothing is written down about the database server"))
}
