-- Which sign-in stands behind a credential: when its person proved who they are, and what made it.

-- When the person last proved who they are for this grant. A refresh does not change it. Null for grants that are older
-- than this column: they count as signed in long ago.
alter table grants add column auth_time timestamptz;

-- What made a credential or an invitation: the id of a grant (`grant_…`) or of a browser session (`sess_…`). Null: a
-- sign-in of its own, or older than this column.
alter table grants add column made_by text;
alter table cli_tokens add column made_by text;
alter table invitations add column made_by text;

create index invitations_by_maker on invitations (made_by) where made_by is not null;

-- A CLI token that was made long before its maker was found to be compromised: it works, and its user is shown it first.
alter table cli_tokens add column suspected_at timestamptz;

create index clients_by_secret on clients (secret_digest) where secret_digest is not null;

-- When everything that a replayed or leaked grant had made was revoked: once, also if the grant had been revoked before.
alter table grants add column made_revoked_at timestamptz;

-- A key that an operator retired is trusted nowhere. One that its successor retired still tells, at one endpoint, which
-- grant an expired access token belongs to.
alter table signing_keys add column retired_by_hand boolean not null default false;
