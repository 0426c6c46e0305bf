//! `service login`.
//!
//! 1. whether somebody is there, and whether they are signed in already;
//! 2. where the sign-in will be kept, before anything is opened or sent;
//! 3. how the address signs in, and what this machine can do;
//! 4. the sign-in itself: in a browser, with a code by mail, or with a pasted address;
//! 5. who that is; keep it; end the sign-in before.

mod browser;
mod code;
mod loopback;
mod opener;
mod options;
mod page;
mod pkce;
mod place;

use std::time::Duration;

use serde_json::{Value, json};
use service_api::{
    oauth::{SERVICE_CLI, TokenResponse},
    scope::Scopes,
    token::RefreshToken,
    whoami::Whoami,
};
use service_client::{Access, Client, TokenStore as _, lock_all};

use super::workspace;
use crate::{
    arguments::Login,
    clock,
    context::{Context, kept_failed, store_failed},
    credentials::{Kept, Place, SignIn, Signer, shown},
    explain,
    failure::{Code, Failure},
    origin::Origin,
    output,
    prompt::Lines,
    table::clean,
    terminal::{Method, Wanted, Ways, login_method},
    token_variable::TOKEN_VARIABLE,
};

const SCOPE: &str = "read write";

/// What every way to sign in needs.
struct Attempt<'a> {
    context: &'a Context,
    client: &'a Client,
    origin: &'a Origin,
    lines: Lines,
    /// How long somebody may take.
    patience: Duration,
    /// Where a browser begins; an organisation may have its own.
    authorize_url: String,
}

pub(super) async fn run(context: &Context, arguments: &Login) -> Result<(), Failure> {
    let origin = context.origin()?;
    let kept = context.kept(&origin)?;
    let before = kept.record().map_err(store_failed)?;
    if let Some(sign_in) = before.as_ref().filter(|_| !arguments.force && !context.terminal().may_prompt()) {
        let text = format!("Already signed in as {}.", sign_in.user.email);
        return Err(Failure::new(Code::Usage, text).next("service login --force"));
    }
    if !context.terminal().may_prompt() {
        return Err(Failure::new(Code::NeedsTerminal, "Signing in needs a terminal.")
            .next("in CI or scripts set SERVICE_TOKEN; make one with: service token create --workspace-id <id>"));
    }
    let mut lines = Lines::read();
    if let Some(sign_in) = before.as_ref().filter(|_| !arguments.force) {
        output::instruct(&format!("You are signed in as {} ({}).", sign_in.user.email, named(&kept, sign_in.place)));
        let question = "Sign in again? The current sign-in ends once the new one works.";
        if !lines.agree(question, false).await? {
            return Ok(());
        }
    }
    if context.environment.token.is_some() {
        let text = "SERVICE_TOKEN is set, so commands keep using it. This sign-in is saved for when it is unset.";
        context.output.warn(text);
    }
    let (file, old) = (kept.path(), before.as_ref().map(|sign_in| sign_in.place));
    let place = place::choose(context, arguments, old, &file, &mut lines).await?;

    let client = context.client(&origin)?;
    let authorize_url = format!("{origin}{}", service_api::endpoints::AUTHORIZE.path);
    let patience = Duration::from_secs(arguments.timeout);
    let mut attempt = Attempt { context, client: &client, origin: &origin, lines, patience, authorize_url };
    let tokens = attempt.sign_in(arguments).await?;
    let unkept = tokens.refresh_token.clone();
    match finish(&attempt, &kept, place, tokens).await {
        Ok(done) => Ok(done),
        Err(failure) => {
            // Nobody holds this session: it does not stay open either.
            if !context.is_saved() {
                drop(client.revoke(SERVICE_CLI, &unkept).await);
            }
            Err(failure)
        }
    }
}

async fn finish(attempt: &Attempt<'_>, kept: &Kept, place: Place, tokens: TokenResponse) -> Result<(), Failure> {
    let (context, client) = (attempt.context, attempt.client);
    let whoami = context.waiting(client.whoami(&tokens.access_token, None)).await;
    let whoami = whoami.map_err(|error| explain::refused_at(attempt.origin, &error))?;
    let workspace = attempt.workspace_of(&tokens).await;
    keep(context, client, kept, (place, tokens, &whoami)).await?;
    tell(context, &whoami, workspace.as_ref(), (place, kept)).await
}

