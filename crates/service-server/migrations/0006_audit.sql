-- The record of what happened: kept by month, and sealed, so that whoever changes it later is found out.

-- One row: the database that numbers the transactions here. A dump that is restored elsewhere brings old numbers along,
-- which are not those of the new database; nodes notice it when they start. Whoever seals holds this row meanwhile.
create table audit_numbering (
    only_row  boolean primary key default true check (only_row),
    numbering bigint not null
);

insert into audit_numbering (numbering) select system_identifier from pg_control_system();

create function audit_numbering_here() returns bigint language sql stable
    return (select numbering from audit_numbering);

alter table audit_events rename to audit_events_before;
drop index audit_events_by_user;

create table audit_events (
    id           uuid not null,
    at           timestamptz not null,
    event        text not null,
    user_id      uuid,
    client_id    text,
    workspace_id uuid,
    subject      text,
    address      text,
    request_id   text,
    details      jsonb not null,
    -- The transaction that wrote the row. Those that have ended add nothing any more, and can be sealed.
    numbering    bigint not null default audit_numbering_here(),
    written_by   bigint not null default pg_current_xact_id()::text::bigint,
    primary key (id, at)
) partition by range (at);

create index audit_events_by_user on audit_events (user_id, id);
create index audit_events_by_workspace on audit_events (workspace_id, id) where workspace_id is not null;
create index audit_events_by_transaction on audit_events (numbering, written_by);

-- Takes what belongs to a month that was not begun in time; empty otherwise.
create table audit_events_of_no_month partition of audit_events default;

-- Each seal covers the rows of one month that certain transactions wrote, and everything before it in the chain. Seals
-- are never deleted: they are what remains of months that are no longer kept.
create table audit_seals (
    number           bigint primary key,
    month            date not null,
    -- Rather than covering events, this one says that the month is no longer kept.
    dropped          boolean not null,
    numbering        bigint not null,
    from_transaction bigint not null,
    to_transaction   bigint not null,
    events           integer not null,
    first_at         timestamptz,
    last_at          timestamptz,
    digest           bytea not null,
    sealed_at        timestamptz not null,
    key_id           smallint not null,
    mac              bytea not null,
    -- The digest of this seal and of all before it.
    link             bytea not null
);

create index audit_seals_by_numbering on audit_seals (numbering, number);

-- Nobody but the schema's owner changes or deletes what is recorded, whatever else has been granted.
create function audit_refuse() returns trigger language plpgsql as $$
begin
    if not pg_has_role(current_user, (select relowner from pg_class where oid = tg_relid), 'USAGE') then
        raise exception 'what is recorded is not changed' using errcode = 'insufficient_privilege';
    end if;
    if tg_op = 'DELETE' then
        return old;
    end if;
    return new;
end $$;

create trigger audit_events_stay before update or delete on audit_events for each row execute function audit_refuse();
create trigger audit_seals_stay before update or delete on audit_seals for each row execute function audit_refuse();

-- The service itself owns no tables: months begin and end through these two functions, which do nothing else.

-- Whether the month had not been begun. Rows that came too early are moved into it.
create function audit_month_begin(month date) returns boolean
    language plpgsql security definer set lock_timeout = '500ms' as $$
declare
    begins text := to_char(date_trunc('month', month::timestamp), 'YYYY-MM-DD 00:00:00+00');
    ends   text := to_char(date_trunc('month', month::timestamp) + interval '1 month', 'YYYY-MM-DD 00:00:00+00');
    name   text := 'audit_events_' || to_char(month, 'YYYY_MM');
begin
    if month not between date '2000-01-01' and date '2999-12-31' then
        raise exception 'there is no such month';
    end if;
    if to_regclass(name) is not null then
        return false;
    end if;
    execute format('create table %I (like audit_events including defaults including constraints)', name);
    -- From here on nobody adds to it; whoever wanted to, tries again.
    lock table audit_events_of_no_month in access exclusive mode;
    execute format('with early as (delete from audit_events_of_no_month where at >= %L and at < %L returning *)
                    insert into %I select * from early', begins, ends, name);
    execute format('alter table audit_events attach partition %I for values from (%L) to (%L)', name, begins, ends);
    return true;
end $$;

-- Whether the month was there. A month that ended less than 30 days ago cannot be dropped: whoever has only the
-- service's own access to the database cannot rid it of what happened just now.
create function audit_month_end(month date) returns boolean
    language plpgsql security definer set lock_timeout = '200ms' as $$
declare
    name text := 'audit_events_' || to_char(month, 'YYYY_MM');
begin
    if month not between date '2000-01-01' and date '2999-12-31' then
        raise exception 'there is no such month';
    end if;
    if (date_trunc('month', month::timestamp) + interval '1 month') at time zone 'UTC'
       > clock_timestamp() - interval '30 days' then
        raise exception 'the month ended less than 30 days ago';
    end if;
    if to_regclass(name) is null then
        return false;
    end if;
    execute format('drop table %I', name);
    return true;
end $$;

-- With the rights of their owner they look nowhere but in this schema, and not everybody may call them.
do $$
declare
    who text;
begin
    execute format('alter function audit_month_begin(date) set search_path = %I, pg_temp', current_schema());
    execute format('alter function audit_month_end(date) set search_path = %I, pg_temp', current_schema());
    revoke execute on function audit_month_begin(date), audit_month_end(date) from public;
    -- Whoever could write events goes on being able to.
    for who in select distinct grantee::regrole::text from pg_class, aclexplode(relacl)
                where oid = 'audit_events_before'::regclass and privilege_type = 'INSERT' and grantee <> relowner and grantee <> 0
    loop
        execute format('grant select, insert on audit_events, audit_seals to %s', who);
        execute format('grant select, update on audit_numbering to %s', who);
        execute format('grant execute on function audit_month_begin(date), audit_month_end(date) to %s', who);
    end loop;
    -- The months of what there is, and some ahead.
    perform audit_month_begin(month::date)
       from (select distinct date_trunc('month', at at time zone 'UTC') as month from audit_events_before
             union select generate_series(date_trunc('month', clock_timestamp() at time zone 'UTC'),
                                          clock_timestamp() at time zone 'UTC' + interval '2 months', '1 month')) months
      where month >= timestamp '2000-01-01';
end $$;

-- What there was is numbered in groups, as if a thousand had been written at a time, so that it is sealed bit by bit.
insert into audit_events
      (id, at, event, user_id, client_id, workspace_id, subject, address, request_id, details, numbering, written_by)
    select id, at, event, user_id, client_id, workspace_id, subject, address, request_id, details,
           0, row_number() over (order by id) / 1000
      from audit_events_before;
drop table audit_events_before;
