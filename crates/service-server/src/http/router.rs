//! Maps endpoints to handlers. Every route is built from its row in the endpoint table.

use axum::extract::{Request, State};
use service_api::endpoints;

use crate::{
    app::App,
    http::{
        caller::{Cases, OfKind, Packs, Playbooks, Projects, Records},
        mcp, oauth, pages, passkey_endpoints,
        query::Query,
        routes::{Route, Routes, at, page},
        v1,
    },
};

/// The routes of the public listener.
pub fn routes(app: &App) -> anyhow::Result<Routes> {
    let routes = [
        sign_in(),
        account(),
        contents(),
        workspaces(),
        invitations(),
        connections(),
        metadata(),
        pages(),
        account_pages(),
        workspace_pages(),
        connection_pages(),
        mcp(app),
        manual(&app.config.base_url),
    ];
    let routes = routes.into_iter().flatten().collect();
    Routes::new(routes, pages::unmatched::not_found, pages::unmatched::method_not_allowed)
}

fn sign_in() -> Vec<Route> {
    vec![
        at(&endpoints::LOGIN_OPTIONS, v1::login_options::ask),
        at(&endpoints::OTP_TOKENS, v1::otp_tokens::create),
        at(&endpoints::TOKEN, oauth::token::exchange),
        at(&endpoints::REVOKE, oauth::revoke::revoke),
        at(&endpoints::INTROSPECT, oauth::introspect::introspect),
        at(&endpoints::REGISTER, oauth::register::register),
        page(&endpoints::SSO_BACKCHANNEL_LOGOUT, oauth::backchannel_logout::receive),
    ]
}

fn account() -> Vec<Route> {
    vec![
        at(&endpoints::WHOAMI, v1::whoami::show),
        at(&endpoints::LIST_AUDIT_EVENTS, v1::audit_events::list),
        at(&endpoints::LIST_SESSIONS, v1::sessions::list),
        at(&endpoints::REVOKE_SESSION, v1::sessions::end),
        at(&endpoints::REVOKE_OTHER_SESSIONS, v1::sessions::end_others),
        at(&endpoints::SECURE_ACCOUNT, v1::sessions::secure),
        at(&endpoints::LIST_CONSENTS, v1::consents::list),
        at(&endpoints::WITHDRAW_CONSENT, v1::consents::withdraw),
        at(&endpoints::LIST_PASSKEYS, v1::passkeys::list),
        at(&endpoints::RENAME_PASSKEY, v1::passkeys::rename),
        at(&endpoints::REMOVE_PASSKEY, v1::passkeys::remove),
        at(&endpoints::START_EXPORT, v1::account_exports::start),
        at(&endpoints::READ_EXPORT, v1::account_exports::read),
        at(&endpoints::DOWNLOAD_EXPORT, v1::account_exports::download),
        at(&endpoints::READ_ACCOUNT, v1::account::read),
        at(&endpoints::RENAME_ACCOUNT, v1::account::rename),
        at(&endpoints::REQUIRE_PASSKEY, v1::account::require_passkey),
        at(&endpoints::ALLOW_CODES, v1::account::allow_codes),
        at(&endpoints::CHANGE_ADDRESS, v1::address_change::request),
        at(&endpoints::READ_ADDRESS_CHANGE, v1::address_change::read),
        at(&endpoints::STOP_ADDRESS_CHANGE, v1::address_change::stop),
        at(&endpoints::DELETE_ACCOUNT, v1::account::delete),
        at(&endpoints::CREATE_CLI_TOKEN, v1::cli_tokens::create),
        at(&endpoints::LIST_CLI_TOKENS, v1::cli_tokens::list),
        at(&endpoints::REVOKE_CLI_TOKEN, v1::cli_tokens::revoke),
        at(&endpoints::ROTATE_CLI_TOKEN, v1::cli_tokens::rotate),
        at(&endpoints::CREATE_MCP_TOKENS, v1::mcp_tokens::create),
        at(&endpoints::REFRESH_MCP_TOKENS, v1::mcp_tokens::refresh),
        at(&endpoints::TOKEN_LEAKS, v1::token_leaks::report),
    ]
}

