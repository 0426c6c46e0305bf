//! Thousands of random sequences against the real server, each step compared with a model that knows only the contract.
//!
//! The model is not the rule that the server runs: it keeps every token it was ever given, and where it stands in the
//! one chain that there may be.

use anyhow::{Context as _, Result, ensure};
use proptest::{
    prelude::*,
    strategy::ValueTree as _,
    test_runner::{Config, TestRunner},
};
use reqwest::Method;
use service_api::{
    ids::{GrantId, Id as _, UserId},
    oauth::SERVICE_CLI,
    scope::Scopes,
};
use service_server::flows::{RequestMeta, oauth::issue};
use service_testkit::{
    leaks::Leaks,
    response::TestClient,
    server::{Setup, TestServer, refresh_body, signed_in},
};

const SEQUENCES: u32 = 2_000;
const NETWORKS: [&str; 3] = ["203.0.113.4", "203.0.113.250", "198.51.100.9"];

#[derive(Clone, Copy, Debug)]
enum Step {
    /// Presents one of the tokens held so far, counted from the newest, from one of the networks.
    Present {
        back: usize,
        network: usize,
    },
    /// Another client presents one of the tokens held so far, counted from the newest.
    ByAnother {
        back: usize,
    },
    Wait(i64),
    /// The database forgets what happened since so many rotations ago.
    LoseRotations(usize),
    Revoke,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let present = (prop_oneof![6 => Just(0), 3 => Just(1), 1 => 0_usize..4], 0..NETWORKS.len());
    let step = prop_oneof![
        12 => present.prop_map(|(back, network)| Step::Present { back, network }),
        1 => (0_usize..3).prop_map(|back| Step::ByAnother { back }),
        3 => prop_oneof![Just(1), Just(59), Just(61), Just(1_000)].prop_map(Step::Wait),
        1 => (1_usize..3).prop_map(Step::LoseRotations),
        1 => Just(Step::Revoke),
    ];
    prop::collection::vec(step, 1..14)
}

/// One grant as its holder knows it.
struct Model {
    /// Every token, in the order in which it was first seen. Numbers of generations are places here.
    tokens: Vec<String>,
    base: Option<usize>,
    issued: usize,
    rotated: Option<(i64, usize)>,
    ended: Option<&'static str>,
    /// Where the line stood after each rotation.
    history: Vec<(Option<usize>, usize)>,
    now: i64,
}

/// What a step must lead to.
#[derive(Debug, PartialEq, Eq)]
enum Expected {
    /// This very token.
    Same(usize),
    /// A token that was never seen, or one that the database has forgotten it handed out.
    Next,
    Dead(Option<&'static str>),
}

impl Model {
    fn present(&mut self, token: usize, network: usize) -> Expected {
        if let Some(reason) = self.ended {
            return Expected::Dead(Some(reason));
        }
        let near = |a: usize, b: usize| (a < 2) == (b < 2);
        if token >= self.issued {
            self.move_to(Some(token), token + 1, network);
            return Expected::Next;
        }
        if Some(token) == self.base {
            if self.rotated.is_some_and(|(at, from)| self.now - at <= 60 && near(from, network)) {
                return Expected::Same(self.issued);
            }
            self.move_to(self.base, self.issued + 1, network);
            return Expected::Next;
        }
        self.ended = Some("replayed");
        Expected::Dead(Some(if self.base.is_some_and(|base| token > base) { "superseded" } else { "replayed" }))
    }

    fn move_to(&mut self, base: Option<usize>, issued: usize, network: usize) {
        self.history.push((self.base, self.issued));
        (self.base, self.issued, self.rotated) = (base, issued, Some((self.now, network)));
    }

