//! The labels of metrics, and their values. Counters with these values begin at 0, so that the first event of a kind is an
//! increase that a query sees.

use prometheus_client::encoding::EncodeLabelSet;
use service_api::endpoints;

/// The route of a request that no endpoint matches, for the log and metrics.
pub const UNMATCHED: &str = "unmatched";

/// Statuses that operators are alarmed by. The others appear with their first response.
pub(super) const ALARMING_STATUSES: [u16; 2] = [500, 503];
pub(super) const REFRESH_OUTCOMES: &[&str] =
    &["rotated", "repeated", "superseded", "fast_forwarded", "refused", "replayed"];
pub(super) const TOOL_OUTCOMES: &[&str] = &["succeeded", "refused", "asked", "failed"];
pub(super) const SUPPORT_OUTCOMES: &[&str] = &["succeeded", "unauthenticated", "limited", "refused", "failed"];
pub(super) const PROVIDER_REQUESTS: &[&str] = &["discovery", "keys", "token", "userinfo"];
pub(super) const PROVIDER_OUTCOMES: &[&str] =
    &["ok", "refused", "invalid", "unavailable", "timeout", "forbidden_address", "busy"];
pub(super) const SPAN_OUTCOMES: &[&str] = &["exported", "failed", "dropped"];
pub(super) const BOUNCE_OUTCOMES: &[&str] = &["suppressed", "ignored", "refused"];
pub(super) const DOMAIN_CHECK_OUTCOMES: &[&str] = &["found", "missing", "unanswered"];
/// The limits that all nodes share, as `RateLimit-Policy` names them.
pub(super) const LIMITS: &[&str] = &[
    "account-deletions",
    "account-exports",
    "account-renames",
    "account-secured-mails",
    "address-changes",
    "address-changes-address",
    "address-changes-address-network",
    "address-changes-network",
    "break-glass",
    "browsers-device",
    "browsers-network",
    "client-failures",
    "credential-letters",
    "documents-host",
    "documents-network",
    "documents-user",
    "domain-checks-user",
    "domain-checks-workspace",
    "flows-device",
    "flows-network",
    "invitation-mails-address",
    "invitations-user",
    "invitations-user-address",
    "leak-reports-network",
    "login-options-device",
    "login-options-network",
    "logouts-network",
    "new-sign-in-mails",
    "otp-address",
    "otp-address-network",
    "otp-context",
    "otp-device",
    "otp-failures",
    "otp-failures-address",
    "otp-failures-address-network",
    "otp-failures-device",
    "otp-failures-network",
    "otp-network",
    "otp-sends",
    "passkey-copied",
    "passkey-failures-network",
    "passkey-recoveries",
    "passkey-requirements",
    "recovery-codes",
    "registrations-network",
    "sso-device",
    "sso-network",
    "sso-refusals",
    "support-calls",
    "support-changes",
    "tokens_per_user",
];
pub(super) const PASSKEY_SIGN_IN_OUTCOMES: &[&str] =
    &["signed_in", "refused", "copied", "sso_required", "closed", "error"];
pub(super) const EXPORT_DOWNLOAD_OUTCOMES: &[&str] =
    &["finished", "disconnected", "session_ended", "superseded", "too_slow", "failed"];
pub(super) const SSO_LOGOUT_OUTCOMES: &[&str] = &["signed_out", "refused", "limited", "failed"];
pub(super) const SSO_SIGN_IN_OUTCOMES: &[&str] = &[
    "signed_in",
    "link",
    "linked",
    "tried",
    "closed",
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
    "passkey_required",
];

/// Returns every route template once.
pub(super) fn routes() -> impl Iterator<Item = &'static str> {
    let mut paths: Vec<_> = endpoints::ALL.iter().map(|endpoint| endpoint.path).collect();
    paths.sort_unstable();
    paths.dedup();
    paths.into_iter().chain([UNMATCHED])
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct RequestLabels {
    pub(super) route: &'static str,
    pub(super) status: u16,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct RouteLabels {
    pub(super) route: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct OutcomeLabels {
    pub(super) outcome: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct ToolLabels {
    pub(super) tool: &'static str,
    pub(super) outcome: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct SupportLabels {
    pub(super) call: &'static str,
    pub(super) outcome: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct ProviderLabels {
    pub(super) request: &'static str,
    pub(super) outcome: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct TaskLabels {
    pub(super) task: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct LimitLabels {
    pub(super) limit: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct TableLabels {
    pub(super) table: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct BuildLabels {
    pub(super) version: &'static str,
    pub(super) commit: &'static str,
}
