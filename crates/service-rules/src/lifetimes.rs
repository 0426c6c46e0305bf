//! How long each credential lives, in seconds. `docs/decisions/0004-lifetimes.md` says why these.

pub const ACCESS_TOKEN: i64 = 900;
/// The same for MCP, whose clients refresh badly.
pub const ACCESS_TOKEN_MCP: i64 = 3_600;
/// No access token of any kind lives longer, so one that claims to is not ours.
pub const LONGEST_ACCESS_TOKEN: i64 = 3_600;

/// A refresh token that nobody used for so long is dead.
pub const REFRESH_IDLE: i64 = 30 * DAY;
/// A sign-in ends after so long, however often it was refreshed.
pub const REFRESH_ABSOLUTE: i64 = 90 * DAY;
/// The same for the command-line client, which people expect to stay signed in.
pub const REFRESH_ABSOLUTE_CLI: i64 = 365 * DAY;

/// The same for the MCP pair.
pub const REFRESH_ABSOLUTE_MCP: i64 = 365 * DAY;
/// A token for automation, unless asked otherwise; at most; and how long its old self may go on beside it.
pub const CLI_TOKEN: i64 = 90 * DAY;
pub const CLI_TOKEN_LONGEST: i64 = 366 * DAY;
pub const CLI_TOKEN_OVERLAP: i64 = 72 * 3_600;
/// Dead tokens for automation stay listed for so long.
pub const CLI_TOKEN_LISTED: i64 = 30 * DAY;

/// Nothing that anybody was given lives longer.
pub const LONGEST_LIFE: i64 = CLI_TOKEN_LONGEST;
/// So soon after a rotation the token before still fetches the same successor: its answer may have been lost, or
/// several processes of one client may have asked at once.
pub const REFRESH_REPEAT: i64 = 60;

pub const OTP: i64 = 600;

pub const AUTHORIZATION_CODE: i64 = 60;
/// A code is kept so long after its end, in case it comes back.
pub const AUTHORIZATION_CODE_KEPT: i64 = DAY;
/// How long a person may take to sign in and agree.
pub const SIGN_IN_FLOW: i64 = 3_600;
/// A client that made itself known and that nobody agreed to is forgotten after so long.
pub const UNUSED_CLIENT: i64 = DAY;
/// A document that cannot be fetched again is believed for so long.
pub const STALE_DOCUMENT: i64 = 7 * DAY;
/// A browser in which nobody is signed in is known for so long at most.
pub const ANONYMOUS_BROWSER: i64 = DAY;
/// A browser that nobody used for so long is forgotten; and after so long however much it was used.
pub const BROWSER_IDLE: i64 = 14 * DAY;
pub const BROWSER_SESSION: i64 = 30 * DAY;
/// So long after signing in a person need not prove again who they are to make a token.
pub const RECENT_SIGN_IN: i64 = 15 * 60;

/// A mail that warns somebody is still worth reading after so long.
pub const WARNING: i64 = 3 * DAY;

/// An invitation into a workspace can be accepted for so long.
pub const INVITATION: i64 = 7 * DAY;

/// For so long deleting something again is told apart from deleting what never was.
pub const DELETION_KNOWN: i64 = 30 * DAY;
/// A create with an `Idempotency-Key` can be repeated for so long.
pub const IDEMPOTENCY_KEY: i64 = DAY;

/// By how much two clocks may differ before a token is refused for its times.
pub const CLOCK_SKEW: i64 = 30;

/// How long a signing key stays published after its successor took over: the longest access token, and then some.
pub const SIGNING_KEY_OVERLAP: i64 = 2 * 3_600;

const DAY: i64 = 86_400;
