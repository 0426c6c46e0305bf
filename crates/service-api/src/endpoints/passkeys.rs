//! Passkeys of the user.

use super::{
    Access::{RecentSignIn, SignedIn},
    operation::{delete, get, operations, patch},
};
use crate::{
    errors::ErrorCode::{NotFound, ValidationFailed},
    page::Page,
    passkeys::{Passkey, RenamePasskey},
    scope::{Action, Resource, Scope},
};

const READ: Scope = Scope::of(Action::Read, Resource::Sessions);
const WRITE: Scope = Scope::of(Action::Write, Resource::Sessions);

operations! {
    /// List passkeys (newest first)
    LIST_PASSKEYS(Passkeys, "listPasskeys"): () => Page<Passkey> =
        get("/v1/account/passkeys", SignedIn(READ)).returns(200).note(
            "All passkeys are on one page. They are created on the account page only: an authenticator signs only for a page \
             of the service's own origin.",
        );

    /// Rename a passkey
    RENAME_PASSKEY(Passkeys, "renamePasskey"): RenamePasskey => Passkey =
        patch("/v1/account/passkeys/{passkeyId}", SignedIn(WRITE))
            .takes()
            .returns(200)
            .fails(&[NotFound, ValidationFailed]);

    /// Remove a passkey (idempotent)
    REMOVE_PASSKEY(Passkeys, "removePasskey"): () => () =
        delete("/v1/account/passkeys/{passkeyId}", RecentSignIn(WRITE)).fails(&[NotFound]);
}
