-- The keys that sign access tokens. The private half is sealed; the public half is what /.well-known/jwks.json shows.

create table signing_keys (
    kid        text primary key,
    sealed     bytea not null,
    jwk        jsonb not null,
    created_at timestamptz not null,
    active_at  timestamptz not null,
    retired_at timestamptz
);
