//! Workspaces, their members, and invitations.

use super::{
    Access::{self, Bearer, RecentSignInForOwners, SignedIn},
    operation::{delete, get, operations, patch, post},
};
use crate::{
    errors::ErrorCode::*,
    page::Page,
    scope::{Action, Resource, Scope},
    workspaces::{
        BlockedWorkspace, ChangeRole, Invitation, Invite, Member, NameWorkspace, ReceivedInvitation, RenameWorkspace,
        Workspace,
    },
};

const READ: Scope = Scope::of(Action::Read, Resource::Workspaces);
const WRITE: Scope = Scope::of(Action::Write, Resource::Workspaces);
const PAGE: &[&str] = &["limit", "cursor"];

operations! {
    /// List workspaces
    LIST_WORKSPACES(Workspaces, "listWorkspaces"): () => Page<Workspace> =
        get("/v1/workspaces", Bearer(READ)).query(PAGE).returns(200);

    /// Create a workspace
    CREATE_WORKSPACE(Workspaces, "createWorkspace"): NameWorkspace => Workspace =
        post("/v1/workspaces", Bearer(WRITE)).takes().returns(201).located().fails(&[WorkspaceMismatch, Conflict, ValidationFailed]);

    /// Get a workspace
    READ_WORKSPACE(Workspaces, "readWorkspace"): () => Workspace =
        get("/v1/workspaces/{workspaceId}", Bearer(READ)).returns(200).fails(&[NotFound, WorkspaceMismatch]);

    /// Rename a workspace (owners only)
    RENAME_WORKSPACE(Workspaces, "renameWorkspace"): RenameWorkspace => Workspace =
        patch("/v1/workspaces/{workspaceId}", Bearer(WRITE))
            .takes()
            .returns(200)
            .fails(&[NotFound, WorkspaceMismatch, Forbidden, ValidationFailed]);

    /// Delete a workspace for all its members (owners only)
    DELETE_WORKSPACE(Workspaces, "deleteWorkspace"): () => () =
        delete("/v1/workspaces/{workspaceId}", Access::RecentSignIn(WRITE)).fails(&[NotFound, WorkspaceMismatch, Forbidden]);

    /// Require a passkey from the members (owners only)
    REQUIRE_WORKSPACE_PASSKEY(Workspaces, "requireWorkspacePasskey"): () => Workspace =
        post("/v1/workspaces/{workspaceId}/passkey-requirement", Access::RecentSignIn(WRITE))
            .returns(200)
            .fails(&[NotFound, WorkspaceMismatch, Forbidden, Conflict])
            .note(
                "From then on, members have access only if their account requires a passkey (`POST /v1/account/passkey-requirement`), or \
                 if their company requires single sign-on. All sessions and tokens of other members get 403 `forbidden` in the \
                 workspace with `details.workspaceRequires` = `passkey`, within a minute. Nothing is revoked. If your own account \
                 requires none, the response is 409.",
            );

    /// Stop requiring a passkey from the members (owners only)
    ALLOW_WORKSPACE_CODES(Workspaces, "allowWorkspaceCodes"): () => () =
        delete("/v1/workspaces/{workspaceId}/passkey-requirement", Access::RecentSignIn(WRITE))
            .fails(&[NotFound, WorkspaceMismatch, Forbidden])
            .note("If the workspace requires no passkey, nothing changes.");

    /// List members
    LIST_MEMBERS(Workspaces, "listMembers"): () => Page<Member> =
        get("/v1/workspaces/{workspaceId}/members", Bearer(READ)).query(PAGE).returns(200).fails(&[NotFound, WorkspaceMismatch, Forbidden]);

    /// Change a member's role (owners only)
    CHANGE_ROLE(Workspaces, "changeRole"): ChangeRole => Member =
        patch("/v1/workspaces/{workspaceId}/members/{userId}", RecentSignInForOwners(WRITE))
            .takes()
            .returns(200)
            .fails(&[NotFound, WorkspaceMismatch, Forbidden, Conflict]);

    /// Remove a member, or leave
    REMOVE_MEMBER(Workspaces, "removeMember"): () => () =
        delete("/v1/workspaces/{workspaceId}/members/{userId}", SignedIn(WRITE))
            .fails(&[NotFound, WorkspaceMismatch, Forbidden, Conflict]);

    /// List pending invitations (owners only)
    LIST_INVITATIONS(Workspaces, "listInvitations"): () => Page<Invitation> =
        get("/v1/workspaces/{workspaceId}/invitations", Bearer(READ))
            .query(PAGE)
            .returns(200)
            .fails(&[NotFound, WorkspaceMismatch, Forbidden]);

    /// Invite a member by email (owners only)
    INVITE(Workspaces, "invite"): Invite => Invitation =
        post("/v1/workspaces/{workspaceId}/invitations", RecentSignInForOwners(WRITE))
            .takes()
            .returns(201)
            .located()
            .fails(&[NotFound, WorkspaceMismatch, Forbidden, ValidationFailed, RateLimited]);

    /// Revoke an invitation (owners only)
    REVOKE_INVITATION(Workspaces, "revokeInvitation"): () => () =
        delete("/v1/workspaces/{workspaceId}/invitations/{invitationId}", SignedIn(WRITE))
            .fails(&[NotFound, WorkspaceMismatch, Forbidden]);

    /// List the invitations that you received
    LIST_RECEIVED_INVITATIONS(Workspaces, "listReceivedInvitations"): () => Page<ReceivedInvitation> =
        get("/v1/invitations", SignedIn(READ)).query(PAGE).returns(200);

    /// Accept an invitation
    ACCEPT_INVITATION(Workspaces, "acceptInvitation"): () => Workspace =
        post("/v1/invitations/{invitationId}/accept", SignedIn(WRITE)).returns(200).fails(&[NotFound, Conflict]);

    /// Decline an invitation (the workspace is not notified)
    DECLINE_INVITATION(Workspaces, "declineInvitation"): () => () =
        post("/v1/invitations/{invitationId}/decline", SignedIn(WRITE)).returns_nothing(204).fails(&[NotFound]);

    /// Block the workspace of an invitation (the workspace is not notified)
    BLOCK_INVITATION(Workspaces, "blockInvitation"): () => BlockedWorkspace =
        post("/v1/invitations/{invitationId}/block", SignedIn(WRITE)).returns(200).fails(&[NotFound, Conflict]);

    /// List the workspaces that you blocked
    LIST_BLOCKED_WORKSPACES(Workspaces, "listBlockedWorkspaces"): () => Page<BlockedWorkspace> =
        get("/v1/blocked-workspaces", SignedIn(READ)).query(PAGE).returns(200);

    /// Unblock a workspace
    UNBLOCK_WORKSPACE(Workspaces, "unblockWorkspace"): () => () =
        delete("/v1/blocked-workspaces/{workspaceId}", SignedIn(WRITE)).fails(&[NotFound]);
}
