-- A search must cost what it finds, not what the space holds. Row-level security keeps `@@` and `<%` out of every index,
-- because neither is leakproof, so the words of packs move into a table that only its owner reads.

-- The search index of packs. The foreign key moves and deletes a row together with its pack.
create table pack_search (
    space_id  uuid not null,
    kind      text not null default 'pack' check (kind = 'pack'),
    pack_id   uuid not null,
    pack_type text not null,
    name      text not null,
    words     tsvector not null,
    primary key (pack_id, space_id),
    foreign key (space_id, kind, pack_id) references contents (space_id, kind, id) on delete cascade on update cascade
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

-- Brings the search index up to date with a pack of an entered space. The pack is read through row-level security, which
-- is forced on `contents`, so nothing from another space gets in, and nothing that is not in the pack.
create function index_pack(space uuid, pack uuid) returns void language sql security definer
as $$
    insert into pack_search (space_id, pack_id, pack_type, name, words)
    select space_id, id, fields->>'type', fields->>'name',
           setweight(to_tsvector('english', fields->>'name'), 'A') ||
           setweight(to_tsvector('english', coalesce(fields->>'text', '')), 'B')
      from contents where space_id = space and kind = 'pack' and id = pack
    on conflict (pack_id, space_id) do update
        set pack_type = excluded.pack_type, name = excluded.name, words = excluded.words
$$;

-- The packs of the entered spaces that a query finds, with their scores; at most 300 of each space. Of packs that hold the
-- words it looks at the 100 newest that hold them in the name and at the 200 newest that hold them anywhere. Only when
-- there is none, names that resemble the query are found.
create function find_packs(wanted_type text, query text)
    returns table (space_id uuid, pack_id uuid, score real)
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
            select p.* from pack_search p where p.pack_id = any (candidates) and p.space_id = space
        )
        select c.space_id, c.pack_id,
               (case when is_ranked then ts_rank_cd(c.words, exact, 32) else 0 end + word_similarity(query, c.name))::real
          from candidate c where not is_loose or c.words @@ exact;
        is_found := is_found or found;
    end loop;
    if is_found or length(query) > 200 then
        return;
    end if;
    foreach space in array coalesce(spaces_entered(), '{}') loop
        return query
        select p.space_id, p.pack_id, word_similarity(query, p.name)
          from pack_search p
         where array[p.space_id::text, p.pack_type] @> array[space::text, wanted_type] and query <% p.name
         limit 300;
    end loop;
end
$$;

-- Names in the functions mean what they mean here, whatever the caller puts in its own search path.
do $$
declare
    path text := (select string_agg(distinct quote_ident(nspname), ', ') from pg_namespace
                   where nspname = current_schema()
                      or oid in (select extnamespace from pg_extension where extname = 'pg_trgm'));
begin
    execute format('alter function index_pack(uuid, uuid) set search_path = %s, pg_temp', path);
    execute format('alter function find_packs(text, text) set search_path = %s, pg_temp', path);
end
$$;

-- How many bytes a space holds. Who changes content changes this row first, so it also puts writers of one space in line.
create table space_usage (
    space_id uuid not null primary key,
    bytes    bigint not null check (bytes >= 0)
);

alter table space_usage enable row level security;
alter table space_usage force row level security;
create policy space_usage_of_spaces_entered on space_usage
    using (space_id = any (spaces_entered())) with check (space_id = any (spaces_entered()));

-- What is there already. The fence stands in the way of the schema's owner too, and is lifted for this transaction.
alter table contents no force row level security;
alter table space_usage no force row level security;
insert into pack_search (space_id, pack_id, pack_type, name, words)
    select space_id, id, fields->>'type', fields->>'name', words from contents where kind = 'pack';
insert into space_usage (space_id, bytes)
    select space_id, sum(octet_length(fields::text)) from contents group by space_id;
alter table contents force row level security;
alter table space_usage force row level security;

-- Nothing reads the words there any more. The first release has them nowhere but in the table above.
alter table contents drop column words;
