//! Signs in with the stock crate `oauth2`.
//!
//! Prints the address that a person has to open, and reads where the browser was sent afterwards.

use std::{env, io};

use anyhow::{Context as _, Result, ensure};
use oauth2::{
    AuthUrl, AuthorizationCode, ClientId, CsrfToken, PkceCodeChallenge, RedirectUrl, Scope, TokenResponse as _, TokenUrl,
    basic::BasicClient, reqwest::{blocking, redirect::Policy},
};

fn main() -> Result<()> {
    let issuer = env::var("ISSUER")?;
    let client = BasicClient::new(ClientId::new(env::var("CLIENT_ID")?))
        .set_auth_uri(AuthUrl::new(format!("{issuer}/oauth/authorize"))?)
        .set_token_uri(TokenUrl::new(format!("{issuer}/oauth/token"))?)
        .set_redirect_uri(RedirectUrl::new(env::var("REDIRECT_URI")?)?);
    let (challenge, verifier) = PkceCodeChallenge::new_random_sha256();
    let (address, state) = client
        .authorize_url(CsrfToken::new_random)
        .add_scope(Scope::new("read".into()))
        .set_pkce_challenge(challenge)
        .url();
    println!("{address}");
    let mut answered = String::new();
    io::stdin().read_line(&mut answered)?;
    let answered = oauth2::url::Url::parse(answered.trim())?;
    let parameter = |name: &str| answered.query_pairs().find(|(known, _)| known == name).map(|(_, value)| value.into_owned());
    ensure!(parameter("state").as_deref() == Some(state.secret()), "another state");
    let http = blocking::ClientBuilder::new().redirect(Policy::none()).build()?;
    let code = AuthorizationCode::new(parameter("code").context("no code")?);
    let tokens = client.exchange_code(code).set_pkce_verifier(verifier).request(&http)?;
    let refresh_token = tokens.refresh_token().context("no refresh token")?;
    let fresh = client.exchange_refresh_token(refresh_token).request(&http)?;
    let who = http.get(format!("{issuer}/v1/whoami")).bearer_auth(fresh.access_token().secret()).send()?;
    ensure!(who.status() == 200, "whoami answers {}", who.status());
    println!("signed in and refreshed");
    Ok(())
}
