-- A consent can be listed and withdrawn by its own id, and ends when its client has not used it for a long time.
--
-- Both columns may be left out by a node that does not know them yet; such a consent counts as used when it was given.

alter table consents add column id uuid not null default gen_random_uuid();
alter table consents add column used_at timestamptz;

create unique index consents_by_id on consents (user_id, id);
create index consents_by_use on consents (coalesce(used_at, agreed_at));
