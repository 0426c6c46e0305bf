//! Exports of account data: starting them, downloading them, and reading their files.

use std::{collections::BTreeMap, io::Read as _};

use anyhow::{Context as _, Result, ensure};
use reqwest::{Method, Response};
use serde_json::Value;
use service_api::ids::Id as _;
use service_testkit::{
    response::TestResponse,
    server::{SignedIn, TestServer},
};

pub(crate) const EXPORTS: &str = "/v1/account/exports";

/// The files of an export, by their names.
pub(crate) type Files = BTreeMap<String, Value>;

/// Starts an export.
pub(crate) async fn start(server: &TestServer, who: &SignedIn) -> Result<TestResponse> {
    let request = server.http.request(Method::POST, EXPORTS).bearer_auth(&who.access_token);
    server.http.send(request).await
}

/// Starts an export; returns its id.
pub(crate) async fn started(server: &TestServer, who: &SignedIn) -> Result<String> {
    let response = start(server, who).await?;
    ensure!(response.status == 202, "{}", response.text);
    let id = response.field("id").to_owned();
    ensure!(response.header("location") == Some(&format!("{EXPORTS}/{id}")), "{:?}", response.headers);
    Ok(id)
}

/// Returns the state of an export.
pub(crate) async fn state(server: &TestServer, who: &SignedIn, id: &str) -> Result<TestResponse> {
    server.http.get(&format!("{EXPORTS}/{id}"), Some(&who.access_token)).await
}

/// Asks for the file of an export, and returns the response whatever it is.
pub(crate) async fn refused(server: &TestServer, who: &SignedIn, id: &str) -> Result<TestResponse> {
    server.http.get(&format!("{EXPORTS}/{id}/content"), Some(&who.access_token)).await
}

/// Begins a download. Its body is read by the test.
pub(crate) async fn begin(server: &TestServer, who: &SignedIn, id: &str) -> Result<Response> {
    let request = server.http.request(Method::GET, &format!("{EXPORTS}/{id}/content")).bearer_auth(&who.access_token);
    let response = request.send().await?;
    ensure!(response.status() == 200, "{}: {}", response.status(), response.text().await?);
    Ok(response)
}

/// Starts an export and downloads it.
pub(crate) async fn export(server: &TestServer, who: &SignedIn) -> Result<Files> {
    let id = started(server, who).await?;
    let response = begin(server, who, &id).await?;
    ensure!(response.headers()["content-type"] == "application/zip");
    unzip(&response.bytes().await?)
}

/// Reads every file of a ZIP file, and checks its sizes and sums.
pub(crate) fn unzip(bytes: &[u8]) -> Result<Files> {
    raw_files(bytes)?.into_iter().map(|(name, text)| Ok((name, serde_json::from_str(&text)?))).collect()
}

/// The texts of the files of a ZIP file.
pub(crate) fn raw_files(bytes: &[u8]) -> Result<BTreeMap<String, String>> {
    let archive = rawzip::ZipArchive::from_slice(bytes)?;
    let mut entries = archive.entries();
    let mut files = BTreeMap::new();
    while let Some(entry) = entries.next_entry()? {
        let name = entry.file_path().try_normalize()?.as_ref().to_owned();
        let found = archive.get_entry(entry.wayfinder())?;
        let mut text = String::new();
        let inflated = flate2::bufread::DeflateDecoder::new(found.data());
        found.verifying_reader(inflated).read_to_string(&mut text).with_context(|| name.clone())?;
        files.insert(name, text);
    }
    Ok(files)
}

/// Gives a user this many megabytes of content that hardly gets smaller when it is compressed.
pub(crate) async fn fill(server: &TestServer, who: &SignedIn, megabytes: u32) -> Result<()> {
    let space = who.user_id.uuid();
    let hex = "(select string_agg(md5(random()::text || n || k), '') from generate_series(1, 7812) k)";
    let rows = megabytes * 4;
    server
        .sql(&format!(
            "insert into contents (space_id, kind, id, shard, in_workspace, fields, version, created_by, created_at, updated_at)
             select '{space}', 'rec', gen_random_uuid(), shard_of('{space}'), false,
                    jsonb_build_object('name', 'Record ' || n, 'text', {hex}), 1, '{space}', '2027-01-15Z', '2027-01-15Z'
               from generate_series(1, {rows}) n"
        ))
        .await
        .map(drop)
}
