//! The passkeys of the user.

use service_api::{
    endpoints,
    ids::PasskeyId,
    page::Page,
    passkeys::{Passkey, RenamePasskey},
    token::AccessToken,
};

use crate::{Client, Error};

/// The passkeys of the user. They are created on the account page only.
///
/// # Errors
/// [`Error::Refused`] with `not_found` if the user has no such passkey, with `forbidden` for a token that does not belong to a
/// user session.
impl Client {
    /// Lists the passkeys of the user, newest first. All are on one page.
    pub async fn list_passkeys(&self, token: &AccessToken) -> Result<Page<Passkey>, Error> {
        self.call(&endpoints::LIST_PASSKEYS, &[]).bearer(token).send().await
    }

    /// Renames a passkey of the user. Fails with `validation_failed` if the name is not allowed.
    pub async fn rename_passkey(&self, token: &AccessToken, id: PasskeyId, name: &str) -> Result<Passkey, Error> {
        let body = RenamePasskey { name: name.to_owned() };
        self.call_with(&endpoints::RENAME_PASSKEY, &[&id.to_string()], &body).bearer(token).send().await
    }

    /// Removes a passkey of the user. Fails with `insufficient_user_authentication` if the user signed in more than 15 minutes
    /// ago.
    pub async fn remove_passkey(&self, token: &AccessToken, id: PasskeyId) -> Result<(), Error> {
        self.call(&endpoints::REMOVE_PASSKEY, &[&id.to_string()]).bearer(token).send().await
    }
}
