//! What was measured.

/// The cost of one operation.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Cost {
    /// Processor time of PostgreSQL, in seconds.
    pub(crate) engine: f64,
    /// Processor time of the node, in seconds.
    pub(crate) node: f64,
    /// Bytes of write-ahead log.
    pub(crate) wal: f64,
    /// Transaction ids.
    pub(crate) transactions: f64,
    /// How many operations this is the mean of.
    pub(crate) operations: u64,
}

impl Cost {
    /// The medians of rounds.
    pub(crate) fn median(rounds: &[Self]) -> Self {
        let middle = |value: fn(&Self) -> f64| {
            let mut sorted: Vec<_> = rounds.iter().map(value).collect();
            sorted.sort_by(f64::total_cmp);
            sorted.get(sorted.len() / 2).copied().unwrap_or(f64::NAN)
        };
        Self {
            engine: middle(|cost| cost.engine),
            node: middle(|cost| cost.node),
            wal: middle(|cost| cost.wal),
            transactions: middle(|cost| cost.transactions),
            operations: rounds.iter().map(|cost| cost.operations).sum(),
        }
    }
}

/// A table, and what a row of it takes with its indexes.
#[derive(Clone, Debug)]
pub(crate) struct RowSize {
    pub(crate) table: &'static str,
    pub(crate) bytes: f64,
    pub(crate) rows: i64,
}

/// All costs, and where they were measured.
#[derive(Clone, Debug, Default)]
pub(crate) struct Costs {
    pub(crate) cores: usize,
    pub(crate) postgres: String,
    pub(crate) fsync: String,
    pub(crate) shared_buffers: String,
    pub(crate) grants: u32,
    pub(crate) refresh: Cost,
    pub(crate) refresh_cold: Cost,
    pub(crate) refresh_cold_lz4: Cost,
    pub(crate) refresh_warm: Cost,
    pub(crate) refresh_warm_lz4: Cost,
    pub(crate) verification: Cost,
    pub(crate) first_verification: Cost,
    pub(crate) cli_token_miss: Cost,
    pub(crate) sign_in: Cost,
    pub(crate) events_per_sign_in: f64,
    pub(crate) revocation_bytes: f64,
    pub(crate) revocation_seconds: f64,
    pub(crate) http_connection_bytes: f64,
    pub(crate) database_connection_bytes: f64,
    pub(crate) rows: Vec<RowSize>,
}

impl Costs {
    /// Bytes of a row with its indexes.
    pub(crate) fn row_bytes(&self, table: &str) -> f64 {
        self.rows.iter().find(|row| row.table == table).map_or(f64::NAN, |row| row.bytes)
    }
}
