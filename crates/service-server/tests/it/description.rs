//! The description of the API: every example in it is sent and answered as it says, and the manual says the same.

use std::{env, fs, path::Path};

use anyhow::{Context as _, Result, ensure};
use reqwest::Method;
use serde_json::{Map, Value, json};
use service_api::{
    endpoints::{self, Access},
    openapi::{self, Operation},
    workspaces::Role,
};
use service_testkit::{
    answer::Answer,
    server::{SignedIn, TestServer, with_server},
};

/// Set: the examples' answers, and the manual, are written instead of compared.
const WRITE: &str = "WRITE_MANUAL";
const BASE_URL: &str = "https://service.test";

fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

/// Compares a file with what it should say, or writes it.
fn check_file(path: &str, expected: &str) -> Result<()> {
    let path = root().join(path);
    if env::var_os(WRITE).is_some() {
        return Ok(fs::write(&path, expected)?);
    }
    let found = fs::read_to_string(&path)?;
    ensure!(found == expected, "{} is not what the contract says; run this test with {WRITE}=1", path.display());
    Ok(())
}

#[test]
fn every_endpoint_for_programs_is_described() {
    let described: Vec<_> = openapi::all().iter().map(|one| (one.endpoint.method, one.endpoint.path)).collect();
    for endpoint in endpoints::ALL {
        let expected = usize::from(endpoint.access != Access::Browser);
        let found = described.iter().filter(|one| **one == (endpoint.method, endpoint.path)).count();
        assert_eq!(found, expected, "{} {}", endpoint.method.as_str(), endpoint.path);
    }
    let examples = openapi::examples();
    assert!(openapi::all().iter().all(|operation| examples.contains_key(&operation.id)));
    assert_eq!(examples.len(), openapi::all().len(), "an example is of nothing");
}

#[test]
fn every_reference_in_the_document_leads_somewhere() {
    fn check(document: &Value, part: &Value) {
        if let Some(reference) = part["$ref"].as_str() {
            let pointer = reference.strip_prefix('#').expect("a reference elsewhere");
            assert!(document.pointer(pointer).is_some(), "{reference}");
        }
        match part {
            Value::Object(members) => members.values().for_each(|part| check(document, part)),
            Value::Array(items) => items.iter().for_each(|part| check(document, part)),
            _ => {}
        }
    }
    let document = openapi::document(BASE_URL);
    check(&document, &document);
}

#[test]
fn the_manual_in_the_repository_is_the_one_that_is_served() -> Result<()> {
    check_file("docs/api.md", &openapi::manual("https://service.example"))
}

#[test]
fn the_document_and_the_page_are_served() -> Result<()> {
    with_server(async |server| {
        let answer = server.door.get("/openapi.json", None).await?;
        assert_eq!((answer.status.as_u16(), &answer.body), (200, &openapi::document(BASE_URL)));
        assert_eq!(answer.header("cache-control"), Some("public, max-age=300"));
        let page = server.door.get("/docs", None).await?;
        assert_eq!((page.status.as_u16(), page.header("content-type")), (200, Some("text/html; charset=utf-8")));
        for part in ["<h3 id=\"post-v1projects\">", "href=\"#content\"", "urn:service:params:oauth:grant-type:otp"] {
            assert!(page.text.contains(part), "{part}");
        }
        assert!(!page.text.contains("<script") && !page.text.contains("service.example"));
        Ok(())
    })
}

#[test]
fn every_example_is_answered_as_it_says() -> Result<()> {
    with_server(async |server| {
        let stage = Stage::build(server).await?;
        let mut examples = openapi::examples();
        for operation in openapi::all() {
            let example = examples.get_mut(&operation.id).context("no example")?;
            // Whatever is made is younger than what was made before.
            server.advance(1);
            let answer = stage.play(&operation, example).await.with_context(|| operation.id.clone())?;
            ensure!(answer.status == operation.status, "{}: {} {}", operation.id, answer.status, answer.text);
            ensure!(answer.text.is_empty() == operation.answer.is_none(), "{}: {}", operation.id, answer.text);
            let said = example.as_object_mut().context("no example")?;
            if !answer.text.is_empty() {
                said.insert("answer".into(), shown(&operation, answer.body));
            }
        }
        let text = format!("{:#}\n", Value::Object(examples));
        check_file("crates/service-api/src/openapi/examples.json", &text)
    })
}

