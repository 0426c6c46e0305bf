//! `service account export`: downloads everything that the service stores about the user.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write as _},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use serde_json::json;
use service_client::ExportDownload;

use crate::{
    connection::Connection,
    context::Context,
    failure::{Failure, FailureCode},
    output,
    terminal::Terminal,
};

/// How often a terminal shows how much was downloaded.
const REPORT_EVERY: Duration = Duration::from_millis(200);

/// Starts an export and downloads it into a new file that only the user can read.
pub(super) async fn run(context: &Context, file: Option<PathBuf>) -> Result<(), Failure> {
    if let Some(path) = &file {
        check_new(path)?;
    }
    let connection = Connection::open(context)?;
    let export = connection.call(context, async |client, token| client.start_export(token).await).await?;
    let path = file.unwrap_or_else(|| format!("account-data-{}.zip", export.created_at.strftime("%Y-%m-%d")).into());
    check_new(&path)?;
    let download =
        connection.call(context, async |client, token| client.download_export(token, export.id).await).await?;
    let part = PartialFile(format!("{}.part", path.display()).into());
    let bytes = save(context.terminal(), download, &part.0).await?;
    // Another program may have created the file meanwhile.
    check_new(&path)?;
    fs::rename(&part.0, &path).map_err(|error| not_written(&path, &error))?;
    let shown = path.display().to_string();
    context.output.success(&format!("Saved your data to {shown} ({}).", size(bytes)));
    context.output.info("The file has personal data. Keep it where only you can read it.");
    context.output.result(&json!({ "export": export.id, "file": shown, "bytes": bytes }), "")
}

/// A file that is not complete. It is removed unless it is renamed, also when the user stops the command.
struct PartialFile(PathBuf);

impl Drop for PartialFile {
    fn drop(&mut self) {
        drop(fs::remove_file(&self.0));
    }
}

/// Writes a download into a file; returns its bytes.
async fn save(terminal: Terminal, mut download: ExportDownload, path: &Path) -> Result<u64, Failure> {
    // What a command left behind that was killed.
    drop(fs::remove_file(path));
    let mut file = create(path).map_err(|error| not_written(path, &error))?;
    let (mut bytes, mut reported) = (0, Instant::now());
    loop {
        let part = match download.next().await {
            Ok(Some(part)) => part,
            Ok(None) => break,
            Err(error) => {
                output::end_progress(terminal);
                let text = format!("The download was interrupted: {error}.");
                return Err(Failure::new(FailureCode::RequestFailed, text).hint("service account export"));
            }
        };
        file.write_all(&part).map_err(|error| not_written(path, &error))?;
        bytes += part.len() as u64;
        if reported.elapsed() >= REPORT_EVERY {
            reported = Instant::now();
            output::report_progress(terminal, &format!("Downloading your data: {}", size(bytes)));
        }
    }
    output::end_progress(terminal);
    file.sync_all().map_err(|error| not_written(path, &error))?;
    Ok(bytes)
}

/// Creates a file that only the user can read.
fn create(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

fn check_new(path: &Path) -> Result<(), Failure> {
    if fs::symlink_metadata(path).is_err() {
        return Ok(());
    }
    let text = format!("{} already exists.", path.display());
    Err(Failure::new(FailureCode::Usage, text).hint("Choose another file with --output FILE."))
}

fn not_written(path: &Path, error: &io::Error) -> Failure {
    Failure::new(FailureCode::StoreFailed, format!("Can't write {}: {error}", path.display()))
        .hint("Choose another file with --output FILE.")
}

/// A number of bytes, for people.
fn size(bytes: u64) -> String {
    match bytes {
        0..1_000 => format!("{bytes} bytes"),
        1_000..1_000_000 => format!("{} kB", bytes / 1_000),
        _ => format!("{}.{} MB", bytes / 1_000_000, bytes % 1_000_000 / 100_000),
    }
}

#[cfg(test)]
mod tests {
    use super::size;

    #[test]
    fn sizes_read_well() {
        assert_eq!([size(999), size(1_999), size(12_345_678)], ["999 bytes", "1 kB", "12.3 MB"]);
    }
}
