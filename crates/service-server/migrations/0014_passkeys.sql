-- Passkeys: keys on devices of a user that sign in instead of a code.

-- What authenticators know a user by: random bytes, which say nothing about the user. `changes` counts the passkeys that were
-- added and removed; a challenge for a new passkey is bound to it, so that it is used once. In the shard of the user.
create table passkey_users (
    user_id uuid not null,
    shard   smallint not null,
    handle  bytea not null,
    changes integer not null,
    primary key (user_id, shard)
);

-- `public_key` is the COSE key as the authenticator wrote it. In the shard of the user.
create table passkeys (
    user_id          uuid not null,
    id               uuid not null,
    shard            smallint not null,
    credential_id    bytea not null,
    public_key       bytea not null,
    counter          bigint not null,
    can_be_backed_up boolean not null,
    is_backed_up     boolean not null,
    name             text not null,
    -- The browser session that added it; see `made_by` of CLI tokens.
    made_by          text not null,
    created_at       timestamptz not null,
    -- From when on it restricts what codes can do, and stops a recovery.
    counts_from      timestamptz not null,
    last_used_at     timestamptz,
    -- When its counter first showed that another device has a copy. It restricts nothing from then on.
    copied_at        timestamptz,
    primary key (user_id, id, shard)
) with (fillfactor = 80);

-- Users who have lost their passkeys. All of them are removed at `due_at`, unless the user stops it. In the shard of the user.
create table passkey_recoveries (
    user_id  uuid not null,
    shard    smallint not null,
    begun_at timestamptz not null,
    due_at   timestamptz not null,
    primary key (user_id, shard)
);
create index passkey_recoveries_due on passkey_recoveries (due_at);

-- The passkey that a credential id belongs to, by its SHA-256. No two users have the same. In the shard of the digest.
create table passkey_credentials (
    digest     bytea not null,
    shard      smallint not null,
    user_id    uuid not null,
    passkey_id uuid not null,
    primary key (digest, shard)
);