fn metadata() -> Vec<Route> {
    vec![
        at(&endpoints::JWKS, oauth::jwks::show),
        at(&endpoints::SERVER_METADATA, oauth::metadata::server),
        at(&endpoints::RESOURCE_METADATA, oauth::metadata::resource),
        at(&endpoints::API_METADATA, oauth::metadata::api),
        at(&endpoints::MCP_METADATA, oauth::metadata::mcp),
        at(&endpoints::PASSKEY_ENDPOINTS, passkey_endpoints::show),
    ]
}

fn mcp(app: &App) -> Vec<Route> {
    let protocol = mcp::Protocol::new(app);
    let receive = async move |State(app): State<App>, request: Request| mcp::receive(&app, &protocol, request).await;
    vec![page(&endpoints::MCP.row.endpoint, receive)]
}

fn manual(base_url: &str) -> Vec<Route> {
    use pages::manual::{Manual, openapi, show, stylesheet};
    let manual = Manual::of(base_url);
    let described = manual.clone();
    vec![
        page(&endpoints::OPENAPI.row.endpoint, async move |query: Query| openapi(&described, query)),
        page(&endpoints::MANUAL, async move |State(app): State<App>| show(&app, &manual)),
        page(&endpoints::MANUAL_STYLESHEET, stylesheet),
    ]
}

fn workspaces() -> Vec<Route> {
    use v1::workspaces as handlers;
    vec![
        at(&endpoints::LIST_WORKSPACES, handlers::list),
        at(&endpoints::CREATE_WORKSPACE, handlers::create),
        at(&endpoints::READ_WORKSPACE, handlers::read),
        at(&endpoints::RENAME_WORKSPACE, handlers::rename),
        at(&endpoints::DELETE_WORKSPACE, handlers::delete),
        at(&endpoints::REQUIRE_WORKSPACE_PASSKEY, handlers::require_passkey),
        at(&endpoints::ALLOW_WORKSPACE_CODES, handlers::allow_codes),
        at(&endpoints::LIST_MEMBERS, handlers::members),
        at(&endpoints::CHANGE_ROLE, handlers::change_role),
        at(&endpoints::REMOVE_MEMBER, handlers::remove_member),
        at(&endpoints::LIST_INVITATIONS, handlers::list_invitations),
        at(&endpoints::INVITE, handlers::invite),
        at(&endpoints::REVOKE_INVITATION, handlers::revoke_invitation),
    ]
}

fn invitations() -> Vec<Route> {
    use v1::invitations as handlers;
    vec![
        at(&endpoints::LIST_RECEIVED_INVITATIONS, handlers::list),
        at(&endpoints::ACCEPT_INVITATION, handlers::accept),
        at(&endpoints::DECLINE_INVITATION, handlers::decline),
        at(&endpoints::BLOCK_INVITATION, handlers::block),
        at(&endpoints::LIST_BLOCKED_WORKSPACES, handlers::list_blocked),
        at(&endpoints::UNBLOCK_WORKSPACE, handlers::unblock),
    ]
}

fn connections() -> Vec<Route> {
    use v1::{connections, domains};
    vec![
        at(&endpoints::LIST_CONNECTIONS, connections::list),
        at(&endpoints::CREATE_CONNECTION, connections::create),
        at(&endpoints::READ_CONNECTION, connections::read),
        at(&endpoints::UPDATE_CONNECTION, connections::update),
        at(&endpoints::DELETE_CONNECTION, connections::delete),
        at(&endpoints::CONNECTION_IMPACT, connections::impact),
        at(&endpoints::LIST_DOMAINS, domains::list),
        at(&endpoints::CLAIM_DOMAIN, domains::claim),
        at(&endpoints::VERIFY_DOMAIN, domains::verify),
        at(&endpoints::UPDATE_DOMAIN, domains::update),
        at(&endpoints::REMOVE_DOMAIN, domains::remove),
    ]
}

