//! A browser without eyes: one tab, its cookie, and the forms of the page that it shows.
//!
//! It sends what a browser sends and follows nothing by itself, so that a test sees every step.

use std::sync::{Mutex, PoisonError};

use anyhow::{Context as _, Result};
use reqwest::{Client, Method, RequestBuilder, StatusCode, header::HeaderMap, redirect::Policy};

use crate::{leaks::Leaks, mailbox::Mailbox, server::TestServer};

pub struct Tab {
    client: Client,
    base: String,
    leaks: Leaks,
    cookie: Mutex<Option<String>>,
    /// What the last page's forms carry.
    csrf: Mutex<String>,
}

/// What a request was answered with.
pub struct Shown {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub text: String,
    /// Where the browser is sent.
    pub location: Option<String>,
}

impl Shown {
    /// The path that the browser is sent to.
    pub fn next(&self) -> Result<&str> {
        self.location.as_deref().with_context(|| format!("{}: {}", self.status, self.text))
    }

    /// A parameter of the address that the browser is sent to.
    #[must_use]
    pub fn parameter(&self, name: &str) -> Option<String> {
        let location = self.location.as_deref()?;
        let url = reqwest::Url::parse(location).ok()?;
        url.query_pairs().find(|(known, _)| known == name).map(|(_, value)| value.into_owned())
    }
}

impl Tab {
    pub fn open(server: &TestServer) -> Result<Self> {
        Self::at(&server.door.url, &server.leaks)
    }

    pub fn at(base: &str, leaks: &Leaks) -> Result<Self> {
        let client = Client::builder().redirect(Policy::none()).no_proxy().build()?;
        let (base, leaks) = (base.to_owned(), leaks.clone());
        Ok(Self { client, base, leaks, cookie: Mutex::default(), csrf: Mutex::default() })
    }

    pub async fn get(&self, path: &str) -> Result<Shown> {
        self.send(self.request(Method::GET, path)).await
    }

    /// Sends a form of the page that is shown.
    pub async fn submit(&self, path: &str, fields: &[(&str, &str)]) -> Result<Shown> {
        let csrf = self.csrf();
        let mut all = vec![("csrf", csrf.as_str())];
        all.extend_from_slice(fields);
        self.send(self.request(Method::POST, path).header("sec-fetch-site", "same-origin").form(&all)).await
    }

    /// A request with the tab's cookie, for tests that send something unusual.
    pub fn request(&self, method: Method, path: &str) -> RequestBuilder {
        let request = self.client.request(method, format!("{}{path}", self.base));
        match self.cookie() {
            Some(cookie) => request.header("cookie", format!("__Host-session={cookie}")),
            None => request,
        }
    }

    pub async fn send(&self, request: RequestBuilder) -> Result<Shown> {
        let response = request.send().await?;
        let (status, headers) = (response.status(), response.headers().clone());
        let text = response.text().await?;
        for cookie in headers.get_all("set-cookie") {
            let value = cookie.to_str()?.split(';').next().and_then(|pair| pair.strip_prefix("__Host-session="));
            let value = value.context("a cookie that no page sets")?.to_owned();
            if !value.is_empty() {
                self.leaks.register("browser session", &value);
            }
            *self.cookie.lock().unwrap_or_else(PoisonError::into_inner) = Some(value).filter(|value| !value.is_empty());
        }
        if let Some((_, rest)) = text.split_once("name=\"csrf\" value=\"") {
            let csrf = rest.split('"').next().unwrap_or_default().to_owned();
            *self.csrf.lock().unwrap_or_else(PoisonError::into_inner) = csrf;
        }
        let location = headers.get("location").map(|value| value.to_str().map(str::to_owned)).transpose()?;
        if let Some(code) = location.as_ref().and_then(|location| location.split_once("code=svc_ac_")) {
            let code = code.1.split('&').next().unwrap_or_default();
            self.leaks.register("authorization code", &format!("svc_ac_{code}"));
        }
        Ok(Shown { status, headers, text, location })
    }

    #[must_use]
    pub fn cookie(&self) -> Option<String> {
        self.cookie.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub fn set_cookie(&self, value: Option<String>) {
        *self.cookie.lock().unwrap_or_else(PoisonError::into_inner) = value;
    }

    #[must_use]
    pub fn csrf(&self) -> String {
        self.csrf.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Does what a client asks a person to do: opens its address, signs in, and agrees. What the browser asks the client
    /// for then, which a fragment is no part of.
    pub async fn agree_to(&self, mailbox: &Mailbox, address: &str, email: &str) -> Result<String> {
        let path = address.strip_prefix(&self.base).context("the address is not of this server")?;
        let begun = self.get(path).await?;
        let shown = self.sign_in(mailbox, begun.next()?, email).await?;
        let consent = shown.next()?.to_owned();
        self.get(&consent).await?;
        let done = self.submit(&consent, &[("decision", "allow"), ("space", "personal")]).await?;
        Ok(done.next()?.split('#').next().unwrap_or_default().to_owned())
    }

    /// Signs in on the page at `path` (`/sign-in/flow_…`); what follows.
    pub async fn sign_in(&self, mailbox: &Mailbox, path: &str, email: &str) -> Result<Shown> {
        self.get(path).await?;
        let sent = self.submit(path, &[("email", email)]).await?;
        let code_path = sent.next()?.to_owned();
        let code = mailbox.next_mail_to(email).await?.code().context("the mail holds no code")?;
        self.leaks.register("otp code", &code);
        self.get(&code_path).await?;
        let entered = self.submit(&code_path, &[("code", &code)]).await?;
        self.get(entered.next()?).await
    }
}
