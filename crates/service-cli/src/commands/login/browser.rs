//! Signing in with a browser: it comes back to this machine by itself, or somebody pastes the address it ended on.

use std::{sync::Arc, time::Duration};

use service_api::{
    oauth::{SERVICE_CLI, TokenResponse},
    token::{CodeVerifier, OtpCode},
};
use tokio::time::{Instant, sleep_until};
use url::Url;

use super::{
    Attempt, SCOPE,
    loopback::{Arrival, Expected, Loopback},
    opener,
    pkce::Proof,
};
use crate::{
    explain,
    failure::{Code, Failure},
    output,
};

const PASTE: &str = "No luck? Paste the address your browser ended on: ";
const PASTE_ONLY: &str = "Paste the address here: ";

/// With `here`, a browser of this machine is opened; else the address is for one elsewhere.
pub(super) async fn sign_in(attempt: &mut Attempt<'_>, here: bool) -> Result<TokenResponse, Failure> {
    let Proof { verifier, challenge, state } = Proof::draw()?;
    let expected = Arc::new(Expected { state, issuer: attempt.origin.as_str().to_owned() });
    let mut door = Loopback::open(expected.clone())
        .await
        .map_err(|error| Failure::new(Code::RequestFailed, format!("No browser can come back here: {error}.")))?;
    let redirect_uri = format!("http://127.0.0.1:{}/callback", door.port);
    let url = authorize_url(attempt, &redirect_uri, &challenge, &expected.state)?;
    announce(attempt, here, &url, &redirect_uri);

    let answer = wait(attempt, &mut door, &expected, here).await;
    output::clear_line();
    let (arrival, by_browser) = match answer {
        Ok(answer) => answer,
        Err(failure) => {
            door.close(false, false).await;
            return Err(failure);
        }
    };
    let tokens =
        match arrival {
            Arrival::Code(code) => exchange(attempt, code, verifier, &redirect_uri).await,
            _ => Err(Failure::new(Code::Denied, "Sign-in was refused in the browser. Nothing was saved.")
                .next("service login")),
        };
    door.close(tokens.is_ok(), by_browser).await;
    tokens
}

fn authorize_url(attempt: &Attempt<'_>, redirect_uri: &str, challenge: &str, state: &str) -> Result<Url, Failure> {
    let mut url = Url::parse(&attempt.authorize_url)
        .map_err(|_| Failure::new(Code::RequestFailed, "The service names no address to sign in at."))?;
    url.query_pairs_mut()
        .append_pair("response_type", "code")
        .append_pair("client_id", SERVICE_CLI)
        .append_pair("redirect_uri", redirect_uri)
        .append_pair("scope", SCOPE)
        .append_pair("state", state)
        .append_pair("code_challenge", challenge)
        .append_pair("code_challenge_method", "S256");
    Ok(url)
}

fn announce(attempt: &Attempt<'_>, here: bool, url: &Url, redirect_uri: &str) {
    let context = attempt.context;
    if !here {
        output::instruct("1. Open this on any computer:");
        output::instruct(&format!("     {url}"));
        output::instruct(&format!("2. When the page fails to load ({redirect_uri}?...), copy its whole address."));
        output::ask(PASTE_ONLY);
        return;
    }
    output::instruct(&format!("Opening your browser to sign in to {}", attempt.origin));
    output::instruct(&format!("  {url}"));
    if !opener::open(&attempt.context.environment, url.as_str()) {
        context.output.warn("The browser did not open. Open the address above yourself.");
    }
    let patience = spoken(attempt.patience);
    output::instruct(&format!("Waiting for you to finish there ({patience}, Ctrl-C to stop)."));
    output::ask(PASTE);
}

fn spoken(patience: Duration) -> String {
    match (patience.as_secs() / 60, patience.as_secs()) {
        (_, 1) => "1 second".to_owned(),
        (0 | 1, seconds) => format!("{seconds} seconds"),
        (minutes, _) => format!("{minutes} minutes"),
    }
}

/// The answer, and whether a browser brought it.
async fn wait(
    attempt: &mut Attempt<'_>,
    door: &mut Loopback,
    expected: &Expected,
    here: bool,
) -> Result<(Arrival, bool), Failure> {
    let deadline = Instant::now() + attempt.patience;
    let mut typing = true;
    loop {
        tokio::select! {
            Some(arrival) = door.arrival() => return Ok((arrival, true)),
            line = attempt.lines.next(), if typing => match line {
                // Nobody types any more; the browser can still come back.
                None => typing = false,
                Some(line) => {
                    let judged = Url::parse(&line).map(|url| expected.judge(&url));
                    if let Ok(arrival @ (Arrival::Code(_) | Arrival::Denied)) = judged {
                        return Ok((arrival, false));
                    }
                    if !line.is_empty() {
                        let text = "That address belongs to a different sign-in. Paste the one from the page opened just now.";
                        attempt.context.output.wrong(text);
                    }
                    output::ask(if here { PASTE } else { PASTE_ONLY });
                }
            },
            () = sleep_until(deadline) => {
                let patience = spoken(attempt.patience);
                let text = format!("Nobody finished the sign-in within {patience}. Nothing was saved.");
                return Err(Failure::new(Code::TimedOutWaiting, text).next("service login"));
            }
        }
    }
}

async fn exchange(
    attempt: &Attempt<'_>,
    code: OtpCode,
    verifier: CodeVerifier,
    redirect_uri: &str,
) -> Result<TokenResponse, Failure> {
    let exchanged = attempt.client.exchange_code(SERVICE_CLI, code, verifier, redirect_uri);
    attempt.context.waiting(exchanged).await.map_err(|error| explain::refused_at(attempt.origin, &error))
}
