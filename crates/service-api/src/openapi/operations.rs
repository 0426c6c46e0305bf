//! What can be said of each endpoint beyond its row in the table: what it does, what it takes, what it answers.

use schemars::{JsonSchema, SchemaGenerator};

use super::{group::Group, schemas::Shape};
use crate::{
    audit_events::AuditEvent,
    cli_tokens::{CreateCliToken, CreatedCliToken, ListedCliToken, RotateCliToken},
    contents::Kind,
    endpoints::{self as e, Endpoint},
    errors::ErrorCode::{self, *},
    leaks::{ReportReceived, TokenLeaks},
    mcp_tokens::{CreateMcpTokens, McpTokens, RefreshMcpTokens},
    oauth::{AboutToken, Introspection, TokenRequest, TokenResponse},
    page::Page,
    search::SearchPacks,
    sessions::{OthersEnded, Session},
    sign_in::{LoginOptions, LoginOptionsRequest, OtpRequest, OtpRequested},
    whoami::Whoami,
    workspaces::{ChangeRole, Invitation, Invite, Member, NameWorkspace, Workspace},
};

/// An endpoint that programs call.
#[derive(Clone, Debug)]
pub struct Operation {
    pub endpoint: &'static Endpoint,
    /// Its name, for generated clients and for its example.
    pub id: String,
    pub group: Group,
    pub summary: String,
    pub request: Option<Shape>,
    pub status: u16,
    pub answer: Option<Shape>,
    /// Beyond those that follow from its row.
    pub errors: Vec<ErrorCode>,
    pub headers: Vec<Header>,
}

/// A header that a request may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Header {
    IfMatch,
    IdempotencyKey,
}

fn of<T: JsonSchema>() -> Shape {
    Shape::Of(SchemaGenerator::subschema_for::<T>)
}

fn operation(endpoint: &'static Endpoint, id: &str, group: Group, summary: &str) -> Operation {
    Operation {
        endpoint,
        id: id.to_owned(),
        group,
        summary: summary.to_owned(),
        request: None,
        status: 200,
        answer: None,
        errors: Vec::new(),
        headers: Vec::new(),
    }
}

impl Operation {
    fn takes(mut self, request: Shape) -> Self {
        self.request = Some(request);
        self
    }

    fn answers(mut self, status: u16, answer: Shape) -> Self {
        (self.status, self.answer) = (status, Some(answer));
        self
    }

    fn answers_nothing(mut self, status: u16) -> Self {
        self.status = status;
        self
    }

    fn fails(mut self, errors: &[ErrorCode]) -> Self {
        self.errors = errors.to_vec();
        self
    }

    fn with(mut self, headers: &[Header]) -> Self {
        self.headers = headers.to_vec();
        self
    }
}

/// Every endpoint that programs call; pages for people are not among them.
#[must_use]
pub fn all() -> Vec<Operation> {
    let mut all = sign_in();
    all.extend(discovery());
    all.push(
        operation(&e::WHOAMI, "whoami", Group::Whoami, "Whom the token speaks for, what it may do, and where")
            .answers(200, of::<Whoami>()),
    );
    all.extend(workspaces());
    all.extend(Kind::ALL.into_iter().flat_map(contents));
    all.push(
        operation(&e::SEARCH_PACKS, "searchPacks", Group::Content, "Find packs by their words")
            .takes(of::<SearchPacks>())
            .answers(200, Shape::Found)
            .fails(&[ValidationFailed]),
    );
    all.extend(sessions());
    all.extend(tokens());
    all
}

fn sign_in() -> Vec<Operation> {
    use Group::{Oauth, SignIn};
    vec![
        operation(&e::LOGIN_OPTIONS, "loginOptions", SignIn, "How an address can sign in")
            .takes(of::<LoginOptionsRequest>())
            .answers(200, of::<LoginOptions>())
            .fails(&[RateLimited]),
        operation(&e::OTP_TOKENS, "requestCode", SignIn, "Send a one-time code to an address")
            .takes(of::<OtpRequest>())
            .answers(201, of::<OtpRequested>())
            .fails(&[InvalidClient, UnauthorizedClient, RateLimited]),
        operation(&e::TOKEN, "exchange", SignIn, "Exchange a code, or a refresh token, for tokens")
            .takes(of::<TokenRequest>())
            .answers(200, of::<TokenResponse>())
            .fails(&[
                InvalidGrant,
                UnsupportedGrantType,
                UnauthorizedClient,
                InvalidScope,
                InvalidTarget,
                InvalidClient,
                RateLimited,
            ]),
        operation(&e::REVOKE, "revoke", Oauth, "Give a token back: sign out").takes(of::<AboutToken>()).fails(&[
            InvalidGrant,
            InvalidClient,
            RateLimited,
        ]),
        operation(&e::INTROSPECT, "introspect", Oauth, "What a token is worth now")
            .takes(of::<AboutToken>())
            .answers(200, of::<Introspection>())
            .fails(&[InvalidClient, RateLimited]),
        operation(&e::REGISTER, "registerClient", Oauth, "Register a client (RFC 7591)")
            .takes(Shape::Standard)
            .answers(201, Shape::Standard)
            .fails(&[InvalidRedirectUri, InvalidClientMetadata, RateLimited]),
    ]
}

