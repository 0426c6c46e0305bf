//! Clients that prove themselves, and making one.

use service_api::token::{Client, ClientSecret, Token};
use service_rules::clients::SecretDigest;

use crate::{app::App, digest::sha256, mint, store};

/// Who a request says its client is, and by what it proves it.
pub struct PresentedClient {
    pub id: Option<String>,
    pub secret: Option<ClientSecret>,
}

impl PresentedClient {
    /// What the secret is compared by.
    #[must_use]
    pub fn digest(&self) -> Option<SecretDigest> {
        self.secret.as_ref().map(|secret| sha256(secret.expose()))
    }
}

/// A client with a secret that is shown once.
pub struct NewClient {
    pub id: String,
    pub secret: Token<Client>,
}

/// Makes a client that may ask what tokens are worth.
pub async fn create_introspecting(app: &App, name: &str) -> anyhow::Result<NewClient> {
    let now = app.clock.now();
    let client =
        NewClient { id: mint::id::<service_api::ids::ClientId>(now)?.to_string(), secret: mint::client_secret()? };
    let db = app.database.connect().await?;
    store::clients::insert_introspecting(&db, &client.id, name, &sha256(client.secret.expose()), now).await?;
    Ok(client)
}
