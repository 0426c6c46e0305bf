-- Heartbeats of nodes, and what an operator does to clients.

-- One row a node: when it last wrote to this database and was told that the write is safe. A node that cannot have its
-- heartbeat confirmed may be talking to a server that is no longer the primary, and accepts no tokens. Deleted when a
-- node has been silent for a day. The row is rewritten every few seconds in place, so its pages keep room for that.
create table node_heartbeats (
    node_id uuid primary key,
    beat_at timestamptz not null
) with (fillfactor = 50);

-- Disabling a client revokes its access tokens.
alter table revocations drop constraint revocations_kind_check;
alter table revocations add check
    (kind in ('grant', 'cli_token', 'user', 'membership', 'workspace', 'signing_key', 'client', 'everybody'));

-- An operator revokes all sessions of one client.
create index grants_by_client on grants (client_id, id) where revoked_at is null;

-- Hosts that no self-registered client may be at or send answers to, their subdomains included. A client that was
-- disabled could otherwise register again under another name.
create table blocked_client_hosts (
    host       text primary key,
    blocked_by text not null,
    blocked_at timestamptz not null
);
