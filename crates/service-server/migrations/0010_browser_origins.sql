-- The browser and the system that a user signed in with, as names from a fixed list ("Firefox/Linux"), and the network address
-- of the sign-in, so that users recognize their devices. Null: the sign-in is older than these columns.
alter table browser_sessions
    add column agent          text,
    add column signed_in_from text;
