//! A client on rmcp that knows nothing but the address of the server. It talks with the harness as `talk.mjs` does.

use std::{env, error::Error};

use anyhow::{Context as _, Result, ensure};
use rmcp::{
    RoleClient, ServiceError,
    model::{CallToolRequestParams, ClientConfig, ProtocolVersion},
    service::{ClientInitializeError, ClientLifecycleMode, ClientServiceExt as _, RunningService},
    transport::{
        AuthClient, AuthorizationManager, AuthorizationRequest, StreamableHttpClientTransport,
        auth::{AuthorizationCallback, OAuthState},
        streamable_http_client::{StreamableHttpClientTransportConfig, StreamableHttpError},
    },
};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader},
    net::TcpListener,
};

type Http = AuthClient<reqwest::Client>;
type Session = RunningService<RoleClient, ClientConfig>;

/// What the server challenges with.
type Challenged = StreamableHttpError<reqwest::Error>;

fn say(message: &Value) {
    println!("{message}");
}

/// Waits for redirects of the browser on a port of this machine.
struct Callback {
    listener: TcpListener,
    redirect_uri: String,
}

impl Callback {
    async fn start() -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let redirect_uri = format!("http://127.0.0.1:{}/callback", listener.local_addr()?.port());
        Ok(Self { listener, redirect_uri })
    }

    async fn next(&self) -> Result<String> {
        loop {
            let (mut stream, _) = self.listener.accept().await?;
            let mut head = vec![0; 8_192];
            let length = stream.read(&mut head).await?;
            let body = "<!doctype html><title>Done</title><p id=done>You can close this window.";
            let head = String::from_utf8_lossy(&head[..length]).into_owned();
            let response = format!(
                "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
                body.len()
            );
            stream.write_all(response.as_bytes()).await?;
            let target = head.split(' ').nth(1).context("no request")?;
            if target.starts_with("/callback?") {
                return Ok(format!("http://127.0.0.1{target}"));
            }
        }
    }
}

/// Finds the challenge of the server in an error.
fn challenge<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a Challenged> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(found) = error.downcast_ref::<Challenged>().filter(|found| found.auth_challenge().is_some()) {
            return Some(found);
        }
        next = error.source();
    }
    None
}

async fn connect(http: &Http, url: &str) -> Result<Session, Box<ClientInitializeError>> {
    let config = StreamableHttpClientTransportConfig::with_uri(url);
    let transport = StreamableHttpClientTransport::with_client(http.clone(), config);
    let lifecycle = match env::var("PIN") {
        Ok(_) => ClientLifecycleMode::Discover { preferred_versions: vec![ProtocolVersion::V_2026_07_28] },
        Err(_) => ClientLifecycleMode::Initialize,
    };
    ClientConfig::default().serve_with_lifecycle(transport, lifecycle).await.map_err(Box::new)
}

/// Connects without a token; the server's challenge says how to get one.
async fn authorize(url: &str, callback: &Callback) -> Result<Http> {
    let http = Http::new(reqwest::Client::new(), AuthorizationManager::new(url).await?);
    let refused = connect(&http, url).await.err().context("the server lets anybody in")?;
    let challenge = refused.auth_challenge().with_context(|| format!("no challenge: {refused:?}"))?;
    let mut request = AuthorizationRequest::new(&callback.redirect_uri)
        .with_client_name("rmcp")
        .with_challenge(challenge);
    if let Ok(document) = env::var("DOCUMENT") {
        request = request.with_client_metadata_url(document);
    }
    let mut state = OAuthState::new(url, None).await?;
    state.start_authorization(request).await?;
    say(&json!({ "open": state.get_authorization_url().await? }));
    state.handle_callback_url(&callback.next().await?).await?;
    let manager = state.into_authorization_manager().context("no authorization")?;
    Ok(Http::new(reqwest::Client::new(), manager))
}

/// Asks the user for the scopes that the server named.
async fn step_up(http: &Http, callback: &Callback, challenged: &Challenged) -> Result<()> {
    let StreamableHttpError::InsufficientScope(missing) = challenged else { anyhow::bail!("{challenged}") };
    let scope = missing.required_scope.as_deref().context("no scope")?;
    let manager = http.auth_manager.lock().await;
    say(&json!({ "open": manager.request_scope_upgrade(scope).await? }));
    let answer = AuthorizationCallback::from_redirect_url(&callback.next().await?)?;
    manager.exchange_code_for_token_with_issuer(&answer.code, &answer.csrf_token, answer.issuer.as_deref()).await?;
    Ok(())
}

struct Client {
    http: Http,
    callback: Callback,
    session: Session,
}

impl Client {
    /// Calls a tool; lets the user agree if the server wants that.
    async fn call(&self, name: &'static str, arguments: &Value) -> Result<String> {
        let arguments = arguments.as_object().context("no object")?;
        let parameters = CallToolRequestParams::new(name).with_arguments(arguments.clone());
        let result = match self.session.call_tool(parameters.clone()).await {
            Ok(result) => result,
            Err(ServiceError::TransportSend(error)) if challenge(&*error.error).is_some() => {
                let challenged = challenge(&*error.error).context("no challenge")?;
                step_up(&self.http, &self.callback, challenged).await?;
                self.session.call_tool(parameters).await?
            }
            Err(error) => return Err(error.into()),
        };
        let text = result.content.iter().filter_map(|part| part.as_text()).map(|part| part.text.clone());
        let text = text.collect::<Vec<_>>().join("\n");
        ensure!(result.is_error != Some(true), "{name} failed: {text}");
        Ok(text)
    }
}

fn new_pack(name: &str) -> Value {
    json!({ "name": name, "type": "context", "text": "Friendly and short." })
}

async fn expire() -> Result<()> {
    say(&json!({ "expire": true }));
    let mut answer = String::new();
    BufReader::new(tokio::io::stdin()).read_line(&mut answer).await?;
    ensure!(answer.trim() == "expired", "the harness answers {answer}");
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let url = env::var("MCP_URL")?;
    let callback = Callback::start().await?;
    let http = authorize(&url, &callback).await?;
    let session = connect(&http, &url).await?;
    say(&json!({ "did": "connect" }));
    let tools = session.list_all_tools().await?;
    say(&json!({ "did": "list", "tools": tools.iter().map(|tool| &tool.name).collect::<Vec<_>>() }));
    let client = Client { http, callback, session };
    say(&json!({ "did": "read", "result": client.call("whoami", &json!({})).await? }));
    expire().await?;
    say(&json!({ "did": "read after expiry", "result": client.call("whoami", &json!({})).await? }));
    say(&json!({ "did": "write", "result": client.call("create_pack", &new_pack("Pack 1")).await? }));
    let found = client.call("search_packs", &json!({ "type": "context", "query": "friendly" })).await?;
    say(&json!({ "did": "read after write", "result": found }));
    say(&json!({ "did": "write again", "result": client.call("create_pack", &new_pack("Pack 2")).await? }));
    say(&json!({ "did": "end" }));
    client.session.cancel().await?;
    Ok(())
}
