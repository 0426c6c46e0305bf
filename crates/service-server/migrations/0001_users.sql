-- Users, their email addresses and their devices.
--
-- In all files: the service gives every time and makes every key; the database makes none, so that one clock decides and
-- tests can turn it. A table whose rows belong to a user or a workspace has a column `shard`, which is the last column of
-- its primary key and of its unique indexes: the number that its owner's id carries. No foreign key crosses owners. So
-- the rows can be spread over many servers by shard; see docs/scaling.md.

-- The key of the keyed hash that decides about the shard of an email address. Made once, and never changed.
create table address_key (
    only_row boolean primary key default true check (only_row),
    key      bytea not null
);

insert into address_key (key) values (sha256(convert_to(gen_random_uuid()::text || gen_random_uuid()::text, 'UTF8')));

create table users (
    id          uuid not null,
    shard       smallint not null,
    email       text not null,
    created_at  timestamptz not null,
    disabled_at timestamptz,
    primary key (id, shard)
);

-- The user that an address belongs to. In the shard of the address.
create table emails (
    address     text not null,
    shard       smallint not null,
    user_id     uuid not null,
    verified_at timestamptz not null,
    primary key (address, shard)
);

-- A device is a browser or a command that was given a secret after a sign-in. The secret gives no access; its holder has
-- separate rate limits. One row for each secret and address, because several users may sign in on one device. The table
-- holds neither the secret nor the address: the secret's SHA-256, and an HMAC under a key that is not in the database.
-- In the shard of the digest.
create table devices (
    digest      bytea not null,
    address_mac bytea not null,
    shard       smallint not null,
    user_id     uuid not null,
    created_at  timestamptz not null,
    expires_at  timestamptz not null,
    primary key (digest, address_mac, shard)
);

create index devices_by_expiry on devices (expires_at);

-- The devices of a user, in the shard of the user.
create table user_devices (
    user_id    uuid not null,
    digest     bytea not null,
    shard      smallint not null,
    expires_at timestamptz not null,
    primary key (user_id, digest, shard)
);

create index user_devices_by_expiry on user_devices (expires_at);
