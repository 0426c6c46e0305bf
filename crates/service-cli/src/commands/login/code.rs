//! Signs in with a code sent by email, which needs no browser.

use std::time::{Duration, Instant};

use service_api::{
    errors::ErrorCode,
    oauth::{SERVICE_CLI, TokenResponse},
    sign_in::OtpRequested,
    token::{DeviceSecret, OtpCode},
};
use service_client::{EnteredCode, Refusal};

use super::attempt::SignInAttempt;
use crate::{
    credentials::DeviceSecrets,
    duration::format_duration,
    explain,
    failure::{Failure, FailureCode},
    output,
};

/// How many wrong codes the user can enter before the command offers a new one. The service counts too, but does not say
/// how many attempts are left.
const MAX_WRONG_CODES: u32 = 3;

/// What came of a sign-in with a code.
pub(super) enum CodeSignIn {
    SignedIn(TokenResponse),
    /// The user corrected the email address.
    OtherAddress(String),
    /// The code is right, but the account requires a passkey.
    NeedsPasskey,
}

/// What came of the codes that the user entered.
enum CodeEntry {
    Done(CodeSignIn),
    /// A new code is needed: too many wrong ones were entered, or the code has expired.
    Rejected(FailureCode),
}

pub(super) async fn sign_in(attempt: &mut SignInAttempt<'_>, email: &str) -> Result<CodeSignIn, Failure> {
    let devices = DeviceSecrets::open(&attempt.context.environment, attempt.origin)?;
    let device = devices.find(email);
    loop {
        let requested = request_code(attempt, email, device.as_ref()).await?;
        let code = match enter_code(attempt, &requested, device.as_ref()).await? {
            CodeEntry::Done(done) => {
                if let CodeSignIn::SignedIn(tokens) = &done {
                    save_device(attempt, &devices, email, tokens).await;
                }
                return Ok(done);
            }
            CodeEntry::Rejected(code) => code,
        };
        if !attempt.lines.confirm(&format!("Send a new code to {email}?"), true).await? {
            let command = format!("service login --email {email} --method code");
            return Err(Failure::new(code, "Not signed in. Nothing was saved.").hint(command));
        }
    }
}

/// Saves the device secret for the next sign-in. A failure is only a warning, because signing in works without it.
async fn save_device(attempt: &SignInAttempt<'_>, devices: &DeviceSecrets, email: &str, tokens: &TokenResponse) {
    let Some(secret) = &tokens.device else { return };
    if devices.save(email, secret.clone()).await.is_err() {
        attempt.context.output.warn("Couldn't remember this computer for your next sign-in with a code.");
    }
}

async fn request_code(
    attempt: &SignInAttempt<'_>,
    email: &str,
    device: Option<&DeviceSecret>,
) -> Result<OtpRequested, Failure> {
    let requested = attempt.client.request_otp(email, SERVICE_CLI, device);
    let requested = attempt.context.wait_for("Sending you a code", requested).await;
    let requested =
        requested.map_err(|error| explain_error(attempt, &error, "Too many codes were requested for this address."))?;
    let (length, lifetime) = (requested.code_length, format_duration(lifetime(&requested)));
    let article = if matches!(length, 8 | 11 | 18) { "an" } else { "a" };
    output::print_instruction(&format!("We sent {article} {length}-digit code to {email}. It expires in {lifetime}."));
    if !attempt.reauthenticate {
        attempt.context.output.info("Wrong address? Enter the right one instead of the code.");
    }
    Ok(requested)
}

fn lifetime(requested: &OtpRequested) -> Duration {
    Duration::from_secs(requested.expires_in.unsigned_abs())
}

/// Prompts for the code until it is right, or until a new one is needed.
async fn enter_code(
    attempt: &mut SignInAttempt<'_>,
    requested: &OtpRequested,
    device: Option<&DeviceSecret>,
) -> Result<CodeEntry, Failure> {
    let (context, requested_at) = (attempt.context, Instant::now());
    let mut wrong_codes = 0;
    while wrong_codes < MAX_WRONG_CODES {
        let typed = attempt.lines.ask("Code: ").await?;
        if typed.contains('@') && !attempt.reauthenticate {
            return Ok(CodeEntry::Done(CodeSignIn::OtherAddress(typed)));
        }
        let digits: String = typed.chars().filter(char::is_ascii_digit).collect();
        // Input that cannot be the code is not sent, and does not count as an attempt.
        if digits.len() != requested.code_length || typed.chars().any(char::is_alphabetic) {
            context.output.error(&format!("The code has {} digits.", requested.code_length));
            continue;
        }
        let entered = EnteredCode { otp_id: requested.otp_id, code: OtpCode::new(digits) };
        let exchange = attempt.client.exchange_otp(SERVICE_CLI, entered, &attempt.scope, device);
        match context.wait_for("Checking the code", exchange).await {
            Ok(tokens) => return Ok(CodeEntry::Done(CodeSignIn::SignedIn(tokens))),
            Err(error) if error.refusal().is_some_and(Refusal::needs_passkey) => {
                return Ok(CodeEntry::Done(CodeSignIn::NeedsPasskey));
            }
            Err(error) if error.is_code(ErrorCode::InvalidGrant) => wrong_codes += 1,
            Err(error) => return Err(explain_error(attempt, &error, "Too many wrong codes were entered.")),
        }
        if requested_at.elapsed() >= lifetime(requested) {
            context.output.error("That code has expired.");
            return Ok(CodeEntry::Rejected(FailureCode::CodeExpired));
        }
        context.output.error("That code is wrong.");
    }
    Ok(CodeEntry::Rejected(FailureCode::CodeWrong))
}

/// Explains an error; `rate_limit` says what happened too often.
fn explain_error(attempt: &SignInAttempt<'_>, error: &service_client::Error, rate_limit: &str) -> Failure {
    match error.refusal() {
        Some(refusal) if refusal.status == 429 => explain::rate_limited(refusal, rate_limit),
        _ => explain::explain_error(attempt.origin, error),
    }
}
