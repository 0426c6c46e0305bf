//! Which handler answers which endpoint. A route is made from its row in the contract's table, and in no other way.

use axum::{
    Extension, Router,
    handler::Handler,
    middleware,
    routing::{MethodFilter, MethodRouter, on},
};
use service_api::endpoints::{self, Endpoint, Method};

use crate::{
    app::App,
    http::{caller, edge, error, oauth, pages, v1},
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
        .merge(at(&endpoints::LIST_AUDIT_EVENTS, v1::audit_events::list))
        .merge(at(&endpoints::LIST_SESSIONS, v1::sessions::list))
        .merge(at(&endpoints::END_SESSION, v1::sessions::end))
        .merge(at(&endpoints::END_OTHER_SESSIONS, v1::sessions::end_others))
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
        .merge(pages())
        .merge(manual(&app.config.base_url))
        .fallback(error::not_found)
        .method_not_allowed_fallback(error::method_not_allowed)
        .layer(middleware::from_fn_with_state(app.clone(), edge::edge))
        .with_state(app.clone())
}

fn manual(base_url: &str) -> Router<App> {
    use pages::manual::{Manual, openapi, show, stylesheet};
    Router::new()
        .merge(at(&endpoints::OPENAPI, openapi))
        .merge(at(&endpoints::MANUAL, show))
        .merge(at(&endpoints::MANUAL_STYLESHEET, stylesheet))
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

fn contents() -> Router<App> {
    use caller::{Cases, Packs, Playbooks, Projects, Records};
    use v1::contents::{create, delete, list, read, search, update};
    Router::new()
        .merge(at(&endpoints::SEARCH_PACKS, search))
        .merge(at(&endpoints::LIST_PROJECTS, list::<Projects>))
        .merge(at(&endpoints::CREATE_PROJECT, create::<Projects>))
        .merge(at(&endpoints::READ_PROJECT, read::<Projects>))
        .merge(at(&endpoints::UPDATE_PROJECT, update::<Projects>))
        .merge(at(&endpoints::DELETE_PROJECT, delete::<Projects>))
        .merge(at(&endpoints::LIST_PACKS, list::<Packs>))
        .merge(at(&endpoints::CREATE_PACK, create::<Packs>))
        .merge(at(&endpoints::READ_PACK, read::<Packs>))
        .merge(at(&endpoints::UPDATE_PACK, update::<Packs>))
        .merge(at(&endpoints::DELETE_PACK, delete::<Packs>))
        .merge(at(&endpoints::LIST_PLAYBOOKS, list::<Playbooks>))
        .merge(at(&endpoints::CREATE_PLAYBOOK, create::<Playbooks>))
        .merge(at(&endpoints::READ_PLAYBOOK, read::<Playbooks>))
        .merge(at(&endpoints::UPDATE_PLAYBOOK, update::<Playbooks>))
        .merge(at(&endpoints::DELETE_PLAYBOOK, delete::<Playbooks>))
        .merge(at(&endpoints::LIST_CASES, list::<Cases>))
        .merge(at(&endpoints::CREATE_CASE, create::<Cases>))
        .merge(at(&endpoints::READ_CASE, read::<Cases>))
        .merge(at(&endpoints::UPDATE_CASE, update::<Cases>))
        .merge(at(&endpoints::DELETE_CASE, delete::<Cases>))
        .merge(at(&endpoints::LIST_RECORDS, list::<Records>))
        .merge(at(&endpoints::CREATE_RECORD, create::<Records>))
        .merge(at(&endpoints::READ_RECORD, read::<Records>))
        .merge(at(&endpoints::UPDATE_RECORD, update::<Records>))
        .merge(at(&endpoints::DELETE_RECORD, delete::<Records>))
}

fn pages() -> Router<App> {
    use pages::{account, authorize, consent, sign_in};
    Router::new()
        .merge(at(&endpoints::AUTHORIZE, authorize::by_query))
        .merge(at(&endpoints::AUTHORIZE_BY_FORM, authorize::by_form))
        .merge(at(&endpoints::HOME, sign_in::home))
        .merge(at(&endpoints::STYLESHEET, pages::stylesheet))
        .merge(at(&endpoints::SIGN_IN, sign_in::begin))
        .merge(at(&endpoints::SHOW_SIGN_IN, sign_in::show))
        .merge(at(&endpoints::SEND_CODE, sign_in::send))
        .merge(at(&endpoints::SHOW_CODE, sign_in::show_code))
        .merge(at(&endpoints::ENTER_CODE, sign_in::enter))
        .merge(at(&endpoints::RESEND_CODE, sign_in::resend))
        .merge(at(&endpoints::SHOW_CONSENT, consent::show))
        .merge(at(&endpoints::DECIDE, consent::decide))
        .merge(at(&endpoints::SWITCH_ACCOUNT, consent::switch))
        .merge(at(&endpoints::ACCOUNT, account::show))
        .merge(at(&endpoints::ACCOUNT_END_SESSION, account::end_session))
        .merge(at(&endpoints::ACCOUNT_CREATE_TOKEN, account::create_token))
        .merge(at(&endpoints::ACCOUNT_REVOKE_TOKEN, account::revoke_token))
        .merge(at(&endpoints::SIGN_OUT, account::sign_out))
}

/// The handler learns its row too, so that what the row says of queries and bodies is what is enforced.
fn at<T: 'static>(endpoint: &'static Endpoint, handler: impl Handler<T, App>) -> Router<App> {
    let filter = match endpoint.method {
        Method::Get => MethodFilter::GET,
        Method::Post => MethodFilter::POST,
        Method::Patch => MethodFilter::PATCH,
        Method::Delete => MethodFilter::DELETE,
    };
    let route: MethodRouter<App> = on(filter, handler);
    Router::new().route(endpoint.path, route.layer(Extension(endpoint)))
}
