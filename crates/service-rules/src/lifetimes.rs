//! Lifetimes of credentials and records, in seconds. `docs/decisions/0004-lifetimes.md` gives the reasons.

/// Lifetime of an access token.
pub const ACCESS_TOKEN: i64 = 900;
/// Lifetime of an access token for MCP. Longer, because many MCP clients refresh unreliably.
pub const ACCESS_TOKEN_MCP: i64 = 3_600;
/// How long a user can confirm a deletion that an MCP client asks for, and the client can then carry it out.
pub const CONFIRMATION: i64 = 10 * 60;
/// The longest lifetime of any access token. A token that claims a longer one is refused.
pub const LONGEST_ACCESS_TOKEN: i64 = 3_600;

/// A session is idle, and no longer valid, when its refresh token was not used for this long.
pub const REFRESH_IDLE: i64 = 30 * DAY;
/// Lifetime of a session, however often it is refreshed.
pub const REFRESH_ABSOLUTE: i64 = 90 * DAY;
/// Lifetime of a session of the command-line client, which users expect to stay signed in.
pub const REFRESH_ABSOLUTE_CLI: i64 = 365 * DAY;
/// Lifetime of the session of an MCP token pair.
pub const REFRESH_ABSOLUTE_MCP: i64 = 365 * DAY;
/// Default lifetime of a CLI token.
pub const CLI_TOKEN: i64 = 90 * DAY;
/// Longest lifetime of a CLI token.
pub const CLI_TOKEN_LONGEST: i64 = 366 * DAY;
/// How long the old token of a rotation can stay valid.
pub const CLI_TOKEN_OVERLAP: i64 = 72 * 3_600;
/// How long expired and revoked CLI tokens stay in the list.
pub const CLI_TOKEN_LISTED: i64 = 30 * DAY;

/// The longest lifetime of any credential.
pub const LONGEST_LIFE: i64 = CLI_TOKEN_LONGEST;
/// How long after a rotation the old refresh token still returns the same successor. The response may have been lost, or
/// several processes of one client may refresh at once.
pub const REFRESH_REPEAT: i64 = 60;

/// Lifetime of a one-time code.
pub const OTP: i64 = 600;
/// How long a device is known after its last sign-in. Browsers keep no cookie longer.
pub const DEVICE: i64 = 400 * DAY;

/// How long after it was added a passkey counts like an email code: until then codes stay enough for step-up, and the passkey
/// stops no recovery. An attacker who adds one with a stolen code cannot keep the user out for as long.
pub const PASSKEY_NEW: i64 = 7 * DAY;
/// How long a user waits for a recovery, in which all passkeys are removed.
pub const PASSKEY_RECOVERY: i64 = DAY;

/// Lifetime of an authorization code.
pub const AUTHORIZATION_CODE: i64 = 60;
/// How long an authorization code is stored after it expires, to detect a replay.
pub const AUTHORIZATION_CODE_KEPT: i64 = DAY;
/// How long a user may take to sign in and consent.
pub const SIGN_IN_FLOW: i64 = 3_600;
/// A consent expires when its client does not use it for this long.
pub const UNUSED_CONSENT: i64 = 90 * DAY;
/// A self-registered client without a consent is deleted after this long.
pub const UNUSED_CLIENT: i64 = DAY;
/// A self-registered client is deleted this long after a user last authorized it. No session lives that long.
pub const ABANDONED_CLIENT: i64 = 400 * DAY;
/// How long a metadata document counts that cannot be fetched again.
pub const STALE_DOCUMENT: i64 = 7 * DAY;
/// Longest lifetime of a browser session in which no user is signed in.
pub const ANONYMOUS_BROWSER: i64 = DAY;
/// A browser session ends when it is not used for this long.
pub const BROWSER_IDLE: i64 = 14 * DAY;
/// Lifetime of a browser session, however much it is used.
pub const BROWSER_SESSION: i64 = 30 * DAY;
/// The oldest sign-in that counts as recent, for creating credentials and owners and for deleting workspaces.
pub const RECENT_SIGN_IN: i64 = 15 * 60;