/// People and things for the examples to be about.
struct Stage<'a> {
    server: &'a TestServer,
    ann: SignedIn,
    bob: SignedIn,
    client: (String, String),
}

impl<'a> Stage<'a> {
    async fn build(server: &'a TestServer) -> Result<Self> {
        let printed = crate::admin::run(server, &["client", "create", "Monitor", "--introspect"])?;
        let line = |name: &str| {
            let line = printed.lines().find_map(|line| line.strip_prefix(&format!("{name}: ")));
            line.map(str::to_owned).with_context(|| format!("no {name}"))
        };
        server.leaks.register("client secret", &line("client_secret")?);
        let ann = server.sign_in("ann@acme.example", "read write").await?;
        server.advance(1);
        let bob = server.sign_in("bob@acme.example", "read write").await?;
        Ok(Self { server, ann, bob, client: (line("client_id")?, line("client_secret")?) })
    }

    /// Sends an example, with things of this stage in the place of those that it names.
    async fn play(&self, operation: &Operation, example: &Value) -> Result<Answer> {
        let endpoint = operation.endpoint;
        let members = [(self.ann.user_id, Role::Owner), (self.bob.user_id, Role::Member)];
        let workspace = self.server.make_workspace("Acme", &members).await?.to_string();
        let mut cast =
            Map::from_iter([("wsp".to_owned(), json!(workspace)), ("user".to_owned(), json!(self.bob.user_id))]);
        self.make(operation, &workspace, &mut cast).await?;
        let mut path = endpoint.path.to_owned();
        for (name, value) in example["path"].as_object().into_iter().flatten() {
            let value = played(value, &cast);
            path = path.replace(&format!("{{{name}}}"), value.as_str().unwrap_or_default());
        }
        let method = Method::from_bytes(endpoint.method.as_str().as_bytes())?;
        let mut request = self.server.door.request(method, &path);
        if let Value::Object(query) = played(&example["query"], &cast) {
            request = request.query(&query);
        }
        request = match endpoint.access {
            Access::Public | Access::Browser => request,
            Access::Client => request.basic_auth(&self.client.0, Some(&self.client.1)),
            _ => request.bearer_auth(&self.ann.access_token),
        };
        if let Some(body) = example.get("body") {
            request = request.json(&played(body, &cast));
        }
        self.server.door.send(request).await
    }

    /// Makes what an example is about.
    async fn make(&self, operation: &Operation, workspace: &str, cast: &mut Map<String, Value>) -> Result<()> {
        let (path, ann) = (operation.endpoint.path, &self.ann);
        let post = async |path: &str, body: Value| {
            let answer = crate::contents::send(self.server, "POST", path, ann, Some(&body)).await?;
            ensure!(answer.status == 201, "{path}: {}", answer.text);
            Ok(answer)
        };
        for (kind, name, body) in crate::contents::kinds() {
            if path.starts_with(name) && operation.id != format!("create{}", kind.name()) {
                let made = post(&format!("{name}?workspaceId={workspace}"), body).await?;
                cast.insert(kind.prefix().to_owned(), made.body["id"].clone());
            }
        }
        if path.contains("/invitations") && operation.id != "invite" {
            let email = format!("{}@acme.example", operation.id.to_lowercase());
            let made = post(&format!("/v1/workspaces/{workspace}/invitations"), json!({ "email": email })).await?;
            cast.insert("inv".to_owned(), made.body["id"].clone());
        }
        if path.starts_with("/v1/cli/") || ["listAuditEvents", "reportLeaks"].contains(&operation.id.as_str()) {
            let made = post("/v1/cli/tokens", json!({ "name": "deploy" })).await?;
            cast.insert("clit".to_owned(), made.body["id"].clone());
            cast.insert("svc_cli".to_owned(), made.body["access_token"].clone());
        }
        match operation.id.as_str() {
            "exchange" => {
                let (otp_id, code) = self.server.request_code("dee@acme.example").await?;
                let dee = self.server.exchange(&otp_id, &code, "read").await?;
                let dee = service_testkit::server::signed_in(&dee)?;
                let sql = format!(
                    "insert into memberships (user_id, workspace_id, role, created_at)
                     select '{}', '{}', 'member', now()",
                    service_api::ids::Id::uuid(dee.user_id),
                    service_api::ids::Id::uuid(workspace.parse::<service_api::ids::WorkspaceId>()?),
                );
                self.server.sql(&sql).await?;
                self.server.advance(61);
                let (otp_id, code) = self.server.request_code("dee@acme.example").await?;
                cast.extend([("otp".to_owned(), json!(otp_id)), ("code".to_owned(), json!(code))]);
            }
            "revoke" | "introspect" | "endSession" => {
                self.server.advance(61);
                let other = self.server.sign_in("ann@acme.example", "read write").await?;
                cast.insert("svc_rt".to_owned(), json!(other.refresh_token));
                cast.insert("grant".to_owned(), json!(other.grant_id));
            }
            "refreshMcpTokens" => {
                let made = post("/v1/mcp/tokens", json!({})).await?;
                cast.insert("svc_mrt".to_owned(), made.body["refresh_token"].clone());
            }
            _ => {}
        }
        Ok(())
    }
}

