//! The account of the user, exports of everything that is stored about it, and its deletion.

use reqwest::Response as HttpResponse;
use service_api::{
    account::{Account, RenameAccount},
    account_deletion::AccountDeletion,
    account_exports::{AccountExport, ZipFile},
    address_change::{AddressChange, ChangeAddress},
    endpoints,
    ids::ExportId,
    token::AccessToken,
};

use crate::{
    Client, Error,
    client::{STREAM_TIMEOUT, refusal},
};

/// A ZIP file that is read while it arrives.
#[derive(Debug)]
pub struct ExportDownload(HttpResponse);

impl ExportDownload {
    /// Returns the next part of the file, or `None` at its end.
    ///
    /// # Errors
    /// [`Error::Unreachable`] if the download stopped before its end. What was read is no complete file; begin again.
    pub async fn next(&mut self) -> Result<Option<Vec<u8>>, Error> {
        Ok(self.0.chunk().await?.map(|part| part.to_vec()))
    }
}

impl Client {
    /// Returns the account of the user.
    pub async fn read_account(&self, token: &AccessToken) -> Result<Account, Error> {
        self.call(&endpoints::READ_ACCOUNT, &[]).bearer(token).send().await
    }

    /// Changes the name that members of the user's workspaces see; a blank one removes it. Fails with `validation_failed` if the
    /// name is not allowed.
    pub async fn rename_account(&self, token: &AccessToken, name: &str) -> Result<Account, Error> {
        let body = RenameAccount { name: name.to_owned() };
        self.call_with(&endpoints::RENAME_ACCOUNT, &[], &body).bearer(token).send().await
    }

    /// Requires a passkey to sign in: codes no longer do, and all other sessions are signed out. Fails with
    /// `insufficient_user_authentication` if the user signed in more than 15 minutes ago, and with `conflict` if no passkey counts.
    pub async fn require_passkey(&self, token: &AccessToken) -> Result<Account, Error> {
        self.call(&endpoints::REQUIRE_PASSKEY, &[]).bearer(token).send().await
    }

    /// Allows to sign in by code again. Fails with `insufficient_user_authentication` if the user signed in more than 15 minutes ago.
    pub async fn allow_codes(&self, token: &AccessToken) -> Result<(), Error> {
        self.call(&endpoints::ALLOW_CODES, &[]).bearer(token).send().await
    }

    /// Requests another email address. A link is sent to the current and to the new one, which both confirm the change. Fails with
    /// `insufficient_user_authentication` if the user signed in more than 15 minutes ago, and with `conflict` if single sign-on is
    /// required in the domain of either address.
    pub async fn change_address(&self, token: &AccessToken, email: &str) -> Result<AddressChange, Error> {
        let body = ChangeAddress { email: email.to_owned() };
        self.call_with(&endpoints::CHANGE_ADDRESS, &[], &body).bearer(token).send().await
    }

    /// Returns the change of the address that the user has requested. Fails with `not_found` if there is none.
    pub async fn read_address_change(&self, token: &AccessToken) -> Result<AddressChange, Error> {
        self.call(&endpoints::READ_ADDRESS_CHANGE, &[]).bearer(token).send().await
    }

    /// Stops the change of the address. Fails with `not_found` if there is none.
    pub async fn stop_address_change(&self, token: &AccessToken) -> Result<(), Error> {
        self.call(&endpoints::STOP_ADDRESS_CHANGE, &[]).bearer(token).send().await
    }

    /// Starts an export of everything that is stored about the user. Only this session finds it. Fails with
    /// `insufficient_user_authentication` if the user signed in more than 15 minutes ago.
    pub async fn start_export(&self, token: &AccessToken) -> Result<AccountExport, Error> {
        self.call(&endpoints::START_EXPORT, &[]).bearer(token).send().await
    }

    /// Returns the state of an export, and how far its latest download is.
    pub async fn read_export(&self, token: &AccessToken, id: ExportId) -> Result<AccountExport, Error> {
        self.call(&endpoints::READ_EXPORT, &[&id.to_string()]).bearer(token).send().await
    }

    /// Closes the account, which is erased after 14 days. All its tokens are revoked, also the one of this call. Fails with
    /// `insufficient_user_authentication` if the user signed in more than 15 minutes ago, and with `conflict` if a workspace would
    /// be left without an owner.
    pub async fn delete_account(&self, token: &AccessToken) -> Result<AccountDeletion, Error> {
        self.call(&endpoints::DELETE_ACCOUNT, &[]).bearer(token).send().await
    }

    /// Begins to download an export. A user has one download at a time: another one fails with `rate_limited`.
    pub async fn download_export(&self, token: &AccessToken, id: ExportId) -> Result<ExportDownload, Error> {
        let call = self.call::<ZipFile>(&endpoints::DOWNLOAD_EXPORT, &[&id.to_string()]).bearer(token);
        let response = call.timeout(STREAM_TIMEOUT).exchange().await?;
        if response.status().is_success() { Ok(ExportDownload(response)) } else { Err(refusal(response).await) }
    }
}
