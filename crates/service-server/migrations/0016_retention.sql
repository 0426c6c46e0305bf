-- What is personal in audit events is sealed under keys that can be deleted, and what has ended is deleted in time.

-- The network address of a day's events. `written_by` tells whether the transaction that reads the key also made it:
-- such a key is not known to be committed yet.
create table audit_day_keys (
    day        date primary key,
    sealed     bytea not null,
    written_by xid8 not null default pg_current_xact_id()
);

-- E-mail addresses and names in the events of a user.
create table audit_user_keys (
    user_id    uuid primary key,
    sealed     bytea not null,
    created_at timestamptz not null
);

-- From here on `address` holds the network of the address, such as 203.0.113.0/24, and `details` nothing personal.
alter table audit_events add column sealed_address bytea;
alter table audit_events add column sealed_details bytea;

-- For housekeeping, which looks for what ended long ago. No refresh changes what these are over.
create index memberships_by_end on memberships (ended_at) where ended_at is not null;
create index workspaces_by_deletion on workspaces (deleted_at) where deleted_at is not null;

-- Whoever writes events uses these keys.
do $$
declare
    who text;
begin
    for who in select distinct grantee::regrole::text from pg_class, aclexplode(relacl)
                where oid = 'audit_events'::regclass and privilege_type = 'INSERT' and grantee <> relowner and grantee <> 0
    loop
        execute format('grant select, insert, delete on audit_day_keys, audit_user_keys to %s', who);
    end loop;
end $$;
