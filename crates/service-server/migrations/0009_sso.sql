-- Single sign-on: issuers that others run, connections of workspaces to them, domains, and identities.

-- An issuer whose tokens are accepted, for one workspace and for the purposes that it names. The issuer is compared byte
-- for byte. Its keys come from its discovery document, or from `jwks` if an owner pasted them. In the shard of the workspace.
create table trusted_issuers (
    id              uuid not null,
    shard           smallint not null,
    workspace_id    uuid not null,
    issuer          text not null,
    jwks            jsonb,
    algorithms      text[] not null,
    purposes        text[] not null,
    created_at      timestamptz not null,
    -- Health, as the node that used the issuer last reports it.
    last_success_at timestamptz,
    last_error      text,
    last_error_at   timestamptz,
    primary key (id, shard)
);

create index trusted_issuers_by_workspace on trusted_issuers (workspace_id);

-- A workspace's connection to an OpenID provider. The client secret is sealed. A connection signs in no user before it is
-- enabled, and it is enabled only after an owner has tried it. In the shard of the workspace.
create table connections (
    id            uuid not null,
    shard         smallint not null,
    workspace_id  uuid not null,
    issuer_id     uuid not null,
    name          text not null,
    client_id     text,
    auth_method   text not null check (auth_method in ('client_secret_basic', 'client_secret_post', 'private_key_jwt')),
    client_secret bytea,
    default_role  text not null check (default_role in ('member', 'viewer')),
    -- Hours after which an interactive session has to sign in through the connection again.
    session_hours smallint not null,
    -- Days after which credentials of a user who did not sign in through the connection stop working.
    token_days    smallint not null,
    -- Owners who may sign in by email code although the connection is required.
    break_glass   uuid[] not null,
    created_by    uuid not null,
    created_at    timestamptz not null,
    tried_at      timestamptz,
    enabled_at    timestamptz,
    required_at   timestamptz,
    -- What the owner chose when the connection became required: credentials without the connection are revoked.
    revoke_existing boolean not null default false,
    -- Credentials of users who signed in before this time, and not through the connection, are being revoked.
    revoke_before timestamptz,
    -- Users of the domains who never signed in through the connection are being given a token limit from this time on.
    limit_from    timestamptz,
    deleted_at    timestamptz,
    primary key (id, shard)
);

create index connections_by_workspace on connections (workspace_id) where deleted_at is null;
create index connections_by_deletion on connections (deleted_at) where deleted_at is not null;
create index connections_by_revocation on connections (id) where revoke_before is not null or limit_from is not null;

-- The domains that a workspace claims, in the shard of the workspace. A claim is proven by a TXT record, and proven again
-- every week.
create table workspace_domains (
    workspace_id  uuid not null,
    domain        text not null,
    shard         smallint not null,
    connection_id uuid,
    created_by    uuid not null,
    created_at    timestamptz not null,
    verified_at   timestamptz,
    checked_at    timestamptz,
    next_check_at timestamptz,
    -- Checks in a row that did not find the record.
    failures      smallint not null default 0,
    last_error    text,
    primary key (workspace_id, domain, shard)
);

create index workspace_domains_by_next_check on workspace_domains (next_check_at) where next_check_at is not null;

-- The workspace that has verified a domain, and where the users of the domain sign in: one row for each verified domain, in
-- the shard of the domain's name. `connection_id` is the domain's enabled connection; null: users sign in by email code.
-- `required_at` is when single sign-on became required in the domain. Written together with `workspace_domains` and
-- `connections`.
create table routed_domains (
    domain        text not null,
    shard         smallint not null,
    workspace_id  uuid not null,
    connection_id uuid,
    name          text,
    required_at   timestamptz,
    primary key (domain, shard)
);

-- A user as a connection's provider names them, in the shard of the connection. `subject` is the claim `sub`; for Entra it
-- is the tenant and the object id. `email` is the address that the provider sent last; it does not select the user.
create table identities (
    connection_id uuid not null,
    subject       text not null,
    shard         smallint not null,
    user_id       uuid not null,
    email         text not null,
    created_at    timestamptz not null,
    signed_in_at  timestamptz not null,
    primary key (connection_id, subject, shard)
);

create index identities_by_user on identities (user_id);

-- The connection that a user signs in with, in the shard of the user. Written together with `identities`. Credentials of
-- the user stop working at `tokens_until`, until the user signs in through the connection again. A user of a domain in which
-- it is required, who has never signed in through the connection, has no `subject`, and `signed_in_at` is when the days begin.
create table user_connections (
    user_id       uuid not null,
    shard         smallint not null,
    connection_id uuid not null,
    subject       text,
    signed_in_at  timestamptz not null,
    tokens_until  timestamptz not null,
    primary key (user_id, shard)
);

create index user_connections_by_connection on user_connections (connection_id);

-- Logout tokens that were received, so that each counts once. In the shard of the connection.
create table logout_tokens (
    connection_id uuid not null,
    jti           text not null,
    shard         smallint not null,
    expires_at    timestamptz not null,
    primary key (connection_id, jti, shard)
);

create index logout_tokens_by_expiry on logout_tokens (expires_at);

-- A sign-in that a browser was sent to a provider for. `sso_digest` is the SHA-256 of the secret in `state`; it is null
-- again when the response has arrived. `sso_identity` is a verified identity of a user who has to prove once, by a code,
-- that the existing account with the same address is theirs. `sso_try`: an owner tries the connection, and no user is
-- signed in. `return_to` is the page of a workspace to which an owner returns who had to sign in again to change it.
alter table sign_in_flows
    add column sso_connection_id uuid,
    add column sso_digest        bytea,
    add column sso_forced        boolean,
    add column sso_identity      jsonb,
    add column sso_try           boolean,
    add column return_to         jsonb;

-- The connection through which the user signed in, and when the provider says that the user authenticated. Null: the
-- provider did not say, and was not told to ask.
alter table browser_sessions
    add column connection_id uuid,
    add column auth_time     timestamptz;

-- An interactive session that began at a provider is refreshed until `sso_until`.
alter table grants
    add column connection_id uuid,
    add column sso_until     timestamptz;

-- How the user had signed in who created the token: through which connection, and when the user authenticated.
alter table cli_tokens
    add column connection_id uuid,
    add column auth_time     timestamptz;

-- The users of a domain, whose sessions are revoked when single sign-on becomes required there.
create index emails_by_domain on emails (split_part(address, '@', 2), user_id);
