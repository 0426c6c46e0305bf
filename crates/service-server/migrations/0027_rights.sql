-- Rights of functions and keys that were wider or narrower than they are used.

-- Functions that run as their owner are for the roles that serve requests, and look into this schema first.
do $$
declare
    who  text;
    path text := quote_ident(current_schema()) || coalesce((select ', ' || quote_ident(nspname)
                     from pg_extension join pg_namespace on pg_namespace.oid = extnamespace
                    where extname = 'pg_trgm' and nspname <> current_schema()), '');
begin
    execute format('alter function index_pack(uuid, uuid) set search_path = %s, pg_temp', path);
    execute format('alter function find_packs(text, text) set search_path = %s, pg_temp', path);
    revoke execute on function index_pack(uuid, uuid), find_packs(text, text) from public;
    for who in select distinct grantee::regrole::text from pg_class, aclexplode(relacl)
                where oid = 'contents'::regclass and privilege_type = 'INSERT' and grantee <> relowner and grantee <> 0
    loop
        execute format('grant execute on function index_pack(uuid, uuid), find_packs(text, text) to %s', who);
    end loop;
    -- A key is sealed again when another root key takes over.
    for who in select distinct grantee::regrole::text from pg_class, aclexplode(relacl)
                where oid = 'audit_day_keys'::regclass and privilege_type = 'INSERT' and grantee <> relowner and grantee <> 0
    loop
        execute format('grant update on audit_day_keys to %s', who);
    end loop;
end $$;
