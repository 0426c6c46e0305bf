//! The account of the user, exports of everything that is stored about it, and its deletion.

use super::{
    Access::{RecentSignIn, SignedIn},
    operation::{delete, get, operations, patch, post},
};
use crate::{
    account::{Account, RenameAccount},
    account_deletion::AccountDeletion,
    account_exports::{AccountExport, ZipFile},
    address_change::{AddressChange, ChangeAddress},
    errors::ErrorCode::{Conflict, NotFound, ValidationFailed},
    openapi::Shape,
    scope::{Action, Resource, Scope},
};

const READ: Scope = Scope::of(Action::Read, Resource::Sessions);
const WRITE: Scope = Scope::of(Action::Write, Resource::Sessions);

operations! {
    /// Get your account
    READ_ACCOUNT(Account, "getAccount"): () => Account = get("/v1/account", SignedIn(READ)).returns(200);

    /// Change your name
    RENAME_ACCOUNT(Account, "renameAccount"): RenameAccount => Account =
        patch("/v1/account", SignedIn(WRITE)).takes().returns(200).fails(&[ValidationFailed]).note(
            "Members of your workspaces see the name beside your email address. Users choose it freely: tell them apart by their \
             address. Renaming is limited to 20 times in 24 hours.",
        );

    /// Require a passkey to sign in
    REQUIRE_PASSKEY(Account, "requirePasskey"): () => Account =
        post("/v1/account/passkey-requirement", RecentSignIn(WRITE)).returns(200).fails(&[Conflict]).note(
            "From then on, only a passkey or a recovery code signs you in: a code at the token endpoint is answered with \
             `invalid_grant` and `details.signInMethod` = `passkey`. All other sessions and browsers are signed out, because they may have \
             begun with a code. CLI tokens stay valid. If no passkey counts yet, or your company requires single sign-on, the \
             response is 409. The requirement ends when you remove the last passkey.",
        );

    /// Allow signing in by code again
    ALLOW_CODES(Account, "allowCodes"): () => () =
        delete("/v1/account/passkey-requirement", RecentSignIn(WRITE)).note(
            "If no passkey is required, nothing changes.",
        );

    /// Change your email address
    CHANGE_ADDRESS(Account, "changeAddress"): ChangeAddress => AddressChange =
        post("/v1/account/address-change", RecentSignIn(WRITE)).takes().returns(202).fails(&[Conflict, ValidationFailed]).note(
            "A link is sent to the current and to the new address. Both confirm the change within 24 hours. It is then made 24 hours \
             later, unless it is stopped. A new address that already has an account gets no link, and the response does not tell. A \
             request replaces the one before. A user requests 3 changes in 24 hours. If single sign-on is required in the domain of \
             either address, the response is 409.",
        );

    /// Get the requested change of your email address
    READ_ADDRESS_CHANGE(Account, "getAddressChange"): () => AddressChange =
        get("/v1/account/address-change", SignedIn(READ)).returns(200).fails(&[NotFound]);

    /// Stop the change of your email address
    STOP_ADDRESS_CHANGE(Account, "stopAddressChange"): () => () =
        delete("/v1/account/address-change", SignedIn(WRITE)).fails(&[NotFound]);

    /// Start an export of your account data
    START_EXPORT(Account, "startExport"): () => AccountExport =
        post("/v1/account/exports", RecentSignIn(WRITE)).returns(202).located().note(
            "The export belongs to the session of the request: other sessions do not find it, and it ends with the session. A user \
             starts at most 3 exports in 24 hours.",
        );

    /// Get the state of an export
    READ_EXPORT(Account, "getExport"): () => AccountExport =
        get("/v1/account/exports/{exportId}", SignedIn(READ)).returns(200).fails(&[NotFound]);

    /// Download an export
    DOWNLOAD_EXPORT(Account, "downloadExport"): () => ZipFile =
        get("/v1/account/exports/{exportId}/content", SignedIn(READ))
            .returns_shape(200, Shape::Zip)
            .fails(&[NotFound, Conflict])
            .note(
                "The response is a ZIP file of JSON files, which is written while it is sent. Because it has everything that the \
                 account can read, the session needs `read`, or all scopes that it stands for. One download of a user runs at a \
                 time. An export is downloaded within an hour, and at most 5 times.",
            );

    /// Delete your account
    DELETE_ACCOUNT(Account, "deleteAccount"): () => AccountDeletion =
        delete("/v1/account", RecentSignIn(WRITE)).returns(202).fails(&[Conflict]).note(
            "The account is closed at once: all its sessions and tokens are revoked. It is erased after 14 days, with personal space and \
             the workspaces that have no other member. Until then, the link in the email about it keeps the account. If a workspace \
             with other members, or with a single sign-on connection, would be left without an owner, nothing happens, and the \
             409 names it.",
        );
}
