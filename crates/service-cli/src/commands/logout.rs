//! `service logout`: removes the sign-in here, always, and ends it on the server, if the server can be told.

use serde_json::{Value, json};
use service_api::{oauth::SERVICE_CLI, token::CliToken};
use service_client::{TokenStore as _, lock_all};

use crate::{
    arguments::Logout,
    context::{Context, kept_failed, store_failed},
    credentials::{Kept, Place},
    explain,
    failure::Failure,
};

pub(super) async fn run(context: &Context, arguments: &Logout) -> Result<(), Failure> {
    let kept = if arguments.all {
        context.credentials()?.all().map_err(store_failed)?
    } else {
        vec![context.kept(&context.origin()?)?]
    };
    let (mut objects, mut failed) = (Vec::new(), None);
    for kept in kept {
        match sign_out(context, &kept).await {
            Ok(object) => objects.extend(object),
            // The others are signed out all the same.
            Err(failure) => failed = Some(failure),
        }
    }
    if let Some(failure) = failed {
        return Err(failure);
    }
    if objects.is_empty() {
        context.output.note("Not signed in. Nothing to do.");
    }
    warn_of_token(context);
    let object = match objects.len() {
        _ if arguments.all => json!({ "signedOut": !objects.is_empty(), "signIns": objects }),
        0 => json!({ "signedOut": false }),
        _ => objects.swap_remove(0),
    };
    context.output.result(&object, "")
}

async fn sign_out(context: &Context, kept: &Kept) -> Result<Option<Value>, Failure> {
    // Whoever renews it at this moment is let finish: the token to give back is the youngest.
    let locks = lock_all(kept.locks().map_err(store_failed)?).await.map_err(kept_failed)?;
    let Some(sign_in) = kept.record().map_err(store_failed)? else { return Ok(None) };
    let refresh_token = kept.refresh_token();
    let forgotten = kept.forget();
    drop(locks);

    let client = context.client(&kept.origin)?;
    // Whatever became of it here, the server is told: with either token of the pair.
    let told = match refresh_token {
        Ok(Some(token)) => context.waiting(client.revoke(SERVICE_CLI, &token)).await,
        _ => context.waiting(client.revoke_access(SERVICE_CLI, &sign_in.access_token)).await,
    };
    let told = told.map_err(|error| explain::refused_at(&kept.origin, &error).code.as_str());
    if let Err(error) = forgotten {
        // The record is still there: nothing was signed out here.
        if kept.record().map_err(store_failed)?.is_some() {
            return Err(store_failed(error));
        }
        context.output.warn(&format!("{error} What it had is worth nothing once the session has ended."));
    }
    let (email, store) = (&sign_in.user.email, sign_in.place);
    match told {
        Ok(()) => {
            let place = if store == Place::Keyring { "the system keyring" } else { "this computer" };
            let text = format!("Signed out {email}. The session was ended on the server and removed from {place}.");
            context.output.good(&text);
        }
        Err(why) => {
            context.output.good(&format!("Signed out {email} on this computer."));
            let text =
                format!("Could not tell the server ({why}). The session ends there when it is not used for 30 days.");
            context.output.warn(&text);
        }
    }
    let mut object = json!({
        "signedOut": true, "user": sign_in.user, "revokedOnServer": told.is_ok(), "store": store,
        "profile": kept.profile, "apiUrl": kept.origin.as_str(),
    });
    if let (Err(why), Value::Object(members)) = (told, &mut object) {
        members.insert("warning".to_owned(), why.into());
    }
    Ok(Some(object))
}

fn warn_of_token(context: &Context) {
    let Some(token) = &context.environment.token else { return };
    let text = "SERVICE_TOKEN is still set and still works.";
    match CliToken::parse(token.text()).and_then(|token| token.id()) {
        Some(id) => context.output.warn(&format!("{text} Revoke it with: service token revoke {id}")),
        None => context.output.warn(text),
    }
}
