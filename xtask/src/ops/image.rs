//! `cargo xtask ops image`: runs the image of a release with the commands of `docs/operating.md`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::containers::{Podman, said_by, skip};
use super::load::UserTokens;
use super::surroundings::{Surroundings, blocks};
use super::{replace, report};
use crate::{dist, say_error};

/// The limits of the image and of what it needs.
const ARCHIVE_LIMIT: u64 = 40_000_000;
const READY_LIMIT: Duration = Duration::from_secs(3);
const MEMORY_LIMIT: u64 = 128 * 1024 * 1024;

/// How long a node may take before the drill gives up.
const GIVE_UP_AFTER: Duration = Duration::from_secs(30);
const REFRESHES: usize = 20;
/// In this time heartbeats, the mailer and other tasks have run, and would have written files.
const BACKGROUND_WORK: Duration = Duration::from_secs(3);

/// Folders that podman makes writable in a container whose own files are not.
const WRITABLE: [&str; 3] = ["tmp", "run", "var/tmp"];

#[derive(clap::Args)]
pub(super) struct ImageOptions {
    /// The image, instead of the one in target/dist; if there is none, the debug build is packed
    #[arg(long, value_name = "FILE")]
    image: Option<PathBuf>,
}

pub(super) async fn run(options: &ImageOptions) -> Result<()> {
    let podman = Podman::new()?;
    if let Some(reason) = podman.refuses(&["--memory", "128m", "--read-only"])? {
        return skip("image", &reason);
    }
    let folder = tempfile::Builder::new().prefix("image-").tempdir()?;
    let released = options.image.clone().or_else(dist::released_image);
    let archive = match &released {
        Some(file) => file.canonicalize().with_context(|| format!("there is no {}", file.display()))?,
        None => dist::rehearse_image(folder.path())?,
    };
    say_error(&format!("The image {}", archive.display()));
    let drill = ImageDrill { podman, folder, surroundings: Surroundings::start().await? };
    drill.prepare()?;
    let mut measured = match drill.measure(&archive).await {
        Ok(measured) => measured,
        Err(error) => {
            let log = drill.podman.run(&["logs", "--tail", "10", "serviced"]).unwrap_or_default();
            bail!("{error:#}\nThe node's log ends with:\n{log}");
        }
    };
    let bytes = fs::metadata(&archive)?.len();
    measured["drill"] = "image".into();
    measured["release"] = released.is_some().into();
    measured["archive_bytes"] = bytes.into();
    let ready = measured["ready_seconds"].as_f64().is_some_and(|seconds| seconds <= READY_LIMIT.as_secs_f64());
    let unwritten = measured["written"].as_array().is_some_and(Vec::is_empty);
    // The debug build is larger and slower than what is released.
    report(&measured, unwritten && (released.is_none() || ready && bytes <= ARCHIVE_LIMIT))
}

struct ImageDrill {
    podman: Podman,
    folder: TempDir,
    surroundings: Surroundings,
}

impl ImageDrill {
    /// Writes the files as an operator does: those of a node, and that of the role that owns the schema.
    fn prepare(&self) -> Result<()> {
        for name in ["serviced", "owner"] {
            fs::create_dir(self.folder.path().join(name))?;
        }
        for (name, text) in self.surroundings.files("/etc/serviced")? {
            let folder = if name == "owner-database-url" { "owner" } else { "serviced" };
            fs::write(self.folder.path().join(folder).join(name), text)?;
        }
        let key = said_by(Command::new("openssl").args(["rand", "-base64", "32"]))?;
        Ok(fs::write(self.folder.path().join("serviced/root-keys"), format!("1:{key}\n"))?)
    }

    async fn measure(&self, archive: &Path) -> Result<Value> {
        let commands: [String; 2] = blocks("xtask/src/ops/image.rs")?.try_into().ok().context("not two blocks")?;
        let tag = format!("serviced:{}", env!("CARGO_PKG_VERSION"));
        let wanted = format!("serviced-{}-image-amd64.tar", env!("CARGO_PKG_VERSION"));
        let (image, file) = (find_tag(archive)?, archive.display().to_string());
        let migrate = replace(&commands[0], &[(&wanted, &file), ("--rm", "--rm --network host")])?;
        self.script(&replace(&migrate, &[(&format!("{tag}-amd64"), &image)])?)?;
        self.surroundings.grant()?;
        // The database is on the loopback address of this machine.
        let start = replace(
            &commands[1],
            &[
                ("--publish 127.0.0.1:8080:8080", "--network host"),
                ("--memory 512m", "--memory 128m"),
                ("0.0.0.0:8080", &format!("127.0.0.1:{}", self.surroundings.port)),
                ("0.0.0.0:9090", &format!("127.0.0.1:{}", self.surroundings.ops_port)),
                (&format!("{tag}-amd64"), &image),
            ],
        )?;
        let started = Instant::now();
        self.script(&start)?;
        let ready = self.surroundings.until_ready(started, GIVE_UP_AFTER).await?;
        let mut session = self.surroundings.sign_in("person@acme.test").await?;
        for _ in 0..REFRESHES {
            self.surroundings.refresh(&mut session).await?;
        }
        self.podman.run(&["healthcheck", "run", "serviced"]).context("the health check fails")?;
        tokio::time::sleep(BACKGROUND_WORK).await;
        let mut measured = self.look()?;
        measured["ready_seconds"] = ready.as_secs_f64().into();
        measured["stopped_seconds"] = self.stop(&session).await?.into();
        measured["signed_in"] = true.into();
        Ok(measured)
    }

