-- Tokens that people make for automation.

-- Only the digest of a token is kept. Its id is within the token, so a token is found by primary key.
-- Using a token rewrites its row in place: when and where from are in no index.
create table cli_tokens (
    id              uuid primary key,
    user_id         uuid not null,
    client_id       text not null,
    name            text not null,
    digest          bytea not null,
    hint            text not null,
    scopes          text not null,
    workspace_id    uuid,
    created_at      timestamptz not null,
    expires_at      timestamptz not null,
    last_used_at    timestamptz,
    last_used_from  text,
    revoked_at      timestamptz,
    revoked_because text,
    idempotency_key text,
    -- How many days before its end its owner was last told of it.
    warned_at_days  smallint,
    check ((revoked_at is null) = (revoked_because is null))
) with (fillfactor = 80);

create index cli_tokens_by_user on cli_tokens (user_id, id);
create unique index cli_tokens_by_idempotency_key on cli_tokens (user_id, idempotency_key)
    where idempotency_key is not null;
create index cli_tokens_by_workspace on cli_tokens (workspace_id) where workspace_id is not null;
create index cli_tokens_by_expiry on cli_tokens (expires_at);
create index cli_tokens_by_revocation on cli_tokens (revoked_at) where revoked_at is not null;

alter table revocations drop constraint revocations_kind_check;
alter table revocations add check
    (kind in ('grant', 'cli_token', 'user', 'membership', 'workspace', 'signing_key', 'everybody'));
