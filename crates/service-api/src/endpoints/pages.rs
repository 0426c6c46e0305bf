//! The pages that users see in a browser.

use super::{Access, Body, Endpoint, Method};

pub const AUTHORIZE: Endpoint = page(Method::Get, "/oauth/authorize");
pub const AUTHORIZE_BY_FORM: Endpoint = page(Method::Post, "/oauth/authorize");
pub const HOME: Endpoint = page(Method::Get, "/");
pub const STYLESHEET: Endpoint = page(Method::Get, "/assets/style.css");
pub const ICON: Endpoint = page(Method::Get, "/assets/icon.svg");
pub const ROBOTS: Endpoint = page(Method::Get, "/robots.txt");
pub const LOGO: Endpoint = page(Method::Get, "/assets/logo");
pub const MANUAL_STYLESHEET: Endpoint = page(Method::Get, "/assets/manual.css");
pub const MANUAL: Endpoint = page(Method::Get, "/docs");
pub const SIGN_IN: Endpoint = page(Method::Get, "/sign-in");
pub const SHOW_SIGN_IN: Endpoint = page(Method::Get, "/sign-in/{flowId}");
pub const SEND_CODE: Endpoint = page(Method::Post, "/sign-in/{flowId}");
pub const USE_PASSKEY: Endpoint = page(Method::Post, "/sign-in/{flowId}/passkey");
pub const USE_RECOVERY_CODE: Endpoint = page(Method::Post, "/sign-in/{flowId}/recovery-code");
pub const LOST_PASSKEYS: Endpoint = page(Method::Post, "/sign-in/{flowId}/lost-passkeys");
pub const SHOW_CODE: Endpoint = page(Method::Get, "/sign-in/{flowId}/code");
pub const ENTER_CODE: Endpoint = page(Method::Post, "/sign-in/{flowId}/code");
pub const RESEND_CODE: Endpoint = page(Method::Post, "/sign-in/{flowId}/resend");
pub const SIGN_IN_REPORT: Endpoint = list("/sign-in-report", &["token"]);
pub const REVOKE_REPORTED_SIGN_IN: Endpoint = page(Method::Post, "/sign-in-report");
pub const ADDRESS_LINK_PAGE: Endpoint = list("/address-change", &["token"]);
pub const USE_ADDRESS_LINK: Endpoint = page(Method::Post, "/address-change");
pub const KEEP_ACCOUNT_PAGE: Endpoint = list("/keep-account", &["token"]);
pub const KEEP_ACCOUNT: Endpoint = page(Method::Post, "/keep-account");
pub const SSO_START: Endpoint = page(Method::Get, "/sso/start");
pub const SSO_CALLBACK: Endpoint = page(Method::Get, "/sso/callback/{connectionId}");
pub const SSO_BACKCHANNEL_LOGOUT: Endpoint = Endpoint {
    method: Method::Post,
    path: "/sso/backchannel-logout/{connectionId}",
    access: Access::Provider,
    body: Body::Form,
    query: &[],
};
pub const CONTINUE_WITH_SSO: Endpoint = page(Method::Post, "/sign-in/{flowId}/sso");
pub const SHOW_EMERGENCY_SIGN_IN: Endpoint = page(Method::Get, "/sign-in/{flowId}/emergency");
pub const SEND_EMERGENCY_CODE: Endpoint = page(Method::Post, "/sign-in/{flowId}/emergency");
pub const SHOW_LINK: Endpoint = page(Method::Get, "/sign-in/{flowId}/link");
pub const ENTER_LINK_CODE: Endpoint = page(Method::Post, "/sign-in/{flowId}/link");
pub const RESEND_LINK_CODE: Endpoint = page(Method::Post, "/sign-in/{flowId}/link/resend");
pub const WORKSPACE_TRY_CONNECTION: Endpoint =
    page(Method::Post, "/workspaces/{workspaceId}/connections/{connectionId}/try");
