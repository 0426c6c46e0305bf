//! The rows of tables: how many bytes each takes with its indexes.

use anyhow::{Context as _, Result, ensure};
use service_api::{oauth::SERVICE_CLI, shard::Shard};
use tokio_postgres::Client;
use uuid::Uuid;

use super::{
    costs::{Costs, RowSize},
    loads,
    machine::Machine,
};

/// Ids of each kind of row, in the order of time, in shards that look random. Mirrored by [`made_id`].
const MADE_ID: &str = "
    create function pg_temp.made(kind int, number bigint) returns uuid language sql immutable return
        (lpad(to_hex(1767225600000 + number), 12, '0') || '7' || lpad(to_hex(number * 7919 % 4096), 3, '0')
         || '8' || lpad(to_hex(kind), 3, '0') || lpad(to_hex(number), 12, '0'))::uuid";
const FIRST_MILLISECOND: u128 = 1_767_225_600_000;

/// What made the id of a row.
#[derive(Clone, Copy)]
pub(crate) enum Kind {
    Grant = 2,
    CliToken = 3,
}

/// Returns the id that the database made for this number.
pub(crate) fn made_id(kind: Kind, number: u64) -> Uuid {
    let shard = u128::from(number) * 7_919 % u128::from(Shard::COUNT);
    let time = FIRST_MILLISECOND + u128::from(number);
    let head = (time << 80) | (7 << 76) | (shard << 64);
    Uuid::from_u128(head | (8 << 60) | ((kind as u128) << 48) | u128::from(number))
}

/// A table, and a query for its rows over `number`.
struct Filling {
    table: &'static str,
    columns: &'static str,
    values: &'static str,
    /// Whether there is a row for each user.
    for_each_user: bool,
}

const FILLINGS: [Filling; 7] = [
    Filling {
        table: "users",
        columns: "id, shard, email, created_at",
        values: "pg_temp.made(1, number), shard_of(pg_temp.made(1, number)),
                 'person' || number || '@company' || number % 1000 || '.example', now()",
        for_each_user: true,
    },
    Filling {
        table: "emails",
        columns: "address, shard, user_id, verified_at",
        values: "'person' || number || '@company' || number % 1000 || '.example', number * 31 % 4096,
                 pg_temp.made(1, number), now()",
        for_each_user: true,
    },
    Filling {
        table: "grants",
        columns: "id, shard, user_id, client_id, scopes, audience, salt, base, issued, issued_key,
                  rotated_at, rotated_from, created_at, created_from, expires_at, auth_time",
        values: "pg_temp.made(2, number), shard_of(pg_temp.made(2, number)), pg_temp.made(1, number), 'service-cli',
                 'read write', 'https://service.test/v1', uuid_send(pg_temp.made(2, number)), 0, 1, 1, now(), '203.0.113.77',
                 now(), '203.0.113.77', now() + interval '90 days', now()",
        for_each_user: true,
    },
    Filling {
        table: "cli_tokens",
        columns: "id, shard, user_id, client_id, name, digest, hint, scopes, created_at, expires_at, made_by",
        values: "pg_temp.made(4, number), shard_of(pg_temp.made(4, number)), pg_temp.made(1, number), 'service-cli',
                 'Deployment', sha256(number::text::bytea), '…0000', 'read write', now(), now() + interval '90 days',
                 'grant_01mcc5sw18e0w8jc3xx1g6tgvw'",
        for_each_user: false,
    },
    Filling {
        table: "consents",
        columns: "user_id, client_id, redirect_host, audience, id, shard, scopes, agreed_at, used_at, expires_at",
        values: "pg_temp.made(1, number), 'client_01mcc5sw18e0w8jc3xx1g6tgvw', 'planner.example', 'https://service.test/v1',
                 pg_temp.made(5, number), shard_of(pg_temp.made(1, number)), 'read write', now(), now(),
                 now() + interval '90 days'",
        for_each_user: false,
    },
    Filling {
        table: "browser_sessions",
        columns: "id, shard, digest, user_id, signed_in_at, created_at, last_seen_at, expires_at",
        values: "pg_temp.made(6, number), shard_of(pg_temp.made(6, number)), sha256(number::text::bytea),
                 pg_temp.made(1, number), now(), now(), now() + number * interval '1 s', now() + interval '30 days'",
        for_each_user: false,
    },
    Filling {
        table: "memberships",
        columns: "user_id, workspace_id, shard, role, created_at",
        values: "pg_temp.made(1, number), pg_temp.made(7, number / 10), shard_of(pg_temp.made(1, number)), 'member', now()",
        for_each_user: false,
    },
];

