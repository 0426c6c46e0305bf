//! Every statement of the store, prepared against the migrated schema before anything runs it, and planned against the same
//! schema in partitions by shard.

use std::{collections::BTreeSet, fs, path::Path};

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;
use service_server::store::{cli_tokens, grant_batches};
use service_testkit::{partitions, postgres::Cluster, server::fresh_database};
use tokio_postgres::{
    Client, NoTls, SimpleQueryMessage,
    types::{Kind, Type},
};

/// Statements that may touch every shard: three that delete a workspace, one that revokes all sessions of a client, five about
/// the users of a connection, two about those of a domain, and three about the identities of a user.
const EVERY_SHARD: usize = 14;

/// A statement of the store, and the file that it is in.
struct Statement {
    file: String,
    sql: String,
}

#[test]
fn every_statement_fits_the_schema() -> Result<()> {
    with_database(false, async |client| {
        let statements = all_statements()?;
        for Statement { file, sql } in &statements {
            client.prepare(sql).await.with_context(|| format!("{file}: {sql}"))?;
        }
        ensure!(
            statements.len() >= 25,
            "only {} statements were found: are they raw string literals?",
            statements.len()
        );
        Ok(())
    })
}

#[test]
fn a_statement_touches_the_shard_that_it_names() -> Result<()> {
    with_database(true, async |client| {
        client.batch_execute("set plan_cache_mode = force_custom_plan").await?;
        let tables = sharded_tables(client).await?;
        let (mut one, mut every, mut entered, mut shared, mut housekeeping, mut none) = (0, 0, 0, 0, 0, 0);
        let mut wrong = Vec::new();
        for Statement { file, sql } in all_statements()? {
            if sql.starts_with("/* every shard */") {
                every += 1;
            } else if sql.starts_with("/* housekeeping */") {
                housekeeping += 1;
            } else if sql.starts_with("/* shards of one database */") {
                shared += 1;
            } else if sql.starts_with("/* entered spaces */") {
                entered += 1;
            } else if tables.iter().any(|table| names(&sql, table)) {
                let touched = touched_partitions(client, &sql).await.with_context(|| format!("{file}: {sql}"))?;
                if touched.len() > 1 {
                    wrong.push(format!("{file} touches the partitions {touched:?}: {sql}"));
                }
                one += 1;
            } else {
                none += 1;
            }
        }
        assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
        println!("{one} statements touch one shard, {every} every shard, {none} none; {housekeeping} are housekeeping");
        assert_eq!((every, entered, shared), (EVERY_SHARD, 1, 3));
        assert!(one > 100, "only {one} statements were planned");
        Ok(())
    })
}

fn with_database(partitioned: bool, test: impl AsyncFnOnce(&Client) -> Result<()>) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let cluster = Cluster::shared()?;
        let database = fresh_database(cluster).await?;
        let (client, connection) = tokio_postgres::connect(&cluster.url(&database), NoTls).await?;
        let driving = tokio::spawn(connection);
        if partitioned {
            partitions::partition(&client).await?;
        }
        test(&client).await?;
        drop(client);
        Ok(driving.await??)
    })
}

fn all_statements() -> Result<Vec<Statement>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("src/store"))? {
        let path = entry?.path();
        let file = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let statements = statements(&fs::read_to_string(&path)?);
        found.extend(statements.into_iter().map(|sql| Statement { file: file.clone(), sql }));
    }
    found.push(Statement { file: "grant_batches.rs".to_owned(), sql: grant_batches::FIND_SEVERAL.clone() });
    found.push(Statement { file: "cli_tokens.rs".to_owned(), sql: cli_tokens::FIND_SEVERAL.clone() });
    Ok(found)
}

/// The raw string literals of a file of the store: all of them are statements.
fn statements(source: &str) -> Vec<String> {
    let literals = source.split([' ', '(']).scan(0, |end, word| {
        let begin = *end;
        *end += word.len() + 1;
        Some((begin, word))
    });
    let begins = literals.filter(|(_, word)| word.trim_start().starts_with("r\""));
    begins.filter_map(|(begin, _)| source[begin..].split('"').nth(1)).map(str::to_owned).collect()
}

async fn sharded_tables(client: &Client) -> Result<Vec<String>> {
    let rows =
        client.query("select relname from pg_class where relkind = 'p' and relname <> 'audit_events'", &[]).await?;
    ensure!(rows.len() >= 20, "only {} tables have partitions", rows.len());
    Ok(rows.iter().map(|row| row.get(0)).collect())
}

/// Whether a statement names a table.
fn names(sql: &str, table: &str) -> bool {
    sql.split(|character: char| !character.is_alphanumeric() && character != '_').any(|word| word == table)
}

/// The numbers of the partitions in the plan of a statement, whose parameters get sample values.
async fn touched_partitions(client: &Client, sql: &str) -> Result<BTreeSet<String>> {
    let prepared = client.prepare(sql).await?;
    let values = prepared.params().iter().map(sample).collect::<Result<Vec<_>>>()?;
    let types: Vec<_> = prepared.params().iter().map(Type::name).collect();
    let in_parentheses = |list: String| if list.is_empty() { list } else { format!("({list})") };
    let (types, values) = (in_parentheses(types.join(", ")), in_parentheses(values.join(", ")));
    client.batch_execute(&format!("prepare planned{types} as {sql}")).await?;
    let messages = client.simple_query(&format!("explain (format json) execute planned{values}")).await?;
    client.batch_execute("deallocate planned").await?;
    let rows = messages.iter().filter_map(|message| match message {
        SimpleQueryMessage::Row(row) => row.get(0),
        _ => None,
    });
    let plan: Value = serde_json::from_str(&rows.collect::<Vec<_>>().join("\n"))?;
    let mut touched = BTreeSet::new();
    collect(&plan, &mut touched);
    Ok(touched)
}

fn collect(plan: &Value, touched: &mut BTreeSet<String>) {
    match plan {
        Value::Array(parts) => parts.iter().for_each(|part| collect(part, touched)),
        Value::Object(fields) => {
            let table = fields.get("Relation Name").and_then(Value::as_str);
            if let Some((_, number)) = table.and_then(|table| table.rsplit_once('_'))
                && number.parse::<u32>().is_ok()
            {
                touched.insert(number.to_owned());
            }
            fields.values().for_each(|part| collect(part, touched));
        }
        _ => {}
    }
}

/// A value of this type, as SQL.
fn sample(of: &Type) -> Result<String> {
    if let Kind::Array(element) = of.kind() {
        return Ok(format!("array[{}]::{}[]", sample(element)?, element.name()));
    }
    let text = match *of {
        Type::UUID => "018f2f6e-8a40-7c5e-9b1d-3f0a6c2e4d71",
        Type::INT2 | Type::INT4 | Type::INT8 | Type::FLOAT4 | Type::FLOAT8 => "7",
        Type::TEXT | Type::VARCHAR => "a",
        Type::TIMESTAMPTZ => "2027-01-15T08:00:00Z",
        Type::DATE => "2027-01-15",
        Type::BYTEA => "\\x0102",
        Type::BOOL => "true",
        Type::JSONB | Type::JSON => "{}",
        _ => anyhow::bail!("there is no sample of {of}"),
    };
    Ok(format!("'{text}'::{}", of.name()))
}
