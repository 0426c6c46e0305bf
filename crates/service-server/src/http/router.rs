//! Maps endpoints to handlers. Every route is built from its row in the endpoint table.

use axum::{
    Extension, Router,
    extract::{self, State},
    handler::Handler,
    http::StatusCode,
    middleware,
    routing::{MethodFilter, MethodRouter, on},
};
use service_api::endpoints::{self, Endpoint, Method, Operation};

use crate::{
    app::App,
    http::{
        caller::{Cases, OfKind, Packs, Playbooks, Projects, Records},
        edge, mcp, oauth,
        operation::OperationHandler,
        pages, v1,
    },
};

pub fn router(app: &App) -> Router {
    Router::new()
        .merge(at(&endpoints::LOGIN_OPTIONS, v1::login_options::ask))
        .merge(at(&endpoints::OTP_TOKENS, v1::otp_tokens::create))
        .merge(at(&endpoints::TOKEN, oauth::token::exchange))
        .merge(at(&endpoints::REVOKE, oauth::revoke::revoke))
        .merge(at(&endpoints::INTROSPECT, oauth::introspect::introspect))
        .merge(at(&endpoints::JWKS, oauth::jwks::show))
        .merge(at(&endpoints::WHOAMI, v1::whoami::show))
        .merge(contents())
        .merge(workspaces())
        .merge(invitations())
        .merge(connections())
        .merge(at(&endpoints::LIST_AUDIT_EVENTS, v1::audit_events::list))
        .merge(at(&endpoints::LIST_SESSIONS, v1::sessions::list))
        .merge(at(&endpoints::REVOKE_SESSION, v1::sessions::end))
        .merge(at(&endpoints::REVOKE_OTHER_SESSIONS, v1::sessions::end_others))
        .merge(at(&endpoints::LIST_CONSENTS, v1::consents::list))
        .merge(at(&endpoints::WITHDRAW_CONSENT, v1::consents::withdraw))
        .merge(at(&endpoints::CREATE_CLI_TOKEN, v1::cli_tokens::create))
        .merge(at(&endpoints::LIST_CLI_TOKENS, v1::cli_tokens::list))
        .merge(at(&endpoints::REVOKE_CLI_TOKEN, v1::cli_tokens::revoke))
        .merge(at(&endpoints::ROTATE_CLI_TOKEN, v1::cli_tokens::rotate))
        .merge(at(&endpoints::CREATE_MCP_TOKENS, v1::mcp_tokens::create))
        .merge(at(&endpoints::REFRESH_MCP_TOKENS, v1::mcp_tokens::refresh))
        .merge(at(&endpoints::TOKEN_LEAKS, v1::token_leaks::report))
        .merge(at(&endpoints::REGISTER, oauth::register::register))
        .merge(at(&endpoints::SERVER_METADATA, oauth::metadata::server))
        .merge(at(&endpoints::RESOURCE_METADATA, oauth::metadata::resource))
        .merge(at(&endpoints::API_METADATA, oauth::metadata::api))
        .merge(at(&endpoints::MCP_METADATA, oauth::metadata::mcp))
        .merge(page(&endpoints::SSO_BACKCHANNEL_LOGOUT, oauth::backchannel_logout::receive))
        .merge(pages())
        .merge(workspace_pages())
        .merge(connection_pages())
        .merge(page(&endpoints::MCP.row.endpoint, mcp::receive).layer(Extension(mcp::Protocol::new(app))))
        .merge(manual(&app.config.base_url))
        .fallback(pages::unmatched::not_found)
        .method_not_allowed_fallback(pages::unmatched::method_not_allowed)
        .layer(middleware::from_fn_with_state(app.clone(), edge::edge))
        .with_state(app.clone())
}

fn manual(base_url: &str) -> Router<App> {
    use pages::manual::{Manual, openapi, show, stylesheet};
    Router::new()
        .merge(page(&endpoints::OPENAPI.row.endpoint, openapi))
        .merge(page(&endpoints::MANUAL, show))
        .merge(page(&endpoints::MANUAL_STYLESHEET, stylesheet))
        .layer(Extension(Manual::of(base_url)))
}

