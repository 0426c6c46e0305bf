//! Writes an export as a ZIP file while it is read.
//!
//! A task makes pieces and sends them into a channel. It waits while the channel is full, and ends when its reader is gone. Few tasks
//! of a node read a page at the same time, so exports never use more than a few connections and cores, however many there are and
//! however slowly they are read.

use std::{
    io::{self, Write},
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::Bytes;
use flate2::{Compression, write::DeflateEncoder};
use rawzip::{CompressionMethod, ZipArchiveWriter};
use serde_json::json;
use service_api::{
    ids::{ExportId, UserId},
    instant,
    scope::Scopes,
};
use service_rules::{Timestamp, signing::later, space::SpaceAccess};
use tokio::{
    sync::{SemaphorePermit, mpsc},
    time::{Instant, timeout_at},
};
use uuid::Uuid;

use super::files::{ExportFile, FILES, WrittenPage};
use crate::{
    app::App,
    database::{self, Connection},
    flows::{
        Actor, RequestMeta,
        actor::Basis,
        authenticate::{self, AuthenticateError},
        sign_in::browser_session,
    },
    node_limits::network_places::PlacePermit,
    store::{
        self,
        account_exports::{ExportKey, Stream, Written},
        browser_sessions::CookieKey,
    },
};

/// A download that has not renewed its note for this long does not run any more: its node has died, or it waits for its client.
pub(super) const STREAM_LEASE_SECONDS: i64 = 60;
/// How long a download takes at most.
const MAX_DOWNLOAD_TIME: Duration = Duration::from_secs(15 * 60);
/// How often a download records how far it is.
const RECORD_EVERY: Duration = Duration::from_secs(1);
/// The size of a piece. The last piece of a page is smaller.
const PIECE_BYTES: usize = 64 * 1024;
/// Pieces that wait for the client.
const WAITING_PIECES: usize = 2;

/// Why a download stopped before its end.
#[derive(Debug, thiserror::Error)]
enum StopReason {
    #[error("the client disconnected")]
    Disconnected,
    #[error("the session ended")]
    SessionEnded,
    #[error("another download took its place")]
    Superseded,
    #[error("it took too long")]
    TooSlow,
    #[error(transparent)]
    Failed(#[from] anyhow::Error),
}

impl StopReason {
    const fn outcome(&self) -> &'static str {
        match self {
            Self::Disconnected => "disconnected",
            Self::SessionEnded => "session_ended",
            Self::Superseded => "superseded",
            Self::TooSlow => "too_slow",
            Self::Failed(_) => "failed",
        }
    }
}

impl From<database::Error> for StopReason {
    fn from(error: database::Error) -> Self {
        Self::Failed(error.into())
    }
}

impl From<io::Error> for StopReason {
    fn from(error: io::Error) -> Self {
        Self::Failed(error.into())
    }
}

impl From<rawzip::Error> for StopReason {
    fn from(error: rawzip::Error) -> Self {
        Self::Failed(error.into())
    }
}

/// The body of a download, and what its headers say.
pub struct DownloadBody {
    pub pieces: Pieces,
    /// When the export was started, which names the file.
    pub created_at: Timestamp,
}

/// The pieces of a ZIP file. A download that stops early ends with an error, so that its client does not take it for complete, also
/// when its task is gone.
pub struct Pieces {
    receiver: mpsc::Receiver<io::Result<Bytes>>,
    is_complete: bool,
}

impl Pieces {
    pub fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<io::Result<Bytes>>> {
        let polled = ready!(self.receiver.poll_recv(context));
        // An empty piece follows the last one.
        self.is_complete |= matches!(&polled, Some(Ok(piece)) if piece.is_empty());
        Poll::Ready(match polled {
            _ if self.is_complete => None,
            None => Some(Err(io::Error::other("the download broke off"))),
            piece => piece,
        })
    }
}

/// A download that runs.
pub(super) struct Download {
    app: App,
    user_id: UserId,
    client_id: String,
    basis: Basis,
    meta: RequestMeta,
    session_id: String,
    run: Run,
    deadline: Instant,
    /// Held until the download ends. `None`: an operator's command reads it.
    _place: Option<PlacePermit>,
}

/// One download of an export.
#[derive(Clone, Copy)]
pub(super) struct Run {
    pub(super) export_id: ExportId,
    pub(super) stream_id: Uuid,
    pub(super) created_at: Timestamp,
    /// Of the browser that downloads it. `None`: a session does.
    pub(super) cookie: Option<CookieKey>,
}

impl Download {
    pub(super) fn new(app: &App, actor: &Actor<'_>, run: Run, place: Option<PlacePermit>) -> Self {
        Self {
            app: app.clone(),
            user_id: actor.user_id,
            client_id: actor.client_id.to_owned(),
            basis: actor.basis,
            meta: actor.meta.clone(),
            session_id: actor.basis.to_string(),
            run,
            deadline: Instant::now() + MAX_DOWNLOAD_TIME,
            _place: place,
        }
    }

    /// Starts the task that writes the file.
    pub(super) fn begin(self) -> DownloadBody {
        let (sender, receiver) = mpsc::channel(WAITING_PIECES);
        let created_at = self.run.created_at;
        tokio::spawn(self.run(sender));
        DownloadBody { pieces: Pieces { receiver, is_complete: false }, created_at }
    }

    async fn run(self, sender: mpsc::Sender<io::Result<Bytes>>) {
        let mut progress = Progress { written: Written::default(), recorded_at: Instant::now() };
        let ended = timeout_at(self.deadline, self.write(&sender, &mut progress)).await;
        let ended = ended.unwrap_or(Err(StopReason::TooSlow));
        let outcome = ended.as_ref().map_or_else(StopReason::outcome, |()| "finished");
        self.app.metrics.exports.download_ended(outcome);
        let finished_at = ended.is_ok().then(|| self.app.clock.now());
        if let Err(error) = self.record_end(progress.written, finished_at).await {
            tracing::warn!(error = error.to_string(), "Could not record the end of an export's download");
        }
        if let Err(reason) = ended {
            let request_id = &*self.meta.request_id;
            if let StopReason::Failed(error) = &reason {
                tracing::warn!(request.id = request_id, error = format!("{error:#}"), "Download of an export failed");
            } else {
                tracing::info!(request.id = request_id, reason = reason.to_string(), "Download of an export stopped");
            }
            // The reader may be gone.
            drop(sender.send(Err(io::Error::other("the download stopped"))).await);
        }
    }

    /// Writes all files and the index.
    async fn write(&self, sender: &mpsc::Sender<io::Result<Bytes>>, progress: &mut Progress) -> Result<(), StopReason> {
        let buffer = Buffer::default();
        let mut archive = ZipArchiveWriter::new(buffer.clone());
        let mut index = Vec::new();
        for file in &FILES {
            let (entry, config) = archive.new_file(file.name).compression_method(CompressionMethod::DEFLATE).start()?;
            let mut writer = config.wrap(DeflateEncoder::new(entry, Compression::fast()));
            if !file.is_object() {
                writer.write_all(b"[\n")?;
            }
            let (mut entries, mut cursor) = (0_u64, None::<String>);
            loop {
                let (page, turn) = self.page(file, cursor.as_deref()).await?;
                if entries > 0 && page.entries > 0 {
                    writer.write_all(b",\n")?;
                }
                writer.write_all(&page.json)?;
                drop(turn);
                entries += u64::from(page.entries);
                progress.written.entries += i64::from(page.entries);
                self.send(sender, &buffer, progress, Rest::Waits).await?;
                match page.next {
                    Some(next) => cursor = Some(next),
                    None => break,
                }
            }
            writer.write_all(if file.is_object() { b"\n" } else { b"\n]\n" })?;
            let (encoder, descriptor) = writer.finish()?;
            encoder.finish()?.finish(descriptor)?;
            progress.written.files += 1;
            index.push(json!({ "name": file.name, "about": file.about, "entries": entries }));
        }
        let text = format!("{:#}\n", self.index(&index));
        let (entry, config) = archive.new_file("index.json").compression_method(CompressionMethod::DEFLATE).start()?;
        let mut writer = config.wrap(DeflateEncoder::new(entry, Compression::fast()));
        writer.write_all(text.as_bytes())?;
        let (encoder, descriptor) = writer.finish()?;
        encoder.finish()?.finish(descriptor)?;
        progress.written.files += 1;
        archive.finish()?;
        // The session may have ended since the last page.
        self.check_session().await?;
        self.send(sender, &buffer, progress, Rest::Follows).await?;
        sender.send(Ok(Bytes::new())).await.map_err(|_| StopReason::Disconnected)
    }

    fn index(&self, files: &[serde_json::Value]) -> serde_json::Value {
        json!({
            "version": 1,
            "service": self.app.config.base_url,
            "user": self.user_id,
            "startedAt": instant::to_text(self.run.created_at),
            "writtenAt": instant::to_text(self.app.clock.now()),
            "files": files,
        })
    }

    /// Reads a page, when it is this download's turn. The turn ends when the page is compressed.
    async fn page(
        &self,
        file: &ExportFile,
        cursor: Option<&str>,
    ) -> Result<(WrittenPage, SemaphorePermit<'_>), StopReason> {
        let turn = self.app.export_pages.acquire().await.map_err(anyhow::Error::from)?;
        self.check_session().await?;
        let actor = Actor {
            user_id: self.user_id,
            client_id: &self.client_id,
            scopes: Scopes::READ,
            space_access: SpaceAccess::Anywhere(None),
            basis: self.basis,
            meta: &self.meta,
        };
        Ok((file.page(&self.app, &actor, cursor).await?, turn))
    }

    /// Fails if the session was revoked, or its user or client was disabled.
    async fn check_session(&self) -> Result<(), StopReason> {
        let (app, now) = (&self.app, self.app.clock.now());
        match self.basis {
            Basis::Session(id) => match authenticate::find_live_grant(app, id, now).await {
                Ok(_) => Ok(()),
                Err(AuthenticateError::Bearer(_)) => Err(StopReason::SessionEnded),
                Err(AuthenticateError::Database(error)) => Err(error.into()),
                Err(AuthenticateError::Defect(error)) => Err(error.into()),
            },
            Basis::Browser { .. } => {
                let db = app.database.connect().await?;
                let is_signed_in = self.is_signed_in(&db, now).await?;
                let is_enabled = store::users::find(&db, self.user_id).await?.is_some_and(|user| !user.disabled);
                if is_signed_in && is_enabled { Ok(()) } else { Err(StopReason::SessionEnded) }
            }
            Basis::Operator => Ok(()),
            Basis::CliToken(_) => Err(StopReason::SessionEnded),
        }
    }

    /// Whether the browser still has its cookie, and the user has not signed in again there since the export was started.
    async fn is_signed_in(&self, db: &Connection, now: Timestamp) -> Result<bool, StopReason> {
        let Some(cookie) = &self.run.cookie else { return Ok(false) };
        let found = store::browser_sessions::find(db, cookie, browser_session::idle_since(now), now).await?;
        let person = found.and_then(|found| found.person).filter(|person| person.user_id == self.user_id);
        let Some(person) = person.filter(|person| person.signed_in_at <= self.run.created_at) else { return Ok(false) };
        Ok(!self.app.revocations.revoked_all_since(person.signed_in_at)?)
    }

    /// Sends what was written, in pieces of one size, and waits while the client does not read.
    async fn send(
        &self,
        sender: &mpsc::Sender<io::Result<Bytes>>,
        buffer: &Buffer,
        progress: &mut Progress,
        rest: Rest,
    ) -> Result<(), StopReason> {
        if sender.is_closed() {
            return Err(StopReason::Disconnected);
        }
        // What compresses well fills no piece for long, and proxies close a connection on which nothing comes.
        let is_due = progress.recorded_at.elapsed() >= RECORD_EVERY;
        let rest = if is_due { Rest::Follows } else { rest };
        while let Some(piece) = buffer.take(rest) {
            progress.written.bytes += i64::try_from(piece.len()).unwrap_or(i64::MAX);
            sender.send(Ok(piece)).await.map_err(|_| StopReason::Disconnected)?;
            self.record_if_due(progress).await?;
        }
        self.record_if_due(progress).await
    }

    async fn record_if_due(&self, progress: &mut Progress) -> Result<(), StopReason> {
        if progress.recorded_at.elapsed() < RECORD_EVERY {
            return Ok(());
        }
        progress.recorded_at = Instant::now();
        self.record(progress.written).await
    }

    fn key(&self) -> ExportKey<'_> {
        ExportKey { id: self.run.export_id, user_id: self.user_id, session_id: &self.session_id }
    }

    /// Records how far the download is, and that it still runs.
    async fn record(&self, written: Written) -> Result<(), StopReason> {
        if self.basis == Basis::Operator {
            return Ok(());
        }
        let now = self.app.clock.now();
        let stream = Stream { id: self.run.stream_id, until: later(now, STREAM_LEASE_SECONDS) };
        let db = self.app.database.connect().await?;
        let runs = store::account_exports::renew_stream(&db, &self.key(), stream, written, now).await?;
        if runs { Ok(()) } else { Err(StopReason::Superseded) }
    }

    async fn record_end(&self, written: Written, finished_at: Option<Timestamp>) -> Result<(), database::Error> {
        if self.basis == Basis::Operator {
            return Ok(());
        }
        let db = self.app.database.connect().await?;
        store::account_exports::end_stream(&db, &self.key(), self.run.stream_id, written, finished_at).await
    }
}

/// How far a download is.
struct Progress {
    written: Written,
    recorded_at: Instant,
}

/// What happens to bytes that do not fill a piece.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Rest {
    /// They wait for more.
    Waits,
    /// They follow as the last piece.
    Follows,
}

/// The bytes of the file that were not sent yet. The writer of the file has one handle, and the sender another.
#[derive(Clone, Default)]
struct Buffer(Arc<Mutex<Vec<u8>>>);

impl Buffer {
    /// Takes the next piece.
    fn take(&self, rest: Rest) -> Option<Bytes> {
        let mut bytes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if bytes.len() >= PIECE_BYTES {
            let behind = bytes.split_off(PIECE_BYTES);
            return Some(std::mem::replace(&mut *bytes, behind).into());
        }
        let is_last = rest == Rest::Follows && !bytes.is_empty();
        is_last.then(|| std::mem::take(&mut *bytes).into())
    }
}

impl Write for Buffer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
