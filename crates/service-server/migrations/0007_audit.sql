-- The audit log: kept by month, and sealed, so that later changes are noticed. Every database has its own; no shard.

-- One row: the database that numbers the transactions here. A dump that is restored elsewhere brings old numbers along,
-- which are not those of the new database; nodes notice it when they start. The task that seals locks this row.
create table audit_numbering (
    only_row  boolean primary key default true check (only_row),
    numbering bigint not null
);

insert into audit_numbering (numbering) select system_identifier from pg_control_system();

create function audit_numbering_here() returns bigint language sql stable
    return (select numbering from audit_numbering);


create table audit_events (
    id             uuid not null,
    at             timestamptz not null,
    event          text not null,
    user_id        uuid,
    client_id      text,
    workspace_id   uuid,
    subject        text,
    -- The network of the caller's address, such as 203.0.113.0/24. The address itself is sealed under the day's key.
    address        text,
    request_id     text,
    details        jsonb not null,
    -- The transaction that wrote the row. Those that have ended add nothing any more, and can be sealed.
    numbering      bigint not null default audit_numbering_here(),
    written_by     bigint not null default pg_current_xact_id()::text::bigint,
    sealed_address bytea,
    sealed_details bytea,
    primary key (id, at)
) partition by range (at);

create index audit_events_by_user on audit_events (user_id, id);
create index audit_events_by_workspace on audit_events (workspace_id, id) where workspace_id is not null;
create index audit_events_by_transaction on audit_events (numbering, written_by);

-- Takes the rows of a month that was not created in time; otherwise empty.
create table audit_events_of_no_month partition of audit_events default;

-- The key of a day's network addresses. `written_by` says whether the transaction that reads the key also made it: such a
-- key is not known to be committed yet.
create table audit_day_keys (
    day        date primary key,
    sealed     bytea not null,
    written_by xid8 not null default pg_current_xact_id()
);

-- The key of email addresses and names in the events of a user.
create table audit_user_keys (
    user_id    uuid primary key,
    sealed     bytea not null,
    created_at timestamptz not null
);

-- Keys of users are sealed again when another root key takes over; the first byte says under which one they are.
create index audit_user_keys_by_root_key on audit_user_keys (get_byte(sealed, 0), user_id);

-- Each seal covers the rows of one month that certain transactions wrote, and everything before it in the chain. Seals
-- are never deleted: they are what remains of months that were dropped.
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

-- Only the schema's owner can change or delete audit events, whatever else was granted.
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

-- The service owns no tables: it creates and drops months through these two functions, which do nothing else.

-- Creates the partition of a month; `false`: it exists. Rows that came too early are moved into it.
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
    -- From here on no transaction adds to it; one that wanted to tries again.
    lock table audit_events_of_no_month in access exclusive mode;
    execute format('with early as (delete from audit_events_of_no_month where at >= %L and at < %L returning *)
                    insert into %I select * from early', begins, ends, name);
    execute format('alter table audit_events attach partition %I for values from (%L) to (%L)', name, begins, ends);
    return true;
end $$;

-- Drops the partition of a month; `false`: there is none. A month that ended less than 30 days ago cannot be dropped: an
-- attacker with the service's access to the database cannot delete recent events.
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

-- They run with the rights of their owner, so they look in this schema only, and only the roles to which an operator
-- grants them may call them. The first months are created here.
do $$
begin
    execute format('alter function audit_month_begin(date) set search_path = %I, pg_temp', current_schema());
    execute format('alter function audit_month_end(date) set search_path = %I, pg_temp', current_schema());
    revoke execute on function audit_month_begin(date), audit_month_end(date) from public;
    perform audit_month_begin(month::date)
       from generate_series(date_trunc('month', clock_timestamp() at time zone 'UTC'),
                            clock_timestamp() at time zone 'UTC' + interval '2 months', '1 month') as month;
end $$;
