-- What lives in spaces: five kinds in one table.

-- Finds words that were typed almost right. A trusted extension: the schema's owner may create it.
create extension if not exists pg_trgm;

create table contents (
    space_id     uuid not null,
    kind         text not null check (kind in ('proj', 'pack', 'play', 'case', 'rec')),
    id           uuid not null,
    in_workspace boolean not null,
    fields       jsonb not null,
    version      bigint not null,
    created_by   uuid not null,
    created_at   timestamptz not null,
    updated_at   timestamptz not null,
    -- The words of a pack, those of its name first.
    words        tsvector generated always as (case when kind = 'pack' then
                     setweight(to_tsvector('english', coalesce(fields->>'name', '')), 'A') ||
                     setweight(to_tsvector('english', coalesce(fields->>'text', '')), 'B') end) stored,
    primary key (space_id, kind, id)
);

insert into contents (space_id, kind, id, in_workspace, fields, version, created_by, created_at, updated_at)
    select space_id, 'proj', id, in_workspace, jsonb_build_object('name', name), 1, created_by, created_at, updated_at
      from projects;
drop table projects;

-- The second fence: a transaction sees the spaces that it said it would work in, and before it has said so none.
create function spaces_entered() returns uuid[] language sql stable
    return string_to_array(nullif(current_setting('service.spaces', true), ''), ',')::uuid[];

alter table contents enable row level security;
alter table contents force row level security;
create policy contents_of_spaces_entered on contents
    using (space_id = any (spaces_entered())) with check (space_id = any (spaces_entered()));

-- What a create with an Idempotency-Key made, for its caller to ask again.
create table idempotency_keys (
    user_id    uuid not null,
    key        text not null,
    digest     bytea not null,
    space_id   uuid not null,
    content_id uuid not null,
    made_at    timestamptz not null,
    primary key (user_id, key)
);

create index idempotency_keys_by_age on idempotency_keys (made_at);

-- Invitations by e-mail, accepted by signing in with that address. One that waits for each address and workspace.
create table invitations (
    workspace_id uuid not null,
    address      text not null,
    id           uuid not null,
    role         text not null check (role in ('owner', 'member', 'viewer')),
    invited_by   uuid not null,
    created_at   timestamptz not null,
    expires_at   timestamptz not null,
    primary key (workspace_id, address)
);

create index invitations_by_address on invitations (address);
create index invitations_by_expiry on invitations (expires_at);
