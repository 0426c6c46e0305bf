//! A browser tab without rendering: its cookies, and the forms of the current page.
//!
//! It sends what a browser sends, and follows no redirect by itself, so that a test sees every step.

use std::sync::{Mutex, PoisonError};

use anyhow::{Context as _, Result};
use reqwest::{
    Client, Method, RequestBuilder, StatusCode,
    header::{ACCEPT_LANGUAGE, HeaderMap, HeaderValue},
    redirect::Policy,
};

use crate::{leaks::Leaks, mailbox::Mailbox, server::TestServer};

pub struct Tab {
    client: Client,
    base: String,
    leaks: Leaks,
    cookie: Mutex<Option<String>>,
    /// The device secret, which outlives the session cookie.
    device: Mutex<Option<String>>,
    /// The CSRF token in the forms of the current page.
    csrf: Mutex<String>,
    /// The checked boxes of the current page, which a browser submits.
    ticked: Mutex<Vec<String>>,
    /// The end date that is selected on a consent page.
    end: Mutex<Option<String>>,
}

/// A response to the tab.
pub struct Shown {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub text: String,
    /// The redirect target.
    pub location: Option<String>,
}

impl Shown {
    /// Returns the path of the redirect target.
    pub fn next(&self) -> Result<&str> {
        self.location.as_deref().with_context(|| format!("{}: {}", self.status, self.text))
    }

    /// Returns a query parameter of the redirect target.
    #[must_use]
    pub fn parameter(&self, name: &str) -> Option<String> {
        let location = self.location.as_deref()?;
        let url = reqwest::Url::parse(location).ok()?;
        url.query_pairs().find(|(known, _)| known == name).map(|(_, value)| value.into_owned())
    }
}

impl Tab {
    pub fn open(server: &TestServer) -> Result<Self> {
        Self::at(&server.http.url, &server.leaks)
    }

    /// A tab whose requests prefer this language.
    pub fn in_language(server: &TestServer, language: &'static str) -> Result<Self> {
        let headers = HeaderMap::from_iter([(ACCEPT_LANGUAGE, HeaderValue::from_static(language))]);
        Self::with_headers(&server.http.url, &server.leaks, headers)
    }

    pub fn at(base: &str, leaks: &Leaks) -> Result<Self> {
        Self::with_headers(base, leaks, HeaderMap::new())
    }

    fn with_headers(base: &str, leaks: &Leaks, headers: HeaderMap) -> Result<Self> {
        let client = Client::builder().redirect(Policy::none()).no_proxy().default_headers(headers).build()?;
        let (base, leaks) = (base.to_owned(), leaks.clone());
        let (cookie, device, csrf) = (Mutex::default(), Mutex::default(), Mutex::default());
        Ok(Self { client, base, leaks, cookie, device, csrf, ticked: Mutex::default(), end: Mutex::default() })
    }

    pub async fn get(&self, path: &str) -> Result<Shown> {
        self.send(self.request(Method::GET, path)).await
    }

    /// Submits a form of the current page. A consent includes the checked scopes and the selected end date, unless the test
    /// names its own.
    pub async fn submit(&self, path: &str, fields: &[(&str, &str)]) -> Result<Shown> {
        let csrf = self.csrf();
        let mut all = vec![("csrf", csrf.as_str())];
        all.extend_from_slice(fields);
        let ticked = self.ticked.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let as_shown = path.starts_with("/consent/") && !fields.iter().any(|(name, _)| name.starts_with("scope."));
        all.extend(ticked.iter().filter(|_| as_shown).map(|name| (name.as_str(), "true")));
        let end = self.end.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let as_selected = path.starts_with("/consent/") && !fields.iter().any(|(name, _)| *name == "expires");
        all.extend(end.iter().filter(|_| as_selected).map(|end| ("expires", end.as_str())));
        self.send(self.request(Method::POST, path).header("sec-fetch-site", "same-origin").form(&all)).await
    }