pub const SHOW_CONSENT: Endpoint = page(Method::Get, "/consent/{flowId}");
pub const DECIDE: Endpoint = page(Method::Post, "/consent/{flowId}");
pub const SWITCH_ACCOUNT: Endpoint = page(Method::Post, "/consent/{flowId}/switch");
pub const ACCOUNT: Endpoint = list("/account", &["done"]);
pub const ACCOUNT_RENAME: Endpoint = page(Method::Post, "/account/name");
pub const ACCOUNT_SECURITY: Endpoint = list("/account/security", &["done"]);
pub const ACCOUNT_NEW_PASSKEY: Endpoint = page(Method::Post, "/account/security/passkeys/new");
pub const ACCOUNT_ADD_PASSKEY: Endpoint = page(Method::Post, "/account/security/passkeys");
pub const ACCOUNT_BEGIN_PASSKEY_RECOVERY: Endpoint = page(Method::Post, "/account/security/recovery");
pub const ACCOUNT_STOP_PASSKEY_RECOVERY: Endpoint = page(Method::Post, "/account/security/recovery/stop");
pub const ACCOUNT_REQUIRE_PASSKEY: Endpoint = page(Method::Post, "/account/security/require-passkey");
pub const ACCOUNT_ALLOW_CODES: Endpoint = page(Method::Post, "/account/security/allow-codes");
pub const ACCOUNT_CREATE_RECOVERY_CODES: Endpoint = page(Method::Post, "/account/security/recovery-codes");
pub const ACCOUNT_RENAME_PASSKEY: Endpoint = page(Method::Post, "/account/security/passkeys/{passkeyId}/rename");
pub const ACCOUNT_CONFIRM_REMOVE_PASSKEY: Endpoint = page(Method::Get, "/account/security/passkeys/{passkeyId}/remove");
pub const ACCOUNT_REMOVE_PASSKEY: Endpoint = page(Method::Post, "/account/security/passkeys/{passkeyId}/remove");
pub const ACCOUNT_SECURE_PAGE: Endpoint = list("/account/secure", &["done"]);
pub const ACCOUNT_SECURE_FORM: Endpoint = page(Method::Post, "/account/secure");
pub const ACCOUNT_DATA: Endpoint = list("/account/data", &["done"]);
pub const ACCOUNT_START_EXPORT: Endpoint = page(Method::Post, "/account/data");
pub const ACCOUNT_DOWNLOAD_EXPORT: Endpoint = page(Method::Get, "/account/data/{exportId}");
pub const ACCOUNT_ADDRESS: Endpoint = list("/account/address", &["done"]);
pub const ACCOUNT_CHANGE_ADDRESS: Endpoint = page(Method::Post, "/account/address");
pub const ACCOUNT_STOP_ADDRESS_CHANGE: Endpoint = page(Method::Post, "/account/address/stop");
pub const ACCOUNT_DELETE_PAGE: Endpoint = page(Method::Get, "/account/delete");
pub const ACCOUNT_DELETE_FORM: Endpoint = page(Method::Post, "/account/delete");
pub const ACCOUNT_SESSIONS: Endpoint = list("/account/sessions", &["client", "browsers", "cursor", "done"]);
pub const ACCOUNT_APPS: Endpoint = list("/account/apps", &["cursor", "done"]);
pub const ACCOUNT_TOKENS: Endpoint = list("/account/tokens", &["cursor", "done"]);
pub const ACCOUNT_WORKSPACES: Endpoint = list("/account/workspaces", &["done"]);
pub const ACCOUNT_ACTIVITY: Endpoint = list("/account/activity", &["cursor"]);
pub const ACCOUNT_CONFIRM_END_ALL_SESSIONS: Endpoint = page(Method::Get, "/account/sessions/end-all");
pub const ACCOUNT_CONFIRM_REMOVE_APP: Endpoint = page(Method::Get, "/account/apps/{consentId}/remove");
pub const ACCOUNT_CONFIRM_END_SESSION: Endpoint = page(Method::Get, "/account/sessions/{sessionId}/end");
pub const ACCOUNT_CONFIRM_REVOKE_TOKEN: Endpoint = page(Method::Get, "/account/tokens/{tokenId}/revoke");
pub const ACCOUNT_END_ALL_SESSIONS: Endpoint = page(Method::Post, "/account/sessions/end-all");
pub const ACCOUNT_REMOVE_APP: Endpoint = page(Method::Post, "/account/apps/{consentId}/remove");
pub const ACCOUNT_END_SESSION: Endpoint = page(Method::Post, "/account/sessions/{sessionId}/end");
pub const ACCOUNT_CREATE_TOKEN: Endpoint = page(Method::Post, "/account/tokens");
pub const ACCOUNT_REVOKE_TOKEN: Endpoint = page(Method::Post, "/account/tokens/{tokenId}/revoke");
pub const ACCOUNT_CONFIRM_REVOKE_SUSPECTED_TOKENS: Endpoint = page(Method::Get, "/account/suspected-tokens/revoke");
pub const ACCOUNT_REVOKE_SUSPECTED_TOKENS: Endpoint = page(Method::Post, "/account/suspected-tokens/revoke");
pub const WORKSPACES_PAGE: Endpoint = list("/workspaces", &["done"]);
pub const WORKSPACES_CREATE: Endpoint = page(Method::Post, "/workspaces");
pub const WORKSPACE_PAGE: Endpoint = list("/workspaces/{workspaceId}", &["cursor", "done"]);
pub const WORKSPACE_CHANGE_ROLE: Endpoint = page(Method::Post, "/workspaces/{workspaceId}/members/{userId}/role");
pub const WORKSPACE_CONFIRM_REMOVE_MEMBER: Endpoint =
    page(Method::Get, "/workspaces/{workspaceId}/members/{userId}/remove");
