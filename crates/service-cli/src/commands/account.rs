//! `service account`: shows and renames the account, changes its address, requires a passkey, revokes everything but this session, or
//! closes the account.

use std::cell::RefCell;

use serde_json::json;
use service_api::{
    address_change::AddressChange,
    cli_tokens::{Status, StatusFilter},
    ids::PasskeyId,
    page::Page,
    secure_account::SecuredAccount,
};
use service_client::TokenStore as _;

use super::account_export;
use crate::{
    account_arguments::AccountCommand,
    connection::Connection,
    context::{Context, store_failed},
    duration::format_count,
    failure::{Failure, FailureCode},
    prompt,
    table::{format_date, strip_control},
};

pub(super) async fn run(context: &Context, command: AccountCommand) -> Result<(), Failure> {
    match command {
        AccountCommand::Show => show(context).await,
        AccountCommand::Rename { name } => rename(context, &name).await,
        AccountCommand::ChangeAddress { email: Some(email), .. } => change_address(context, &email).await,
        AccountCommand::ChangeAddress { email: None, .. } => stop_address_change(context).await,
        AccountCommand::RequirePasskey { stop: false } => require_passkey(context).await,
        AccountCommand::RequirePasskey { stop: true } => allow_codes(context).await,
        AccountCommand::Secure { keep_passkeys } => secure(context, &keep_passkeys).await,
        AccountCommand::Delete => delete(context).await,
        AccountCommand::Export { output } => account_export::run(context, output).await,
    }
}

async fn show(context: &Context) -> Result<(), Failure> {
    let connection = Connection::open(context)?;
    let account = connection.call(context, async |client, token| client.read_account(token).await).await?;
    let change = find_address_change(context, &connection).await?;
    let name = account.name.as_deref().map_or("none".to_owned(), strip_control);
    let mut shown = format!(
        "Email:    {}\nName:     {name}\nSign-in:  {}\nCreated:  {}\nID:       {}",
        strip_control(&account.email),
        if account.requires_passkey { "only by passkey or recovery code" } else { "by code or passkey" },
        format_date(account.created_at),
        account.id
    );
    if let Some(change) = &change {
        shown = format!("{shown}\n{}", describe_change(change));
    }
    context.output.result(&json!({ "account": account, "addressChange": change }), &shown)
}

async fn rename(context: &Context, name: &str) -> Result<(), Failure> {
    let connection = Connection::open(context)?;
    let account = connection.call(context, async |client, token| client.rename_account(token, name).await).await?;
    match &account.name {
        Some(name) => context.output.success(&format!("Your name is now {}.", strip_control(name))),
        None => context.output.success("Your name was removed."),
    }
    context.output.result(&json!({ "account": account }), "")
}

async fn change_address(context: &Context, email: &str) -> Result<(), Failure> {
    let connection = Connection::open(context)?;
    let requested = connection.call(context, async |client, token| client.change_address(token, email).await).await?;
    context.output.success(&format!("We sent a link to your address and to {}.", strip_control(&requested.email)));
    let until = format_date(requested.expires_at);
    context.output.info(&format!("Follow both until {until}. Your address changes 24 hours after that."));
    context.output.result(&json!({ "addressChange": requested }), "")
}

async fn stop_address_change(context: &Context) -> Result<(), Failure> {
    let connection = Connection::open(context)?;
    let stopped = connection.call(context, async |client, token| client.stop_address_change(token).await).await;
    stopped.map_err(|failure| match failure.code {
        FailureCode::NotFound => Failure::new(FailureCode::NotFound, "No change of your address is requested."),
        _ => failure,
    })?;
    context.output.success("The change is stopped. Your address stays.");
    context.output.result(&json!({ "stopped": true }), "")
}

async fn require_passkey(context: &Context) -> Result<(), Failure> {
    let connection = Connection::open(context)?;
    context.output.info("A code from your email then no longer signs you in, and you are signed out everywhere else.");
    context.output.info("Without a second passkey or recovery codes, replacing a lost passkey takes 24 hours.");
    let question = "Require a passkey to sign in?";
    if !prompt::confirm_action(context.terminal(), context.global.yes, "require a passkey", question).await? {
        return Err(Failure::new(FailureCode::ConfirmationRequired, "Nothing was changed."));
    }
    let account = connection.call(context, async |client, token| client.require_passkey(token).await).await?;
    context.output.success("From now on, only a passkey or a recovery code signs you in.");
    context.output.result(&json!({ "account": account }), "")
}

async fn allow_codes(context: &Context) -> Result<(), Failure> {
    let connection = Connection::open(context)?;
    connection.call(context, async |client, token| client.allow_codes(token).await).await?;
    context.output.success("A code from your email signs you in again.");
    context.output.result(&json!({ "requiresPasskey": false }), "")
}

/// The change of the address that is requested, if any.
async fn find_address_change(context: &Context, connection: &Connection) -> Result<Option<AddressChange>, Failure> {
    let found = connection.call(context, async |client, token| client.read_address_change(token).await).await;
    match found {
        Ok(found) => Ok(Some(found)),
        Err(failure) if failure.code == FailureCode::NotFound => Ok(None),
        Err(failure) => Err(failure),
    }
}