fn discovery() -> Vec<Operation> {
    let document =
        |endpoint, id, summary| operation(endpoint, id, Group::Discovery, summary).answers(200, Shape::Standard);
    vec![
        document(&e::SERVER_METADATA, "serverMetadata", "The authorization server (RFC 8414)"),
        document(&e::RESOURCE_METADATA, "resourceMetadata", "The service as a resource (RFC 9728)"),
        document(&e::API_METADATA, "apiMetadata", "The API as a resource (RFC 9728)"),
        document(&e::MCP_METADATA, "mcpMetadata", "MCP as a resource (RFC 9728)"),
        document(&e::JWKS, "keys", "Keys to verify access tokens with (RFC 7517)"),
        document(&e::OPENAPI, "openapi", "This description"),
    ]
}

fn workspaces() -> Vec<Operation> {
    let operation = |endpoint, id, summary| operation(endpoint, id, Group::Workspaces, summary);
    let here = [NotFound, WorkspaceMismatch];
    let owned = [NotFound, WorkspaceMismatch, Forbidden];
    let decided = [NotFound, WorkspaceMismatch, Forbidden, Conflict];
    vec![
        operation(&e::LIST_WORKSPACES, "listWorkspaces", "The workspaces that one is in")
            .answers(200, of::<Page<Workspace>>()),
        operation(&e::CREATE_WORKSPACE, "createWorkspace", "Make a workspace, of which one is the owner")
            .takes(of::<NameWorkspace>())
            .answers(201, of::<Workspace>())
            .fails(&[WorkspaceMismatch, Conflict, ValidationFailed]),
        operation(&e::READ_WORKSPACE, "readWorkspace", "Read a workspace").answers(200, of::<Workspace>()).fails(&here),
        operation(&e::RENAME_WORKSPACE, "renameWorkspace", "Rename a workspace; for owners")
            .takes(of::<NameWorkspace>())
            .answers(200, of::<Workspace>())
            .fails(&[&owned[..], &[ValidationFailed]].concat()),
        operation(&e::DELETE_WORKSPACE, "deleteWorkspace", "Delete a workspace for everybody; for owners")
            .answers_nothing(204)
            .fails(&owned),
        operation(&e::LIST_MEMBERS, "listMembers", "Who is in a workspace")
            .answers(200, of::<Page<Member>>())
            .fails(&here),
        operation(&e::CHANGE_ROLE, "changeRole", "Give a member another role; for owners")
            .takes(of::<ChangeRole>())
            .answers(200, of::<Member>())
            .fails(&decided),
        operation(&e::REMOVE_MEMBER, "removeMember", "Take a member out, or leave")
            .answers_nothing(204)
            .fails(&decided),
        operation(&e::LIST_INVITATIONS, "listInvitations", "Invitations that wait; for owners")
            .answers(200, of::<Page<Invitation>>())
            .fails(&owned),
        operation(&e::INVITE, "invite", "Ask somebody in, by e-mail; for owners")
            .takes(of::<Invite>())
            .answers(201, of::<Invitation>())
            .fails(&[&owned[..], &[ValidationFailed, RateLimited]].concat()),
        operation(&e::REVOKE_INVITATION, "revokeInvitation", "Take an invitation back; for owners")
            .answers_nothing(204)
            .fails(&owned),
    ]
}

