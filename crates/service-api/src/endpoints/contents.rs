//! Workspaces, and what lives in them.

use super::{Access, Body, Endpoint, Method};
use crate::{
    contents::Kind,
    scope::{Action, Resource, Scope},
};

pub const LIST_PROJECTS: Endpoint = content(Method::Get, "/v1/projects", Kind::Project, Action::Read);
pub const CREATE_PROJECT: Endpoint = content(Method::Post, "/v1/projects", Kind::Project, Action::Write);
pub const READ_PROJECT: Endpoint = content(Method::Get, "/v1/projects/{projectId}", Kind::Project, Action::Read);
pub const UPDATE_PROJECT: Endpoint = content(Method::Patch, "/v1/projects/{projectId}", Kind::Project, Action::Write);
pub const DELETE_PROJECT: Endpoint = content(Method::Delete, "/v1/projects/{projectId}", Kind::Project, Action::Write);
pub const LIST_PACKS: Endpoint = content(Method::Get, "/v1/packs", Kind::Pack, Action::Read);
pub const CREATE_PACK: Endpoint = content(Method::Post, "/v1/packs", Kind::Pack, Action::Write);
pub const READ_PACK: Endpoint = content(Method::Get, "/v1/packs/{packId}", Kind::Pack, Action::Read);
pub const UPDATE_PACK: Endpoint = content(Method::Patch, "/v1/packs/{packId}", Kind::Pack, Action::Write);
pub const DELETE_PACK: Endpoint = content(Method::Delete, "/v1/packs/{packId}", Kind::Pack, Action::Write);
pub const LIST_PLAYBOOKS: Endpoint = content(Method::Get, "/v1/playbooks", Kind::Playbook, Action::Read);
pub const CREATE_PLAYBOOK: Endpoint = content(Method::Post, "/v1/playbooks", Kind::Playbook, Action::Write);
pub const READ_PLAYBOOK: Endpoint = content(Method::Get, "/v1/playbooks/{playbookId}", Kind::Playbook, Action::Read);
pub const UPDATE_PLAYBOOK: Endpoint =
    content(Method::Patch, "/v1/playbooks/{playbookId}", Kind::Playbook, Action::Write);
pub const DELETE_PLAYBOOK: Endpoint =
    content(Method::Delete, "/v1/playbooks/{playbookId}", Kind::Playbook, Action::Write);
pub const LIST_CASES: Endpoint = content(Method::Get, "/v1/cases", Kind::Case, Action::Read);
pub const CREATE_CASE: Endpoint = content(Method::Post, "/v1/cases", Kind::Case, Action::Write);
pub const READ_CASE: Endpoint = content(Method::Get, "/v1/cases/{caseId}", Kind::Case, Action::Read);
pub const UPDATE_CASE: Endpoint = content(Method::Patch, "/v1/cases/{caseId}", Kind::Case, Action::Write);
pub const DELETE_CASE: Endpoint = content(Method::Delete, "/v1/cases/{caseId}", Kind::Case, Action::Write);
pub const LIST_RECORDS: Endpoint = content(Method::Get, "/v1/records", Kind::Record, Action::Read);
pub const CREATE_RECORD: Endpoint = content(Method::Post, "/v1/records", Kind::Record, Action::Write);
pub const READ_RECORD: Endpoint = content(Method::Get, "/v1/records/{recordId}", Kind::Record, Action::Read);
pub const UPDATE_RECORD: Endpoint = content(Method::Patch, "/v1/records/{recordId}", Kind::Record, Action::Write);
pub const DELETE_RECORD: Endpoint = content(Method::Delete, "/v1/records/{recordId}", Kind::Record, Action::Write);
pub const LIST_WORKSPACES: Endpoint = workspace(Method::Get, "/v1/workspaces", Action::Read);
pub const CREATE_WORKSPACE: Endpoint = workspace(Method::Post, "/v1/workspaces", Action::Write);
pub const READ_WORKSPACE: Endpoint = workspace(Method::Get, "/v1/workspaces/{workspaceId}", Action::Read);
pub const RENAME_WORKSPACE: Endpoint = workspace(Method::Patch, "/v1/workspaces/{workspaceId}", Action::Write);
pub const DELETE_WORKSPACE: Endpoint = membership(Method::Delete, "/v1/workspaces/{workspaceId}", Action::Write);
pub const LIST_MEMBERS: Endpoint = workspace(Method::Get, "/v1/workspaces/{workspaceId}/members", Action::Read);
pub const CHANGE_ROLE: Endpoint =
    membership(Method::Patch, "/v1/workspaces/{workspaceId}/members/{userId}", Action::Write);
pub const REMOVE_MEMBER: Endpoint =
    membership(Method::Delete, "/v1/workspaces/{workspaceId}/members/{userId}", Action::Write);
pub const LIST_INVITATIONS: Endpoint = workspace(Method::Get, "/v1/workspaces/{workspaceId}/invitations", Action::Read);
pub const INVITE: Endpoint = membership(Method::Post, "/v1/workspaces/{workspaceId}/invitations", Action::Write);
pub const REVOKE_INVITATION: Endpoint =
    membership(Method::Delete, "/v1/workspaces/{workspaceId}/invitations/{invitationId}", Action::Write);

pub const SEARCH_PACKS: Endpoint = Endpoint {
    method: Method::Post,
    path: "/v1/packs/search",
    access: Access::Bearer(Scope::of(Action::Read, Resource::Packs)),
    body: Body::Json,
    query: &["workspaceId"],
};

const fn workspace(method: Method, path: &'static str, action: Action) -> Endpoint {
    let body = if matches!(method, Method::Post | Method::Patch) { Body::Json } else { Body::None };
    let access = Access::Bearer(Scope::of(action, Resource::Workspaces));
    let lists = matches!(method, Method::Get) && path.as_bytes()[path.len() - 1] != b'}';
    let query: &[&str] = if lists { &["limit", "cursor"] } else { &[] };
    Endpoint { method, path, access, body, query }
}

/// Decides who is in a workspace, or whether there is one: not for automation, nor for clients of others.
const fn membership(method: Method, path: &'static str, action: Action) -> Endpoint {
    let access = Access::SignedIn(Scope::of(action, Resource::Workspaces));
    let body = if matches!(method, Method::Delete) { Body::None } else { Body::Json };
    Endpoint { method, path, access, body, query: &[] }
}

const fn content(method: Method, path: &'static str, kind: Kind, action: Action) -> Endpoint {
    let body = if matches!(method, Method::Post | Method::Patch) { Body::Json } else { Body::None };
    let one = path.as_bytes()[path.len() - 1] == b'}';
    let query: &[&str] =
        if one || !matches!(method, Method::Get) { &["workspaceId"] } else { &["workspaceId", "limit", "cursor"] };
    Endpoint { method, path, access: Access::Bearer(Scope::of(action, kind.resource())), body, query }
}