pub const WORKSPACE_REMOVE_MEMBER: Endpoint = page(Method::Post, "/workspaces/{workspaceId}/members/{userId}/remove");
pub const WORKSPACE_INVITE: Endpoint = page(Method::Post, "/workspaces/{workspaceId}/invitations");
pub const WORKSPACE_CONFIRM_REVOKE_INVITATION: Endpoint =
    page(Method::Get, "/workspaces/{workspaceId}/invitations/{invitationId}/revoke");
pub const WORKSPACE_REVOKE_INVITATION: Endpoint =
    page(Method::Post, "/workspaces/{workspaceId}/invitations/{invitationId}/revoke");
pub const WORKSPACE_CREDENTIALS: Endpoint =
    list("/workspaces/{workspaceId}/credentials", &["member", "cursor", "done"]);
pub const WORKSPACE_CONFIRM_REVOKE_CREDENTIAL: Endpoint =
    page(Method::Get, "/workspaces/{workspaceId}/credentials/{credentialId}/revoke");
pub const WORKSPACE_REVOKE_CREDENTIAL: Endpoint =
    page(Method::Post, "/workspaces/{workspaceId}/credentials/{credentialId}/revoke");
pub const WORKSPACE_ACTIVITY: Endpoint =
    list("/workspaces/{workspaceId}/activity", &["member", "event", "since", "until", "cursor"]);
pub const WORKSPACE_CONNECTIONS: Endpoint = list("/workspaces/{workspaceId}/connections", &["done"]);
pub const WORKSPACE_CREATE_CONNECTION: Endpoint = page(Method::Post, "/workspaces/{workspaceId}/connections");
pub const WORKSPACE_CONNECTION: Endpoint = list("/workspaces/{workspaceId}/connections/{connectionId}", &["done"]);
pub const WORKSPACE_CONNECTION_PROVIDER: Endpoint =
    page(Method::Post, "/workspaces/{workspaceId}/connections/{connectionId}/provider");
pub const WORKSPACE_CONNECTION_SETTINGS: Endpoint =
    page(Method::Post, "/workspaces/{workspaceId}/connections/{connectionId}/settings");
pub const WORKSPACE_CONNECTION_ENABLE: Endpoint =
    page(Method::Post, "/workspaces/{workspaceId}/connections/{connectionId}/enable");
pub const WORKSPACE_CLAIM_DOMAIN: Endpoint =
    page(Method::Post, "/workspaces/{workspaceId}/connections/{connectionId}/domains");
pub const WORKSPACE_USE_DOMAIN: Endpoint =
    page(Method::Post, "/workspaces/{workspaceId}/connections/{connectionId}/use-domain");
pub const WORKSPACE_VERIFY_DOMAIN: Endpoint =
    page(Method::Post, "/workspaces/{workspaceId}/connections/{connectionId}/verify-domain");
pub const WORKSPACE_CONFIRM_REMOVE_DOMAIN: Endpoint =
    list("/workspaces/{workspaceId}/connections/{connectionId}/remove-domain", &["domain"]);
pub const WORKSPACE_REMOVE_DOMAIN: Endpoint =
    page(Method::Post, "/workspaces/{workspaceId}/connections/{connectionId}/remove-domain");
