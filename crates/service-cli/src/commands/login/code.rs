//! Signing in with a code by mail: the way that needs no browser.

use std::time::{Duration, Instant};

use service_api::{
    errors::ErrorCode,
    oauth::{SERVICE_CLI, TokenResponse},
    sign_in::OtpRequested,
    token::OtpCode,
};

use super::{Attempt, SCOPE};
use crate::{
    explain,
    failure::{Code, Failure},
    output,
};

/// After so many wrong codes a new one is offered. The service, which counts, does not say how many are left.
const TRIES: u32 = 3;

pub(super) async fn sign_in(attempt: &mut Attempt<'_>, email: &str) -> Result<TokenResponse, Failure> {
    loop {
        let sent = send(attempt, email).await?;
        let code = match enter(attempt, &sent).await? {
            Ok(tokens) => return Ok(tokens),
            Err(code) => code,
        };
        if !attempt.lines.agree(&format!("Send a new code to {email}?"), true).await? {
            let again = format!("service login --email {email} --method code");
            return Err(Failure::new(code, "Not signed in. Nothing was saved.").next(again));
        }
    }
}

async fn send(attempt: &Attempt<'_>, email: &str) -> Result<OtpRequested, Failure> {
    let context = attempt.context;
    let sent = context.waiting(attempt.client.request_otp(email, SERVICE_CLI)).await;
    let sent = sent.map_err(|error| match error.refusal() {
        Some(refusal) if refusal.status == 429 => {
            explain::too_many(refusal, "Too many codes were requested for this address.")
        }
        _ => explain::refused_at(attempt.origin, &error),
    })?;
    let minutes = sent.expires_in / 60;
    let text = format!("We sent a code of {} digits to {email}. It works for {minutes} minutes.", sent.code_length);
    output::instruct(&text);
    Ok(sent)
}

/// Lets a code be typed until it is right, or a new one is needed.
async fn enter(attempt: &mut Attempt<'_>, sent: &OtpRequested) -> Result<Result<TokenResponse, Code>, Failure> {
    let (context, sent_at) = (attempt.context, Instant::now());
    let lifetime = Duration::from_secs(sent.expires_in.unsigned_abs());
    let mut tries = 0;
    while tries < TRIES {
        let typed = attempt.lines.ask("Code: ").await?;
        let digits: String = typed.chars().filter(char::is_ascii_digit).collect();
        // What cannot be the code costs no try.
        if digits.len() != sent.code_length || typed.chars().any(char::is_alphabetic) {
            context.output.wrong(&format!("A code has {} digits.", sent.code_length));
            continue;
        }
        let asked = attempt.client.exchange_otp(SERVICE_CLI, sent.otp_id, OtpCode::new(digits), SCOPE);
        match context.waiting(asked).await {
            Ok(tokens) => return Ok(Ok(tokens)),
            Err(error) if error.is_code(ErrorCode::InvalidGrant) => tries += 1,
            Err(error) => return Err(too_often(attempt, &error)),
        }
        if sent_at.elapsed() >= lifetime {
            context.output.wrong("That code has expired.");
            return Ok(Err(Code::Outdated));
        }
        context.output.wrong("That code is not right.");
    }
    Ok(Err(Code::Mistyped))
}

fn too_often(attempt: &Attempt<'_>, error: &service_client::Error) -> Failure {
    match error.refusal() {
        Some(refusal) if refusal.status == 429 => explain::too_many(refusal, "Too many wrong codes were entered."),
        _ => explain::refused_at(attempt.origin, error),
    }
}