    /// Runs commands of the document beside the files.
    fn script(&self, commands: &str) -> Result<()> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let all = [self.podman.wrapper()?].into_iter().chain(std::env::split_paths(&path));
        let mut shell = Command::new("sh");
        shell.args(["-euc", commands]).env("PATH", std::env::join_paths(all)?).current_dir(self.folder.path());
        said_by(&mut shell).map(|_| ())
    }

    /// Looks at the running container from outside: memory, and what was written.
    fn look(&self) -> Result<Value> {
        let inspected: Value = serde_json::from_str(&self.podman.run(&["inspect", "serviced"])?)?;
        let state = &inspected[0]["State"];
        let health = state["Health"]["Status"].as_str().or_else(|| state["Healthcheck"]["Status"].as_str());
        ensure!(health == Some("healthy"), "the health check says {health:?}");
        ensure!(inspected[0]["Config"]["User"] == "65532:65532", "the user is {}", inspected[0]["Config"]["User"]);
        let pid = state["Pid"].as_u64().context("the container has no process")?;
        let memory = Memory::of(pid)?;
        ensure!(memory.limit == MEMORY_LIMIT, "the limit of memory is {}, not {MEMORY_LIMIT}", memory.limit);
        let mut written = Vec::new();
        for folder in WRITABLE {
            list_files(&PathBuf::from(format!("/proc/{pid}/root")), Path::new(folder), &mut written)?;
        }
        // What podman itself puts there.
        written.retain(|file| file != "run/.containerenv" && !file.starts_with("run/secrets"));
        // In the image's own files there are only places to mount on.
        let changed = self.podman.run(&["diff", "serviced"])?;
        let mounted = ["/dev", "/etc", "/proc", "/run", "/sys", "/tmp", "/var"];
        let paths = changed.lines().filter_map(|line| line.split_once(' ')).map(|(_, path)| path);
        written.extend(paths.filter(|path| !mounted.iter().any(|place| path.starts_with(place))).map(str::to_owned));
        Ok(json!({
            "memory_bytes": memory.used,
            "memory_peak_bytes": memory.peak,
            "resident_bytes": memory.resident,
            "written": written,
        }))
    }

    /// Stops the container; the node drains, and its exit is clean. Returns the seconds.
    async fn stop(&self, session: &UserTokens) -> Result<f64> {
        let began = Instant::now();
        let mut stop = self.podman.command();
        let stopping = stop.args(["stop", "serviced"]).stdout(Stdio::null()).stderr(Stdio::piped()).spawn()?;
        tokio::time::sleep(Duration::from_secs(1)).await;
        let served = self.surroundings.http.get("/v1/whoami", Some(&session.access_token)).await;
        let waited = stopping.wait_with_output()?;
        let served = served.context("a node that drains does not answer")?;
        ensure!(served.status == 200, "a node that drains answers {}", served.status);
        ensure!(waited.status.success(), "podman stop: {}", String::from_utf8_lossy(&waited.stderr));
        let seconds = began.elapsed().as_secs_f64();
        let code = self.podman.run(&["inspect", "--format", "{{.State.ExitCode}} {{.State.OOMKilled}}", "serviced"])?;
        ensure!(code == "0 false", "the exit code, and whether memory ran out: {code}");
        Ok(seconds)
    }
}

/// The name of the image in an archive.
fn find_tag(archive: &Path) -> Result<String> {
    let mut tar = Command::new("tar");
    let manifest = said_by(tar.arg("--extract").arg("--to-stdout").arg("--file").arg(archive).arg("manifest.json"))?;
    let manifest: Value = serde_json::from_str(&manifest)?;
    Ok(manifest[0]["RepoTags"][0].as_str().context("the image has no name")?.to_owned())
}

/// The memory of a container and of its process, in bytes.
struct Memory {
    used: u64,
    peak: u64,
    limit: u64,
    /// Of the process, with the pages of its program.
    resident: u64,
}

impl Memory {
    /// The memory of the group that a process is in, in either version of control groups.
    fn of(pid: u64) -> Result<Self> {
        let groups = fs::read_to_string(format!("/proc/{pid}/cgroup"))?;
        let old = groups.lines().find_map(|line| line.split_once(":memory:"));
        let (folder, files) = if let Some((_, group)) = old {
            let files = ["memory.usage_in_bytes", "memory.max_usage_in_bytes", "memory.limit_in_bytes"];
            (format!("/sys/fs/cgroup/memory{group}"), files)
        } else {
            let group = groups.lines().find_map(|line| line.strip_prefix("0::")).context("no control group")?;
            (format!("/sys/fs/cgroup{group}"), ["memory.current", "memory.peak", "memory.max"])
        };
        let read = |name: &str| -> Result<u64> {
            let text = fs::read_to_string(Path::new(&folder).join(name)).with_context(|| format!("{folder}/{name}"))?;
            text.trim().parse().with_context(|| format!("{name} is {text}"))
        };
        let used = read(files[0])?;
        // Older kernels have no peak of the newer version.
        let (peak, limit) = (read(files[1]).unwrap_or(used), read(files[2])?);
        let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
        let kilobytes = status.split("VmRSS:").nth(1).and_then(|rest| rest.split_whitespace().next());
        let resident = kilobytes.context("the process has no memory")?.parse::<u64>()? * 1024;
        Ok(Self { used, peak, limit, resident })
    }
}

/// Adds the files in a folder and below.
fn list_files(root: &Path, folder: &Path, found: &mut Vec<String>) -> Result<()> {
    let Ok(entries) = fs::read_dir(root.join(folder)) else { return Ok(()) };
    for entry in entries {
        let entry = entry?;
        let path = folder.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            list_files(root, &path, found)?;
        } else {
            found.push(path.display().to_string());
        }
    }
    Ok(())
}