pub const WORKSPACE_REQUIREMENT: Endpoint =
    page(Method::Get, "/workspaces/{workspaceId}/connections/{connectionId}/require");
pub const WORKSPACE_CHANGE_REQUIREMENT: Endpoint =
    page(Method::Post, "/workspaces/{workspaceId}/connections/{connectionId}/require");
pub const WORKSPACE_CONFIRM_DELETE_CONNECTION: Endpoint =
    page(Method::Get, "/workspaces/{workspaceId}/connections/{connectionId}/delete");
pub const WORKSPACE_DELETE_CONNECTION: Endpoint =
    page(Method::Post, "/workspaces/{workspaceId}/connections/{connectionId}/delete");
pub const WORKSPACE_REQUIRE_PASSKEY: Endpoint = page(Method::Post, "/workspaces/{workspaceId}/require-passkey");
pub const WORKSPACE_ALLOW_CODES: Endpoint = page(Method::Post, "/workspaces/{workspaceId}/allow-codes");
pub const WORKSPACE_CONFIRM_LEAVE: Endpoint = page(Method::Get, "/workspaces/{workspaceId}/leave");
pub const WORKSPACE_LEAVE: Endpoint = page(Method::Post, "/workspaces/{workspaceId}/leave");
pub const WORKSPACE_UNBLOCK: Endpoint = page(Method::Post, "/workspaces/{workspaceId}/unblock");
pub const INVITATION_ACCEPT: Endpoint = page(Method::Post, "/invitations/{invitationId}/accept");
pub const INVITATION_DECLINE: Endpoint = page(Method::Post, "/invitations/{invitationId}/decline");
pub const INVITATION_BLOCK: Endpoint = page(Method::Post, "/invitations/{invitationId}/block");
pub const SHOW_CONFIRMATION: Endpoint = page(Method::Get, "/confirm/{confirmationId}");
pub const ANSWER_CONFIRMATION: Endpoint = page(Method::Post, "/confirm/{confirmationId}");
pub const SIGN_OUT: Endpoint = page(Method::Post, "/sign-out");