    /// Returns a request with the tab's cookies, for tests that send something unusual.
    pub fn request(&self, method: Method, path: &str) -> RequestBuilder {
        let request = self.client.request(method, format!("{}{path}", self.base));
        let session = self.cookie().map(|cookie| format!("__Host-session={cookie}"));
        let device = self.device().map(|secret| format!("__Host-device={secret}"));
        let cookies: Vec<String> = session.into_iter().chain(device).collect();
        if cookies.is_empty() { request } else { request.header("cookie", cookies.join("; ")) }
    }

    pub async fn send(&self, request: RequestBuilder) -> Result<Shown> {
        let response = request.send().await?;
        let (status, headers) = (response.status(), response.headers().clone());
        let text = response.text().await?;
        for cookie in headers.get_all("set-cookie") {
            let pair = cookie.to_str()?.split(';').next().and_then(|pair| pair.split_once('='));
            let (name, value) = pair.context("a cookie without a value")?;
            let (kind, kept) = match name {
                "__Host-session" => ("browser session", &self.cookie),
                "__Host-device" => ("device secret", &self.device),
                _ => anyhow::bail!("a cookie that no page sets"),
            };
            self.leaks.register(kind, value);
            *kept.lock().unwrap_or_else(PoisonError::into_inner) =
                Some(value.to_owned()).filter(|value| !value.is_empty());
        }
        if let Some((_, rest)) = text.split_once("name=\"csrf\" value=\"") {
            let csrf = rest.split('"').next().unwrap_or_default().to_owned();
            *self.csrf.lock().unwrap_or_else(PoisonError::into_inner) = csrf;
        }
        let boxes = text.split("type=\"checkbox\" name=\"").skip(1).filter_map(|rest| rest.split_once('"'));
        let boxes = boxes.filter(|(name, rest)| {
            name.starts_with("scope.") && rest.split('>').next().is_some_and(|tag| tag.contains(" checked"))
        });
        if text.contains("name=\"csrf\"") {
            *self.ticked.lock().unwrap_or_else(PoisonError::into_inner) =
                boxes.map(|(name, _)| name.to_owned()).collect();
            let select = text.split_once("<select id=\"expires\"").and_then(|(_, rest)| rest.split_once("</select>"));
            let selected = select.and_then(|(options, _)| options.split_once("\" selected"));
            let value = selected.and_then(|(before, _)| before.rsplit('"').next()).map(str::to_owned);
            *self.end.lock().unwrap_or_else(PoisonError::into_inner) = value;
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

    /// Returns the device secret that the browser was given.
    #[must_use]
    pub fn device(&self) -> Option<String> {
        self.device.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub fn set_device(&self, secret: Option<String>) {
        *self.device.lock().unwrap_or_else(PoisonError::into_inner) = secret;
    }

    #[must_use]
    pub fn csrf(&self) -> String {
        self.csrf.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Opens a client's authorization URL, signs in, and consents. Returns the URL that the browser then requests from
    /// the client, without its fragment.
    pub async fn agree_to(&self, mailbox: &Mailbox, address: &str, email: &str) -> Result<String> {
        let path = address.strip_prefix(&self.base).context("the address is not of this server")?;
        let begun = self.get(path).await?;
        let shown = self.sign_in(mailbox, begun.next()?, email).await?;
        let consent = shown.next()?.to_owned();
        self.get(&consent).await?;
        let done = self.submit(&consent, &[("decision", "allow"), ("space", "personal")]).await?;
        Ok(done.next()?.split('#').next().unwrap_or_default().to_owned())
    }

    /// Signs in on the page at `path` (`/sign-in/flow_…`); returns what follows.
    pub async fn sign_in(&self, mailbox: &Mailbox, path: &str, email: &str) -> Result<Shown> {
        self.get(path).await?;
        let sent = self.submit(path, &[("email", email)]).await?;
        let code_path = sent.next()?.to_owned();
        let code = mailbox.next_code_to(email).await?;
        self.leaks.register("otp code", &code);
        self.get(&code_path).await?;
        let entered = self.submit(&code_path, &[("code", &code)]).await?;
        self.get(entered.next()?).await
    }
}
