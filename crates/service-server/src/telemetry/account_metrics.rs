//! What users do about the security of their accounts, counted.

use prometheus_client::{
    metrics::{counter::Counter, gauge::Gauge},
    registry::Registry,
};

/// The metrics of the account pages and of recovery codes.
#[derive(Default)]
pub struct AccountMetrics {
    pub sign_ins_reported: Counter,
    pub secured: Counter,
    pub recovery_codes_used: Counter,
    pub address_changes_requested: Counter,
    pub address_changes_stopped: Counter,
    pub addresses_changed: Counter,
    pub deletions_requested: Counter,
    pub deletions_stopped: Counter,
    pub erased: Counter,
    pub erasures_overdue: Gauge,
}

impl AccountMetrics {
    pub(super) fn register(&self, registry: &mut Registry) {
        registry.register(
            "sign_ins_reported",
            "Sign-ins that users reported as someone else's, by the link in the mail about them",
            self.sign_ins_reported.clone(),
        );
        registry.register(
            "accounts_secured",
            "Accounts whose users revoked everything but the session in use",
            self.secured.clone(),
        );
        registry.register(
            "recovery_codes_used",
            "Recovery codes that users entered in place of a passkey",
            self.recovery_codes_used.clone(),
        );
        registry.register(
            "address_changes_requested",
            "Changes of email addresses that users requested",
            self.address_changes_requested.clone(),
        );
        registry.register(
            "address_changes_stopped",
            "Changes of email addresses that a session or a link in a mail stopped",
            self.address_changes_stopped.clone(),
        );
        registry.register("addresses_changed", "Email addresses that were changed", self.addresses_changed.clone());
        registry.register(
            "account_deletions_requested",
            "Accounts that their users closed, to be erased after 14 days",
            self.deletions_requested.clone(),
        );
        registry.register(
            "account_deletions_stopped",
            "Closed accounts that their users kept",
            self.deletions_stopped.clone(),
        );
        registry.register("accounts_erased", "Accounts that were erased", self.erased.clone());
        registry.register(
            "account_erasures_overdue",
            "Accounts that should have been erased more than a day ago",
            self.erasures_overdue.clone(),
        );
    }
}
