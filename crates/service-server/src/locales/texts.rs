//! The fields of a language file, one for each sentence. Fields that no page and no mail uses are found by the compiler.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::{
    brand::ShownBrand,
    locales::{Plural, Sentence, Text},
};

macro_rules! texts {
    ($($(#[$doc:meta])* $name:ident { $($(#[$field_doc:meta])* $field:ident: $kind:ty,)* })*) => { $(
        $(#[$doc])*
        #[derive(Debug, Deserialize)]
        #[serde(deny_unknown_fields)]
        pub(crate) struct $name { $($(#[$field_doc])* pub(crate) $field: $kind,)* }
    )* };
}

texts! {
    Texts {
        /// Not in the file: the operator chooses it.
        #[serde(skip)]
        brand: ShownBrand,
        tag: Text, links: Links, date: Date, duration: Duration, devices: Devices, spaces: Spaces, roles: Roles,
        clients: Clients,
        sign_in: SignIn, code: Code, sso: Sso, consent: Consent, scopes: BTreeMap<String, Text>,
        own_scopes: BTreeMap<String, Text>, account: Account, invitations: Invitations, workspaces: Workspaces,
        workspace: Workspace, connections: Connections, confirm: Confirm, done: DoneTexts,
        confirmation: Confirmation, sign_in_report: SignInReport, address_link: AddressLinkTexts, keep_account: KeepAccount,
        problem: Problem, manual: Manual,
        made: Made, events: BTreeMap<String, Text>,
        named_events: BTreeMap<String, Sentence>, workspace_events: BTreeMap<String, Text>,
        revoked_with_session: RevokedWithSession, mail: Mail,
    }
    Links {
        label: Text, support: Text, privacy: Text, terms: Text,
    }
    Confirmation {
        title: Text, heading: Sentence, asked_by: Sentence, kind_project: Text, kind_pack: Text, kind_playbook: Text,
        kind_case: Text, kind_record: Text, kind: Text, space: Text, changed: Text, requested: Text, restore: Text,
        restore_owner: Text, delete: Text, keep: Text, confirmed: Text, confirmed_next: Sentence, denied: Text,
        denied_next: Sentence,
    }
    Mail {
        credential_revoked: MailCredentialRevoked,
        sent_by: Sentence, help: Sentence, review: Text, review_tokens: Text,
        activity: Text, name: Text, time: Text, address: Text, permissions: Text, created: Text,
        created_value: Sentence, expires: Text, not_you: Text, kept: Text, revoked: Text, things: MailThings,
        sign_in_code: MailSignInCode, sso_required: MailSsoRequired, sso_linked: MailSsoLinked, link_code: MailLinkCode,
        break_glass: MailBreakGlass, session_replayed: MailSessionReplayed,
        mcp_tokens_created: MailMcpTokensCreated, cli_token_created: MailCliTokenCreated,
        cli_token_expires: MailCliTokenExpires, invitation: MailInvitation, token_leaked: MailTokenLeaked,
        token_exposed: MailTokenExposed, domain_failing: MailDomainFailing, domain_lost: MailDomainLost,
        domain_record: MailDomainRecord, passkey_added: MailPasskey, passkey_removed: MailPasskey,
        passkey_copied: MailPasskeyCopied, passkey_recovery_begun: MailPasskeyRecoveryBegun,
        passkey_recovery_ended: MailPasskeyRecoveryEnded, passkey_recovery_stopped: MailPasskey,
        new_sign_in: MailNewSignIn, account_secured: MailAccountSecured,
        account_closed: MailAccountClosed, account_link_replaced: MailAccountLinkReplaced, account_kept: MailAccountKept,
        account_erased: MailAccountErased, address_change_requested: MailAddressChangeRequested,
        address_confirmation: MailAddressConfirmation, address_in_use: MailAddressInUse,
        address_change_due: MailAddressChangeDue, address_change_stopped: MailAddressChange, address_changed: MailAddressChanged,
        address_not_changed: MailAddressChange,
        recovery_codes_created: MailPasskey, recovery_codes_removed: MailPasskey, passkey_required: MailPasskey,
        passkey_not_required: MailPasskey,
        recovery_code_used: MailRecoveryCodeUsed,
    }
    MailRecoveryCodeUsed {
        subject: Text, happened: Sentence, left: Plural,
    }
    MailDomainFailing {
        subject: Text, happened: Sentence, lost: Sentence,
    }
    MailDomainLost {
        subject: Text, happened: Sentence, taken_over: Sentence, sign_in: Text,
    }
    MailDomainRecord {
        add: Text, name: Text, kind: Text, value: Text, check: Text,
    }
    MailTokenExposed {
        subject: Text, happened: Sentence, blocked: Text, next: Text,
    }
    MailTokenLeaked {
        subject: Text, happened: Sentence, revoked: Sentence, next: Text,
    }
    MailCredentialRevoked {
        subject: Text, cli_token: Sentence, app: Sentence, next: Text,
    }
    MailInvitation {
        subject: Text, happened: Sentence, view: Text, expires: Sentence, ignore: Sentence,
    }
    MailCliTokenExpires {
        subject: Text, happened: Sentence, renew: Text, ignore: Text,
    }
    MailCliTokenCreated {
        subject: Text, happened: Sentence, token: Text,
    }
    MailPasskey {
        subject: Text, happened: Sentence,
    }
    MailPasskeyRecoveryBegun {
        subject: Text, happened: Sentence, next: Text, stop: Text,
    }
    MailNewSignIn {
        device: MailNewSignInKind, app: MailNewSignInKind, on: Text, with: Text, ignore: Text, report: Text,
        report_hint: Sentence,
    }
    MailNewSignInKind {
        subject: Text, happened: Sentence,
    }
    MailAccountClosed {
        subject: Text, happened: Sentence, by_operator: Sentence, workspaces: Text, keep: Text, keep_hint: Text, support: Text,
    }
    MailAccountLinkReplaced {
        subject: Text, happened: Sentence, next: Text,
    }
    MailAccountKept {
        subject: Text, happened: Sentence, next: Text,
    }
    MailAddressChangeRequested {
        subject: Text, happened: Sentence, next: Text, link: Text,
    }
    MailAddressConfirmation {
        subject: Text, happened: Sentence, next: Text, link: Text,
    }
    MailAddressInUse {
        subject: Text, happened: Sentence, next: Text,
    }
    MailAddressChangeDue {
        subject: Text, happened: Sentence, next: Text, link: Text,
    }
    MailAddressChanged {
        subject: Text, happened: Sentence, account: Text, next: Text,
    }
    MailAddressChange {
        subject: Text, happened: Sentence, next: Text,
    }
    MailAccountErased {
        subject: Text, happened: Sentence, next: Text,
    }
    MailAccountSecured {
        subject: Text, happened: Sentence, passkeys: Text,
    }
    MailPasskeyRecoveryEnded {
        subject: Text, happened: Sentence, next: Text,
    }
    MailPasskeyCopied {
        subject: Text, happened: Sentence, next: Text,
    }
    MailMcpTokensCreated {
        subject: Text, happened: Sentence,
    }
    MailSessionReplayed {
        subject: Text, happened: Text, session: Text, next: Text, others: Text,
    }
    MailSignInCode {
        subject: Text, subject_with_code: Sentence, code: Text, expires: Sentence,
        requested: Sentence, requested_by: Sentence, ignore: Text,
        never_share: Text,
    }
    MailSsoRequired {
        subject: Text, happened: Sentence, requested: Sentence, sign_in: Text, ignore: Text,
    }
    MailSsoLinked {
        subject: Text, happened: Sentence, replaced: Text,
    }
    MailLinkCode {
        subject: Text, happened: Text, code: Text,
    }
    MailBreakGlass {
        subject: Text, happened: Sentence, user: Text, next: Text,
    }
    MailThings {
        cli_token: Sentence, browser_cookie: Text, device_secret: Sentence, session: Sentence,
    }
    RevokedWithSession {
        plain: Sentence, compromised: Sentence, cli_token: Text, session: Text, invitation: Text,
    }
    Made {
        cli_token: Sentence, mcp_pair: Sentence, app_session: Sentence, invitation: Sentence, passkey: Sentence, recovery_codes: Sentence,
        address_change: Sentence,
    }
    Manual {
        title: Text, chapters: Text,
    }
    Problem {
        support: Text, link: Text, link_next: Text, unreadable: Text, unknown_app: Text, disabled_app: Text,
        redirect_uri: Text, repeated: Text, prompt_none: Text, prompt_none_next: Text, metadata_address: Text,
        metadata_failed: Text, metadata_invalid: Text, finished: Text, space_next: Text,
        end_date: Text, end_date_next: Text, request: Text,
        request_next: Text, request_trust: Sentence, request_return: Sentence, expired: Text,
        unknown_browser: Text, signed_out: Text, signed_out_text: Text, foreign_flow: Text, expired_next: Text,
        sign_in_again: Text, form: Text,
        foreign_form: Text, form_next: Text, try_again: Text, navigation: Text, not_a_navigation: Text,
        navigation_next: Text, forbidden: Text, forbidden_text: Text, forbidden_next: Text, not_found: Text,
        not_found_text: Text, not_found_next: Text, account: Text, limited: Text, limited_text: Text,
        limited_next: Sentence, unavailable: Text, unavailable_text: Text, unavailable_next: Text,
        unknown_outcome: Text, unknown_outcome_next: Text, failed: Text, failed_text: Text, failed_next: Text,
    }
    Workspace {
        nav: WorkspaceNav, credentials: WorkspaceCredentials, activity: WorkspaceActivity,
        title: Text, owned_by: Sentence, all: Text, members: Text, role: Text, since: Text, you: Text,
        role_of: Sentence, change_role: Text, change_role_of: Sentence, remove: Text, remove_of: Sentence,
        more: Text, invitations: Text, invitations_hint: Text, no_invitations: Text, expires: Text, revoke: Text,
        revoke_of: Sentence, invite_heading: Text, email: Text, roles_hint: Text, invite: Text,
        leave_heading: Text, leave_hint: Text, leave: Text, forbidden: Text, gone: Text,
        last_owner: Text, last_break_glass: Text, limited: Sentence, invalid_email: Text,
        passkeys: Text, passkey_hint: Text, passkey_required: Text, require_passkey: Text, allow_codes: Text,
        no_own_passkey: Text, kept_out_heading: Text, kept_out: Text, kept_out_next: Text, kept_out_link: Text,
    }
    WorkspaceNav {
        members: Text, connections: Text, credentials: Text, activity: Text,
    }
    WorkspaceCredentials {
        lead: Text, none: Text, none_here: Text, all: Text, all_of: Sentence, kind: Text, cli_token: Text, app: Text,
        revoke_of: Sentence, gone: Text,
    }
    WorkspaceActivity {
        lead: Text, filter: Text, member: Text, kind: Text, any: Text, since: Text, until: Text, show: Text, all: Text,
        none_here: Text, by: Sentence, invited: Sentence, invalid_date: Text, invalid_kind: Text,
    }
    Connections {
        title: Text, lead: Text, none: Text, all: Text, done: Text, save: Text, issuer: Text, issuer_hint: Text,
        domains: Text, no_domains: Text, name: Text, name_hint: Text, create_heading: Text, create_hint: Text,
        create: Text, states: ConnectionStatesTexts, health: ConnectionHealthTexts,
        provider: ConnectionProviderTexts, domain: ConnectionDomainTexts, trial: ConnectionTrialTexts,
        turn_on: ConnectionTurnOnTexts, settings: ConnectionSettingsTexts, require: ConnectionRequireTexts,
        delete: ConnectionDeleteTexts, problems: ConnectionProblemsTexts,
    }
    ConnectionStatesTexts {
        draft: Text, tried: Text, enabled: Text, required: Text,
    }
    ConnectionHealthTexts {
        title: Text, unknown: Text, good: Text, bad: Text, last_success: Text,
    }
    ConnectionProviderTexts {
        title: Text, lead: Text, redirect: Text, logout: Text, logout_hint: Text, then: Text, client_id: Text,
        client_secret: Text, secret_hint: Text, secret_kept: Text, method: Text, basic: Text, post: Text,
        private_key: Text, public_key: Text, public_key_hint: Text,
    }
    ConnectionDomainTexts {
        title: Text, lead: Text, name: Text, name_hint: Text, claim: Text, use_here: Sentence, pending: Text,
        verified: Text, failing: Text, lost: Text, checked: Text, add_record: Text, record_type: Text,
        record_name: Text, record_value: Text, wait: Text, check: Text,
    }
    ConnectionTrialTexts {
        title: Text, lead: Text, tried: Text, key_first: Text, begin: Text, again: Text, provider_first: Text,
    }
    ConnectionTurnOnTexts {
        title: Text, lead: Text, try_first: Text, no_domain: Text, on: Text, since: Text, off: Text,
        is_optional: Text, is_required: Text, require: Text, change_required: Text,
    }
    ConnectionSettingsTexts {
        title: Text, role: Text, session_hours: Text, session_hint: Text, token_days: Text, token_hint: Text,
    }
    ConnectionRequireTexts {
        title: Text, heading: Sentence, lead: Text, since: Text, impact: Text, users: Text, sessions: Text,
        cli_tokens: Text, mcp_tokens: Text, app_grants: Text, existing: Text, revoke: Text, keep: Text,
        owners: Text, owners_hint: Text, button: Text, stop: Text, stop_hint: Text, back: Text,
    }
    ConnectionDeleteTexts {
        title: Text, lead: Text, button: Text,
    }
    ConnectionProblemsTexts {
        invalid: Text, invalid_issuer: Text, invalid_client_id: Text, invalid_client_secret: Text,
        invalid_hours: Text, invalid_days: Text, invalid_break_glass: Text, gone: Text, too_many: Text,
        not_tried: Text, not_enabled: Text, no_break_glass: Text, invalid_domain: Text, public_suffix: Text,
        public_mail: Text, domain_gone: Text, already_claimed: Text, too_many_domains: Text, elsewhere: Sentence,
        dns: Text,
    }
    Workspaces {
        title: Text, personal_hint: Text, heading: Text, hint: Text, none: Text, owner: Text, role: Text,
        open: Text, create_heading: Text, name: Text, create: Text, blocked: Text, blocked_hint: Text,
        unblock: Text, expired: Text, not_blocked: Text, too_many: Text, too_many_blocked: Text,
        name_length: Sentence, name_invisible: Text, name_link: Text, name_scripts: Text, name_reserved: Text,
    }
    Invitations {
        heading: Text, hint: Text, from: Text, to: Text, role: Text, expires: Text, accept: Text, decline: Text,
        answer_of: Sentence, block: Text, block_of: Sentence,
    }
    Account {
        title: Text, signed_in_as: Sentence, sign_out: Text, gone: Text, session_gone: Text, latest: Text,
        older: Text, last_used: Text, workspace: Text, permissions: Text, created: Text, from: Sentence,
        nav: AccountNav, overview: AccountOverview, activity: AccountActivity, apps: AccountApps,
        sessions: AccountSessions, tokens: AccountTokens, token_created: AccountTokenCreated,
        security: AccountSecurity, recovery_codes: AccountRecoveryCodes, secure: AccountSecure, data: AccountData, delete: AccountDelete,
        address: AccountAddress,
    }
    AddressLinkTexts {
        title: Text, current: Sentence, new: Sentence, effect: Text, other: Text, due: Sentence, confirm: Text, stop: Text,
        not_you: Text, confirmed_title: Text, stopped_title: Text, stopped: Text, gone: Text, gone_text: Text, gone_next: Text,
    }
    AccountAddress {
        title: Text, open: Text, requested: Text, new: Text, by_current: Text, by_new: Text, confirmed: Text, not_confirmed: Text,
        changed_on: Sentence, expires: Sentence, stop: Text, lead: Text, label: Text, hint: Text, button: Text, same: Text,
        sso: Sentence, limited: Sentence, pending: Sentence,
    }
    KeepAccount {
        title: Text, erased: Sentence, effect: Text, button: Text, kept_title: Text, kept: Text, gone: Text, gone_text: Text,
        gone_next: Text,
    }
    SignInReport {
        title: Text, happened: Sentence, ended: Sentence, made: Plural, was_you: Text, effect: Text, button: Text,
        done_title: Text, done: Text, next: Text, gone: Text, gone_text: Text, gone_next: Text,
    }
    Confirm {
        revoke_token: Sentence, revoke_token_text: Text, revoke_tokens: Text, revoke_tokens_text: Text,
        remove_app: Sentence, remove_app_text: Text, sign_out: Sentence, sign_out_browser: Text, sign_out_app: Text,
        sign_out_this: Text, everywhere: Text, remove_member: Sentence, remove_member_text: Text,
        revoke_invitation: Sentence, revoke_invitation_text: Text, revoke_token_of: Sentence,
        remove_app_of: Sentence, remove_app_of_text: Text, member_told: Sentence, leave: Sentence,
        delete_connection: Sentence, remove_domain: Sentence, remove_domain_text: Text, cancel: Text, remove_passkey: Sentence,
        remove_passkey_text: Text, remove_last_passkey_text: Text,
    }
    DoneTexts {
        token_revoked: Sentence, tokens_revoked: Text, app_removed: Sentence, signed_out: Sentence,
        member_removed: Sentence, invitation_revoked: Sentence, connection_deleted: Sentence,
        domain_removed: Sentence, workspace_left: Sentence, workspace_passkey_required: Text, workspace_codes_allowed: Text,
        passkey_added: Sentence,
        passkey_renamed: Sentence, passkey_removed: Sentence, passkey_recovery_begun: Text,
        passkey_recovery_stopped: Text, passkey_required: Text, codes_allowed: Text,
        account_secured: Text, export_started: Text, renamed: Sentence, name_removed: Text,
        address_change_requested: Text, address_change_stopped: Text,
    }
    AccountData {
        title: Text, open: Text, open_hint: Text, lead: Text, contents: Text, ready: Text, started: Text, expires: Text, status: Text,
        not_downloaded: Text, downloaded: Text, running: Text, used_up: Text, download: Text, effect: Text, button: Text,
        limited: Sentence, is_running: Text, too_often: Text, busy: Text,
    }
    AccountDelete {
        title: Text, open: Text, open_hint: Text, lead: Text, waits: Sentence, stays: Text, owners: Text, owners_hint: Text,
        glass: Text, glass_hint: Text, erased: Text, erased_hint: Text, effect: Text, button: Text, needed: Text, limited: Sentence,
        closed_title: Text, closed: Sentence, closed_next: Text,
    }
    AccountSecure {
        title: Text, open: Text, open_hint: Text, lead: Text, none: Text, details: Text, used: Sentence,
        used_from: Sentence, unused: Sentence,
        invitations: Plural, passkeys: Text, passkeys_hint: Text, keep: Sentence, effect: Text, button: Text,
    }
    AccountRecoveryCodes {
        heading: Text, hint: Text, none: Text, left: Plural, create: Text, title: Text, lead: Text, once: Text, usage: Text,
        back: Text,
    }
    AccountSecurity {
        passkeys: Text, lead: Text, none: Text, never: Text, backed_up: Text, this_device: Text, where_kept: Text,
        add: Text, rename: Text, rename_of: Sentence, name_of: Sentence, remove: Text, remove_of: Sentence,
        unavailable: Text,
        new_title: Text, new_lead: Text, name: Text, name_hint: Text, create: Text, script: Text,
        require: Text, require_hint: Text, require_button: Text, required: Text, required_none: Text, allow_codes: Text,
        require_none_counts: Text,
        require_sso: Text, recovery: Text, recovery_lead: Text, recovery_begin: Text, recovery_due: Sentence, recovery_stop: Text,
        not_created: Text, exists: Text, refused: Text, in_use: Text, too_many: Sentence,
        invalid_name: Text, none_counts: Text,
    }
    AccountTokenCreated {
        title: Text, lead: Sentence, token: Text, copy: Text, once: Text, usage_heading: Text, usage: Text,
        leaked: Text, back: Text,
    }
    AccountTokens {
        title: Text, lead: Text, none: Text, suspected: Text, suspected_hint: Text, suspected_created: Sentence,
        suspected_revoke: Text, never: Text, expires: Text, created_by: Text, by_browser: Text,
        by_session: Sentence, revoke: Text, revoke_of: Sentence, active: Text, expired: Text, revoked: Text,
        create_heading: Text, name: Text, name_hint: Text, expires_in: Text, days: Sentence, read: Text,
        write: Text, create: Text, invalid_name: Text, invalid_days: Text, no_permission: Text,
        already_created: Text, limit: Text, gone: Text,
    }
    AccountSessions {
        lead: Text, none: Text, all: Text, browsers: Text, all_browsers: Text, this_browser: Text, signed_in: Text,
        made: Text, made_label: Text, made_recommended: Text, made_revoke: Text, made_keep: Text, sign_out: Text,
        sign_out_browser: Sentence, sign_out_session: Sentence, all_of: Sentence, all_of_name: Sentence,
        older: Text, everywhere: Text, everywhere_hint: Sentence, everywhere_tokens: Text,
    }
    AccountApps {
        lead: Text, none: Text, returns_to: Text, authorized: Text, expires: Text, remove: Text,
        remove_of: Sentence,
    }
    AccountActivity {
        lead: Text,
    }
    AccountOverview {
        passkeys: Plural, browsers: Plural, sessions: Plural, both: Sentence, apps: Plural, tokens: Plural,
        workspaces: Plural, recent: Text, unknown: Text, all: Text, none: Text, name_heading: Text, name_label: Text,
        name_hint: Text, name_button: Text, name_address: Text,
    }
    AccountNav {
        overview: Text, security: Text, sessions: Text, apps: Text, tokens: Text, workspaces: Text, activity: Text,
    }
    Consent {
        title_client: Sentence, title_app: Text, title_own: Text, heading_own: Sentence, heading_client: Sentence,
        heading_local: Text, heading_host: Sentence, signed_in_as: Sentence, switch: Text, calls_itself: Sentence,
        warning: Text, links: Text, website: Text, policy: Text, terms: Text,
        described_by: Sentence, warning_own: Sentence, reach_own: Sentence, all_spaces: Text,
        asks: Text, asks_own: Text, always: Text, held: Text, expires: Text, expires_in: Plural, expires_kept: Text,
        space: Text, space_own: Text, space_own_hint: Text,
        personal_hint: Text, returns_to: Sentence, returns_local: Sentence, allow: Text, allow_read: Text,
        sign_in: Text, sign_in_read: Text, cancel: Text, remove_later: Text,
    }
    Code {
        title: Text, heading: Text, sent: Sentence, label: Text, format: Text, sign_in: Text, wrong: Text,
        too_many: Sentence, not_received: Text, wait: Text, resend: Text, other_email: Text, never_asked: Text,
    }
    SignIn {
        title: Text, heading: Text, to_app: Sentence, to_account: Text, email: Text, hint: Text, next: Text,
        invalid_email: Text, already_sent: Text, enter_code: Text, wait: Sentence, start_again: Text,
        passkey: Text, passkey_refused: Text,
        passkey_copied: Text, passkey_sso: Text, passkey_failed: Text, confirm: Text, recovery_code: Text,
        required: Sentence, other: Text, lost: Text, lost_due: Sentence, lost_too_late: Text, recovery_hint: Text, recovery_use: Text,
        recovery_later: Text, recovery_wrong: Text, recovery_too_early: Text,
    }
    Sso {
        continue_with: Sentence, at_host: Sentence, send_code: Text, other_email: Text, required: Sentence, handing_off: Sentence,
        handing_off_next: Text, open: Text, link_title: Text, link_sent: Sentence, link_why: Sentence, link: Text,
        tried_title: Text, tried_works: Text, tried_works_next: Text, tried_not: Text, tried_email: Text,
        tried_none: Text, tried_verified: Text, tried_true: Text, tried_absent: Text, tried_other: Text,
        tried_domains: Text, tried_no_domains: Text, tried_no_address: Text, tried_unverified: Text,
        tried_foreign: Text, tried_back: Text, not_available: Text, not_available_text: Text,
        not_available_next: Text, foreign: Text, foreign_text: Text, foreign_next: Text, unavailable: Sentence,
        unavailable_text: Sentence, unavailable_next: Text, refused: Sentence, refused_text: Sentence,
        refused_next: Text, invalid: Text, invalid_text: Sentence, invalid_next: Text, no_address: Sentence,
        unverified_address: Sentence, foreign_domain: Sentence, other_tenant: Sentence, identity_next: Text,
        disabled: Text, disabled_next: Text, passkey: Text, passkey_next: Text, not_fresh: Sentence, not_fresh_text: Sentence,
        not_fresh_next: Sentence, again: Text, emergency_link: Text, emergency_title: Text, emergency_text: Text,
        emergency_send: Text,
    }
    Clients {
        web: Text, command_line: Text, mcp: Text, app: Text, unverified: Text,
    }
    Roles {
        owner: Text, member: Text, viewer: Text,
    }
    Spaces {
        personal: Text, former: Text, no_access: Text, owned_by: Sentence,
    }
    Devices {
        both: Sentence, unknown: Text, unknown_on: Sentence,
    }
    Duration {
        seconds: Plural, minutes: Plural, hours: Plural, days: Plural,
    }
    Date {
        moment: Sentence, just_now: Text, ago: Sentence, ahead: Sentence, months: [Text; 12],
    }
}
