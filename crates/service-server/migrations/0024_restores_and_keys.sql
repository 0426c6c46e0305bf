-- Noticing a restored backup, and trusting rows that hold keys.

-- Which database server this installation lives on, and whether it looks as if it had been restored from a backup. One row,
-- written by the first node that starts. A node compares it with the server that answers before it writes anything.
create table installation (
    only_row          boolean primary key default true check (only_row),
    system_identifier text not null,
    timeline          bigint not null,
    -- How many restores an operator has finished.
    restores          integer not null default 0,
    fenced_at         timestamptz,
    fenced_because    text,
    check ((fenced_at is null) = (fenced_because is null))
);

-- What each root key makes of a constant: two nodes with different keys under one id notice it. Says nothing about the key.
create table root_key_checks (
    id          smallint primary key,
    check_value bytea not null
);

-- A row of signing_keys counts only with a MAC over all that it says, under a key that is not in the database. The version
-- rises with every change. Rows from before could have been put there by anybody; nodes make a new key when they start.
delete from signing_keys;
alter table signing_keys add column version integer not null;
alter table signing_keys add column mac_key smallint not null;
alter table signing_keys add column mac bytea not null;
