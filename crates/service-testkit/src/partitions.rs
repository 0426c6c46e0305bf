//! The schema with its tables partitioned by the hash of the shard: what holds there holds where rows are spread over
//! servers. PostgreSQL's rules for partitioned tables are those of engines that spread rows by a column, and a plan names
//! the partitions that a statement touches.

use anyhow::{Context as _, Result};
use tokio_postgres::{Client, NoTls};

/// How many partitions each table gets.
pub const PARTITIONS: u32 = 8;

/// Replaces every table that has a column `shard` by one with partitions, unless that was done. The tables must be empty.
pub async fn partition(client: &Client) -> Result<()> {
    let done = client.query_opt("select from pg_class where relname = 'users' and relkind = 'p'", &[]).await?;
    if done.is_some() {
        return Ok(());
    }
    client.batch_execute(&PARTITION.replace("PARTITIONS", &PARTITIONS.to_string())).await.context("not partitioned")
}

/// Replaces the tables of the database at this URL.
pub async fn partition_database(url: &str) -> Result<()> {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
    let driving = tokio::spawn(connection);
    partition(&client).await?;
    drop(client);
    Ok(driving.await??)
}

/// Foreign keys and policies are not part of `like`: they are dropped first and made again. Indexes get their names back.
const PARTITION: &str = r"
do $$
declare
    old record;
    thing record;
begin
    create temporary table foreign_keys on commit drop as
        select conrelid::regclass::text as child, conname, pg_get_constraintdef(oid) as definition
          from pg_constraint where contype = 'f' and connamespace = current_schema()::regnamespace;
    for thing in select * from foreign_keys loop
        execute format('alter table %s drop constraint %I', thing.child, thing.conname);
    end loop;
    for old in select c.oid, c.relname as name, c.relrowsecurity, c.relforcerowsecurity
                 from pg_class c join pg_attribute a on a.attrelid = c.oid and a.attname = 'shard' and not a.attisdropped
                where c.relkind = 'r' and c.relnamespace = current_schema()::regnamespace
    loop
        execute format('alter table %I rename to %I', old.name, old.name || '_plain');
        execute format('create table %I (like %I including all excluding indexes) partition by hash (shard)',
                       old.name, old.name || '_plain');
        for part in 0 .. PARTITIONS - 1 loop
            execute format('create table %I partition of %I for values with (modulus PARTITIONS, remainder %s)',
                           old.name || '_' || part, old.name, part);
        end loop;
        for thing in select polname, pg_get_expr(polqual, polrelid) as test, pg_get_expr(polwithcheck, polrelid) as new_test
                       from pg_policy where polrelid = old.oid
        loop
            execute format('create policy %I on %I using (%s) with check (%s)', thing.polname, old.name, thing.test, thing.new_test);
        end loop;
        if old.relrowsecurity then
            execute format('alter table %I enable row level security', old.name);
        end if;
        if old.relforcerowsecurity then
            execute format('alter table %I force row level security', old.name);
        end if;
        create temporary table indexes on commit drop as
            select c.relname as name, pg_get_indexdef(i.indexrelid) as definition, i.indisprimary,
                   pg_get_constraintdef(k.oid) as key
              from pg_index i join pg_class c on c.oid = i.indexrelid
              left join pg_constraint k on k.conindid = i.indexrelid and k.contype = 'p'
             where i.indrelid = old.oid;
        execute format('drop table %I', old.name || '_plain');
        for thing in select * from indexes loop
            if thing.indisprimary then
                execute format('alter table %I add constraint %I %s', old.name, thing.name, thing.key);
            else
                execute replace(replace(thing.definition, old.name || '_plain ', old.name || ' '), ' ON ONLY ', ' ON ');
            end if;
        end loop;
        drop table indexes;
    end loop;
    for thing in select * from foreign_keys loop
        execute format('alter table %s add constraint %I %s', thing.child, thing.conname, thing.definition);
    end loop;
end $$;
";