fn contents() -> Vec<Route> {
    let search = vec![at(&endpoints::SEARCH_PACKS, v1::contents::search)];
    let kinds = [
        contents_of::<Projects>(),
        contents_of::<Packs>(),
        contents_of::<Playbooks>(),
        contents_of::<Cases>(),
        contents_of::<Records>(),
    ];
    kinds.into_iter().flatten().chain(search).collect()
}

fn contents_of<K: OfKind>() -> Vec<Route> {
    use v1::contents as handlers;
    let operations = endpoints::contents(K::KIND);
    vec![
        at(&operations.list, handlers::list::<K>),
        at(&operations.create, handlers::create::<K>),
        at(&operations.read, handlers::read::<K>),
        at(&operations.update, handlers::update::<K>),
        at(&operations.delete, handlers::delete::<K>),
        at(&operations.list_deleted, handlers::list_deleted::<K>),
        at(&operations.restore, handlers::restore::<K>),
    ]
}

fn pages() -> Vec<Route> {
    use pages::{
        address_link, authorize, confirmation, consent, keep_account, passkey_sign_in, sign_in, sign_in_report, sso,
    };
    vec![
        page(&endpoints::AUTHORIZE, authorize::by_query),
        page(&endpoints::AUTHORIZE_BY_FORM, authorize::by_form),
        page(&endpoints::HOME, sign_in::home),
        page(&endpoints::STYLESHEET, pages::stylesheet),
        page(&endpoints::ICON, pages::icon),
        page(&endpoints::ROBOTS, pages::robots),
        page(&endpoints::LOGO, pages::logo),
        page(&endpoints::SIGN_IN, sign_in::begin),
        page(&endpoints::SHOW_SIGN_IN, sign_in::show),
        page(&endpoints::SEND_CODE, sign_in::send),
        page(&endpoints::USE_PASSKEY, passkey_sign_in::use_passkey),
        page(&endpoints::USE_RECOVERY_CODE, passkey_sign_in::use_recovery_code),
        page(&endpoints::LOST_PASSKEYS, passkey_sign_in::begin_recovery),
        page(&endpoints::SHOW_CODE, sign_in::show_code),
        page(&endpoints::ENTER_CODE, sign_in::enter),
        page(&endpoints::RESEND_CODE, sign_in::resend),
        page(&endpoints::SSO_START, sso::begin),
        page(&endpoints::SSO_CALLBACK, sso::callback),
        page(&endpoints::CONTINUE_WITH_SSO, sso::continue_with),
        page(&endpoints::SHOW_EMERGENCY_SIGN_IN, sso::show_emergency),
        page(&endpoints::SEND_EMERGENCY_CODE, sso::send_emergency),
        page(&endpoints::SHOW_LINK, sso::show_link),
        page(&endpoints::ENTER_LINK_CODE, sso::enter_link),
        page(&endpoints::RESEND_LINK_CODE, sso::resend_link),
        page(&endpoints::SIGN_IN_REPORT, sign_in_report::show),
        page(&endpoints::REVOKE_REPORTED_SIGN_IN, sign_in_report::revoke),
        page(&endpoints::ADDRESS_LINK_PAGE, address_link::show),
        page(&endpoints::USE_ADDRESS_LINK, address_link::answer),
        page(&endpoints::KEEP_ACCOUNT_PAGE, keep_account::show),
        page(&endpoints::KEEP_ACCOUNT, keep_account::keep),
        page(&endpoints::SHOW_CONSENT, consent::show),
        page(&endpoints::DECIDE, consent::decide),
        page(&endpoints::SWITCH_ACCOUNT, consent::switch),
        page(&endpoints::SHOW_CONFIRMATION, confirmation::show),
        page(&endpoints::ANSWER_CONFIRMATION, confirmation::answer),
    ]
}