fn contents(kind: Kind) -> Vec<Operation> {
    let [list, create, read, update, delete]: [&'static Endpoint; 5] = match kind {
        Kind::Project => {
            [&e::LIST_PROJECTS, &e::CREATE_PROJECT, &e::READ_PROJECT, &e::UPDATE_PROJECT, &e::DELETE_PROJECT]
        }
        Kind::Pack => [&e::LIST_PACKS, &e::CREATE_PACK, &e::READ_PACK, &e::UPDATE_PACK, &e::DELETE_PACK],
        Kind::Playbook => {
            [&e::LIST_PLAYBOOKS, &e::CREATE_PLAYBOOK, &e::READ_PLAYBOOK, &e::UPDATE_PLAYBOOK, &e::DELETE_PLAYBOOK]
        }
        Kind::Case => [&e::LIST_CASES, &e::CREATE_CASE, &e::READ_CASE, &e::UPDATE_CASE, &e::DELETE_CASE],
        Kind::Record => [&e::LIST_RECORDS, &e::CREATE_RECORD, &e::READ_RECORD, &e::UPDATE_RECORD, &e::DELETE_RECORD],
    };
    let name = kind.name();
    let (one, many) = (name.to_lowercase(), kind.resource().as_str());
    let operation = |endpoint, id: String, summary: String| operation(endpoint, &id, Group::Content, &summary);
    let refused = [ValidationFailed, CredentialInContent];
    vec![
        operation(list, format!("list{name}s"), format!("The {many} of a space, oldest first"))
            .answers(200, Shape::Contents(kind)),
        operation(create, format!("create{name}"), format!("Make a {one}"))
            .takes(Shape::NewContent(kind))
            .answers(201, Shape::Content(kind))
            .fails(&[&refused[..], &[Conflict]].concat())
            .with(&[Header::IdempotencyKey]),
        operation(read, format!("read{name}"), format!("Read a {one}")).answers(200, Shape::Content(kind)),
        operation(update, format!("update{name}"), format!("Change a {one}: what is sent; what is left out stays"))
            .takes(Shape::ContentChange(kind))
            .answers(200, Shape::Content(kind))
            .fails(&[&refused[..], &[PreconditionFailed, Conflict]].concat())
            .with(&[Header::IfMatch]),
        operation(delete, format!("delete{name}"), format!("Delete a {one}; again, if repeated"))
            .answers_nothing(204)
            .fails(&[PreconditionFailed])
            .with(&[Header::IfMatch]),
    ]
}

fn sessions() -> Vec<Operation> {
    let operation = |endpoint, id, summary| operation(endpoint, id, Group::Sessions, summary);
    vec![
        operation(&e::LIST_SESSIONS, "listSessions", "Where one is signed in").answers(200, of::<Page<Session>>()),
        operation(&e::END_SESSION, "endSession", "End a session; again, if repeated")
            .answers_nothing(204)
            .fails(&[NotFound]),
        operation(&e::END_OTHER_SESSIONS, "endOtherSessions", "End all sessions but the one that asks")
            .answers(200, of::<OthersEnded>()),
    ]
}

fn tokens() -> Vec<Operation> {
    use Group::{Audit, CliTokens, Leaks, McpPair};
    let made = [InvalidScope, NotFound, Conflict, ValidationFailed, RateLimited];
    vec![
        operation(&e::CREATE_CLI_TOKEN, "createCliToken", CliTokens, "Make a token for automation; it is shown once")
            .takes(of::<CreateCliToken>())
            .answers(201, of::<CreatedCliToken>())
            .fails(&made)
            .with(&[Header::IdempotencyKey]),
        operation(&e::LIST_CLI_TOKENS, "listCliTokens", CliTokens, "One's tokens, the youngest first")
            .answers(200, of::<Page<ListedCliToken>>()),
        operation(&e::REVOKE_CLI_TOKEN, "revokeCliToken", CliTokens, "End a token; again, if repeated")
            .answers_nothing(204)
            .fails(&[NotFound]),
        operation(&e::ROTATE_CLI_TOKEN, "rotateCliToken", CliTokens, "Replace a token by one like it")
            .takes(of::<RotateCliToken>())
            .answers(201, of::<CreatedCliToken>())
            .fails(&made)
            .with(&[Header::IdempotencyKey]),
        operation(&e::CREATE_MCP_TOKENS, "createMcpTokens", McpPair, "Make a pair for the platform's own MCP client")
            .takes(of::<CreateMcpTokens>())
            .answers(201, of::<McpTokens>())
            .fails(&[InvalidScope, NotFound, Conflict, ValidationFailed, RateLimited]),
        operation(&e::REFRESH_MCP_TOKENS, "refreshMcpTokens", McpPair, "A new pair for its refresh token")
            .takes(of::<RefreshMcpTokens>())
            .answers(200, of::<McpTokens>())
            .fails(&[InvalidGrant, InvalidScope, InvalidTarget, InvalidClient]),
        operation(&e::LIST_AUDIT_EVENTS, "listAuditEvents", Audit, "What happened, the youngest first")
            .answers(200, of::<Page<AuditEvent>>()),
        operation(&e::TOKEN_LEAKS, "reportLeaks", Leaks, "Report tokens that leaked; they are ended")
            .takes(of::<TokenLeaks>())
            .answers(202, of::<ReportReceived>())
            .fails(&[ValidationFailed, RateLimited]),
    ]
}
