-- What is in spaces: contents of five kinds, deleted contents, and the search index of packs.

-- Finds words that were typed almost right. A trusted extension: the schema's owner may create it.
create extension if not exists pg_trgm;

-- A space is a user's or a workspace's; both kinds of id are unique among each other. In the shard of the space.
create table contents (
    space_id     uuid not null,
    kind         text not null check (kind in ('proj', 'pack', 'play', 'case', 'rec')),
    id           uuid not null,
    shard        smallint not null,
    in_workspace boolean not null,
    fields       jsonb not null,
    version      bigint not null,
    created_by   uuid not null,
    created_at   timestamptz not null,
    updated_at   timestamptz not null,
    -- What the content counts for in quotas and pages, which do not read its fields.
    bytes        bigint not null generated always as (octet_length(fields::text)) stored,
    primary key (space_id, kind, id, shard)
);

-- The second fence: a transaction sees the spaces that it has entered, and none before that.
create function spaces_entered() returns uuid[] language sql stable
    return string_to_array(nullif(current_setting('service.spaces', true), ''), ',')::uuid[];

alter table contents enable row level security;
alter table contents force row level security;
create policy contents_of_spaces_entered on contents
    using (space_id = any (spaces_entered())) with check (space_id = any (spaces_entered()));

-- What a create with an Idempotency-Key made, for its caller to ask again. A key counts for one user in one space.
create table idempotency_keys (
    space_id   uuid not null,
    user_id    uuid not null,
    key        text not null,
    shard      smallint not null,
    digest     bytea not null,
    content_id uuid not null,
    made_at    timestamptz not null,
    primary key (space_id, user_id, key, shard)
);

create index idempotency_keys_by_age on idempotency_keys (made_at);

-- What was deleted, for a while: deleting it again succeeds, and deleting what never existed does not. No row-level
-- security: it holds only ids, and housekeeping works on all spaces at once.
create table deletions (
    space_id   uuid not null,
    kind       text not null,
    id         uuid not null,
    shard      smallint not null,
    deleted_at timestamptz not null,
    primary key (space_id, kind, id, shard)
);

create index deletions_by_age on deletions (deleted_at);

-- Deleted contents, for owners to restore. A row lives as long as its row in `deletions`: what deletes that, be it
-- housekeeping after 30 days or the end of the space, deletes this with it.
create table deleted_contents (
    space_id     uuid not null,
    kind         text not null,
    id           uuid not null,
    shard        smallint not null,
    in_workspace boolean not null,
    fields       jsonb not null,
    version      bigint not null,
    created_by   uuid not null,
    created_at   timestamptz not null,
    updated_at   timestamptz not null,
    deleted_by   uuid not null,
    deleted_at   timestamptz not null,
    -- What it counted for in its space, and counts for among the deleted contents.
    bytes        bigint not null generated always as (octet_length(fields::text)) stored,
    primary key (space_id, kind, id, shard),
    foreign key (space_id, kind, id, shard) references deletions (space_id, kind, id, shard) on delete cascade
);

-- As around `contents`. The foreign key works across it.
alter table deleted_contents enable row level security;
alter table deleted_contents force row level security;
create policy deleted_contents_of_spaces_entered on deleted_contents
    using (space_id = any (spaces_entered())) with check (space_id = any (spaces_entered()));

-- How many bytes a space holds, and how many were deleted since its deleted contents were last counted. A transaction that
-- changes contents changes this row first, so that writers of one space wait for each other.
create table space_usage (
    space_id      uuid not null,
    shard         smallint not null,
    bytes         bigint not null check (bytes >= 0),
    deleted_bytes bigint not null default 0,
    primary key (space_id, shard)
);

alter table space_usage enable row level security;
alter table space_usage force row level security;
create policy space_usage_of_spaces_entered on space_usage
    using (space_id = any (spaces_entered())) with check (space_id = any (spaces_entered()));

-- A search must cost what it finds, not what the space holds. Row-level security keeps `@@` and `<%` out of every index,
-- because neither is leakproof, so the words of packs are in a table that only its owner reads. The foreign key deletes a
-- row together with its pack.
create table pack_search (
    space_id  uuid not null,
    kind      text not null default 'pack' check (kind = 'pack'),
    pack_id   uuid not null,
    shard     smallint not null,
    pack_type text not null,
    name      text not null,
    words     tsvector not null,
    primary key (pack_id, space_id, shard),
    foreign key (space_id, kind, pack_id, shard) references contents (space_id, kind, id, shard) on delete cascade
);

-- Ranking reads whole vectors; unpacking them would take longer than reading them.
alter table pack_search alter column words set storage external;

-- Space and type are one entry of the index, in a form that no other index has: the planner cannot choose to read a
-- whole space instead. There is no pending list, which every search would have to read from end to end.
create index pack_search_words on pack_search
    using gin ((array[space_id::text, pack_type]), words, to_tsvector('english', name), name gin_trgm_ops)
    with (fastupdate = off);

-- No policy: whatever a role was granted, it reads and writes no row here. The functions below run as the owner, to whom
-- this does not apply.
alter table pack_search enable row level security;
revoke all on pack_search from public;

