//! Signs in with a browser, which redirects back to this machine, or whose final URL the user pastes.

use std::sync::Arc;

use service_api::{
    oauth::{SERVICE_CLI, TokenResponse},
    token::{CodeVerifier, OtpCode},
};
use tokio::time::{Instant, sleep_until};
use url::Url;

use super::{
    attempt::SignInAttempt,
    loopback::{Callback, ExpectedCallback, LoopbackServer},
    opener,
    pkce::PkceProof,
};
use crate::{
    duration::format_duration,
    explain,
    failure::{Failure, FailureCode},
    output,
};

/// The `max_age` of a sign-in that a command asks for.
const RECENT_SIGN_IN_SECONDS: &str = "900";
const PASTE_OR_WAIT_PROMPT: &str = "Browser didn't return? Paste the URL it ended on: ";
const PASTE_PROMPT: &str = "Paste the URL here: ";
const PASTE_WARNING: &str =
    "Never paste the URL your browser ends on anywhere else: anyone who has it can sign in as you.";

/// A callback, and whether a browser is waiting for the result.
struct ReceivedCallback {
    callback: Callback,
    from_browser: bool,
}

/// Signs in with a browser: opens one if `open_here`, otherwise prints the URL for a browser on another machine.
pub(super) async fn sign_in(attempt: &mut SignInAttempt<'_>, open_here: bool) -> Result<TokenResponse, Failure> {
    let PkceProof { verifier, challenge, state } = PkceProof::generate()?;
    let expected = Arc::new(ExpectedCallback { state, issuer: attempt.origin.as_str().to_owned() });
    let mut server = LoopbackServer::start(expected.clone()).await.map_err(|error| {
        Failure::new(FailureCode::RequestFailed, format!("Can't listen on 127.0.0.1 for the browser: {error}."))
    })?;
    let redirect_uri = format!("http://127.0.0.1:{}/callback", server.port);
    let url = build_authorize_url(attempt, &redirect_uri, &challenge, &expected.state)?;
    if open_here {
        open_browser(attempt, &url);
    } else {
        print_url(&url, &redirect_uri);
    }

    let received = wait_for_callback(attempt, &mut server, &expected, open_here).await;
    output::clear_line();
    let ReceivedCallback { callback, from_browser } = match received {
        Ok(received) => received,
        Err(failure) => {
            server.stop(false, false).await;
            return Err(failure);
        }
    };
    let tokens = match callback {
        Callback::Code(code) => exchange_code(attempt, code, verifier, &redirect_uri).await,
        _ => Err(Failure::new(FailureCode::Denied, "Sign-in was cancelled in the browser. Nothing was saved.")
            .hint("service login")),
    };
    server.stop(tokens.is_ok(), from_browser).await;
    tokens
}

fn build_authorize_url(
    attempt: &SignInAttempt<'_>,
    redirect_uri: &str,
    challenge: &str,
    state: &str,
) -> Result<Url, Failure> {
    let mut url = Url::parse(&attempt.authorize_url)
        .map_err(|_| Failure::new(FailureCode::RequestFailed, "The service has no valid URL to sign in at."))?;
    url.query_pairs_mut()
        .append_pair("response_type", "code")
        .append_pair("client_id", SERVICE_CLI)
        .append_pair("redirect_uri", redirect_uri)
        .append_pair("scope", &attempt.scope)
        .append_pair("state", state)
        .append_pair("code_challenge", challenge)
        .append_pair("code_challenge_method", "S256");
    if attempt.reauthenticate {
        url.query_pairs_mut().append_pair("max_age", RECENT_SIGN_IN_SECONDS);
    }
    if let Some(email) = &attempt.login_hint {
        url.query_pairs_mut().append_pair("login_hint", email);
    }
    Ok(url)
}

/// Prints the URL for a browser on another machine, and prompts for the URL that it ends on.
fn print_url(url: &Url, redirect_uri: &str) {
    output::print_instruction("1. Open this URL on any computer and sign in:");
    output::print_instruction(&format!("     {url}"));
    output::print_instruction(&format!("2. The last page fails to load ({redirect_uri}?...). Copy its full URL."));
    output::print_instruction(&format!("   {PASTE_WARNING}"));
    output::print_prompt(PASTE_PROMPT);
}

/// Opens a browser on this machine.
fn open_browser(attempt: &SignInAttempt<'_>, url: &Url) {
    output::print_instruction(&format!("Opening your browser to sign in to {}", attempt.origin));
    output::print_instruction(&format!("  {url}"));
    if !opener::open(&attempt.context.environment, url.as_str()) {
        attempt.context.output.warn("Couldn't open a browser. Open the URL above yourself.");
    }
    let timeout = format_duration(attempt.timeout);
    output::print_instruction(&format!("Waiting for you to finish in the browser ({timeout}, Ctrl-C to stop)."));
    output::print_instruction(PASTE_WARNING);
    output::print_prompt(PASTE_OR_WAIT_PROMPT);
}

/// Waits for a browser that returns, or for a URL that the user pastes.
async fn wait_for_callback(
    attempt: &mut SignInAttempt<'_>,
    server: &mut LoopbackServer,
    expected: &ExpectedCallback,
    open_here: bool,
) -> Result<ReceivedCallback, Failure> {
    let deadline = Instant::now() + attempt.timeout;
    let mut has_input = true;
    loop {
        tokio::select! {
            Some(callback) = server.next_callback() => return Ok(ReceivedCallback { callback, from_browser: true }),
            line = attempt.lines.next(), if has_input => match line {
                // The input has ended, but the browser can still return.
                None => has_input = false,
                Some(line) => {
                    let parsed = Url::parse(&line).map(|url| expected.check_url(&url));
                    if let Ok(callback @ (Callback::Code(_) | Callback::Denied)) = parsed {
                        return Ok(ReceivedCallback { callback, from_browser: false });
                    }
                    if !line.is_empty() {
                        let text = "That URL is from a different sign-in. Paste the one from the page you just opened.";
                        attempt.context.output.error(text);
                    }
                    output::print_prompt(if open_here { PASTE_OR_WAIT_PROMPT } else { PASTE_PROMPT });
                }
            },
            () = sleep_until(deadline) => {
                let timeout = format_duration(attempt.timeout);
                let text = format!("Sign-in timed out after {timeout}. Nothing was saved.");
                return Err(Failure::new(FailureCode::LoginTimeout, text).hint("service login"));
            }
        }
    }
}

async fn exchange_code(
    attempt: &SignInAttempt<'_>,
    code: OtpCode,
    verifier: CodeVerifier,
    redirect_uri: &str,
) -> Result<TokenResponse, Failure> {
    let exchange = attempt.client.exchange_code(SERVICE_CLI, code, verifier, redirect_uri);
    attempt
        .context
        .wait_for("Finishing the sign-in", exchange)
        .await
        .map_err(|error| explain::explain_error(attempt.origin, &error))
}
