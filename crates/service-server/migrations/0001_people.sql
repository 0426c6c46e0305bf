-- People, the workspaces they share, and what lives in them.
--
-- Times are always given by the service, never by the database, so that one clock decides and tests can turn it.
-- Keys are made by the service, every owned row has its owner in its primary key, and no foreign key crosses owners:
-- the same schema can be spread over many machines by these keys.

create table users (
    id          uuid primary key,
    email       text not null,
    created_at  timestamptz not null,
    disabled_at timestamptz
);

-- Which account an address belongs to. A table of its own, keyed by the address, because a unique index over users
-- could not be spread by user.
create table emails (
    address     text primary key,
    user_id     uuid not null,
    verified_at timestamptz not null
);

create table workspaces (
    id         uuid primary key,
    name       text not null,
    created_at timestamptz not null,
    deleted_at timestamptz
);

-- The workspace's deletion is repeated on each membership, so that one read by primary key decides about access.
create table memberships (
    user_id      uuid not null,
    workspace_id uuid not null,
    role         text not null check (role in ('owner', 'member', 'viewer')),
    created_at   timestamptz not null,
    ended_at     timestamptz,
    primary key (user_id, workspace_id)
);

create index memberships_by_workspace on memberships (workspace_id, user_id);

-- A space is a user's or a workspace's; both kinds of id are unique among each other.
create table projects (
    space_id     uuid not null,
    id           uuid not null,
    in_workspace boolean not null,
    name         text not null,
    created_by   uuid not null,
    created_at   timestamptz not null,
    updated_at   timestamptz not null,
    primary key (space_id, id)
);
