-- Signing in by e-mail code: clients, codes, limits, sign-ins, outgoing mail, and the record of what happened.

create table clients (
    id          text primary key,
    name        text not null,
    first_party boolean not null,
    may_use_otp boolean not null,
    created_at  timestamptz not null,
    disabled_at timestamptz
);

insert into clients (id, name, first_party, may_use_otp, created_at) values
    ('service-web', 'Service on the web', true, true, '2026-01-01T00:00:00Z'),
    ('service-cli', 'Service command line', true, true, '2026-01-01T00:00:00Z'),
    ('service-mcp', 'Service for MCP', true, false, '2026-01-01T00:00:00Z');

-- One row per address and client: a new code overwrites the old one, so the old one cannot be right any more.
-- The code itself is not here, only its HMAC under a key that is not in the database.
create table otps (
    address     text not null,
    client_id   text not null,
    id          uuid not null unique,
    mac_key     smallint not null,
    mac         bytea not null,
    attempts    smallint not null,
    created_at  timestamptz not null,
    expires_at  timestamptz not null,
    consumed_at timestamptz,
    primary key (address, client_id)
);

create index otps_by_expiry on otps (expires_at);

-- What happened lately under a key, moment by moment: limits over exact windows.
create table recent_hits (
    key       bytea primary key,
    hits      timestamptz[] not null,
    forget_at timestamptz not null
);

create index recent_hits_by_forget_at on recent_hits (forget_at);

-- The theoretical arrival time under a key: limits as a steady rate with a burst.
create table rates (
    key bytea primary key,
    tat timestamptz not null
);

create index rates_by_tat on rates (tat);

-- One row per sign-in, however often it is refreshed: refresh tokens are derived from the row, not stored.
-- Rotation rewrites the row in place and touches no index, hence the room left in each page.
create table grants (
    id            uuid primary key,
    user_id       uuid not null,
    client_id     text not null,
    scopes        text not null,
    workspace_id  uuid,
    audience      text not null,
    salt          bytea not null,
    base          integer not null,
    issued        integer not null,
    rotated_at    timestamptz not null,
    rotated_from  text not null,
    created_at    timestamptz not null,
    created_from  text not null,
    expires_at    timestamptz not null,
    revoked_at    timestamptz,
    revoked_because text
) with (fillfactor = 70);

create index grants_by_user on grants (user_id, id);

-- Mail to be sent, sealed. A row is deleted when its mail has been handed over, or when it is no longer worth sending.
create table outbox (
    id              uuid primary key,
    sealed          bytea not null,
    attempts        smallint not null,
    next_attempt_at timestamptz not null,
    drop_at         timestamptz not null
);

create index outbox_by_next_attempt on outbox (next_attempt_at);
create index outbox_by_drop on outbox (drop_at);

create table audit_events (
    id           uuid primary key,
    at           timestamptz not null,
    event        text not null,
    user_id      uuid,
    client_id    text,
    workspace_id uuid,
    subject      text,
    address      text,
    request_id   text,
    details      jsonb not null
);

create index audit_events_by_user on audit_events (user_id, id);