/// What a requested change waits for.
fn describe_change(change: &AddressChange) -> String {
    let email = strip_control(&change.email);
    let missing = match (change.confirmed_by_current_address, change.confirmed_by_new_address) {
        (false, false) => "both addresses have to confirm it",
        (false, true) => "your current address has to confirm it",
        (true, _) => "the new address has to confirm it",
    };
    match change.changed_on {
        Some(at) => format!("Change:   to {email} on {}", format_date(at)),
        None => format!("Change:   to {email}, {missing} until {}", format_date(change.expires_at)),
    }
}

async fn secure(context: &Context, keep_passkeys: &[String]) -> Result<(), Failure> {
    let keep = keep_passkeys.iter().map(|id| parse_id(id)).collect::<Result<Vec<_>, _>>()?;
    let keep = (!keep.is_empty()).then_some(keep);
    let connection = Connection::open(context)?;
    for thing in list_revoked(context, &connection).await? {
        context.output.info(&format!("- {thing}"));
    }
    let passkeys = if keep.is_some() {
        "every passkey not listed with --keep-passkey"
    } else {
        "passkeys added in the last 7 days"
    };
    let question =
        format!("Revoke all of this, your pending invitations and recovery codes, and {passkeys}? This session stays.");
    if !prompt::confirm_action(context.terminal(), context.global.yes, "secure your account", &question).await? {
        return Err(Failure::new(FailureCode::ConfirmationRequired, "Nothing was revoked."));
    }
    let call = connection.call(context, async |client, token| client.secure_account(token, keep.clone()).await);
    let secured = call.await?;
    context.output.success(&format!("Your account is secured. Revoked {}.", describe(&secured)));
    context
        .output
        .info("If someone could read your email, make sure you have changed the password of your email account.");
    context.output.result(&json!({ "secured": secured }), "")
}

async fn delete(context: &Context) -> Result<(), Failure> {
    let connection = Connection::open(context)?;
    context
        .output
        .info("Your account is closed at once: you are signed out everywhere, and every token stops working.");
    context
        .output
        .info("After 14 days it is erased, with your personal space and your workspaces that have no other member.");
    context.output.info("To take your data with you, run `service account export` first.");
    let question = "Close your account? Until it is erased, a link in an email opens it again.";
    if !prompt::confirm_action(context.terminal(), context.global.yes, "delete your account", question).await? {
        return Err(Failure::new(FailureCode::ConfirmationRequired, "Your account was not closed."));
    }
    let closed = connection.call(context, async |client, token| client.delete_account(token).await).await?;
    if !connection.is_from_environment() {
        context.saved_sign_in(&connection.origin)?.forget().map_err(store_failed)?;
    }
    let date = format_date(closed.erased_on);
    context.output.success(&format!("Your account is closed. It will be erased on {date}."));
    context.output.info("To keep it, follow the link in the email about it, or sign in with a browser before then.");
    context.output.result(&json!({ "deletion": closed }), "")
}

/// What will be revoked, with its last use.
async fn list_revoked(context: &Context, connection: &Connection) -> Result<Vec<String>, Failure> {
    let browsers = RefCell::new(Vec::new());
    let sessions = connection.list_all(context, async |client, token, cursor| {
        let page = client.list_sessions(token, cursor).await?;
        browsers.borrow_mut().extend(page.browsers);
        Ok(Page { data: page.data, next_cursor: page.next_cursor })
    });
    let sessions = sessions.await?;
    let tokens = connection.list_all(context, async |client, token, cursor| {
        client.list_cli_tokens(token, StatusFilter::Only(Status::Active), cursor).await
    });
    let tokens = tokens.await?;
    let apps =
        connection.list_all(context, async |client, token, cursor| client.list_consents(token, cursor).await).await?;
    let mut things = Vec::new();
    for session in sessions.iter().filter(|session| !session.current) {
        let (name, used) = (strip_control(&session.client.name), format_date(session.last_used_at));
        things.push(format!("session of {name}, last used {used} from {}", strip_control(&session.last_used_from)));
    }
    for browser in browsers.into_inner() {
        things.push(format!("browser, last used {}", format_date(browser.last_used_at)));
    }
    for token in &tokens {
        let used = token.last_used_at.map_or("never used".to_owned(), |at| format!("last used {}", format_date(at)));
        things.push(format!("CLI token {}, {used}", strip_control(&token.name)));
    }
    for app in &apps {
        let used = format_date(app.last_used_at);
        things.push(format!("access of the app {}, last used {used}", strip_control(&app.client.name)));
    }
    Ok(things)
}

fn describe(secured: &SecuredAccount) -> String {
    let counts = [
        (secured.sessions, "session"),
        (secured.browsers, "browser"),
        (secured.cli_tokens, "CLI token"),
        (secured.apps, "app"),
        (secured.invitations, "invitation"),
        (secured.passkeys, "passkey"),
    ];
    let counted: Vec<_> =
        counts.into_iter().filter(|(count, _)| *count > 0).map(|(count, unit)| format_count(count, unit)).collect();
    if counted.is_empty() { "nothing: there was nothing else".to_owned() } else { counted.join(", ") }
}

fn parse_id(text: &str) -> Result<PasskeyId, Failure> {
    text.parse().map_err(|_| {
        Failure::new(FailureCode::NotFound, format!("Passkey {} not found.", strip_control(text)))
            .hint("service passkey list")
    })
}
