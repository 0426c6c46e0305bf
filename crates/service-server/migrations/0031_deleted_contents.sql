-- Deleted contents, for owners to restore. A row lives as long as its row in `deletions`: what deletes that, be it
-- housekeeping after 30 days or the end of the space, deletes this with it.
create table deleted_contents (
    space_id     uuid not null,
    kind         text not null,
    id           uuid not null,
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
    primary key (space_id, kind, id),
    foreign key (space_id, kind, id) references deletions (space_id, kind, id) on delete cascade
);

-- Bytes that were deleted since the deleted contents of the space were last counted.
alter table space_usage add column deleted_bytes bigint not null default 0;

-- The same fence as around `contents`. The foreign key works across it.
alter table deleted_contents enable row level security;
alter table deleted_contents force row level security;
create policy deleted_contents_of_spaces_entered on deleted_contents
    using (space_id = any (spaces_entered())) with check (space_id = any (spaces_entered()));

-- For the roles that write contents.
do $$
declare
    who text;
begin
    for who in select distinct grantee::regrole::text from pg_class, aclexplode(relacl)
                where oid = 'contents'::regclass and privilege_type = 'INSERT' and grantee <> relowner and grantee <> 0
    loop
        execute format('grant select, insert, update, delete on deleted_contents to %s', who);
    end loop;
end $$;
