//! Contents: projects, packs, playbooks, cases and records.

use service_api::{
    JsonObject,
    contents::{Content, DeletedContent, Kind},
    endpoints::{self, contents},
    page::Page,
    search::{Found, SearchPacks},
    token::AccessToken,
};

use crate::{Client, Error};

/// One content: its kind, the space in which it is searched, and its id.
#[derive(Clone, Copy, Debug)]
pub struct ContentAddress<'a> {
    /// Which kind of content it is.
    pub kind: Kind,
    /// A workspace's id, `personal`, or `None` for the default of the token.
    pub workspace: Option<&'a str>,
    /// The ID of the content, such as `proj_…`.
    pub id: &'a str,
}

/// A content to create.
#[derive(Clone, Copy, Debug)]
pub struct NewContent<'a> {
    /// Which kind of content it is.
    pub kind: Kind,
    /// A workspace's id, `personal`, or `None` for the default of the token.
    pub workspace: Option<&'a str>,
    /// The fields of its kind.
    pub fields: &'a JsonObject,
    /// A random text that names this request. The service creates one content for it, however often the request arrives, so it
    /// is sent again after a temporary failure. Without a key it is sent once.
    pub idempotency_key: Option<&'a str>,
}

/// A content, and the version that it has.
#[derive(Debug)]
pub struct VersionedContent {
    /// The content.
    pub content: Content,
    /// Changes with every change of the content. [`Client::update_content`] accepts it as a precondition. `None` if a proxy
    /// removed it.
    pub version: Option<String>,
}

impl VersionedContent {
    /// Reads the version from an `ETag`, which a proxy that compresses responses marks as weak.
    fn new(content: Content, tag: Option<String>) -> Self {
        let version = tag.map(|tag| tag.trim_start_matches("W/").trim_matches('"').to_owned());
        Self { content, version }
    }
}

/// Contents. `workspace` is a workspace's id, `personal`, or `None` for the default of the token.
///
/// # Errors
/// [`Error::Refused`] with `not_found` if there is no such content in the space, with `forbidden` if the user's role does not
/// allow the request, with `validation_failed` if a field is invalid, with `precondition_failed` if it has another version.
impl Client {
    /// Lists the contents of a kind, oldest first.
    pub async fn list_contents(
        &self,
        token: &AccessToken,
        kind: Kind,
        workspace: Option<&str>,
        cursor: Option<&str>,
    ) -> Result<Page<Content>, Error> {
        let query = [("workspaceId", workspace), ("cursor", cursor)];
        self.call(&contents(kind).list, &[]).bearer(token).query(&query).send().await
    }

    /// Creates a content.
    pub async fn create_content(&self, token: &AccessToken, new: NewContent<'_>) -> Result<VersionedContent, Error> {
        let call = self.call_with(&contents(new.kind).create, &[], new.fields).bearer(token);
        let call = call.query(&[("workspaceId", new.workspace)]).header("idempotency-key", new.idempotency_key);
        let call = if new.idempotency_key.is_some() { call.repeatable() } else { call };
        let (content, tag) = call.send_tagged().await?;
        Ok(VersionedContent::new(content, tag))
    }

    /// Gets a content.
    pub async fn read_content(
        &self,
        token: &AccessToken,
        content: ContentAddress<'_>,
    ) -> Result<VersionedContent, Error> {
        let ContentAddress { kind, workspace, id } = content;
        let call = self.call(&contents(kind).read, &[id]).bearer(token).query(&[("workspaceId", workspace)]);
        let (content, tag) = call.send_tagged().await?;
        Ok(VersionedContent::new(content, tag))
    }

    /// Updates the fields that `changes` names. The other fields stay as they are. With a `version`, only the content of that
    /// version is updated.
    pub async fn update_content(
        &self,
        token: &AccessToken,
        content: ContentAddress<'_>,
        changes: &JsonObject,
        version: Option<&str>,
    ) -> Result<VersionedContent, Error> {
        let ContentAddress { kind, workspace, id } = content;
        let tag = version.map(|version| format!("\"{version}\""));
        let call = self.call_with(&contents(kind).update, &[id], changes).bearer(token);
        let call = call.query(&[("workspaceId", workspace)]).header("if-match", tag.as_deref());
        let (content, tag) = call.send_tagged().await?;
        Ok(VersionedContent::new(content, tag))
    }

    /// Deletes a content. It can be restored for 30 days.
    pub async fn delete_content(&self, token: &AccessToken, content: ContentAddress<'_>) -> Result<(), Error> {
        let ContentAddress { kind, workspace, id } = content;
        self.call(&contents(kind).delete, &[id]).bearer(token).query(&[("workspaceId", workspace)]).send().await
    }

    /// Lists deleted contents that can be restored. In a workspace the caller must be an owner.
    pub async fn list_deleted_contents(
        &self,
        token: &AccessToken,
        kind: Kind,
        workspace: Option<&str>,
        cursor: Option<&str>,
    ) -> Result<Page<DeletedContent>, Error> {
        let query = [("workspaceId", workspace), ("cursor", cursor)];
        self.call(&contents(kind).list_deleted, &[]).bearer(token).query(&query).send().await
    }

    /// Restores a content that was deleted within the last 30 days. In a workspace the caller must be an owner.
    pub async fn restore_content(&self, token: &AccessToken, content: ContentAddress<'_>) -> Result<Content, Error> {
        let ContentAddress { kind, workspace, id } = content;
        let call = self.call(&contents(kind).restore, &[id]).bearer(token).query(&[("workspaceId", workspace)]);
        call.repeatable().send().await
    }

    /// Searches packs, best match first.
    pub async fn search_packs(
        &self,
        token: &AccessToken,
        workspace: Option<&str>,
        search: &SearchPacks,
    ) -> Result<Page<Found>, Error> {
        let call = self.call_with(&endpoints::SEARCH_PACKS, &[], search).bearer(token);
        call.query(&[("workspaceId", workspace)]).repeatable().send().await
    }
}
