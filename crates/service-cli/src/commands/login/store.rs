//! Chooses where to store credentials, before a browser opens or a code is sent, so that no completed sign-in is lost.

use std::path::Path;

use crate::{
    arguments::LoginArgs,
    context::Context,
    credentials::{KeyringEntry, StoreKind, display_path},
    failure::{Failure, FailureCode},
    output,
    prompt::InputLines,
};

/// Chooses the store that was requested, or the previous one. Otherwise it is the keyring if that works, or the file if the
/// user agrees.
pub(super) async fn choose_store(
    context: &Context,
    arguments: &LoginArgs,
    previous: Option<StoreKind>,
    file: &Path,
    lines: &mut InputLines,
) -> Result<StoreKind, Failure> {
    let requested = requested_store(context, arguments)?;
    if requested.or(previous) == Some(StoreKind::File) {
        return Ok(StoreKind::File);
    }
    let checked = KeyringEntry::check_in_background(&context.environment);
    let checked = context.wait_for("Checking the system keyring", checked).await;
    let Err(why) = checked else { return Ok(StoreKind::Keyring) };
    let unavailable = format!("No system keyring available ({why}).");
    if requested == Some(StoreKind::Keyring) {
        return Err(Failure::new(FailureCode::StoreFailed, unavailable)
            .hint(format!("To store your credentials in {}: service login --store file", display_path(file)))
            .hint("In CI, set SERVICE_TOKEN instead"));
    }
    context.output.warn(&unavailable);
    let text = format!("  Your credentials can be stored in {}, readable only by you.", display_path(file));
    output::print_instruction(&text);
    if context.global.yes || lines.confirm("Store them there?", true).await? {
        return Ok(StoreKind::File);
    }
    Err(Failure::new(FailureCode::StoreFailed, "Can't store credentials. Nothing was changed."))
}

/// The store that `--store` or `SERVICE_CREDENTIAL_STORE` names.
fn requested_store(context: &Context, arguments: &LoginArgs) -> Result<Option<StoreKind>, Failure> {
    if arguments.store.is_some() {
        return Ok(arguments.store);
    }
    match context.environment.credential_store.as_deref() {
        None => Ok(None),
        Some("keyring") => Ok(Some(StoreKind::Keyring)),
        Some("file") => Ok(Some(StoreKind::File)),
        Some(_) => Err(Failure::new(FailureCode::Usage, "SERVICE_CREDENTIAL_STORE must be keyring or file.")),
    }
}
