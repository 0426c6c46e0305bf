-- The name of a user, which members of the user's workspaces read beside the address. Null: the user has none.
alter table users add column name text;
