-- Revocations, which every node follows, and what nodes know about the database server.

-- What was revoked before it expires. Rows are only added, and deleted when no token that they concern can be live.
-- `written_by` is the transaction that wrote the row: a node that follows the table remembers which transactions it has
-- seen, so that a row that is committed late, after others with higher numbers, is never missed.
create table revocations (
    id         uuid primary key,
    written_by xid8 not null default pg_current_xact_id(),
    kind       text not null check (kind in ('grant', 'cli_token', 'user', 'membership', 'workspace', 'signing_key', 'client',
                                             'everybody')),
    subject    text not null,
    because    text not null,
    not_before timestamptz not null,
    forget_at  timestamptz not null
);

create index revocations_by_transaction on revocations (written_by);
create index revocations_by_forget_at on revocations (forget_at);

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
