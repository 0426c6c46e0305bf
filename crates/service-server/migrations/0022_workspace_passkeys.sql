-- Whether the workspace requires a passkey from its members.
alter table workspaces add column requires_passkey boolean not null default false;
