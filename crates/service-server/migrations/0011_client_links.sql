-- Pages that a self-registered client names: its website, its privacy policy and its terms of service.

alter table clients
    add column client_uri text,
    add column policy_uri text,
    add column tos_uri text;
