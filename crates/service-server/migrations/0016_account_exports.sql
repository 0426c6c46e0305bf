-- Exports of everything that is stored about a user. What is exported is read while it is sent and is stored nowhere: a row says
-- only who may download it, until when, and how far the latest download is. In the shard of the user.
create table account_exports (
    id           uuid not null,
    shard        smallint not null,
    user_id      uuid not null,
    -- The session or the browser that started it. No other finds it.
    session_id   text not null,
    created_at   timestamptz not null,
    expires_at   timestamptz not null,
    -- The number of downloads that have begun.
    downloads    smallint not null,
    -- The download that runs. It renews `stream_until`, so that one whose node died stands in the way of no other.
    stream_id    uuid,
    stream_until timestamptz,
    finished_at  timestamptz,
    files        integer not null,
    entries      bigint not null,
    bytes        bigint not null,
    primary key (id, shard),
    check ((stream_id is null) = (stream_until is null))
) with (fillfactor = 50);

create index account_exports_by_user on account_exports (user_id);
create index account_exports_by_expiry on account_exports (expires_at);