impl Filling {
    /// Inserts this many rows.
    async fn insert(&self, client: &Client, rows: u32) -> Result<()> {
        let Self { table, columns, values, .. } = self;
        let insert = format!(
            "insert into {table} ({columns}) select {values} from generate_series(1::bigint, {rows}) as number"
        );
        client.batch_execute(&insert).await.with_context(|| format!("{table} could not be filled"))?;
        Ok(client.batch_execute(&format!("vacuum analyze {table}")).await?)
    }
}

/// Fills the tables that have a row for each user.
pub(crate) async fn fill_users(client: &Client, users: u32) -> Result<()> {
    client.batch_execute(MADE_ID).await?;
    for filling in FILLINGS.iter().filter(|filling| filling.for_each_user) {
        filling.insert(client, users).await?;
    }
    Ok(())
}

/// Fills the tables, and notes what their rows take.
pub(crate) async fn fill(machine: &Machine, costs: &mut Costs) -> Result<()> {
    machine.client.batch_execute(MADE_ID).await?;
    for filling in FILLINGS {
        let rows = if filling.for_each_user { machine.size.users } else { machine.size.others };
        filling.insert(&machine.client, rows).await?;
        costs.rows.push(size_of(machine, filling.table).await?);
    }
    let made: Uuid = machine.client.query_one("select pg_temp.made(2, 77)", &[]).await?.get(0);
    ensure!(made == made_id(Kind::Grant, 77), "ids are made in two ways");
    Ok(())
}

/// Multiplies rows that real requests wrote. The node is stopped first: it would seal the events, and read the revocations.
pub(crate) async fn multiply(machine: &mut Machine, costs: &mut Costs) -> Result<()> {
    for number in 1_000_000..1_000_010 {
        let user = loads::sign_in(&machine.node.http, &machine.mailbox, number).await?;
        let form = format!("client_id={SERVICE_CLI}&token={}", user.refresh_token);
        let revoked = machine.node.http.post_form("/oauth/revoke", &form).await?;
        ensure!(revoked.status == 200, "{}", revoked.text);
    }
    machine.node.kill()?;
    for (table, columns) in [("audit_events", "'written_by', 1000000 + number / 3"), ("revocations", "")] {
        let keys = key_columns(machine, table).await?;
        let columns =
            [keys, columns.to_owned()].into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(", ");
        let insert = format!(
            "insert into {table} select made.*
               from generate_series(1, {} / 10) as round,
                    (select t as template, row_number() over () as place from {table} t limit 10) as sample,
                    lateral (select round * 10 + place as number) as numbered,
                    lateral jsonb_populate_record(template, jsonb_build_object({columns})) as made",
            machine.size.others
        );
        machine.client.batch_execute(&insert).await.with_context(|| format!("{table} could not be filled"))?;
        machine.client.batch_execute(&format!("vacuum analyze {table}")).await?;
        costs.rows.push(size_of(machine, table).await?);
    }
    Ok(())
}

/// New values for the columns of the primary key, by their types.
async fn key_columns(machine: &Machine, table: &str) -> Result<String> {
    let sql = format!(
        "select coalesce(string_agg(quote_literal(a.attname) || ', ' || case t.typname
                    when 'uuid' then 'pg_temp.made(8, number)' else '1000000 + number' end, ', '), '')
           from pg_index i join pg_attribute a on a.attrelid = i.indrelid and a.attnum = any (i.indkey)
           join pg_type t on t.oid = a.atttypid
          where i.indrelid = '{table}'::regclass and i.indisprimary and t.typname in ('uuid', 'int8')"
    );
    Ok(machine.client.query_one(&sql, &[]).await?.get(0))
}

async fn size_of(machine: &Machine, table: &'static str) -> Result<RowSize> {
    // Of a partitioned table, all partitions.
    let sql = format!(
        "select coalesce((select sum(pg_total_relation_size(relid)) from pg_partition_tree('{table}')),
                         pg_total_relation_size('{table}'))::int8,
                (select count(*) from {table})"
    );
    let row = machine.client.query_one(&sql, &[]).await?;
    let (bytes, rows): (i64, i64) = (row.get(0), row.get(1));
    ensure!(rows > 0, "{table} is empty");
    #[expect(clippy::cast_precision_loss, reason = "tables are not that large")]
    Ok(RowSize { table, bytes: bytes as f64 / rows as f64, rows })
}
