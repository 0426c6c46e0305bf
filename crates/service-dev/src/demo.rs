//! The demo user and workspace.

use anyhow::{Context as _, Result};
use jiff::SignedDuration;
use service_api::{
    contents::Kind,
    ids::{Id as _, UserId, WorkspaceId},
    workspaces::Role,
};
use service_rules::{display_name::DisplayName, email::Address, space::Space};
use service_server::{
    app::App,
    crypto::random,
    flows::sign_in::email_key::email_key,
    store::{
        self,
        contents::{NewContent, SpaceOwner},
    },
};

use crate::announce::say_error;

pub(crate) const DEMO_USER: &str = "demo@service.test";

/// Creates a user with projects, and a workspace with some more, if they do not exist yet.
pub(crate) async fn create(app: &App) -> Result<()> {
    let now = app.clock.now();
    let address = Address::parse(DEMO_USER).map_err(|_| anyhow::anyhow!("the demo user has no address"))?;
    let db = app.database.begin().await?;
    let email = email_key(app, &db, &address).await?;
    if store::emails::find_user(&db, email).await?.is_some() {
        return Ok(());
    }
    let user_id: UserId = random::id(now)?;
    let workspace_id: WorkspaceId = random::id_in(user_id.shard(), now)?;
    store::emails::claim(&db, email, user_id, now).await?;
    store::users::insert(&db, user_id, &address, now).await?;
    let name = DisplayName::from_stored("Demo workspace".to_owned());
    store::workspaces::insert(&db, workspace_id, &name, now).await?;
    store::memberships::join(&db, user_id, workspace_id, Role::Owner, now).await?;
    let projects = [
        (Space::Personal, "Reading list"),
        (Space::Personal, "Garden"),
        (Space::Workspace(workspace_id), "Website"),
        (Space::Workspace(workspace_id), "Hiring"),
    ];
    for (millisecond, (place, name)) in (0..).zip(projects) {
        // Each has a later time than the one before, so that the list has a fixed order.
        let now = now + SignedDuration::from_millis(millisecond);
        let fields = serde_json::json!({ "name": name });
        let fields = fields.as_object().context("no fields")?;
        let space = SpaceOwner::of(place, user_id);
        let (kind, id, created_by) = (Kind::Project, random::uuid(now)?, user_id);
        store::contents::enter(&db, &[space]).await?;
        store::contents::insert(&db, &NewContent { space, kind, id, fields, created_by, now }).await?;
    }
    db.commit().await?;
    say_error(&format!("Created {DEMO_USER} and the workspace {workspace_id}."));
    Ok(())
}
