-- Sessions, CLI tokens, and the keys that sign access tokens.

-- One row for each session of a client, however often it is refreshed: refresh tokens are derived from the row, not
-- stored. A rotation rewrites the row in place and changes no index, hence the room left in each page.
create table grants (
    id              uuid not null,
    shard           smallint not null,
    user_id         uuid not null,
    client_id       text not null,
    scopes          text not null,
    workspace_id    uuid,
    audience        text not null,
    salt            bytea not null,
    base            integer not null,
    issued          integer not null,
    -- The root key under which the newest refresh token was derived, so that it can be derived again byte for byte after
    -- another root key has taken over.
    issued_key      smallint,
    rotated_at      timestamptz not null,
    rotated_from    text not null,
    created_at      timestamptz not null,
    created_from    text not null,
    expires_at      timestamptz not null,
    -- When the user authenticated. A refresh does not change it.
    auth_time       timestamptz,
    -- The session that created it: `grant_…` or `sess_…`. Null: the user signed in.
    made_by         text,
    -- When everything that a replayed or leaked grant had created was revoked: once.
    made_revoked_at timestamptz,
    revoked_at      timestamptz,
    revoked_because text,
    primary key (id, shard),
    check ((revoked_at is null) = (revoked_because is null))
) with (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02);

create index grants_by_user on grants (user_id, id);
-- An operator revokes all sessions of one client.
create index grants_by_client on grants (client_id, id) where revoked_at is null;

-- Tokens that users create for automation. The table holds the digest of a token. Its id is within the token, so that a
-- token is found by primary key. Using a token rewrites its row in place: `last_used_at` is in no index.
create table cli_tokens (
    id              uuid not null,
    shard           smallint not null,
    user_id         uuid not null,
    client_id       text not null,
    name            text not null,
    digest          bytea not null,
    hint            text not null,
    scopes          text not null,
    workspace_id    uuid,
    created_at      timestamptz not null,
    expires_at      timestamptz not null,
    last_used_at    timestamptz,
    last_used_from  text,
    revoked_at      timestamptz,
    revoked_because text,
    idempotency_key text,
    -- How many days before its expiry its owner was last notified.
    warned_at_days  smallint,
    -- The session that created it: `grant_…` or `sess_…`.
    made_by         text,
    -- When the session that created it, long before, was found to be compromised. The token works, and its user is shown
    -- it first.
    suspected_at    timestamptz,
    primary key (id, shard),
    check ((revoked_at is null) = (revoked_because is null))
) with (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.02);

create index cli_tokens_by_user on cli_tokens (user_id, id);
create unique index cli_tokens_by_idempotency_key on cli_tokens (user_id, idempotency_key, shard)
    where idempotency_key is not null;
create index cli_tokens_by_workspace on cli_tokens (workspace_id) where workspace_id is not null;
create index cli_tokens_by_expiry on cli_tokens (expires_at);
create index cli_tokens_by_revocation on cli_tokens (revoked_at) where revoked_at is not null;

-- The keys that sign access tokens. The private half is sealed; the public half is published. A row counts only with a
-- MAC over everything in it, under a key that is not in the database. The version rises with every change. A key that an
-- operator retired is trusted nowhere; one that its successor retired still says, at one endpoint, which grant an expired
-- access token belongs to.
create table signing_keys (
    kid             text primary key,
    sealed          bytea not null,
    jwk             jsonb not null,
    created_at      timestamptz not null,
    active_at       timestamptz not null,
    retired_at      timestamptz,
    retired_by_hand boolean not null default false,
    version         integer not null,
    mac_key         smallint not null,
    mac             bytea not null
);

-- What each root key makes of a constant: two nodes with different keys under one id notice it. It says nothing about the
-- key.
create table root_key_checks (
    id          smallint primary key,
    check_value bytea not null
);
