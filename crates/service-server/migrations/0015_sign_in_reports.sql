-- Sign-ins that were new to an account, and that its user was mailed about. The link in the mail has a secret, of which `digest`
-- is the SHA-256; it revokes the sign-in once. In the shard of the user.
create table sign_in_reports (
    digest     bytea not null,
    shard      smallint not null,
    user_id    uuid not null,
    -- The session or the browser that was signed in.
    session_id text not null,
    -- The device that was stored with it, by the digest of its secret.
    device     bytea,
    created_at timestamptz not null,
    expires_at timestamptz not null,
    primary key (digest, shard)
);
create index sign_in_reports_expiry on sign_in_reports (expires_at);
create index sign_in_reports_user on sign_in_reports (user_id);