/// What a session created within this long before it was found to be compromised is revoked with it.
pub const SUSPECT: i64 = 31 * DAY;
/// A CLI token that was used within this long is in use: revoking the session that created it keeps it by default.
pub const IN_USE: i64 = 7 * DAY;

/// How long the link in a mail about a new sign-in works.
pub const SIGN_IN_REPORT: i64 = 7 * DAY;
/// The age of an account from which on its user is mailed about new sign-ins. Before, the user sets the account up.
pub const NEW_ACCOUNT: i64 = 3_600;

/// How long an export of an account can be downloaded.
pub const ACCOUNT_EXPORT: i64 = 3_600;

/// How long a change of an email address can be confirmed.
pub const ADDRESS_CONFIRMATION: i64 = DAY;
/// How long the current address can still stop a change that both have confirmed.
pub const ADDRESS_CHANGE: i64 = DAY;

/// How long a user can still keep an account that they closed, until it is erased.
pub const ACCOUNT_DELETION: i64 = 14 * DAY;
/// How long operators can stop the erasure of an account that one of them requested.
pub const OPERATOR_ERASURE: i64 = DAY;
/// How long after the restore of a backup no account is erased: requests to keep one may have been lost.
pub const ERASURE_AFTER_RESTORE: i64 = 7 * DAY;
/// How late an erasure is before operators are alerted.
pub const ERASURE_OVERDUE: i64 = DAY;

/// How long a security email can wait in the outbox and still be worth sending.
pub const WARNING: i64 = 3 * DAY;

/// How long inviting the same address again finds the invitation that is already there, and sends no second email.
pub const REPEATED_INVITATION: i64 = 10 * 60;

/// How long an invitation to a workspace can be accepted.
pub const INVITATION: i64 = 7 * DAY;

/// How long a deletion is known, so that repeating it succeeds and deleted content can be restored.
pub const DELETION_KNOWN: i64 = 30 * DAY;
/// How long a creation with an `Idempotency-Key` can be repeated.
pub const IDEMPOTENCY_KEY: i64 = DAY;

/// A node that wrote no heartbeat for this long is removed.
pub const SILENT_NODE: i64 = DAY;

/// By how much the clocks of two nodes may differ.
pub const CLOCK_SKEW: i64 = 30;
/// By how much the clock of an identity provider may differ from ours.
pub const PROVIDER_CLOCK_SKEW: i64 = 60;

/// How long a signing key stays published after its successor is active. Longer than any access token lives.
pub const SIGNING_KEY_OVERLAP: i64 = 2 * 3_600;
/// How long the private half of a retired signing key is stored.
pub const RETIRED_PRIVATE_KEY: i64 = 30 * DAY;
/// How long the public half of a retired signing key is stored: until the last MCP token pair with an access token that it
/// signed has expired.
pub const RETIRED_PUBLIC_KEY: i64 = 366 * DAY;

/// The longest time for which mail to an address is not sent after it bounced, and how old a mail may be whose bounce counts.
pub const SUPPRESSION: i64 = 3 * DAY;
/// How long it is known that mail to an address bounced, after mail to it is sent again.
pub const SUPPRESSION_KNOWN: i64 = 7 * DAY;

/// How long network addresses in audit events can be read, after the day on which they were recorded.
pub const NETWORK_ADDRESS_KEPT: i64 = 30 * DAY;
/// How long revoked sessions, former memberships, and deleted workspaces with their content are stored.
pub const ENDED_KEPT: i64 = 30 * DAY;
/// How often the DNS record of a verified domain is checked.
pub const DOMAIN_CHECK: i64 = 7 * DAY;
/// When the DNS record of a verified domain is checked again if DNS did not answer.
pub const DOMAIN_CHECK_RETRY: i64 = DAY;
/// A check that DNS does not answer counts as a failure when there was no answer for this long.
pub const DOMAIN_SILENCE: i64 = 28 * DAY;

const DAY: i64 = 86_400;
