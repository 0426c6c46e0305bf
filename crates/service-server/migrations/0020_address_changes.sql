-- Changes of email addresses that users requested: a user has one at a time. Links that are sent to both addresses confirm it, and
-- stop it. In the shard of the user.
create table address_changes (
    user_id              uuid not null,
    shard                smallint not null,
    id                   uuid not null,
    -- The new address.
    address              text not null,
    -- The SHA-256 of the secrets in the two links, and the root key that the secrets are derived under.
    current_digest       bytea not null,
    new_digest           bytea not null,
    mac_key              smallint not null,
    -- The session or the browser that requested it; see `made_by` of CLI tokens.
    made_by              text not null,
    requested_at         timestamptz not null,
    -- Until when it can be confirmed.
    expires_at           timestamptz not null,
    current_confirmed_at timestamptz,
    new_confirmed_at     timestamptz,
    -- When the address is changed. Null until both are confirmed.
    due_at               timestamptz,
    primary key (user_id, shard),
    check (due_at is null or (current_confirmed_at is not null and new_confirmed_at is not null))
);
create unique index address_changes_by_current_digest on address_changes (current_digest, shard);
create unique index address_changes_by_new_digest on address_changes (new_digest, shard);
create index address_changes_by_due on address_changes (due_at) where due_at is not null;
create index address_changes_by_expiry on address_changes (expires_at) where due_at is null;
