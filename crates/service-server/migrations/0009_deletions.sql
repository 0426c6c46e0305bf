-- What was deleted, for a while: deleting it again succeeds, and deleting what never was is told apart from that.
create table deletions (
    space_id   uuid not null,
    kind       text not null,
    id         uuid not null,
    deleted_at timestamptz not null,
    primary key (space_id, kind, id)
);

create index deletions_by_age on deletions (deleted_at);

-- No row-level security: nothing is in it but ids, and housekeeping works on all spaces at once.
