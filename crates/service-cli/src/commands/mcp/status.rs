//! `service mcp status`: shows the MCP tokens that are stored on this machine. It sends no request.

use serde_json::json;
use service_api::instant;

use crate::{
    context::{Context, store_failed},
    explain,
    failure::Failure,
    table::strip_control,
};

pub(super) fn run(context: &Context) -> Result<(), Failure> {
    let origin = context.origin()?;
    let saved = context.saved_mcp_tokens(&origin)?;
    let record = saved.record().map_err(store_failed)?.ok_or_else(|| explain::no_mcp_tokens(&origin))?;
    let workspace = match &record.workspace {
        Some(workspace) => format!("{} ({})", strip_control(&workspace.name), workspace.id),
        None => "Personal".to_owned(),
    };
    let lines = [
        record.user.email.clone(),
        format!("Workspace    {workspace}"),
        format!("Scopes       {}", record.scopes.words().collect::<Vec<_>>().join(", ")),
        format!("Stored in    {}", record.store.display_name(&saved.path())),
        format!("Server       {origin}"),
    ];
    let object = json!({
        "status": "stored", "user": record.user, "workspace": record.workspace, "scopes": record.scopes,
        "store": record.store, "accessExpiresAt": instant::to_text(record.access_expires_at), "apiUrl": origin.as_str(),
    });
    context.output.result(&object, &lines.join("\n"))
}
