//! From the costs of operations to the needs of many users. Everything that is assumed about users and machines is here.

use super::costs::Costs;

/// The numbers of users that the page has a column for.
pub(crate) const USERS: [f64; 4] = [1e4, 1e6, 1e8, 1e9];

const DAY: f64 = 86_400.0;

/// Something that is assumed, not measured.
pub(crate) struct Assumption {
    pub(crate) what: &'static str,
    pub(crate) value: f64,
}

const fn assume(what: &'static str, value: f64) -> Assumption {
    Assumption { what, value }
}

const ACTIVE: Assumption = assume("share of users who use the service on a day", 0.2);
const SESSIONS: Assumption = assume("sessions in use of such a user", 1.5);
const REFRESHES: Assumption = assume("refreshes of a session in use, per day", 10.0);
const VERIFICATIONS: Assumption = assume("requests with an access token of a session in use, per day", 100.0);
const FIRST_VERIFICATIONS: Assumption = assume("share of those requests whose token is new to the node", 0.3);
const CLI_TOKEN_MISSES: Assumption = assume("CLI tokens that a node has to look up, per user and day", 0.2);
const SIGN_INS: Assumption = assume("sign-ins by mail, per user and day", 0.03);
const REVOCATIONS: Assumption = assume("revocations, per user and day", 0.02);
const OTHER_EVENTS: Assumption = assume("audit events besides those of sign-ins, per user and day", 0.05);
const PEAK: Assumption = assume("peak of requests and revocations, as a multiple of the mean", 3.0);
const SIGN_IN_PEAK: Assumption = assume("peak of sign-ins, as a multiple of the mean", 5.0);
const GRANTS: Assumption =
    assume("rows of `grants`, per user: live sessions, and ended ones until they are deleted", 3.4);
const BROWSER_SESSIONS: Assumption = assume("rows of `browser_sessions`, per user", 1.0);
const CONSENTS: Assumption = assume("rows of `consents`, per user", 0.5);
const MEMBERSHIPS: Assumption = assume("rows of `memberships`, and as many of `members`, per user", 1.0);
const CLI_TOKENS: Assumption = assume("rows of `cli_tokens`, per user", 0.2);
const AUDIT_DAYS: Assumption = assume("days for which audit events are kept (`audit.keep_days`)", 400.0);
const NODE_CORES: Assumption = assume("cores of a node", 4.0);
const NODE_USE: Assumption = assume("share of a node's cores that is used at the peak", 0.5);
const FEWEST_NODES: Assumption = assume("nodes, at least", 2.0);
const NODE_CONNECTIONS: Assumption = assume("database connections of a node", 18.0);

const MAX_ENGINE_CORES: Assumption = assume("limit: cores that PostgreSQL uses at the peak, half of 32", 16.0);
const MAX_WAL: Assumption = assume("limit: MB of WAL a second, which a standby and an archive have to follow", 100.0);
const MAX_STORAGE: Assumption = assume("limit: TB, which a restore at 100 MB a second brings back in a day", 8.6);
const MAX_CONNECTIONS: Assumption = assume("limit: database connections without a pooler", 1_000.0);
const MAX_REVOCATIONS: Assumption = assume("limit: revocations that a node holds", 2_000_000.0);
const FROZEN_IDS: Assumption =
    assume("transaction ids after which PostgreSQL vacuums to freeze (`autovacuum_freeze_max_age`)", 2e8);
const VACUUM_RATE: Assumption = assume("MB a second that vacuum freezes", 50.0);
const VACUUM_USE: Assumption = assume("limit: share of the time in which vacuum freezes", 0.25);

pub(crate) const ASSUMPTIONS: [Assumption; 29] = [
    ACTIVE,
    SESSIONS,
    REFRESHES,
    VERIFICATIONS,
    FIRST_VERIFICATIONS,
    CLI_TOKEN_MISSES,
    SIGN_INS,
    REVOCATIONS,
    OTHER_EVENTS,
    PEAK,
    SIGN_IN_PEAK,
    GRANTS,
    BROWSER_SESSIONS,
    CONSENTS,
    MEMBERSHIPS,
    CLI_TOKENS,
    AUDIT_DAYS,
    NODE_CORES,
    NODE_USE,
    FEWEST_NODES,
    NODE_CONNECTIONS,
    MAX_ENGINE_CORES,
    MAX_WAL,
    MAX_STORAGE,
    MAX_CONNECTIONS,
    MAX_REVOCATIONS,
    FROZEN_IDS,
    VACUUM_RATE,
    VACUUM_USE,
];

/// A rate in operations a second.
#[derive(Clone, Copy)]
pub(crate) struct Rate {
    pub(crate) mean: f64,
    pub(crate) peak: f64,
}

/// A limit of one primary, and how much of it is used; 1 is all of it.
#[derive(Clone, Copy)]
pub(crate) struct Limit {
    pub(crate) name: &'static str,
    pub(crate) used: f64,
}