impl Attempt<'_> {
    async fn sign_in(&mut self, arguments: &Login) -> Result<TokenResponse, Failure> {
        let context = self.context;
        let opens = !arguments.no_browser && can_open(context);
        let mut ways = Ways { wanted: arguments.method, browser: opens, sso: false, code: true };
        if let Some(email) = &arguments.email {
            self.discover(email, &mut ways).await?;
        }
        let method = login_method(ways);
        if method == Method::Code {
            if ways.wanted == Wanted::Auto && !arguments.no_browser {
                let why = if context.environment.ssh { " (SSH session)" } else { "" };
                context.output.note(&format!("No browser here{why}. Signing in with an email code instead."));
            }
            let email = match &arguments.email {
                Some(email) => email.clone(),
                None => self.lines.ask("Email: ").await?,
            };
            // An address that was typed only now may be one that needs its organisation.
            if arguments.email.is_none() {
                self.discover(&email, &mut ways).await?;
            }
            if login_method(ways) == Method::Code {
                return code::sign_in(self, &email).await;
            }
        }
        browser::sign_in(self, login_method(ways) == Method::Browser).await
    }

    /// Asks how the address signs in.
    async fn discover(&mut self, email: &str, ways: &mut Ways) -> Result<(), Failure> {
        let options = self.context.waiting(self.client.login_options(email)).await;
        let options = options.map_err(|error| explain::refused_at(self.origin, &error))?;
        let found = options::read(&options, self.origin);
        ways.code = found.code;
        let Some(sso) = found.sso else { return Ok(()) };
        ways.sso = sso.required;
        if sso.required || ways.browser {
            let needs = if ways.browser { "." } else { ", which needs a browser." };
            let domain = clean(email.rsplit('@').next().unwrap_or_default());
            self.context.output.note(&format!("{domain} signs in with {}{needs}", sso.name));
            self.authorize_url = sso.authorize_url.unwrap_or_else(|| self.authorize_url.clone());
        }
        Ok(())
    }

    /// The workspace that the tokens work in, with its name if it can be had.
    async fn workspace_of(&self, tokens: &TokenResponse) -> Option<Value> {
        let id = tokens.workspace_id?;
        let read = self.client.read_workspace(&tokens.access_token, id).await.ok();
        Some(json!({ "id": id, "name": read.map(|workspace| workspace.name) }))
    }
}

/// Whether a browser of this machine could be the user's.
fn can_open(context: &Context) -> bool {
    let environment = &context.environment;
    environment.browser.is_some() || environment.wsl || (environment.display && !environment.ssh)
}

/// Keeps the new sign-in, and only then ends the one before.
async fn keep(
    context: &Context,
    client: &Client,
    kept: &Kept,
    (place, tokens, whoami): (Place, TokenResponse, &Whoami),
) -> Result<(), Failure> {
    let access = Access::of(&tokens, clock::now());
    let sign_in = SignIn {
        user: Signer { id: whoami.user.id, email: whoami.user.email.clone() },
        place,
        entry: (place == Place::Keyring).then(pkce::random).transpose()?,
        workspace: None,
        scopes: Scopes::parse(&tokens.scope),
        access_token: access.token,
        access_expires_at: access.expires_at,
        refresh_token: Some(tokens.refresh_token),
    };
    let locks = lock_all(kept.locks().map_err(store_failed)?).await.map_err(kept_failed)?;
    let before = kept.record().map_err(store_failed)?;
    let old: Option<RefreshToken> = kept.refresh_token().ok().flatten();
    kept.put(sign_in).map_err(store_failed)?;
    context.mark_saved();
    let forgotten = before.as_ref().map_or(Ok(()), |before| kept.forget_entry(before));
    drop(locks);
    if forgotten.is_err() {
        context.output.warn("The sign-in before could not be removed from the system keyring.");
    }
    // With either token of the pair: the keyring may have kept the other to itself.
    let ended = match (old, before) {
        (Some(old), _) => client.revoke(SERVICE_CLI, &old).await,
        (None, Some(before)) => client.revoke_access(SERVICE_CLI, &before.access_token).await,
        (None, None) => Ok(()),
    };
    if ended.is_err() {
        context.output.warn("The sign-in before could not be ended on the server. See: service session list");
    }
    Ok(())
}

async fn tell(
    context: &Context,
    whoami: &Whoami,
    workspace: Option<&Value>,
    (place, kept): (Place, &Kept),
) -> Result<(), Failure> {
    context.output.good(&format!("Signed in as {}", whoami.user.email));
    let space = match workspace {
        None => "your personal space".to_owned(),
        Some(workspace) => match workspace["name"].as_str() {
            Some(name) => format!("{} ({})", clean(name), workspace["id"].as_str().unwrap_or_default()),
            None => workspace["id"].as_str().unwrap_or_default().to_owned(),
        },
    };
    context.output.note(&format!("  Workspace: {space}   Saved in: {}", named(kept, place)));
    let shadowed = context.environment.token.is_some();
    if shadowed {
        let space = workspace::of_token(context).await.map(|space| format!(" ({})", space.shown())).unwrap_or_default();
        context.output.warn(&format!("Still using SERVICE_TOKEN{space}. To use this sign-in: unset SERVICE_TOKEN"));
    }
    let object = json!({
        "status": "signed_in",
        "user": whoami.user,
        "workspace": workspace,
        "scopes": whoami.credential.scopes,
        "store": place,
        "shadowedBy": shadowed.then_some(TOKEN_VARIABLE),
    });
    context.output.result(&object, "")
}

fn named(kept: &Kept, place: Place) -> String {
    match place {
        Place::Keyring => "system keyring".to_owned(),
        Place::File => shown(&kept.path()),
    }
}
