//! What lives in spaces. Five kinds, one form; `workspace` is an id, `personal`, or nothing for the token's own.

use serde_json::Value;
use service_api::{
    contents::{Content, Kind},
    endpoints::{self, Endpoint},
    page::Page,
    search::{Found, SearchPacks},
    token::AccessToken,
};

use crate::{Client, Error};

impl Client {
    pub async fn list_contents(
        &self,
        token: &AccessToken,
        kind: Kind,
        workspace: Option<&str>,
        cursor: Option<&str>,
    ) -> Result<Page<Content>, Error> {
        let query = [("workspaceId", workspace), ("cursor", cursor)];
        self.call(rows(kind).list, &[]).bearer(token).query(&query).answer().await
    }

    pub async fn create_content(
        &self,
        token: &AccessToken,
        kind: Kind,
        workspace: Option<&str>,
        fields: &Value,
    ) -> Result<Content, Error> {
        self.call(rows(kind).create, &[]).bearer(token).query(&[("workspaceId", workspace)]).json(fields).answer().await
    }

    pub async fn read_content(
        &self,
        token: &AccessToken,
        kind: Kind,
        workspace: Option<&str>,
        id: &str,
    ) -> Result<Content, Error> {
        self.call(rows(kind).read, &[id]).bearer(token).query(&[("workspaceId", workspace)]).answer().await
    }

    /// Changes the fields that `changes` names; others stay.
    pub async fn update_content(
        &self,
        token: &AccessToken,
        (kind, id): (Kind, &str),
        workspace: Option<&str>,
        changes: &Value,
    ) -> Result<Content, Error> {
        let call = self.call(rows(kind).update, &[id]).bearer(token).query(&[("workspaceId", workspace)]);
        call.json(changes).answer().await
    }

    pub async fn delete_content(
        &self,
        token: &AccessToken,
        kind: Kind,
        workspace: Option<&str>,
        id: &str,
    ) -> Result<(), Error> {
        self.call(rows(kind).delete, &[id]).bearer(token).query(&[("workspaceId", workspace)]).done().await
    }

    pub async fn search_packs(
        &self,
        token: &AccessToken,
        workspace: Option<&str>,
        search: &SearchPacks,
    ) -> Result<Page<Found>, Error> {
        let call = self.call(&endpoints::SEARCH_PACKS, &[]).bearer(token).query(&[("workspaceId", workspace)]);
        call.json(search).repeatable().answer().await
    }
}

/// The five endpoints of a kind.
struct Rows {
    list: &'static Endpoint,
    create: &'static Endpoint,
    read: &'static Endpoint,
    update: &'static Endpoint,
    delete: &'static Endpoint,
}

fn rows(kind: Kind) -> Rows {
    macro_rules! rows {
        ($list:ident $create:ident $read:ident $update:ident $delete:ident) => {
            Rows {
                list: &endpoints::$list,
                create: &endpoints::$create,
                read: &endpoints::$read,
                update: &endpoints::$update,
                delete: &endpoints::$delete,
            }
        };
    }
    match kind {
        Kind::Project => rows!(LIST_PROJECTS CREATE_PROJECT READ_PROJECT UPDATE_PROJECT DELETE_PROJECT),
        Kind::Pack => rows!(LIST_PACKS CREATE_PACK READ_PACK UPDATE_PACK DELETE_PACK),
        Kind::Playbook => rows!(LIST_PLAYBOOKS CREATE_PLAYBOOK READ_PLAYBOOK UPDATE_PLAYBOOK DELETE_PLAYBOOK),
        Kind::Case => rows!(LIST_CASES CREATE_CASE READ_CASE UPDATE_CASE DELETE_CASE),
        Kind::Record => rows!(LIST_RECORDS CREATE_RECORD READ_RECORD UPDATE_RECORD DELETE_RECORD),
    }
}