-- The shard that an id carries, for the functions below: twelve bits of a UUIDv7, behind its version.
create function shard_of(id uuid) returns smallint language sql immutable parallel safe
    return ('x' || substr(id::text, 16, 3))::bit(12)::integer::smallint;

-- Brings the search index up to date with a pack of an entered space. The pack is read through row-level security, which
-- is forced on `contents`, so nothing from another space gets in, and nothing that is not in the pack.
create function index_pack(space uuid, pack uuid) returns void language sql security definer
as $$
    insert into pack_search (space_id, pack_id, shard, pack_type, name, words)
    select space_id, id, shard, fields->>'type', fields->>'name',
           setweight(to_tsvector('english', fields->>'name'), 'A') ||
           setweight(to_tsvector('english', coalesce(fields->>'text', '')), 'B')
      from contents where space_id = space and kind = 'pack' and id = pack and shard = shard_of(space)
    on conflict (pack_id, space_id, shard) do update
        set pack_type = excluded.pack_type, name = excluded.name, words = excluded.words
$$;

-- The packs of the entered spaces that a query finds, with their scores; at most 300 of each space. Of packs that hold the
-- words it looks at the 100 newest that hold them in the name and at the 200 newest that hold them anywhere. Only when
-- there is none, names that resemble the query are found. Candidates are not looked for by shard: the planner could then
-- read the index of the primary key from end to end instead.
create function find_packs(wanted_type text, query text)
    returns table (space_id uuid, shard smallint, pack_id uuid, score real)
    language plpgsql stable security definer rows 100
    set plan_cache_mode = force_custom_plan
    -- Walking through packs from the newest on, reading each, must never look like a good idea.
    set enable_seqscan = off
    set enable_indexscan = off
    set enable_indexonlyscan = off
    set pg_trgm.word_similarity_threshold = 0.5
as $$
#variable_conflict use_column
declare
    exact      tsquery := websearch_to_tsquery('english', query);
    -- An index cannot tell where words stand, nor that one is missing: then it finds candidates, which are read.
    is_loose   boolean := exact::text ~ '<(-|[0-9]+)>|!';
    indexed    text := case when is_loose then regexp_replace(querytree(exact), '<(-|[0-9]+)>', '&', 'g') else exact::text end;
    loose      tsquery := case when indexed not in ('', 'T') then indexed::tsquery end;
    -- Cover density takes time for every word and place; no list of thirty words is better sorted by it.
    is_ranked  boolean := numnode(exact) <= 31;
    space      uuid;
    place      text[];
    candidates uuid[];
    is_found   boolean := false;
begin
    foreach space in array coalesce(spaces_entered(), '{}') loop
        continue when numnode(exact) = 0;
        place := array[space::text, wanted_type];
        candidates := array(
            select p.pack_id from pack_search p
             where array[p.space_id::text, p.pack_type] @> place and to_tsvector('english', p.name) @@ loose
             order by p.pack_id desc limit 100
        ) || array(
            select p.pack_id from pack_search p
             where array[p.space_id::text, p.pack_type] @> place and (loose is null or p.words @@ loose)
             order by p.pack_id desc limit 200
        );
        return query
        with candidate as materialized (
            select p.* from pack_search p
             where p.pack_id = any (candidates) and p.space_id = space and p.shard = shard_of(space)
        )
        select c.space_id, c.shard, c.pack_id,
               (case when is_ranked then ts_rank_cd(c.words, exact, 32) else 0 end + word_similarity(query, c.name))::real
          from candidate c where not is_loose or c.words @@ exact;
        is_found := is_found or found;
    end loop;
    if is_found or length(query) > 200 then
        return;
    end if;
    foreach space in array coalesce(spaces_entered(), '{}') loop
        return query
        select p.space_id, p.shard, p.pack_id, word_similarity(query, p.name)
          from pack_search p
         where array[p.space_id::text, p.pack_type] @> array[space::text, wanted_type] and query <% p.name
         limit 300;
    end loop;
end
$$;

-- A deletion that an MCP client asks for waits here until its user confirms it in a browser. In the shard of the user.
create table confirmations (
    id           uuid not null,
    shard        smallint not null,
    user_id      uuid not null,
    client_id    text not null,
    kind         text not null,
    content_id   uuid not null,
    workspace_id uuid,
    -- The version of the content that the user is asked about.
    version      bigint not null,
    created_at   timestamptz not null,
    expires_at   timestamptz not null,
    -- Null until the user answers.
    confirmed    boolean,
    primary key (id, shard)
);

create index confirmations_by_user on confirmations (user_id);
create index confirmations_by_expiry on confirmations (expires_at);

-- Functions that run as their owner are for the roles to which an operator grants them. Names in them mean what they mean
-- here, whatever the caller puts in its own search path.
do $$
declare
    path text := quote_ident(current_schema()) || coalesce((select ', ' || quote_ident(nspname)
                     from pg_extension join pg_namespace on pg_namespace.oid = extnamespace
                    where extname = 'pg_trgm' and nspname <> current_schema()), '');
begin
    execute format('alter function index_pack(uuid, uuid) set search_path = %s, pg_temp', path);
    execute format('alter function find_packs(text, text) set search_path = %s, pg_temp', path);
    revoke execute on function index_pack(uuid, uuid), find_packs(text, text) from public;
end $$;
