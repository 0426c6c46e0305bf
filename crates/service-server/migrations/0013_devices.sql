-- Devices that signed in before, and codes that belong to the context that asked for them.

-- A device is a browser or a command that was given a secret after a sign-in. The secret opens nothing: it only gives its
-- holder limits of their own. One row per secret and address, because several people may sign in on one device.
-- Neither the secret nor the address is here: its SHA-256, and an HMAC under a key that is not in the database.
create table devices (
    digest      bytea not null,
    address_mac bytea not null,
    user_id     uuid not null,
    created_at  timestamptz not null,
    expires_at  timestamptz not null,
    primary key (digest, address_mac)
);

create index devices_by_user on devices (user_id, expires_at);
create index devices_by_expiry on devices (expires_at);

-- One code per address, client and context. The context is an HMAC of the device, else of the sign-in flow, else of the
-- network; `device` is the digest of the device's secret when the context is a device.
alter table otps add column context bytea not null default '';
alter table otps alter column context drop default;
alter table otps add column device bytea;
alter table otps drop constraint otps_pkey;
alter table otps add primary key (address, client_id, context);
