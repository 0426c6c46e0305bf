//! Lists the projects that a CLI token gives access to.

use std::{
    env,
    io::{self, Write as _},
};

use anyhow::{Context as _, Result};
use service_api::{contents::Kind, errors::ErrorCode, token::AccessToken};
use service_client::{Client, Error};

#[tokio::main]
async fn main() -> Result<()> {
    let client = Client::new(&variable("SERVICE_API_URL")?)?;
    // The type hides the token from `Debug`, and the environment hides it from other users, which arguments do not.
    let token = AccessToken::new(variable("SERVICE_TOKEN")?);
    match list_projects(&client, &token).await {
        Err(error) if error.is_code(ErrorCode::InvalidToken) => {
            anyhow::bail!("The token has expired or was revoked. Create a new one.")
        }
        // The message has the id of the request, by which the operator finds it in the log.
        result => Ok(result?),
    }
}

#[expect(clippy::disallowed_methods, reason = "the server has settings instead; this program has its environment")]
fn variable(name: &str) -> Result<String> {
    env::var(name).with_context(|| format!("set {name}"))
}

/// Prints every project, page after page.
async fn list_projects(client: &Client, token: &AccessToken) -> Result<(), Error> {
    let mut cursor = None;
    loop {
        let page = client.list_contents(token, Kind::Project, None, cursor.as_deref()).await?;
        let mut out = io::stdout().lock();
        for project in page.data {
            let name = project.fields.get("name").and_then(|name| name.as_str()).unwrap_or_default();
            // A reader that has seen enough closes the pipe.
            if writeln!(out, "{}  {name}", project.id).is_err() {
                return Ok(());
            }
        }
        cursor = page.next_cursor;
        if cursor.is_none() {
            return Ok(());
        }
    }
}