fn account_pages() -> Vec<Route> {
    use pages::account::{
        activity, address, apps, data, delete, overview, secure, security, sessions, sign_out, tokens, workspaces,
    };
    vec![
        page(&endpoints::ACCOUNT, overview::show),
        page(&endpoints::ACCOUNT_RENAME, overview::rename),
        page(&endpoints::ACCOUNT_SECURITY, security::show),
        page(&endpoints::ACCOUNT_NEW_PASSKEY, security::new),
        page(&endpoints::ACCOUNT_ADD_PASSKEY, security::add),
        page(&endpoints::ACCOUNT_BEGIN_PASSKEY_RECOVERY, security::begin_recovery),
        page(&endpoints::ACCOUNT_REQUIRE_PASSKEY, security::require_passkey),
        page(&endpoints::ACCOUNT_ALLOW_CODES, security::allow_codes),
        page(&endpoints::ACCOUNT_CREATE_RECOVERY_CODES, security::create_recovery_codes),
        page(&endpoints::ACCOUNT_STOP_PASSKEY_RECOVERY, security::stop_recovery),
        page(&endpoints::ACCOUNT_RENAME_PASSKEY, security::rename),
        page(&endpoints::ACCOUNT_CONFIRM_REMOVE_PASSKEY, security::confirm_remove),
        page(&endpoints::ACCOUNT_REMOVE_PASSKEY, security::remove),
        page(&endpoints::ACCOUNT_SECURE_PAGE, secure::show),
        page(&endpoints::ACCOUNT_SECURE_FORM, secure::secure),
        page(&endpoints::ACCOUNT_DATA, data::show),
        page(&endpoints::ACCOUNT_START_EXPORT, data::start),
        page(&endpoints::ACCOUNT_DOWNLOAD_EXPORT, data::download),
        page(&endpoints::ACCOUNT_ADDRESS, address::show),
        page(&endpoints::ACCOUNT_CHANGE_ADDRESS, address::change),
        page(&endpoints::ACCOUNT_STOP_ADDRESS_CHANGE, address::stop),
        page(&endpoints::ACCOUNT_DELETE_PAGE, delete::show),
        page(&endpoints::ACCOUNT_DELETE_FORM, delete::delete),
        page(&endpoints::ACCOUNT_SESSIONS, sessions::show),
        page(&endpoints::ACCOUNT_CONFIRM_END_SESSION, sessions::confirm_end),
        page(&endpoints::ACCOUNT_CONFIRM_END_ALL_SESSIONS, sessions::confirm_end_all),
        page(&endpoints::ACCOUNT_CONFIRM_REMOVE_APP, apps::confirm_withdraw),
        page(&endpoints::ACCOUNT_CONFIRM_REVOKE_TOKEN, tokens::confirm_revoke),
        page(&endpoints::ACCOUNT_END_SESSION, sessions::end),
        page(&endpoints::ACCOUNT_END_ALL_SESSIONS, sessions::end_all),
        page(&endpoints::ACCOUNT_APPS, apps::show),
        page(&endpoints::ACCOUNT_REMOVE_APP, apps::withdraw),
        page(&endpoints::ACCOUNT_TOKENS, tokens::show),
        page(&endpoints::ACCOUNT_CREATE_TOKEN, tokens::create),
        page(&endpoints::ACCOUNT_REVOKE_TOKEN, tokens::revoke),
        page(&endpoints::ACCOUNT_WORKSPACES, workspaces::show),
        page(&endpoints::ACCOUNT_ACTIVITY, activity::show),
        page(&endpoints::ACCOUNT_CONFIRM_REVOKE_SUSPECTED_TOKENS, tokens::confirm_revoke_suspected),
        page(&endpoints::ACCOUNT_REVOKE_SUSPECTED_TOKENS, tokens::revoke_suspected),
        page(&endpoints::SIGN_OUT, sign_out),
    ]
}

