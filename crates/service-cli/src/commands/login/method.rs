//! Chooses how the user signs in: with a browser, or with a code sent by email.

use service_api::oauth::TokenResponse;

use super::{
    attempt::SignInAttempt,
    browser,
    code::{self, CodeSignIn},
    options,
};
use crate::{
    arguments::LoginArgs,
    context::Context,
    credentials::DeviceSecrets,
    explain,
    failure::{Failure, FailureCode},
    table::strip_control,
    terminal::{MethodFacts, RequestedMethod, SignInMethod, choose_method},
};

const EMAIL_PROMPT: &str = "Email: ";

/// Signs in with a method that the arguments, this machine and the user's organization allow. Asks for the email address again
/// if it is not one, or if the user corrects it.
pub(super) async fn sign_in(attempt: &mut SignInAttempt<'_>, arguments: &LoginArgs) -> Result<TokenResponse, Failure> {
    let context = attempt.context;
    let browser = !arguments.no_browser && can_open_browser(context);
    let authorize_url = attempt.authorize_url.clone();
    let mut is_announced = arguments.no_browser || arguments.method != RequestedMethod::Auto;
    let mut email = arguments.email.clone();
    loop {
        let mut facts = MethodFacts { requested: arguments.method, browser, sso: false, code: true };
        attempt.authorize_url.clone_from(&authorize_url);
        if email.is_none() && choose_method(facts) == SignInMethod::Code {
            announce_code(context, &mut is_announced);
            email = Some(attempt.lines.ask(EMAIL_PROMPT).await?);
        }
        if let Some(address) = &email {
            match read_options(attempt, address, &mut facts).await {
                Err(failure) if failure.code == FailureCode::InvalidInput && !attempt.reauthenticate => {
                    context.output.error("That isn't a valid email address.");
                    email = Some(attempt.lines.ask(EMAIL_PROMPT).await?);
                    continue;
                }
                read => read?,
            }
        }
        attempt.login_hint.clone_from(&email);
        match (choose_method(facts), &email) {
            (SignInMethod::Code, Some(address)) => {
                announce_code(context, &mut is_announced);
                match code::sign_in(attempt, address).await? {
                    CodeSignIn::SignedIn(tokens) => return Ok(tokens),
                    CodeSignIn::OtherAddress(other) => email = Some(other),
                    CodeSignIn::NeedsPasskey => {
                        context.output.info("Your account requires a passkey, which needs a browser.");
                        return browser::sign_in(attempt, browser).await;
                    }
                }
            }
            (method, _) => return browser::sign_in(attempt, method == SignInMethod::Browser).await,
        }
    }
}

/// Says once why the command signs in with a code.
fn announce_code(context: &Context, is_announced: &mut bool) {
    if !std::mem::replace(is_announced, true) {
        let why = if context.environment.ssh { " (SSH session)" } else { "" };
        context.output.info(&format!("No browser available{why}. Signing in with an email code instead."));
    }
}

/// Asks the service how an email address can sign in.
async fn read_options(attempt: &mut SignInAttempt<'_>, email: &str, facts: &mut MethodFacts) -> Result<(), Failure> {
    let device = DeviceSecrets::open(&attempt.context.environment, attempt.origin)?.find(email);
    let options = attempt.client.login_options(email, device.as_ref());
    let options = attempt.context.wait_for("Checking how you sign in", options).await;
    let options = options.map_err(|error| explain::explain_error(attempt.origin, &error))?;
    let options = options::parse_options(&options, attempt.origin);
    facts.code = options.code;
    let Some(sso) = options.sso else { return Ok(()) };
    facts.sso = sso.required;
    if sso.required || facts.browser {
        let needs = if facts.browser { "." } else { ", which needs a browser." };
        let domain = strip_control(email.rsplit('@').next().unwrap_or_default());
        attempt.context.output.info(&format!("Users of {domain} sign in with {}{needs}", sso.name));
        attempt.authorize_url = sso.authorize_url.unwrap_or_else(|| attempt.authorize_url.clone());
    }
    Ok(())
}

/// Whether a browser on this machine is likely the user's own.
pub(in crate::commands) fn can_open_browser(context: &Context) -> bool {
    let environment = &context.environment;
    environment.browser.is_some() || environment.wsl || (environment.display && !environment.ssh)
}
