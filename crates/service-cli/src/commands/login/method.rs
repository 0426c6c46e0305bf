//! Chooses how the user signs in: with a browser, or with a code sent by email.

use service_api::oauth::TokenResponse;

use super::{attempt::SignInAttempt, browser, code, options};
use crate::{
    arguments::LoginArgs,
    context::Context,
    credentials::DeviceSecrets,
    explain,
    failure::Failure,
    table::strip_control,
    terminal::{MethodFacts, RequestedMethod, SignInMethod, choose_method},
};

/// Signs in with a method that the arguments, this machine and the user's organization allow.
pub(super) async fn sign_in(attempt: &mut SignInAttempt<'_>, arguments: &LoginArgs) -> Result<TokenResponse, Failure> {
    let context = attempt.context;
    let browser = !arguments.no_browser && can_open_browser(context);
    let mut facts = MethodFacts { requested: arguments.method, browser, sso: false, code: true };
    if let Some(email) = &arguments.email {
        read_options(attempt, email, &mut facts).await?;
    }
    if choose_method(facts) == SignInMethod::Code {
        if facts.requested == RequestedMethod::Auto && !arguments.no_browser {
            let why = if context.environment.ssh { " (SSH session)" } else { "" };
            context.output.info(&format!("No browser available{why}. Signing in with an email code instead."));
        }
        let email = match &arguments.email {
            Some(email) => email.clone(),
            None => attempt.lines.ask("Email: ").await?,
        };
        // The organization of an address that was entered only now can require single sign-on.
        if arguments.email.is_none() {
            read_options(attempt, &email, &mut facts).await?;
        }
        if choose_method(facts) == SignInMethod::Code {
            return code::sign_in(attempt, &email).await;
        }
    }
    browser::sign_in(attempt, choose_method(facts) == SignInMethod::Browser).await
}

/// Asks the service how an email address can sign in.
async fn read_options(attempt: &mut SignInAttempt<'_>, email: &str, facts: &mut MethodFacts) -> Result<(), Failure> {
    let device = DeviceSecrets::open(&attempt.context.environment, attempt.origin)?.find(email);
    let options = attempt.context.spin_while(attempt.client.login_options(email, device.as_ref())).await;
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
fn can_open_browser(context: &Context) -> bool {
    let environment = &context.environment;
    environment.browser.is_some() || environment.wsl || (environment.display && !environment.ssh)
}
