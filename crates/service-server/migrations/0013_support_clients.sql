-- Tools of the operator that make calls of support over the support listener. They are not OAuth clients: they get no token,
-- and the public endpoints do not know them.

-- No shard: every database has a copy.
create table support_clients (
    id         uuid primary key,
    name       text not null,
    -- The public keys that verify the client's assertions.
    jwks       jsonb not null,
    created_at timestamptz not null,
    revoked_at timestamptz
);