pub(super) const ROWS: &[&Endpoint] = &[
    &AUTHORIZE,
    &AUTHORIZE_BY_FORM,
    &HOME,
    &STYLESHEET,
    &ICON,
    &ROBOTS,
    &LOGO,
    &MANUAL_STYLESHEET,
    &MANUAL,
    &SIGN_IN,
    &SHOW_SIGN_IN,
    &SEND_CODE,
    &USE_PASSKEY,
    &USE_RECOVERY_CODE,
    &LOST_PASSKEYS,
    &SHOW_CODE,
    &ENTER_CODE,
    &RESEND_CODE,
    &SIGN_IN_REPORT,
    &REVOKE_REPORTED_SIGN_IN,
    &ADDRESS_LINK_PAGE,
    &USE_ADDRESS_LINK,
    &KEEP_ACCOUNT_PAGE,
    &KEEP_ACCOUNT,
    &SSO_START,
    &SSO_CALLBACK,
    &SSO_BACKCHANNEL_LOGOUT,
    &CONTINUE_WITH_SSO,
    &SHOW_EMERGENCY_SIGN_IN,
    &SEND_EMERGENCY_CODE,
    &SHOW_LINK,
    &ENTER_LINK_CODE,
    &RESEND_LINK_CODE,
    &WORKSPACE_TRY_CONNECTION,
    &SHOW_CONSENT,
    &DECIDE,
    &SWITCH_ACCOUNT,
    &ACCOUNT,
    &ACCOUNT_RENAME,
    &ACCOUNT_SECURITY,
    &ACCOUNT_NEW_PASSKEY,
    &ACCOUNT_ADD_PASSKEY,
    &ACCOUNT_BEGIN_PASSKEY_RECOVERY,
    &ACCOUNT_STOP_PASSKEY_RECOVERY,
    &ACCOUNT_REQUIRE_PASSKEY,
    &ACCOUNT_ALLOW_CODES,
    &ACCOUNT_CREATE_RECOVERY_CODES,
    &ACCOUNT_RENAME_PASSKEY,
    &ACCOUNT_CONFIRM_REMOVE_PASSKEY,
    &ACCOUNT_REMOVE_PASSKEY,
    &ACCOUNT_SECURE_PAGE,
    &ACCOUNT_SECURE_FORM,
    &ACCOUNT_DATA,
    &ACCOUNT_START_EXPORT,
    &ACCOUNT_DOWNLOAD_EXPORT,
    &ACCOUNT_ADDRESS,
    &ACCOUNT_CHANGE_ADDRESS,
    &ACCOUNT_STOP_ADDRESS_CHANGE,
    &ACCOUNT_DELETE_PAGE,
    &ACCOUNT_DELETE_FORM,
    &ACCOUNT_SESSIONS,
    &ACCOUNT_APPS,
    &ACCOUNT_TOKENS,
    &ACCOUNT_WORKSPACES,
    &ACCOUNT_ACTIVITY,
    &ACCOUNT_CONFIRM_END_ALL_SESSIONS,
    &ACCOUNT_CONFIRM_REMOVE_APP,
    &ACCOUNT_CONFIRM_END_SESSION,
    &ACCOUNT_CONFIRM_REVOKE_TOKEN,
    &ACCOUNT_END_ALL_SESSIONS,
    &ACCOUNT_REMOVE_APP,
    &ACCOUNT_END_SESSION,
    &ACCOUNT_CREATE_TOKEN,
    &ACCOUNT_REVOKE_TOKEN,
    &ACCOUNT_CONFIRM_REVOKE_SUSPECTED_TOKENS,
    &ACCOUNT_REVOKE_SUSPECTED_TOKENS,
    &WORKSPACES_PAGE,
    &WORKSPACES_CREATE,
    &WORKSPACE_PAGE,
    &WORKSPACE_CHANGE_ROLE,
    &WORKSPACE_CONFIRM_REMOVE_MEMBER,
    &WORKSPACE_REMOVE_MEMBER,
    &WORKSPACE_INVITE,
    &WORKSPACE_CONFIRM_REVOKE_INVITATION,
    &WORKSPACE_REVOKE_INVITATION,
    &WORKSPACE_CREDENTIALS,
    &WORKSPACE_CONFIRM_REVOKE_CREDENTIAL,
    &WORKSPACE_REVOKE_CREDENTIAL,
    &WORKSPACE_ACTIVITY,
    &WORKSPACE_CONNECTIONS,
    &WORKSPACE_CREATE_CONNECTION,
    &WORKSPACE_CONNECTION,
    &WORKSPACE_CONNECTION_PROVIDER,
    &WORKSPACE_CONNECTION_SETTINGS,
    &WORKSPACE_CONNECTION_ENABLE,
    &WORKSPACE_CLAIM_DOMAIN,
    &WORKSPACE_USE_DOMAIN,
    &WORKSPACE_VERIFY_DOMAIN,
    &WORKSPACE_CONFIRM_REMOVE_DOMAIN,
    &WORKSPACE_REMOVE_DOMAIN,
    &WORKSPACE_REQUIREMENT,
    &WORKSPACE_CHANGE_REQUIREMENT,
    &WORKSPACE_CONFIRM_DELETE_CONNECTION,
    &WORKSPACE_DELETE_CONNECTION,
    &WORKSPACE_REQUIRE_PASSKEY,
    &WORKSPACE_ALLOW_CODES,
    &WORKSPACE_CONFIRM_LEAVE,
    &WORKSPACE_LEAVE,
    &WORKSPACE_UNBLOCK,
    &INVITATION_ACCEPT,
    &INVITATION_DECLINE,
    &INVITATION_BLOCK,
    &SHOW_CONFIRMATION,
    &ANSWER_CONFIRMATION,
    &SIGN_OUT,
];

/// A page with a query, which says which part of a list is shown, or what was done before.
const fn list(path: &'static str, query: &'static [&'static str]) -> Endpoint {
    Endpoint { method: Method::Get, path, access: Access::Browser, body: Body::None, query }
}

const fn page(method: Method, path: &'static str) -> Endpoint {
    let body = if matches!(method, Method::Get) { Body::None } else { Body::Form };
    Endpoint { method, path, access: Access::Browser, body, query: &[] }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_page_has_a_row() {
        let constants = include_str!("pages.rs").lines().filter(|line| line.starts_with("pub const ")).count();
        assert_eq!(constants, ROWS.len(), "a page without a row escapes the tests of access");
    }
}
