//! Clients that prove themselves, and what an operator does to clients.

use serde_json::Value;
use service_api::{
    ids::ClientId,
    token::{Client as ClientSecretKind, ClientAssertion, ClientSecret, Token},
};
use service_rules::{
    clients::{Client, Proof},
    registration::{self, Metadata, Registered},
};

use crate::{
    app::App,
    digest::sha256,
    mint,
    store::{self, clients::NewClient},
};

/// Who a request says its client is, and by what it proves it.
#[derive(Default)]
pub struct PresentedClient {
    pub id: Option<String>,
    pub secret: Option<ClientSecret>,
    pub assertion: Option<ClientAssertion>,
}

impl PresentedClient {
    /// What it proves itself by, short of a signature, which has to be verified first.
    #[must_use]
    pub fn proof(&self) -> Proof {
        match (&self.secret, &self.assertion) {
            (None, None) => Proof::Nothing,
            (Some(secret), None) => Proof::Secret(sha256(secret.expose())),
            (_, Some(_)) => Proof::Worthless,
        }
    }
}

/// What an operator wants a client to be.
#[derive(Default)]
pub struct Wanted {
    pub name: String,
    pub redirect_uris: Vec<String>,
    /// It keeps a secret.
    pub with_secret: bool,
    /// It signs; these are its public keys.
    pub jwks: Option<Value>,
    pub may_introspect: bool,
}

/// A client that was made, with the secret that is shown once.
pub struct Made {
    pub id: String,
    pub secret: Option<Token<ClientSecretKind>>,
}

pub async fn create(app: &App, wanted: &Wanted) -> anyhow::Result<Made> {
    let now = app.clock.now();
    let said = check(&wanted.redirect_uris, &wanted.name)?;
    if let Some(jwks) = &wanted.jwks {
        anyhow::ensure!(
            !registration::has_private_key(jwks),
            "the keys hold a private or a shared one; give public keys only"
        );
        anyhow::ensure!(
            jwks["keys"].as_array().is_some_and(|keys| !keys.is_empty()),
            "the file holds no JSON Web Key Set"
        );
    }
    let secret = wanted.with_secret.then(mint::client_secret).transpose()?;
    let made = Made { id: mint::id::<ClientId>(now)?.to_string(), secret };
    let digest = made.secret.as_ref().map(|secret| sha256(secret.expose()));
    let new = NewClient {
        id: &made.id,
        name: &said.name,
        redirect_uris: &said.redirect_uris,
        origins: &said.origins,
        may_introspect: wanted.may_introspect,
        secret: digest.as_ref(),
        jwks: wanted.jwks.as_ref(),
    };
    store::clients::insert(&app.database.connect().await?, &new, now).await?;
    Ok(made)
}

/// A client without redirect URIs asks for no access by browser.
fn check(redirect_uris: &[String], name: &str) -> anyhow::Result<Registered> {
    let wrong = |refusal: registration::Refusal| match refusal {
        registration::Refusal::RedirectUri(text) | registration::Refusal::Metadata(text) => anyhow::anyhow!(text),
    };
    if redirect_uris.is_empty() {
        let name = registration::check_name(name).map_err(wrong)?;
        return Ok(Registered { name, redirect_uris: Vec::new(), origins: Vec::new() });
    }
    let metadata = Metadata {
        client_name: Some(name.to_owned()),
        redirect_uris: Some(redirect_uris.to_vec()),
        ..Metadata::default()
    };
    registration::check(&metadata).map_err(wrong)
}

pub async fn list(app: &App) -> anyhow::Result<Vec<Client>> {
    Ok(store::clients::list(&app.database.connect().await?).await?)
}

/// Disables or enables a client; `false`: it was so already, or there is none such.
pub async fn set_disabled(app: &App, id: &str, disabled: bool) -> anyhow::Result<bool> {
    let at = disabled.then(|| app.clock.now());
    Ok(store::clients::mark_disabled(&app.database.connect().await?, id, at).await?)
}

/// Says where answers to a client may go from now on; `false`: there is none such.
pub async fn set_redirect_uris(app: &App, id: &str, redirect_uris: &[String]) -> anyhow::Result<bool> {
    let said = check(redirect_uris, "any")?;
    Ok(store::clients::update_redirect_uris(&app.database.connect().await?, id, &said).await?)
}

/// Whether pages of an origin belong to some client.
pub async fn is_origin(app: &App, origin: &str) -> anyhow::Result<bool> {
    Ok(store::clients::is_origin(&app.database.connect().await?, origin).await?)
}
