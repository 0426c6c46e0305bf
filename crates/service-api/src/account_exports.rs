//! `/v1/account/exports`: everything that is stored about a user, as a ZIP file of JSON.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Timestamp, ids::ExportId, instant};

/// The most exports that a user starts in 24 hours.
pub const MAX_EXPORTS_PER_DAY: u32 = 3;
/// The most downloads of one export that begin.
pub const MAX_DOWNLOADS: u32 = 5;

/// An export of everything that is stored about a user. Only the session that started it finds it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AccountExport {
    /// The ID of the export.
    pub id: ExportId,
    /// Whether it can be downloaded, is being downloaded, or was downloaded.
    pub status: ExportStatus,
    /// When it was started.
    #[serde(with = "instant::Written")]
    pub created_at: Timestamp,
    /// Until when it can be downloaded.
    #[serde(with = "instant::Written")]
    pub expires_at: Timestamp,
    /// The number of downloads that can still begin.
    pub downloads_left: u32,
    /// How far the latest download is.
    pub progress: ExportProgress,
}

/// The state of an export.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ExportStatus {
    /// It can be downloaded.
    Ready,
    /// It is being downloaded.
    Running,
    /// It was downloaded to the end.
    Finished,
}

/// How far a download is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ExportProgress {
    /// The number of files that are written.
    pub files: u32,
    /// The number of all files.
    pub total_files: u32,
    /// The number of entries that are written, over all files.
    pub entries: u64,
    /// The number of bytes of the ZIP file that are written.
    pub bytes: u64,
}

/// A ZIP file as the body of a response, which is read while it arrives.
#[derive(Debug)]
pub enum ZipFile {}
