-- The record of what happened: kept by month, and sealed, so that whoever changes it later is found out.

-- The database whose transaction numbers a row has. A dump that is restored elsewhere brings old numbers along, which
-- are not those of the new database.
create function audit_numbering() returns bigint language sql stable
    return (select system_identifier from pg_control_system());

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
    numbering    bigint not null default audit_numbering(),
    written_by   bigint not null default pg_current_xact_id()::text::bigint,
    primary key (id, at)
) partition by range (at);

create index audit_events_by_user on audit_events (user_id, id);
create index audit_events_by_workspace on audit_events (workspace_id, id) where workspace_id is not null;
create index audit_events_by_transaction on audit_events (written_by);

-- Takes what belongs to a month that was not begun in time; empty otherwise.
create table audit_events_of_no_month partition of audit_events default;

insert into audit_events
      (id, at, event, user_id, client_id, workspace_id, subject, address, request_id, details)
    select id, at, event, user_id, client_id, workspace_id, subject, address, request_id, details
      from audit_events_before;
drop table audit_events_before;

-- Each seal covers the rows of one month that certain transactions wrote, and names the seal before it. Seals are never
-- deleted: they are what remains of months that are no longer kept.
create table audit_seals (
    number           bigint primary key,
    month            date not null,
    -- Rather than covering events, this one says that the month is no longer kept.
    dropped          boolean not null,
    numbering        bigint not null,
    from_transaction bigint not null,
    to_transaction   bigint not null,
    events           integer not null,
    digest           bytea not null,
    sealed_at        timestamptz not null,
    key_id           smallint not null,
    mac              bytea not null
);

-- The service itself owns no tables: months begin and end through these two functions, which do nothing else.

-- Whether the month had not been begun. Rows that came too early are moved into it.
create function audit_month_begin(month date) returns boolean
    language plpgsql security definer set search_path from current set lock_timeout = '1s' as $$
declare
    begins text := to_char(date_trunc('month', month::timestamp), 'YYYY-MM-DD 00:00:00+00');
    ends   text := to_char(date_trunc('month', month::timestamp) + interval '1 month', 'YYYY-MM-DD 00:00:00+00');
    name   text := 'audit_events_' || to_char(month, 'YYYY_MM');
begin
    if to_regclass(name) is not null then
        return false;
    end if;
    execute format('create table %I (like audit_events including defaults including constraints)', name);
    execute format('with early as (delete from audit_events_of_no_month where at >= %L and at < %L returning *)
                    insert into %I select * from early', begins, ends, name);
    execute format('alter table audit_events attach partition %I for values from (%L) to (%L)', name, begins, ends);
    return true;
end $$;

-- Whether the month was there. A month that ended less than 30 days ago cannot be dropped: whoever has only the
-- service's own access to the database cannot rid it of what happened just now.
create function audit_month_end(month date) returns boolean
    language plpgsql security definer set search_path from current set lock_timeout = '200ms' as $$
declare
    name text := 'audit_events_' || to_char(month, 'YYYY_MM');
begin
    if (date_trunc('month', month::timestamp) + interval '1 month') at time zone 'UTC' > clock_timestamp() - interval '30 days' then
        raise exception 'the month ended less than 30 days ago';
    end if;
    if to_regclass(name) is null then
        return false;
    end if;
    execute format('drop table %I', name);
    return true;
end $$;
