//! The databases of a cluster: created empty or as clones of a migrated template, and dumped for the leak scanner.

use std::fmt::Write as _;

use anyhow::{Context as _, Result, ensure};
use tokio_postgres::{Client, NoTls};

use super::{Cluster, SERVICE_ROLE};

const TEMPLATE: &str = "migrated_template";

/// Creates the role of the service. A concurrent caller waits, and finds it.
const MAKE_ROLE: &str = "
    select pg_advisory_lock(1);
    do $$ begin
        if not exists (select from pg_roles where rolname = 'serviced') then
            create role serviced login nosuperuser nobypassrls;
        end if;
    end $$;
    select pg_advisory_unlock(1)";

/// Lists every table that is not PostgreSQL's own, with its `bytea` columns.
const TABLES: &str = "
    select format('%I.%I', n.nspname, c.relname),
           array(select quote_ident(a.attname)
                   from pg_attribute a join pg_type t on t.oid = a.atttypid
                  where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
                    and 'bytea'::regtype in (t.oid, t.typbasetype)
                  order by a.attnum)
      from pg_class c join pg_namespace n on n.oid = c.relnamespace
     where n.nspname not in ('pg_catalog', 'information_schema') and c.relkind = 'r' and c.relpersistence <> 't'
       and pg_relation_size(c.oid) > 0
     order by 1";

impl Cluster {
    /// Creates a database that the service owns; returns its URL.
    pub async fn create_database(&self, name: &str, template: Option<&str>) -> Result<String> {
        // PostgreSQL would truncate a longer name and then confuse two databases.
        ensure!(name.len() <= 63, "the database name {name} has more than 63 bytes");
        let source = template.map_or_else(String::new, |template| format!(" template {}", quoted(template)));
        let client = connect(&self.url("postgres")).await?;
        client.batch_execute(MAKE_ROLE).await.context("cannot create the service's role")?;
        if let Some(password) = self.password() {
            // In hexadecimal, so nothing has to be escaped. Statements with a password are not logged.
            let set = format!("set log_statement = none; alter role {SERVICE_ROLE} password '{password}'");
            client.batch_execute(&set).await.context("cannot set the password of the service's role")?;
        }
        client
            .batch_execute(&format!("create database {} owner {SERVICE_ROLE}{source}", quoted(name)))
            .await
            .with_context(|| format!("cannot create the database {name}"))?;
        Ok(self.service_url(name))
    }

    /// Returns the URL of a database, which is created if it does not exist.
    pub async fn ensure_database(&self, name: &str) -> Result<String> {
        let client = connect(&self.url("postgres")).await?;
        let found = client.query_opt("select from pg_database where datname = $1", &[&name]).await?;
        if found.is_some() { Ok(self.service_url(name)) } else { self.create_database(name, None).await }
    }

    /// Returns the name of the cluster's template, for [`Cluster::create_database`]. The first call creates it:
    /// `migrate` gets the URL of an empty database. Other callers wait, also on other runtimes.
    pub async fn template(&self, migrate: impl AsyncFnOnce(String) -> Result<()>) -> Result<&str> {
        let make = || async {
            let client = connect(&self.url("postgres")).await?;
            // An earlier caller may have been cancelled during its migration.
            client.batch_execute(&format!("drop database if exists {TEMPLATE} with (force)")).await?;
            migrate(self.create_database(TEMPLATE, None).await?).await.context("cannot migrate the template")?;
            // PostgreSQL refuses to clone a database with sessions, and the migration's may still be closing.
            client.batch_execute(&format!("alter database {TEMPLATE} with allow_connections false")).await?;
            let end_sessions = "select pg_terminate_backend(pid) from pg_stat_activity where datname = $1";
            client.query(end_sessions, &[&TEMPLATE]).await?;
            Ok(TEMPLATE.to_owned())
        };
        self.template.get_or_try_init(make).await.map(String::as_str)
    }

    /// Returns every row of every table as text. PostgreSQL writes bytes in hexadecimal; they are also included as they
    /// are.
    pub async fn dump(&self, database: &str) -> Result<String> {
        let client = connect(&self.url(database)).await?;
        let mut dump = String::new();
        for table in client.query(TABLES, &[]).await? {
            let (name, byte_columns): (String, Vec<String>) = (table.try_get(0)?, table.try_get(1)?);
            writeln!(dump, "{name}")?;
            for row in client.query(&format!("select (r.*)::text from {name} r"), &[]).await? {
                writeln!(dump, "{}", row.try_get::<_, &str>(0)?)?;
            }
            for column in byte_columns {
                let values = format!("select {column}::bytea from {name} where {column} is not null");
                for row in client.query(&values, &[]).await? {
                    writeln!(dump, "{name}.{column} {}", String::from_utf8_lossy(row.try_get(0)?))?;
                }
            }
        }
        Ok(dump)
    }
}

async fn connect(url: &str) -> Result<Client> {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.context("cannot connect to PostgreSQL")?;
    // Ends when the client is dropped. An error also fails the client's next statement.
    tokio::spawn(connection);
    Ok(client)
}

fn quoted(identifier: &str) -> String {
    format!("\"{}\"", identifier.replace('"', "\"\""))
}