/// An example with what is on stage in the place of what it names.
fn played(example: &Value, cast: &Map<String, Value>) -> Value {
    match example {
        Value::String(text) => {
            let name = match text.as_str() {
                "1234 5678" => "code",
                text => text.strip_suffix("_…").or_else(|| id_kind(text)).unwrap_or_default(),
            };
            cast.get(name).unwrap_or(example).clone()
        }
        Value::Array(items) => items.iter().map(|item| played(item, cast)).collect(),
        Value::Object(members) => {
            members.iter().map(|(name, value)| (name.clone(), played(value, cast))).collect::<Map<_, _>>().into()
        }
        _ => example.clone(),
    }
}

fn id_kind(text: &str) -> Option<&str> {
    let (kind, rest) = text.split_once('_')?;
    let fits = rest.len() == 26 && rest.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
    fits.then_some(kind)
}

/// An answer as the manual shows it: what differs from run to run is as in every other example.
fn shown(operation: &Operation, mut answer: Value) -> Value {
    if operation.id == "openapi" {
        answer = json!({ "openapi": answer["openapi"], "info": { "title": answer["info"]["title"] } });
    }
    plain(&mut answer);
    answer
}

fn plain(value: &mut Value) {
    match value {
        Value::String(text) => {
            let moment = text.len() == 24 && text.ends_with('Z') && text.parse::<service_api::Timestamp>().is_ok();
            *text = match text.as_str() {
                "127.0.0.1" => "203.0.113.4".to_owned(),
                _ if moment => "2027-01-15T08:00:00.000Z".to_owned(),
                text if text.starts_with("eyJ") => "eyJhbGciOiJFUzI1NiIs…".to_owned(),
                text if text.starts_with("svc_") => format!("svc_{}_…", text.split('_').nth(1).unwrap_or_default()),
                text => match id_kind(text) {
                    Some(kind) => format!("{kind}_01m955vw00fjqrz47smcqrkmzz"),
                    None => text.replace(BASE_URL, "https://service.example"),
                },
            };
        }
        Value::Array(items) => items.iter_mut().for_each(plain),
        Value::Object(members) => {
            for (name, shown) in [("hint", "…g0wZ"), ("kid", "XHfX_Y9R…"), ("x", "LXEWQrcm…"), ("y", "ofzkNjhU…")]
            {
                if let Some(found) = members.get_mut(name).filter(|found| found.is_string()) {
                    *found = shown.into();
                }
            }
            if let Some(cursor) = members.get_mut("nextCursor") {
                *cursor = "AQGigwPk…".into();
            }
            for (name, shown) in
                [("iat", 1_800_000_000), ("exp", 1_800_000_900), ("client_id_issued_at", 1_800_000_000)]
            {
                if let Some(found) = members.get_mut(name) {
                    *found = shown.into();
                }
            }
            members.values_mut().for_each(plain);
        }
        _ => {}
    }
}
