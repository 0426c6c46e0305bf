-- Workspaces, their members, and invitations to them.

create table workspaces (
    id         uuid not null,
    shard      smallint not null,
    name       text not null,
    created_at timestamptz not null,
    deleted_at timestamptz,
    primary key (id, shard)
);

create index workspaces_by_deletion on workspaces (deleted_at) where deleted_at is not null;

-- The workspaces of a user, in the shard of the user. The deletion of a workspace is repeated on each membership, so that
-- one read by primary key decides about access.
create table memberships (
    user_id      uuid not null,
    workspace_id uuid not null,
    shard        smallint not null,
    role         text not null check (role in ('owner', 'member', 'viewer')),
    created_at   timestamptz not null,
    ended_at     timestamptz,
    primary key (user_id, workspace_id, shard)
);

create index memberships_by_workspace on memberships (workspace_id, user_id);
create index memberships_by_end on memberships (ended_at) where ended_at is not null;

-- The members of a workspace, in the shard of the workspace. Written together with `memberships`.
create table members (
    workspace_id uuid not null,
    user_id      uuid not null,
    shard        smallint not null,
    role         text not null check (role in ('owner', 'member', 'viewer')),
    created_at   timestamptz not null,
    ended_at     timestamptz,
    primary key (workspace_id, user_id, shard)
);

create index members_by_end on members (ended_at) where ended_at is not null;

-- Invitations by email. One for each address and workspace, which waits until its addressee answers. The answer stays
-- until the invitation expires: a declined invitation looks pending to the workspace, and accepting twice gives the same
-- answer. `made_by` is the session that sent it.
create table invitations (
    workspace_id uuid not null,
    address      text not null,
    id           uuid not null,
    shard        smallint not null,
    role         text not null check (role in ('owner', 'member', 'viewer')),
    invited_by   uuid not null,
    made_by      text,
    created_at   timestamptz not null,
    expires_at   timestamptz not null,
    answer       text check (answer in ('accepted', 'declined')),
    answered_at  timestamptz,
    primary key (workspace_id, address, shard)
);

create unique index invitations_by_id on invitations (id, shard);
create index invitations_by_expiry on invitations (expires_at);

-- The invitations that an address received, in the shard of the address.
create table received_invitations (
    address      text not null,
    workspace_id uuid not null,
    shard        smallint not null,
    id           uuid not null,
    expires_at   timestamptz not null,
    primary key (address, workspace_id, shard)
);

create index received_invitations_by_expiry on received_invitations (expires_at);

-- The invitations that a user sent and that were not accepted, in the shard of the user.
create table sent_invitations (
    user_id      uuid not null,
    id           uuid not null,
    shard        smallint not null,
    workspace_id uuid not null,
    address      text not null,
    made_by      text not null,
    created_at   timestamptz not null,
    expires_at   timestamptz not null,
    primary key (user_id, id, shard)
);

create index sent_invitations_by_expiry on sent_invitations (expires_at);

-- Workspaces whose invitations a user does not want to see. The name is the one that the user blocked: later names, which
-- a stranger chooses, are not shown.
create table blocked_workspaces (
    user_id      uuid not null,
    workspace_id uuid not null,
    shard        smallint not null,
    name         text not null,
    blocked_at   timestamptz not null,
    primary key (user_id, workspace_id, shard)
);

create index blocked_workspaces_by_workspace on blocked_workspaces (workspace_id);
