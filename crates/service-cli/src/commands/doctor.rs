//! `service doctor`: what could be wrong on this machine. It shows no secret and changes nothing.

use std::process::ExitCode;

use serde_json::{Value, json};

use crate::{
    connection::Connection,
    context::Context,
    credentials::{Keyring, Place, shown},
    explain,
    failure::{Code, Failure},
    token_variable::check_token,
};

/// One thing that was looked at.
struct Finding {
    name: &'static str,
    good: bool,
    /// Whether the command works without it: then it is told, and nothing is wrong.
    spare: bool,
    said: String,
}

pub(super) async fn run(context: &Context) -> Result<ExitCode, Failure> {
    let mut findings = vec![settings(context), token(context), store(context), keyring(context), browser(context)];
    findings.extend(service(context).await);
    findings.push(credential(context).await);
    let mut lines = Vec::new();
    for Finding { name, good, spare, said } in &findings {
        let mark = match (good, spare) {
            (true, _) => "ok",
            (false, true) => "--",
            (false, false) => "!!",
        };
        lines.push(format!("{mark}   {name:<10}   {said}"));
    }
    let checks: Vec<Value> = findings
        .iter()
        .map(|finding| json!({ "name": finding.name, "ok": finding.good || finding.spare, "message": finding.said }))
        .collect();
    let good = findings.iter().all(|finding| finding.good || finding.spare);
    context.output.result(&json!({ "ok": good, "checks": checks }), &lines.join("\n"))?;
    Ok(ExitCode::from(u8::from(!good)))
}

fn found(name: &'static str, result: Result<String, String>) -> Finding {
    let good = result.is_ok();
    Finding { name, good, spare: false, said: result.unwrap_or_else(|said| said) }
}

/// The same for what the command can do without.
fn spare(name: &'static str, result: Result<String, String>) -> Finding {
    Finding { spare: true, ..found(name, result) }
}

/// Whether the service takes what there is to sign in with.
async fn credential(context: &Context) -> Finding {
    let ask = async {
        let connection = Connection::open(context)?;
        connection.call(context, async |client, token| client.whoami(token, None).await).await
    };
    match ask.await {
        Err(failure) if failure.code == Code::NotSignedIn => {
            spare("accepted", Err("not signed in: service login".into()))
        }
        Err(failure) => found("accepted", Err(failure.message)),
        Ok(whoami) => found("accepted", Ok(format!("the service knows {}", whoami.user.email))),
    }
}

fn settings(context: &Context) -> Finding {
    let origin = context.origin().map_err(|failure| failure.message);
    found("address", origin.map(|origin| format!("{origin}, profile {}", context.profile)))
}

fn token(context: &Context) -> Finding {
    let said = match &context.environment.token {
        None => Ok("SERVICE_TOKEN is not set".to_owned()),
        Some(token) => check_token(token.text())
            .map(|_| "SERVICE_TOKEN is set, looks right, and is used before any sign-in".to_owned())
            .map_err(|failure| failure.message),
    };
    found("token", said)
}

fn store(context: &Context) -> Finding {
    let look = || {
        let origin = context.origin()?;
        let kept = context.kept(&origin)?;
        Ok::<_, Failure>(match kept.record().map_err(crate::context::store_failed)? {
            None => format!("not signed in; a file would be {}", shown(&kept.path())),
            Some(sign_in) if sign_in.place == Place::Keyring => {
                format!("{}, in the system keyring", sign_in.user.email)
            }
            Some(sign_in) => format!("{}, in {} (not encrypted)", sign_in.user.email, shown(&kept.path())),
        })
    };
    found("sign-in", look().map_err(|failure| failure.message))
}

fn keyring(context: &Context) -> Finding {
    let answer = Keyring::probe(&context.environment);
    spare("keyring", answer.map(|()| "it answers".to_owned()).map_err(|why| format!("it does not answer ({why})")))
}

fn browser(context: &Context) -> Finding {
    let environment = &context.environment;
    let said = match (&environment.browser, environment.ssh, environment.display) {
        (Some(_), ..) => Ok("the one that SERVICE_BROWSER or BROWSER names".to_owned()),
        (None, true, _) => Err("this is an SSH session: sign in with a code by mail".to_owned()),
        (None, false, true) => Ok("the system's own".to_owned()),
        (None, false, false) => Err("no display: sign in with a code by mail".to_owned()),
    };
    spare("browser", said)
}

/// Whether the service answers, and is the one it says it is.
async fn service(context: &Context) -> Vec<Finding> {
    let ask = async {
        let origin = context.origin()?;
        let client = context.client(&origin)?;
        let metadata = context.waiting(client.server_metadata()).await;
        let metadata = metadata.map_err(|error| explain::refused_at(&origin, &error))?;
        Ok::<_, Failure>((origin, metadata))
    };
    match ask.await {
        Err(failure) => vec![found("service", Err(failure.message))],
        Ok((origin, metadata)) => {
            let issuer = metadata["issuer"].as_str().unwrap_or_default();
            let same = issuer == origin.as_str();
            let said =
                if same { Ok(format!("{origin} answers")) } else { Err(format!("{origin} calls itself {issuer}")) };
            vec![found("service", said)]
        }
    }
}
