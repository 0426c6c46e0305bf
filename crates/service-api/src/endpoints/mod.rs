//! Every endpoint, declared once.
//!
//! An [`Operation`] is an endpoint for programs: its row, what the `OpenAPI` document says about it, and the types of its
//! request and response. The server's router accepts only a handler of these types, the client sends and reads only these
//! types, and the document takes its schemas from them. A page for users is a plain [`Endpoint`].
//!
//! [`ALL`] and [`OPERATIONS`] are the rows without their types.

mod account;
mod connections;
mod contents;
mod discovery;
mod mcp;
mod operation;
mod pages;
mod passkeys;
mod sessions;
mod sign_in;
mod tokens;
mod workspaces;

pub use self::{
    account::*,
    connections::*,
    contents::*,
    discovery::*,
    mcp::*,
    operation::{Header, Operation, OperationRow},
    pages::*,
    passkeys::*,
    sessions::*,
    sign_in::*,
    tokens::*,
    workspaces::*,
};
use crate::{contents::Kind, scope::Scope};

/// The row of an endpoint: where it is, who may call it, and what it accepts.
#[derive(Clone, Copy, Debug)]
pub struct Endpoint {
    pub method: Method,
    /// The path, with a name in braces for each segment that varies.
    pub path: &'static str,
    pub access: Access,
    pub body: Body,
    /// The query parameters that are accepted. A request with any other is rejected, so that a misspelt name is noticed.
    pub query: &'static [&'static str],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    Get,
    Post,
    Patch,
    Delete,
}

impl Method {
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Post => "POST",
            Self::Patch => "PATCH",
            Self::Delete => "DELETE",
        }
    }
}

/// Who may call an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Any caller; no token is needed.
    Public,
    /// A client that authenticates with its secret or a signed assertion.
    Client,
    /// A bearer token with this scope.
    Bearer(Scope),
    /// Any valid bearer token, whatever its scopes.
    AnyToken,
    /// A bearer token with this scope. In a workspace its user must be an owner.
    Owner(Scope),
    /// A user session of a first-party client with this scope. A CLI token is rejected.
    SignedIn(Scope),
    /// A user session with this scope whose user signed in within the last 15 minutes.
    RecentSignIn(Scope),
    /// A user session with this scope. A request that makes a user an owner also needs a sign-in within the last 15 minutes.
    RecentSignInForOwners(Scope),
    /// A browser, identified by its cookie: the endpoint is a page.
    Browser,
    /// An identity provider, which sends a token that it signed. Programs of users do not call the endpoint, so it is in
    /// neither the `OpenAPI` document nor the client.
    Provider,
    /// The access token of the MCP token pair that is refreshed, or one of its user in a first-party client.
    McpPair,
    /// An access token for `/mcp`. The scope depends on the tool that is called.
    Mcp,
}

/// The media types that an endpoint accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Body {
    /// No body is read.
    None,
    /// `application/json`
    Json,
    /// `application/json` or `application/x-www-form-urlencoded`, which is what OAuth clients send.
    JsonOrForm,
    /// `application/x-www-form-urlencoded`, sent by a page of the service.
    Form,
}

/// The seven operations of one kind of content.
#[must_use]
pub const fn contents(kind: Kind) -> &'static ContentOperations {
    kind.operations()
}

const BEFORE_CONTENTS: [&[&OperationRow]; 4] = [sign_in::ROWS, discovery::ROWS, workspaces::ROWS, connections::ROWS];
const AFTER_CONTENTS: [&[&OperationRow]; 6] =
    [contents::ROWS, sessions::ROWS, passkeys::ROWS, account::ROWS, tokens::ROWS, mcp::ROWS];

const OPERATION_COUNT: usize =
    count(&BEFORE_CONTENTS) + ContentOperations::COUNT * Kind::ALL.len() + count(&AFTER_CONTENTS);

/// Every operation without its types, in the order of the manual.
pub const OPERATIONS: &[&OperationRow] = &{
    let mut all = [sign_in::ROWS[0]; OPERATION_COUNT];
    let mut next = append(&mut all, 0, BEFORE_CONTENTS.as_slice());
    let mut kind = 0;
    while kind < Kind::ALL.len() {
        next = append(&mut all, next, &[&contents(Kind::ALL[kind]).rows()]);
        kind += 1;
    }
    append(&mut all, next, AFTER_CONTENTS.as_slice());
    all
};

/// Every endpoint: operations and pages.
pub const ALL: &[&Endpoint] = &{
    let mut all = [pages::ROWS[0]; OPERATION_COUNT + pages::ROWS.len()];
    let mut index = 0;
    while index < all.len() {
        all[index] =
            if index < OPERATION_COUNT { &OPERATIONS[index].endpoint } else { pages::ROWS[index - OPERATION_COUNT] };
        index += 1;
    }
    all
};

const fn count(groups: &[&[&OperationRow]]) -> usize {
    let (mut sum, mut index) = (0, 0);
    while index < groups.len() {
        sum += groups[index].len();
        index += 1;
    }
    sum
}

/// Writes the rows of `groups` into `all` from `next` on, and returns the place after the last one.
const fn append(all: &mut [&'static OperationRow], mut next: usize, groups: &[&[&'static OperationRow]]) -> usize {
    let mut group = 0;
    while group < groups.len() {
        let mut index = 0;
        while index < groups[group].len() {
            all[next] = groups[group][index];
            next += 1;
            index += 1;
        }
        group += 1;
    }
    next
}
