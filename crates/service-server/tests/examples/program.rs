//! Programs that use the service as their users would run them, and the user who signs in for them.

use std::{
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use anyhow::{Context as _, Result, ensure};
use service_testkit::{
    ports,
    server::{Setup, TestServer},
    tab::Tab,
};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader},
    process::{Child, Command},
};

/// How long a program may take.
const TIMEOUT: Duration = Duration::from_secs(120);

/// A program that has ended.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) succeeded: bool,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Ended {
    pub(crate) fn check(self) -> Result<String> {
        ensure!(self.succeeded, "it failed: {}\n{}", self.stdout, self.stderr);
        Ok(self.stdout)
    }
}

/// The root of the repository.
pub(crate) fn root() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

/// A folder below target/examples.
pub(crate) fn installed(name: &str) -> Result<PathBuf> {
    let path = root().join("target/examples").join(name).canonicalize();
    path.with_context(|| format!("{name} is not installed: run `cargo xtask examples`"))
}

/// Runs a test against a server whose name is its address, as clients insist on.
pub(crate) fn with_server(test: impl AsyncFnOnce(&TestServer) -> Result<()>) -> Result<()> {
    let address = format!("127.0.0.1:{}", ports::free()?);
    Setup::default().set("http.listen", &address).set("base_url", &format!("http://{address}")).run(test)
}

/// A command with the address of the server, a home of its own, and nothing else of this process but the path of programs.
pub(crate) fn command(server: &TestServer, home: &Path, program: impl AsRef<std::ffi::OsStr>) -> Command {
    let mut command = Command::new(program);
    let path = std::env::vars_os().find(|(name, _)| name == "PATH").map(|(_, value)| value).unwrap_or_default();
    command
        .env_clear()
        .env("PATH", path)
        .env("HOME", home)
        .env("SERVICE_API_URL", &server.http.url)
        .current_dir(home)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    command
}

/// Runs a program to its end. Opens the authorization URL that it prints, and signs in and consents there as `email`.
pub(crate) async fn run(server: &TestServer, mut command: Command, email: &str) -> Result<Ended> {
    let child = command.spawn().with_context(|| format!("{command:?} does not run"))?;
    tokio::time::timeout(TIMEOUT, attend(server, child, email)).await.context("it takes too long")?
}

async fn attend(server: &TestServer, mut child: Child, email: &str) -> Result<Ended> {
    let mut lines = BufReader::new(child.stdout.take().context("it says nothing")?).lines();
    let mut errors = child.stderr.take().context("it has no standard error")?;
    let complaining = tokio::spawn(async move {
        let mut text = String::new();
        errors.read_to_string(&mut text).await.map(|_| text)
    });
    let (mut stdout, authorize) = (String::new(), format!("{}/oauth/authorize?", server.http.url));
    while let Some(line) = lines.next_line().await? {
        if let Some(address) = line.split(' ').find(|word| word.starts_with(&authorize)) {
            let location = Tab::open(server)?.agree_to(&server.mailbox, address, email).await?;
            let shown = reqwest::Client::builder().no_proxy().build()?.get(location).send().await?;
            ensure!(shown.status() == 200, "the program answers its browser with {}", shown.status());
        }
        stdout.extend([line.as_str(), "\n"]);
    }
    let (status, stderr) = (child.wait().await?, complaining.await??);
    server.leaks.assert_clean("standard output of a program", stdout.as_bytes());
    server.leaks.assert_clean("standard error of a program", stderr.as_bytes());
    Ok(Ended { succeeded: status.success(), stdout, stderr })
}

/// Creates a CLI token of a user.
pub(crate) async fn make_cli_token(server: &TestServer, email: &str, scope: &str) -> Result<String> {
    let user = server.sign_in(email, "read write").await?;
    let wanted = serde_json::json!({ "name": "Example", "scope": scope });
    let request = server.http.request(reqwest::Method::POST, "/v1/cli/tokens").bearer_auth(user.access_token);
    let response = server.http.send(request.json(&wanted)).await?;
    ensure!(response.status == 201, "{}", response.text);
    Ok(response.field("access_token").to_owned())
}