fn workspaces() -> Router<App> {
    use v1::workspaces as handlers;
    Router::new()
        .merge(at(&endpoints::LIST_WORKSPACES, handlers::list))
        .merge(at(&endpoints::CREATE_WORKSPACE, handlers::create))
        .merge(at(&endpoints::READ_WORKSPACE, handlers::read))
        .merge(at(&endpoints::RENAME_WORKSPACE, handlers::rename))
        .merge(at(&endpoints::DELETE_WORKSPACE, handlers::delete))
        .merge(at(&endpoints::LIST_MEMBERS, handlers::members))
        .merge(at(&endpoints::CHANGE_ROLE, handlers::change_role))
        .merge(at(&endpoints::REMOVE_MEMBER, handlers::remove_member))
        .merge(at(&endpoints::LIST_INVITATIONS, handlers::list_invitations))
        .merge(at(&endpoints::INVITE, handlers::invite))
        .merge(at(&endpoints::REVOKE_INVITATION, handlers::revoke_invitation))
}

fn invitations() -> Router<App> {
    use v1::invitations as handlers;
    Router::new()
        .merge(at(&endpoints::LIST_RECEIVED_INVITATIONS, handlers::list))
        .merge(at(&endpoints::ACCEPT_INVITATION, handlers::accept))
        .merge(at(&endpoints::DECLINE_INVITATION, handlers::decline))
        .merge(at(&endpoints::BLOCK_INVITATION, handlers::block))
        .merge(at(&endpoints::LIST_BLOCKED_WORKSPACES, handlers::list_blocked))
        .merge(at(&endpoints::UNBLOCK_WORKSPACE, handlers::unblock))
}

fn connections() -> Router<App> {
    use v1::{connections, domains};
    Router::new()
        .merge(at(&endpoints::LIST_CONNECTIONS, connections::list))
        .merge(at(&endpoints::CREATE_CONNECTION, connections::create))
        .merge(at(&endpoints::READ_CONNECTION, connections::read))
        .merge(at(&endpoints::UPDATE_CONNECTION, connections::update))
        .merge(at(&endpoints::DELETE_CONNECTION, connections::delete))
        .merge(at(&endpoints::CONNECTION_IMPACT, connections::impact))
        .merge(at(&endpoints::LIST_DOMAINS, domains::list))
        .merge(at(&endpoints::CLAIM_DOMAIN, domains::claim))
        .merge(at(&endpoints::VERIFY_DOMAIN, domains::verify))
        .merge(at(&endpoints::UPDATE_DOMAIN, domains::update))
        .merge(at(&endpoints::REMOVE_DOMAIN, domains::remove))
}

fn contents() -> Router<App> {
    Router::new()
        .merge(at(&endpoints::SEARCH_PACKS, v1::contents::search))
        .merge(contents_of::<Projects>())
        .merge(contents_of::<Packs>())
        .merge(contents_of::<Playbooks>())
        .merge(contents_of::<Cases>())
        .merge(contents_of::<Records>())
}

fn contents_of<K: OfKind>() -> Router<App> {
    use v1::contents as handlers;
    let operations = endpoints::contents(K::KIND);
    Router::new()
        .merge(at(&operations.list, handlers::list::<K>))
        .merge(at(&operations.create, handlers::create::<K>))
        .merge(at(&operations.read, handlers::read::<K>))
        .merge(at(&operations.update, handlers::update::<K>))
        .merge(at(&operations.delete, handlers::delete::<K>))
        .merge(at(&operations.list_deleted, handlers::list_deleted::<K>))
        .merge(at(&operations.restore, handlers::restore::<K>))
}

