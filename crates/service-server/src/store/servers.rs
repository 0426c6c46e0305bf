//! The database server: its identity, and whether its commits are durable.

/// Identifies the server of a connection, and what its commits wait for.
///
/// A primary writes a timeline of the write-ahead log, and a promotion begins the next timeline. A standby reports the
/// timeline that it replays.
pub const IDENTIFY: &str = r"
    select system_identifier::text as system,
           case when pg_is_in_recovery()
                then (select lpad(to_hex(greatest(c.timeline_id, r.min_recovery_end_timeline)), 8, '0')
                        from pg_control_checkpoint() c cross join pg_control_recovery() r)
                else left(pg_walfile_name(pg_current_wal_lsn()), 8)
           end as timeline,
           current_setting('synchronous_commit') as synchronous_commit
      from pg_control_system()";
