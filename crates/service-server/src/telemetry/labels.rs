//! The values of labels. Counters with them begin at 0, so that the first event of a kind is an increase that a query sees.

use service_api::endpoints;

/// The route of a request that no endpoint matches, for the log and metrics.
pub const UNMATCHED: &str = "unmatched";

/// Statuses that operators are alarmed by. The others appear with their first response.
pub(super) const ALARMING_STATUSES: [u16; 2] = [500, 503];
pub(super) const REFRESH_OUTCOMES: &[&str] =
    &["rotated", "repeated", "superseded", "fast_forwarded", "refused", "replayed"];
pub(super) const TOOL_OUTCOMES: &[&str] = &["succeeded", "refused", "asked", "failed"];
pub(super) const PROVIDER_REQUESTS: &[&str] = &["discovery", "keys", "token", "userinfo"];
pub(super) const PROVIDER_OUTCOMES: &[&str] =
    &["ok", "refused", "invalid", "unavailable", "timeout", "forbidden_address", "busy"];
pub(super) const DOMAIN_CHECK_OUTCOMES: &[&str] = &["found", "missing", "unanswered"];
pub(super) const SSO_LOGOUT_OUTCOMES: &[&str] = &["signed_out", "refused", "limited", "failed"];
pub(super) const SSO_SIGN_IN_OUTCOMES: &[&str] = &[
    "signed_in",
    "link",
    "linked",
    "tried",
    "provider_unavailable",
    "provider_refused",
    "provider_error",
    "other_issuer",
    "no_code",
    "id_token",
    "not_fresh",
    "other_tenant",
    "no_address",
    "unverified_address",
    "foreign_domain",
    "account_disabled",
];

/// Returns every route template once.
pub(super) fn routes() -> impl Iterator<Item = &'static str> {
    let mut paths: Vec<_> = endpoints::ALL.iter().map(|endpoint| endpoint.path).collect();
    paths.sort_unstable();
    paths.dedup();
    paths.into_iter().chain([UNMATCHED])
}
