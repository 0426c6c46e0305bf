-- Accounts that will be erased. An account is disabled from the request on; deleting the row stops the erasure. In the shard of the
-- user.
create table account_deletions (
    user_id      uuid not null,
    shard        smallint not null,
    id           uuid not null,
    -- The SHA-256 of the secret in the link that keeps the account, and the root key that the secret is derived under. Null: an
    -- operator requested the erasure, and the user cannot stop it.
    digest       bytea,
    mac_key      smallint,
    -- The session or the browser that requested it.
    session_id   text,
    requested_at timestamptz not null,
    due_at       timestamptz not null,
    -- When erasing began. From then on nothing stops it.
    begun_at     timestamptz,
    -- When it was last tried, so that one that fails keeps no other from its turn.
    tried_at     timestamptz,
    primary key (user_id, shard),
    check ((digest is null) = (mac_key is null))
);
create unique index account_deletions_by_digest on account_deletions (digest, shard) where digest is not null;
create index account_deletions_by_due on account_deletions (due_at);
