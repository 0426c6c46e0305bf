-- What docs/operating.md grants to the role of the nodes. Repeated at each start, because an upgrade can add tables.
begin;
-- A migration has this lock while it runs.
select pg_advisory_xact_lock(x'5e721ce00001'::bigint) \g /dev/null
grant select, insert, update, delete on all tables in schema public to serviced;
revoke update, delete on audit_events, audit_seals from serviced;
grant execute on function audit_month_begin(date), audit_month_end(date), index_pack(uuid, uuid), find_packs(text, text) to serviced;
commit;
