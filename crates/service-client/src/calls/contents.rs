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
    pub kind: Kind,
    /// A workspace's id, `personal`, or `None` for the default of the token.
    pub workspace: Option<&'a str>,
    pub id: &'a str,
}

/// Contents. `workspace` is a workspace's id, `personal`, or `None` for the default of the token.
///
/// # Errors
/// [`Error::Refused`] with `not_found` if there is no such content in the space, with `forbidden` if the user's role does not
/// allow the request, with `validation_failed` if a field is invalid.
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

    /// Creates a content with these fields.
    pub async fn create_content(
        &self,
        token: &AccessToken,
        kind: Kind,
        workspace: Option<&str>,
        fields: &JsonObject,
    ) -> Result<Content, Error> {
        let call = self.call_with(&contents(kind).create, &[], fields).bearer(token);
        call.query(&[("workspaceId", workspace)]).send().await
    }

    /// Gets a content.
    pub async fn read_content(&self, token: &AccessToken, content: ContentAddress<'_>) -> Result<Content, Error> {
        let ContentAddress { kind, workspace, id } = content;
        self.call(&contents(kind).read, &[id]).bearer(token).query(&[("workspaceId", workspace)]).send().await
    }

    /// Updates the fields that `changes` names. The other fields stay as they are.
    pub async fn update_content(
        &self,
        token: &AccessToken,
        content: ContentAddress<'_>,
        changes: &JsonObject,
    ) -> Result<Content, Error> {
        let ContentAddress { kind, workspace, id } = content;
        let call = self.call_with(&contents(kind).update, &[id], changes).bearer(token);
        call.query(&[("workspaceId", workspace)]).send().await
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
