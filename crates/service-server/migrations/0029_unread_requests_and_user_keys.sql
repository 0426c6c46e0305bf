-- What a client asks for whose metadata document is fetched after sign-in: its parameters, as they were sent.
alter table sign_in_flows add column parameters jsonb;

-- Keys of users are sealed again when another root key takes over; the first byte says under which one they are.
create index audit_user_keys_by_root_key on audit_user_keys (get_byte(sealed, 0), user_id);

do $$
declare
    who text;
begin
    for who in select distinct grantee::regrole::text from pg_class, aclexplode(relacl)
                where oid = 'audit_user_keys'::regclass and privilege_type = 'INSERT' and grantee <> relowner and grantee <> 0
    loop
        execute format('grant update on audit_user_keys to %s', who);
    end loop;
end $$;