fn workspace_pages() -> Vec<Route> {
    use pages::{
        account::workspaces,
        invitations, sso,
        workspace::{activity, credentials, members},
    };
    vec![
        page(&endpoints::WORKSPACES_PAGE, workspaces::show),
        page(&endpoints::WORKSPACES_CREATE, workspaces::create),
        page(&endpoints::WORKSPACE_PAGE, members::show),
        page(&endpoints::WORKSPACE_CHANGE_ROLE, members::change_role),
        page(&endpoints::WORKSPACE_CONFIRM_REMOVE_MEMBER, members::confirm_remove_member),
        page(&endpoints::WORKSPACE_REMOVE_MEMBER, members::remove_member),
        page(&endpoints::WORKSPACE_INVITE, members::invite),
        page(&endpoints::WORKSPACE_CONFIRM_REVOKE_INVITATION, members::confirm_revoke_invitation),
        page(&endpoints::WORKSPACE_REVOKE_INVITATION, members::revoke_invitation),
        page(&endpoints::WORKSPACE_CREDENTIALS, credentials::show),
        page(&endpoints::WORKSPACE_CONFIRM_REVOKE_CREDENTIAL, credentials::confirm_revoke),
        page(&endpoints::WORKSPACE_REVOKE_CREDENTIAL, credentials::revoke),
        page(&endpoints::WORKSPACE_ACTIVITY, activity::show),
        page(&endpoints::WORKSPACE_REQUIRE_PASSKEY, members::require_passkey),
        page(&endpoints::WORKSPACE_ALLOW_CODES, members::allow_codes),
        page(&endpoints::WORKSPACE_CONFIRM_LEAVE, members::confirm_leave),
        page(&endpoints::WORKSPACE_LEAVE, members::leave),
        page(&endpoints::WORKSPACE_TRY_CONNECTION, sso::try_connection),
        page(&endpoints::WORKSPACE_UNBLOCK, invitations::unblock),
        page(&endpoints::INVITATION_ACCEPT, invitations::accept),
        page(&endpoints::INVITATION_DECLINE, invitations::decline),
        page(&endpoints::INVITATION_BLOCK, invitations::block),
    ]
}

fn connection_pages() -> Vec<Route> {
    use pages::workspace::connections::{self, connection, requirement};
    vec![
        page(&endpoints::WORKSPACE_CONNECTIONS, connections::show),
        page(&endpoints::WORKSPACE_CREATE_CONNECTION, connections::create),
        page(&endpoints::WORKSPACE_CONNECTION, connection::show),
        page(&endpoints::WORKSPACE_CONNECTION_PROVIDER, connection::set_provider),
        page(&endpoints::WORKSPACE_CONNECTION_SETTINGS, connection::set_policy),
        page(&endpoints::WORKSPACE_CONNECTION_ENABLE, connection::enable),
        page(&endpoints::WORKSPACE_CLAIM_DOMAIN, connection::claim_domain),
        page(&endpoints::WORKSPACE_USE_DOMAIN, connection::use_domain),
        page(&endpoints::WORKSPACE_VERIFY_DOMAIN, connection::verify_domain),
        page(&endpoints::WORKSPACE_CONFIRM_REMOVE_DOMAIN, connection::confirm_remove_domain),
        page(&endpoints::WORKSPACE_REMOVE_DOMAIN, connection::remove_domain),
        page(&endpoints::WORKSPACE_REQUIREMENT, requirement::show),
        page(&endpoints::WORKSPACE_CHANGE_REQUIREMENT, requirement::change),
        page(&endpoints::WORKSPACE_CONFIRM_DELETE_CONNECTION, connection::confirm_delete),
        page(&endpoints::WORKSPACE_DELETE_CONNECTION, connection::delete),
    ]
}