fn pages() -> Router<App> {
    use pages::{authorize, confirmation, consent, sign_in, sso};
    Router::new()
        .merge(page(&endpoints::AUTHORIZE, authorize::by_query))
        .merge(page(&endpoints::AUTHORIZE_BY_FORM, authorize::by_form))
        .merge(page(&endpoints::HOME, sign_in::home))
        .merge(page(&endpoints::STYLESHEET, pages::stylesheet))
        .merge(page(&endpoints::ICON, pages::icon))
        .merge(page(&endpoints::ROBOTS, pages::robots))
        .merge(page(&endpoints::LOGO, pages::logo))
        .merge(page(&endpoints::SIGN_IN, sign_in::begin))
        .merge(page(&endpoints::SHOW_SIGN_IN, sign_in::show))
        .merge(page(&endpoints::SEND_CODE, sign_in::send))
        .merge(page(&endpoints::SHOW_CODE, sign_in::show_code))
        .merge(page(&endpoints::ENTER_CODE, sign_in::enter))
        .merge(page(&endpoints::RESEND_CODE, sign_in::resend))
        .merge(page(&endpoints::SSO_START, sso::begin))
        .merge(page(&endpoints::SSO_CALLBACK, sso::callback))
        .merge(page(&endpoints::CONTINUE_WITH_SSO, sso::continue_with))
        .merge(page(&endpoints::SHOW_EMERGENCY_SIGN_IN, sso::show_emergency))
        .merge(page(&endpoints::SEND_EMERGENCY_CODE, sso::send_emergency))
        .merge(page(&endpoints::SHOW_LINK, sso::show_link))
        .merge(page(&endpoints::ENTER_LINK_CODE, sso::enter_link))
        .merge(page(&endpoints::RESEND_LINK_CODE, sso::resend_link))
        .merge(page(&endpoints::SHOW_CONSENT, consent::show))
        .merge(page(&endpoints::DECIDE, consent::decide))
        .merge(page(&endpoints::SWITCH_ACCOUNT, consent::switch))
        .merge(page(&endpoints::SHOW_CONFIRMATION, confirmation::show))
        .merge(page(&endpoints::ANSWER_CONFIRMATION, confirmation::answer))
        .merge(account())
}

fn account() -> Router<App> {
    use pages::account::{activity, apps, overview, sessions, sign_out, tokens, workspaces};
    Router::new()
        .merge(page(&endpoints::ACCOUNT, overview::show))
        .merge(page(&endpoints::ACCOUNT_SESSIONS, sessions::show))
        .merge(page(&endpoints::ACCOUNT_CONFIRM_END_SESSION, sessions::confirm_end))
        .merge(page(&endpoints::ACCOUNT_CONFIRM_END_ALL_SESSIONS, sessions::confirm_end_all))
        .merge(page(&endpoints::ACCOUNT_CONFIRM_REMOVE_APP, apps::confirm_withdraw))
        .merge(page(&endpoints::ACCOUNT_CONFIRM_REVOKE_TOKEN, tokens::confirm_revoke))
        .merge(page(&endpoints::ACCOUNT_END_SESSION, sessions::end))
        .merge(page(&endpoints::ACCOUNT_END_ALL_SESSIONS, sessions::end_all))
        .merge(page(&endpoints::ACCOUNT_APPS, apps::show))
        .merge(page(&endpoints::ACCOUNT_REMOVE_APP, apps::withdraw))
        .merge(page(&endpoints::ACCOUNT_TOKENS, tokens::show))
        .merge(page(&endpoints::ACCOUNT_CREATE_TOKEN, tokens::create))
        .merge(page(&endpoints::ACCOUNT_REVOKE_TOKEN, tokens::revoke))
        .merge(page(&endpoints::ACCOUNT_WORKSPACES, workspaces::show))
        .merge(page(&endpoints::ACCOUNT_ACTIVITY, activity::show))
        .merge(page(&endpoints::ACCOUNT_CONFIRM_REVOKE_SUSPECTED_TOKENS, tokens::confirm_revoke_suspected))
        .merge(page(&endpoints::ACCOUNT_REVOKE_SUSPECTED_TOKENS, tokens::revoke_suspected))
        .merge(page(&endpoints::SIGN_OUT, sign_out))
}

