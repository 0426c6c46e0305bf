-- Email addresses that bounced, by a keyed digest: until when no mail is sent to them, and how often they bounced in a row.

create table suppressed_addresses (
    name             bytea not null,
    shard            smallint not null,
    bounces          smallint not null,
    suppressed_until timestamptz not null,
    primary key (name, shard)
);

create index suppressed_addresses_by_end on suppressed_addresses (suppressed_until);