    /// The generation that the server counts for a place.
    fn generation(place: usize) -> usize {
        place + 1
    }
}

async fn open(server: &TestServer, user: UserId) -> Result<(GrantId, Model)> {
    let audit_keys = server.app.audit_keys.clone();
    let meta = RequestMeta::new("192.0.2.1".parse()?, "req".into(), audit_keys, None);
    let now = server.now();
    let opening = issue::Opening {
        id: service_server::crypto::random::id_in(service_api::ids::Id::shard(user), now)?,
        user_id: user,
        client_id: SERVICE_CLI,
        scopes: Scopes::READ,
        workspace_id: None,
        audience: &server.app.audience,
        ends_at: issue::session_expiry(&server.app, SERVICE_CLI, &server.app.audience, now),
        event: service_api::audit_events::EventName::SignInSucceeded,
        method: "test",
        auth_time: Some(now),
        made_by: None,
        sso: None,
    };
    let db = server.app.database.connect().await?;
    let pair = issue::open::<service_api::token::Refresh>(&server.app, &db, &meta, &opening, now).await?;
    let response = serde_json::to_value(&pair)?;
    let text = |name: &str| response[name].as_str().unwrap_or_default().to_owned();
    let access_token = text("access_token");
    let claims = service_rules::bearer::UnverifiedJwt::read(&access_token).ok();
    let claims = claims.and_then(|jwt| service_rules::bearer::Claims::read(jwt.payload()).ok());
    let grant = claims.ok_or_else(|| anyhow::anyhow!("no claims"))?.grant;
    let tokens = vec![text("refresh_token")];
    let now = server.now().as_second();
    Ok((grant, Model { tokens, base: None, issued: 0, rotated: None, ended: None, history: Vec::new(), now }))
}

/// Presents a token, and compares what came of it with the model.
async fn present(http: &TestClient, model: &mut Model, back: usize, network: usize) -> Result<()> {
    let token = model.tokens.len().saturating_sub(1 + back);
    let request = http.request(Method::POST, "/oauth/token").json(&refresh_body(&model.tokens[token]));
    let response = http.send(request.header("x-forwarded-for", NETWORKS[network])).await?;
    match model.present(token, network) {
        Expected::Dead(reason) => {
            let told = response.body["details"]["reason"].as_str();
            ensure!(response.error() == "invalid_grant" && told == reason, "{reason:?}: {}", response.text);
        }
        Expected::Same(place) => {
            ensure!(signed_in(&response)?.refresh_token == model.tokens[place], "another successor");
        }
        Expected::Next => {
            let got = signed_in(&response)?.refresh_token;
            if let Some(known) = model.tokens.get(model.issued) {
                ensure!(*known == got, "a second chain");
            } else {
                ensure!(!model.tokens.contains(&got), "an old token again");
                model.tokens.push(got);
            }
        }
    }
    Ok(())
}

struct World<'a> {
    server: &'a TestServer,
    http: TestClient,
}

async fn run(World { server, http }: &World<'_>, user: UserId, steps: &[Step]) -> Result<()> {
    let (grant, mut model) = open(server, user).await?;
    let id = grant.uuid();
    for (number, step) in steps.iter().enumerate() {
        let context = || format!("step {number}, {step:?}, of {steps:?}");
        match *step {
            Step::Wait(seconds) => {
                server.advance(seconds);
                model.now += seconds;
            }
            Step::Revoke => {
                let youngest = &model.tokens[model.tokens.len() - 1];
                let body = serde_json::json!({ "token": youngest, "client_id": SERVICE_CLI });
                ensure!(http.post("/oauth/revoke", &body).await?.status == 200, "{}", context());
                model.ended = model.ended.or(Some("revoked_by_user"));
            }
            Step::LoseRotations(count) => {
                let Some(kept) = model.history.len().checked_sub(count) else { continue };
                (model.base, model.issued) = model.history[kept];
                model.history.truncate(kept);
                // Rows from before say when they were written; far enough back that nothing is soon after it.
                model.rotated = None;
                let base = model.base.map_or(0, Model::generation);
                server
                    .sql(&format!(
                        "update grants set base = {base}, issued = {}, rotated_at = rotated_at - interval '1 hour'
                          where id = '{id}'",
                        Model::generation(model.issued)
                    ))
                    .await?;
            }
            Step::ByAnother { back } => {
                let token = model.tokens.len().saturating_sub(1 + back);
                let mut body = refresh_body(&model.tokens[token]);
                body["client_id"] = "service-web".into();
                let response = http.post("/oauth/token", &body).await?;
                ensure!(response.error() == "invalid_grant" && response.body["details"].is_null(), "{}", context());
            }
            Step::Present { back, network } => present(http, &mut model, back, network).await.with_context(context)?,
        }
    }
    Ok(())
}

#[test]
fn random_sequences_end_as_the_model_says() -> Result<()> {
    Setup::default().set("http.trusted_proxies", "127.0.0.0/8").run(async |server| {
        // Too many tokens to search for each; every other test searches for its own.
        let http = TestClient::new(server.http.url.clone(), Leaks::default())?;
        let world = World { server, http };
        let user = server.sign_in("ann@acme.test", "read").await?.user_id;
        let mut runner = TestRunner::new(Config::default());
        let mut length = 0;
        for _ in 0..SEQUENCES {
            let mut tree = steps().new_tree(&mut runner).map_err(|reason| anyhow::anyhow!("no sequence: {reason}"))?;
            length += tree.current().len();
            let Err(mut failure) = run(&world, user, &tree.current()).await else { continue };
            // The shortest sequence that fails is the one to read.
            while tree.simplify() {
                match run(&world, user, &tree.current()).await {
                    Err(shorter) => failure = shorter,
                    Ok(()) => {
                        if !tree.complicate() {
                            break;
                        }
                    }
                }
            }
            return Err(failure);
        }
        println!("{SEQUENCES} sequences of {length} steps");
        Ok(())
    })
}
