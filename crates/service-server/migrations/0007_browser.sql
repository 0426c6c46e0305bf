-- Browsers: who they are signed in as, what is under way in them, and what people agreed to. Clients of all kinds.

alter table clients add column kind text not null default 'registered'
    check (kind in ('first_party', 'registered', 'dynamic', 'document'));
alter table clients add column redirect_uris text[] not null default '{}';
-- Pages of these origins may read what the token endpoint answers.
alter table clients add column origins text[] not null default '{}';
alter table clients add column auth_method text not null default 'none'
    check (auth_method in ('none', 'secret', 'private_key_jwt'));
-- The public keys of a client that proves itself by signing.
alter table clients add column jwks jsonb;
-- What a client that registered itself said, so that saying it again makes no second client.
alter table clients add column metadata_digest bytea;
-- Until when a client's document need not be fetched again.
alter table clients add column fresh_until timestamptz;

create index clients_by_kind on clients (kind, created_at);
create unique index clients_by_metadata on clients (metadata_digest) where metadata_digest is not null;
create index clients_by_origin on clients using gin (origins);

update clients set auth_method = 'secret' where secret_digest is not null;
update clients set kind = 'first_party' where first_party;
update clients
   set redirect_uris = array['http://127.0.0.1/callback', 'http://[::1]/callback', 'http://localhost/callback']
 where id = 'service-cli';

-- One row per browser that is signing somebody in or has done so. The cookie's SHA-256 changes whenever who is signed in
-- changes, and the row stays, so that what is under way in this browser goes on.
create table browser_sessions (
    id           uuid primary key,
    digest       bytea not null,
    user_id      uuid,
    signed_in_at timestamptz,
    created_at   timestamptz not null,
    last_seen_at timestamptz not null,
    expires_at   timestamptz not null,
    check ((user_id is null) = (signed_in_at is null))
) with (fillfactor = 80);

create unique index browser_sessions_by_digest on browser_sessions (digest);
create index browser_sessions_by_user on browser_sessions (user_id) where user_id is not null;
create index browser_sessions_by_last_seen on browser_sessions (last_seen_at);
create index browser_sessions_by_expiry on browser_sessions (expires_at);

-- A sign-in that is under way in one browser: for a client, whose request waits, or for the account page.
create table sign_in_flows (
    id          uuid primary key,
    browser_id  uuid not null,
    request     jsonb,
    email       text,
    otp_id      uuid,
    resend_at   timestamptz,
    created_at  timestamptz not null,
    expires_at  timestamptz not null,
    finished_at timestamptz
);

create index sign_in_flows_by_expiry on sign_in_flows (expires_at);

create table consents (
    user_id       uuid not null,
    client_id     text not null,
    redirect_host text not null,
    audience      text not null,
    scopes        text not null,
    workspace_id  uuid,
    agreed_at     timestamptz not null,
    primary key (user_id, client_id, redirect_host, audience)
);

create index consents_by_client on consents (client_id);

-- A code is kept for a while after it was used, so that a second use is noticed.
create table authorization_codes (
    digest          bytea primary key,
    client_id       text not null,
    user_id         uuid not null,
    -- Where the person agreed: a code ends with being signed in there.
    browser_id      uuid not null,
    redirect_uri    text not null,
    challenge       text not null,
    scopes          text not null,
    audience        text not null,
    workspace_id    uuid,
    expires_at      timestamptz not null,
    wrong_verifiers smallint not null,
    -- The session that it opened.
    grant_id        uuid,
    used_at         timestamptz,
    check ((grant_id is null) = (used_at is null))
);

create index authorization_codes_by_expiry on authorization_codes (expires_at);

-- What clients signed to prove themselves, until it would be refused for its age anyway.
create table client_assertions (
    digest     bytea primary key,
    expires_at timestamptz not null
);

create index client_assertions_by_expiry on client_assertions (expires_at);