/// What so many users need.
pub(crate) struct Needs {
    pub(crate) refreshes: Rate,
    pub(crate) verifications: Rate,
    pub(crate) sign_ins: Rate,
    pub(crate) revocations: Rate,
    /// Bytes a second at the peak, without and with compression.
    pub(crate) wal: f64,
    pub(crate) wal_lz4: f64,
    pub(crate) engine_cores: f64,
    pub(crate) node_cores: f64,
    pub(crate) nodes: f64,
    pub(crate) connections: f64,
    pub(crate) live_bytes: f64,
    pub(crate) audit_bytes: f64,
    pub(crate) revocations_held: f64,
    pub(crate) freeze_days: f64,
    pub(crate) limits: [Limit; 6],
}

fn rate(users: f64, per_day: f64, peak: &Assumption) -> Rate {
    let mean = users * per_day / DAY;
    Rate { mean, peak: mean * peak.value }
}

impl Needs {
    pub(crate) fn of(users: f64, costs: &Costs) -> Self {
        let in_use = ACTIVE.value * SESSIONS.value;
        let refreshes = rate(users, in_use * REFRESHES.value, &PEAK);
        let verifications = rate(users, in_use * VERIFICATIONS.value, &PEAK);
        let misses = rate(users, CLI_TOKEN_MISSES.value, &PEAK);
        let sign_ins = rate(users, SIGN_INS.value, &SIGN_IN_PEAK);
        let revocations = rate(users, REVOCATIONS.value, &PEAK);
        let engine_cores = refreshes.peak * costs.refresh.engine
            + misses.peak * costs.cli_token_miss.engine
            + sign_ins.peak * costs.sign_in.engine;
        let verification = costs.verification.node * (1.0 - FIRST_VERIFICATIONS.value)
            + costs.first_verification.node * FIRST_VERIFICATIONS.value;
        let node_cores = verifications.peak * verification
            + refreshes.peak * costs.refresh.node
            + misses.peak * costs.cli_token_miss.node
            + sign_ins.peak * costs.sign_in.node;
        let nodes = (node_cores / (NODE_CORES.value * NODE_USE.value)).ceil().max(FEWEST_NODES.value);
        let transactions =
            refreshes.mean * costs.refresh.transactions + sign_ins.mean * costs.sign_in.transactions + revocations.mean;
        let mut needs = Self {
            refreshes,
            verifications,
            sign_ins,
            revocations,
            wal: refreshes.peak * costs.refresh_cold.wal + sign_ins.peak * costs.sign_in.wal,
            wal_lz4: refreshes.peak * costs.refresh_cold_lz4.wal + sign_ins.peak * costs.sign_in.wal,
            engine_cores,
            node_cores,
            nodes,
            connections: nodes * NODE_CONNECTIONS.value,
            live_bytes: users * live_bytes_per_user(costs),
            audit_bytes: users * AUDIT_DAYS.value * events_per_user_day(costs) * costs.row_bytes("audit_events"),
            revocations_held: revocations.peak * costs.revocation_seconds,
            freeze_days: FROZEN_IDS.value / transactions / DAY,
            limits: [Limit { name: "", used: 0.0 }; 6],
        };
        needs.limits = needs.compare();
        needs
    }

    fn compare(&self) -> [Limit; 6] {
        let freezing_days = self.live_bytes / (VACUUM_RATE.value * 1e6) / DAY;
        [
            Limit { name: "cores of PostgreSQL", used: self.engine_cores / MAX_ENGINE_CORES.value },
            Limit { name: "WAL (lz4)", used: self.wal_lz4 / (MAX_WAL.value * 1e6) },
            Limit { name: "storage", used: (self.live_bytes + self.audit_bytes) / (MAX_STORAGE.value * 1e12) },
            Limit { name: "connections", used: self.connections / MAX_CONNECTIONS.value },
            Limit { name: "revocations in memory", used: self.revocations_held / MAX_REVOCATIONS.value },
            Limit { name: "freezing transaction ids", used: freezing_days / self.freeze_days / VACUUM_USE.value },
        ]
    }

    /// The limit of which most is used.
    pub(crate) fn tightest(&self) -> Limit {
        self.limits
            .iter()
            .copied()
            .fold(self.limits[0], |most, limit| if limit.used > most.used { limit } else { most })
    }

    /// The number of users at which a limit is reached.
    pub(crate) fn users_at_limit(place: usize, costs: &Costs) -> f64 {
        let (mut below, mut above) = (1e3_f64, 1e13_f64);
        for _ in 0..60 {
            let middle = (below * above).sqrt();
            if Self::of(middle, costs).limits[place].used < 1.0 { below = middle } else { above = middle }
        }
        below
    }
}

fn live_bytes_per_user(costs: &Costs) -> f64 {
    costs.row_bytes("users")
        + costs.row_bytes("emails")
        + GRANTS.value * costs.row_bytes("grants")
        + BROWSER_SESSIONS.value * costs.row_bytes("browser_sessions")
        + CONSENTS.value * costs.row_bytes("consents")
        + 2.0 * MEMBERSHIPS.value * costs.row_bytes("memberships")
        + CLI_TOKENS.value * costs.row_bytes("cli_tokens")
}

fn events_per_user_day(costs: &Costs) -> f64 {
    SIGN_INS.value * costs.events_per_sign_in + REVOCATIONS.value + OTHER_EVENTS.value
}
