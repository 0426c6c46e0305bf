-- OAuth clients, and the access that users gave to them.

-- No shard: every database has a copy.
create table clients (
    id              text primary key,
    name            text not null,
    kind            text not null check (kind in ('first_party', 'registered', 'dynamic', 'document')),
    first_party     boolean not null,
    may_use_otp     boolean not null,
    may_introspect  boolean not null default false,
    auth_method     text not null default 'none' check (auth_method in ('none', 'secret', 'private_key_jwt')),
    -- The SHA-256 of a client's secret. The secret is random enough for that.
    secret_digest   bytea,
    -- The public keys of a client that authenticates by a signature.
    jwks            jsonb,
    redirect_uris   text[] not null default '{}',
    -- Pages of these origins may read the responses of the token endpoint.
    origins         text[] not null default '{}',
    -- What a client that registered itself sent, so that sending it again registers no second client.
    metadata_digest bytea,
    -- Until when a client's document need not be fetched again.
    fresh_until     timestamptz,
    created_at      timestamptz not null,
    -- When a user last authorized a self-registered client, exact to a day.
    agreed_at       timestamptz,
    disabled_at     timestamptz
);

create index clients_by_kind on clients (kind, created_at);
create unique index clients_by_metadata on clients (metadata_digest) where metadata_digest is not null;
create index clients_by_origin on clients using gin (origins);
create index clients_by_secret on clients (secret_digest) where secret_digest is not null;

insert into clients (id, name, kind, first_party, may_use_otp, created_at) values
    ('service-web', 'Service on the web', 'first_party', true, true, '2026-01-01T00:00:00Z'),
    ('service-cli', 'Service command line', 'first_party', true, true, '2026-01-01T00:00:00Z'),
    ('service-mcp', 'Service for MCP', 'first_party', true, false, '2026-01-01T00:00:00Z');

update clients
   set redirect_uris = array['http://127.0.0.1/callback', 'http://[::1]/callback', 'http://localhost/callback']
 where id = 'service-cli';

-- Hosts, with their subdomains, at which no self-registered client may be and to which none may send users back. A client
-- that was disabled could otherwise register again under another name.
create table blocked_client_hosts (
    host       text primary key,
    blocked_by text not null,
    blocked_at timestamptz not null
);

-- Client assertions that were used, until they expire. In the shard of the digest.
create table client_assertions (
    digest     bytea not null,
    shard      smallint not null,
    expires_at timestamptz not null,
    primary key (digest, shard)
);

create index client_assertions_by_expiry on client_assertions (expires_at);

-- The access that a user gave to a client. It ends at the date that the user chose, and when the client has not used it for
-- a long time.
create table consents (
    user_id       uuid not null,
    client_id     text not null,
    redirect_host text not null,
    audience      text not null,
    id            uuid not null,
    shard         smallint not null,
    scopes        text not null,
    workspace_id  uuid,
    agreed_at     timestamptz not null,
    used_at       timestamptz,
    -- The end date; first-party clients have none.
    expires_at    timestamptz,
    primary key (user_id, client_id, redirect_host, audience, shard)
);

create unique index consents_by_id on consents (user_id, id, shard);
create index consents_by_use on consents (coalesce(used_at, agreed_at));
create index consents_by_expiry on consents (expires_at);
