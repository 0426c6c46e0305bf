-- Recovery codes: what a user who lost every passkey enters instead. `digests` has one for each
-- that was not used: the SHA-256 of the user's id and the code. New codes replace the row. In the shard of the user.
create table recovery_codes (
    user_id    uuid not null,
    shard      smallint not null,
    id         uuid not null,
    digests    bytea[] not null,
    -- The browser session that created them; see `made_by` of CLI tokens.
    made_by    text not null,
    created_at timestamptz not null,
    primary key (user_id, shard)
);
