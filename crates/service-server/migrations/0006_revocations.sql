-- Revocations, which every node follows, and what nodes know about the database server.

-- What was revoked before it expires, and members whose role changed (kind `role`, which revokes nothing). Rows are only added, and deleted when no token that they concern can be live.
--
-- Revocations are numbered in lanes. A transaction takes its numbers with its last statement before the commit, and holds
-- the lane until it has committed. So within a lane numbers are in the order of commits and without gaps, and a node that
-- follows the table remembers one number for each lane. See `service_rules::revocation::position`.
create table revocations (
    lane       smallint not null,
    number     bigint not null,
    id         uuid not null,
    kind       text not null check (kind in ('grant', 'cli_token', 'user', 'membership', 'role', 'workspace', 'signing_key',
                                             'client', 'all_users')),
    subject    text not null,
    because    text not null,
    not_before timestamptz not null,
    forget_at  timestamptz not null,
    primary key (lane, number)
);

create index revocations_by_forget_at on revocations (forget_at);

-- The last number of each lane, and the id of the revocation that has it. Every revocation rewrites one of these rows in
-- place, so their pages are nearly empty.
create table revocation_lanes (
    lane    smallint primary key,
    last    bigint not null default 0,
    last_id uuid,
    check ((last = 0) = (last_id is null))
) with (fillfactor = 10, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_scale_factor = 0);

insert into revocation_lanes (lane) select generate_series(0, 15);

-- One row for each node: when it last wrote to this database and the write was confirmed. A node whose heartbeat is not
-- confirmed may be connected to a server that is no longer the primary, and accepts no tokens. A row is deleted when its
-- node has been silent for a day. It is rewritten every few seconds in place, so its pages have room for that.
create table node_heartbeats (
    node_id uuid primary key,
    beat_at timestamptz not null
) with (fillfactor = 50);

-- The database server of this installation, and whether it looks restored from a backup. One row, written by the first
-- node that starts. A node compares it with the server that answers before it writes anything.
create table installation (
    only_row          boolean primary key default true check (only_row),
    system_identifier text not null,
    timeline          bigint not null,
    -- How many restores an operator has finished.
    restores          integer not null default 0,
    fenced_at         timestamptz,
    fenced_because    text,
    check ((fenced_at is null) = (fenced_because is null))
);
