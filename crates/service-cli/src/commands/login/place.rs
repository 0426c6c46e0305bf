//! Where a sign-in is kept: found out before anything is opened or sent, so that nothing is lost afterwards.

use std::path::Path;

use crate::{
    arguments::Login,
    context::Context,
    credentials::{Keyring, Place, shown},
    failure::{Code, Failure},
    output,
    prompt::Lines,
};

/// What was asked for; else what was chosen before; else the keyring if it answers, or the file if the user agrees.
pub(super) async fn choose(
    context: &Context,
    arguments: &Login,
    before: Option<Place>,
    file: &Path,
    lines: &mut Lines,
) -> Result<Place, Failure> {
    let asked = asked(context, arguments)?;
    if asked.or(before) == Some(Place::File) {
        return Ok(Place::File);
    }
    let Err(why) = Keyring::probe(&context.environment) else { return Ok(Place::Keyring) };
    if asked == Some(Place::Keyring) {
        return Err(Failure::new(Code::StoreFailed, format!("No system keyring answered ({why})."))
            .next(format!("service login --store file     keeps the sign-in in {}", shown(file)))
            .next("in CI, set SERVICE_TOKEN instead"));
    }
    context.output.warn(&format!("No system keyring answered ({why})."));
    output::instruct(&format!("  The sign-in can be kept in {}, readable only by you.", shown(file)));
    if context.everywhere.yes || lines.agree("Keep it there?", true).await? {
        return Ok(Place::File);
    }
    Err(Failure::new(Code::StoreFailed, "There is nowhere to keep a sign-in. Nothing was changed."))
}

fn asked(context: &Context, arguments: &Login) -> Result<Option<Place>, Failure> {
    if arguments.store.is_some() {
        return Ok(arguments.store);
    }
    match context.environment.credential_store.as_deref() {
        None => Ok(None),
        Some("keyring") => Ok(Some(Place::Keyring)),
        Some("file") => Ok(Some(Place::File)),
        Some(_) => Err(Failure::new(Code::Usage, "SERVICE_CREDENTIAL_STORE is neither keyring nor file.")),
    }
}
