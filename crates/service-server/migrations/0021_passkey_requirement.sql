-- Whether the user requires a passkey to sign in: a code alone is then not enough.
alter table users add column requires_passkey boolean not null default false;

-- A user who entered the right code in this flow and requires a passkey. The browser is not signed in.
alter table sign_in_flows add column code_user_id uuid;
alter table sign_in_flows add column code_entered_at timestamptz;
