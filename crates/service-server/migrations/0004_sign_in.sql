-- Signing in: codes, browsers, rate limits, and outgoing mail.
--
-- Rows of codes, limits and mail live for minutes or are rewritten at every request. These tables are vacuumed when a small
-- part of them is dead, so that they stay as large as what they hold.

-- One row for each address, client and context: a new code overwrites the one before, which is wrong from then on. The
-- table holds the HMAC of a code under a key that is not in the database. The context is an HMAC of the device, else of
-- the sign-in flow, else of the network; `device` is the digest of the device's secret. In the shard of the address.
create table otps (
    address     text not null,
    client_id   text not null,
    context     bytea not null,
    id          uuid not null,
    shard       smallint not null,
    device      bytea,
    mac_key     smallint not null,
    mac         bytea not null,
    attempts    smallint not null,
    created_at  timestamptz not null,
    expires_at  timestamptz not null,
    consumed_at timestamptz,
    primary key (address, client_id, context, shard)
) with (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000);

create unique index otps_by_id on otps (id, shard);
create index otps_by_expiry on otps (expires_at);

-- The times of recent requests under a key: limits over exact windows. In the shard of the key.
create table recent_hits (
    key       bytea not null,
    shard     smallint not null,
    hits      timestamptz[] not null,
    forget_at timestamptz not null,
    primary key (key, shard)
) with (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000);

create index recent_hits_by_forget_at on recent_hits (forget_at);

-- The theoretical arrival time under a key: limits as a steady rate with a burst. In the shard of the key.
create table rates (
    key   bytea not null,
    shard smallint not null,
    tat   timestamptz not null,
    primary key (key, shard)
) with (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000);

create index rates_by_tat on rates (tat);

-- One row for each browser that has our cookie, of which the table holds the SHA-256. The cookie changes whenever the
-- signed-in user changes. In the shard of that user, or in any while no user is signed in.
create table browser_sessions (
    id           uuid not null,
    shard        smallint not null,
    digest       bytea not null,
    user_id      uuid,
    signed_in_at timestamptz,
    created_at   timestamptz not null,
    last_seen_at timestamptz not null,
    expires_at   timestamptz not null,
    primary key (id, shard),
    check ((user_id is null) = (signed_in_at is null))
) with (fillfactor = 80);

create unique index browser_sessions_by_digest on browser_sessions (digest, shard);
create index browser_sessions_by_user on browser_sessions (user_id) where user_id is not null;
create index browser_sessions_by_last_seen on browser_sessions (last_seen_at);
create index browser_sessions_by_expiry on browser_sessions (expires_at);

-- A sign-in in progress in one browser: for a client, whose request waits, or for the account pages. `parameters` is a
-- request as it was sent, of a client whose metadata document is fetched after the sign-in.
create table sign_in_flows (
    id          uuid not null,
    shard       smallint not null,
    browser_id  uuid not null,
    request     jsonb,
    parameters  jsonb,
    email       text,
    otp_id      uuid,
    resend_at   timestamptz,
    created_at  timestamptz not null,
    expires_at  timestamptz not null,
    finished_at timestamptz,
    primary key (id, shard)
);

create index sign_in_flows_by_browser on sign_in_flows (browser_id);
create index sign_in_flows_by_expiry on sign_in_flows (expires_at);

-- A code is kept for a while after it was used, so that a second use is noticed. In the shard of the user.
create table authorization_codes (
    digest          bytea not null,
    shard           smallint not null,
    client_id       text not null,
    user_id         uuid not null,
    -- The browser in which the user consented: when the user signs out there, the code is invalid.
    browser_id      uuid not null,
    redirect_uri    text not null,
    challenge       text not null,
    scopes          text not null,
    audience        text not null,
    workspace_id    uuid,
    -- The end date of the access that the user consented to; first-party clients have none.
    access_ends_at  timestamptz,
    expires_at      timestamptz not null,
    wrong_verifiers smallint not null,
    -- The session that was opened with the code.
    grant_id        uuid,
    used_at         timestamptz,
    primary key (digest, shard),
    check ((grant_id is null) = (used_at is null))
);

create index authorization_codes_by_expiry on authorization_codes (expires_at);

-- Mail to be sent, sealed. A row is deleted when the mail server has accepted the mail, or when it is too old to be sent.
create table outbox (
    id              uuid not null,
    shard           smallint not null,
    sealed          bytea not null,
    attempts        smallint not null,
    next_attempt_at timestamptz not null,
    drop_at         timestamptz not null,
    primary key (id, shard)
) with (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000);

create index outbox_by_next_attempt on outbox (next_attempt_at);
create index outbox_by_drop on outbox (drop_at);
