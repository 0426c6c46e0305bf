-- Refreshing, ending sessions, and telling every node.

-- The root key under which the youngest refresh token was derived, so that it can be derived again byte for byte after
-- another root key has taken over. Null until the first rotation of a grant that is older than this column.
alter table grants add column issued_key smallint;
alter table grants add check ((revoked_at is null) = (revoked_because is null));

-- A client with a secret proves itself; only its SHA-256 is kept, and the secret is random enough for that.
alter table clients add column secret_digest bytea;
alter table clients add column may_introspect boolean not null default false;

-- What ended before its time. Rows are only ever added, and deleted when no token they concern can be alive.
-- `written_by` is the transaction that wrote the row: a node that follows the table remembers which transactions it has
-- seen the end of, so a row that is committed late, behind others with higher numbers, is never passed over.
create table revocations (
    id         uuid primary key,
    written_by xid8 not null default pg_current_xact_id(),
    kind       text not null check (kind in ('grant', 'user', 'membership', 'workspace', 'signing_key', 'everybody')),
    subject    text not null,
    because    text not null,
    not_before timestamptz not null,
    forget_at  timestamptz not null
);

create index revocations_by_transaction on revocations (written_by);
create index revocations_by_forget_at on revocations (forget_at);