fn workspace_pages() -> Router<App> {
    use pages::{
        account::workspaces,
        invitations, sso,
        workspace::{activity, credentials, members},
    };
    Router::new()
        .merge(page(&endpoints::WORKSPACES_PAGE, workspaces::show))
        .merge(page(&endpoints::WORKSPACES_CREATE, workspaces::create))
        .merge(page(&endpoints::WORKSPACE_PAGE, members::show))
        .merge(page(&endpoints::WORKSPACE_CHANGE_ROLE, members::change_role))
        .merge(page(&endpoints::WORKSPACE_CONFIRM_REMOVE_MEMBER, members::confirm_remove_member))
        .merge(page(&endpoints::WORKSPACE_REMOVE_MEMBER, members::remove_member))
        .merge(page(&endpoints::WORKSPACE_INVITE, members::invite))
        .merge(page(&endpoints::WORKSPACE_CONFIRM_REVOKE_INVITATION, members::confirm_revoke_invitation))
        .merge(page(&endpoints::WORKSPACE_REVOKE_INVITATION, members::revoke_invitation))
        .merge(page(&endpoints::WORKSPACE_CREDENTIALS, credentials::show))
        .merge(page(&endpoints::WORKSPACE_CONFIRM_REVOKE_CREDENTIAL, credentials::confirm_revoke))
        .merge(page(&endpoints::WORKSPACE_REVOKE_CREDENTIAL, credentials::revoke))
        .merge(page(&endpoints::WORKSPACE_ACTIVITY, activity::show))
        .merge(page(&endpoints::WORKSPACE_CONFIRM_LEAVE, members::confirm_leave))
        .merge(page(&endpoints::WORKSPACE_LEAVE, members::leave))
        .merge(page(&endpoints::WORKSPACE_TRY_CONNECTION, sso::try_connection))
        .merge(page(&endpoints::WORKSPACE_UNBLOCK, invitations::unblock))
        .merge(page(&endpoints::INVITATION_ACCEPT, invitations::accept))
        .merge(page(&endpoints::INVITATION_DECLINE, invitations::decline))
        .merge(page(&endpoints::INVITATION_BLOCK, invitations::block))
}

fn connection_pages() -> Router<App> {
    use pages::workspace::connections::{self, connection, requirement};
    Router::new()
        .merge(page(&endpoints::WORKSPACE_CONNECTIONS, connections::show))
        .merge(page(&endpoints::WORKSPACE_CREATE_CONNECTION, connections::create))
        .merge(page(&endpoints::WORKSPACE_CONNECTION, connection::show))
        .merge(page(&endpoints::WORKSPACE_CONNECTION_PROVIDER, connection::set_provider))
        .merge(page(&endpoints::WORKSPACE_CONNECTION_SETTINGS, connection::set_policy))
        .merge(page(&endpoints::WORKSPACE_CONNECTION_ENABLE, connection::enable))
        .merge(page(&endpoints::WORKSPACE_CLAIM_DOMAIN, connection::claim_domain))
        .merge(page(&endpoints::WORKSPACE_USE_DOMAIN, connection::use_domain))
        .merge(page(&endpoints::WORKSPACE_VERIFY_DOMAIN, connection::verify_domain))
        .merge(page(&endpoints::WORKSPACE_CONFIRM_REMOVE_DOMAIN, connection::confirm_remove_domain))
        .merge(page(&endpoints::WORKSPACE_REMOVE_DOMAIN, connection::remove_domain))
        .merge(page(&endpoints::WORKSPACE_REQUIREMENT, requirement::show))
        .merge(page(&endpoints::WORKSPACE_CHANGE_REQUIREMENT, requirement::change))
        .merge(page(&endpoints::WORKSPACE_CONFIRM_DELETE_CONNECTION, connection::confirm_delete))
        .merge(page(&endpoints::WORKSPACE_DELETE_CONNECTION, connection::delete))
}

/// Routes an operation to a handler, which must have the operation's types.
fn at<Arguments: 'static, Request: 'static, Response: 'static>(
    operation: &'static Operation<Request, Response>,
    handler: impl OperationHandler<Arguments, Request, Response>,
) -> Router<App> {
    let status = StatusCode::from_u16(operation.row.status).unwrap_or_default();
    let answer = move |State(app): State<App>, request: extract::Request| handler.handle(request, app, status);
    page(&operation.row.endpoint, answer)
}

/// Routes an endpoint to a handler. The handler finds the row in the request, so that the rules for queries and bodies are
/// enforced as the row says.
fn page<T: 'static>(endpoint: &'static Endpoint, handler: impl Handler<T, App>) -> Router<App> {
    let filter = match endpoint.method {
        Method::Get => MethodFilter::GET,
        Method::Post => MethodFilter::POST,
        Method::Patch => MethodFilter::PATCH,
        Method::Delete => MethodFilter::DELETE,
    };
    let route: MethodRouter<App> = on(filter, handler);
    Router::new().route(endpoint.path, route.layer(Extension(endpoint)))
}
