//! The pages that people see.

use super::{Access, Body, Endpoint, Method};

pub const AUTHORIZE: Endpoint = page(Method::Get, "/oauth/authorize");
pub const AUTHORIZE_BY_FORM: Endpoint = page(Method::Post, "/oauth/authorize");
pub const HOME: Endpoint = page(Method::Get, "/");
pub const STYLESHEET: Endpoint = page(Method::Get, "/assets/style.css");
pub const MANUAL_STYLESHEET: Endpoint = page(Method::Get, "/assets/manual.css");
pub const MANUAL: Endpoint = page(Method::Get, "/docs");
pub const SIGN_IN: Endpoint = page(Method::Get, "/sign-in");
pub const SHOW_SIGN_IN: Endpoint = page(Method::Get, "/sign-in/{flowId}");
pub const SEND_CODE: Endpoint = page(Method::Post, "/sign-in/{flowId}");
pub const SHOW_CODE: Endpoint = page(Method::Get, "/sign-in/{flowId}/code");
pub const ENTER_CODE: Endpoint = page(Method::Post, "/sign-in/{flowId}/code");
pub const RESEND_CODE: Endpoint = page(Method::Post, "/sign-in/{flowId}/resend");
pub const SHOW_CONSENT: Endpoint = page(Method::Get, "/consent/{flowId}");
pub const DECIDE: Endpoint = page(Method::Post, "/consent/{flowId}");
pub const SWITCH_ACCOUNT: Endpoint = page(Method::Post, "/consent/{flowId}/switch");
pub const ACCOUNT: Endpoint = page(Method::Get, "/account");
pub const ACCOUNT_END_SESSION: Endpoint = page(Method::Post, "/account/sessions/{sessionId}/end");
pub const ACCOUNT_CREATE_TOKEN: Endpoint = page(Method::Post, "/account/tokens");
pub const ACCOUNT_REVOKE_TOKEN: Endpoint = page(Method::Post, "/account/tokens/{tokenId}/revoke");
pub const SIGN_OUT: Endpoint = page(Method::Post, "/sign-out");

const fn page(method: Method, path: &'static str) -> Endpoint {
    let body = if matches!(method, Method::Get) { Body::None } else { Body::Form };
    Endpoint { method, path, access: Access::Browser, body, query: &[] }
}
