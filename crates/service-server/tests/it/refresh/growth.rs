//! What ten thousand rotations leave behind: one row, rewritten in its place.

use anyhow::{Context as _, Result, ensure};
use service_testkit::{
    leaks::Leaks,
    response::TestClient,
    server::{TestServer, refresh_body, signed_in, with_server},
};

const ROTATIONS: u64 = 10_000;

async fn number(server: &TestServer, expression: &str) -> Result<u64> {
    let text = server.sql(&format!("select ({expression})::bigint")).await?.context("no number")?;
    Ok(text.parse()?)
}

#[test]
fn ten_thousand_rotations_are_one_row_and_touch_no_index() -> Result<()> {
    with_server(async |server| {
        let ann = server.sign_in("ann@acme.test", "read").await?;
        let table = "pg_relation_size('grants')";
        let indexes = "pg_indexes_size('grants')";
        let (table_before, indexes_before) = (number(server, table).await?, number(server, indexes).await?);
        let http = TestClient::new(server.http.url.clone(), Leaks::default())?;
        let mut token = ann.refresh_token;
        for _ in 0..ROTATIONS {
            token = signed_in(&http.post("/oauth/token", &refresh_body(&token)).await?)?.refresh_token;
        }
        assert_eq!(number(server, "(select count(*) from grants)").await?, 1);
        assert_eq!(number(server, "(select issued from grants)").await?, ROTATIONS + 1);
        assert_eq!(number(server, "(select count(*) from audit_events where event like 'refresh%')").await?, 0);
        // The counters arrive when their connections have been idle for a moment.
        let of = |column: &str| format!("(select {column} from pg_stat_user_tables where relname = 'grants')");
        while number(server, &of("n_tup_upd")).await? < ROTATIONS {}
        let (updated, in_place) =
            (number(server, &of("n_tup_upd")).await?, number(server, &of("n_tup_hot_upd")).await?);
        // While another transaction of the node is open, an old version may have to stay, and now and then fills the page:
        // some ten in ten thousand, when one session is rotated without a pause while others are sealed or cleaned up.
        ensure!(in_place * 200 >= updated * 199, "{updated} updates, {in_place} of them without touching an index");
        let (table_after, indexes_after) = (number(server, table).await?, number(server, indexes).await?);
        server.sql("vacuum grants").await?;
        let vacuumed = number(server, table).await?;
        println!(
            "{ROTATIONS} rotations, {in_place} HOT: table {table_before} to {table_after} bytes ({vacuumed} after vacuum), \
             indexes {indexes_before} to {indexes_after}"
        );
        assert_eq!(indexes_after, indexes_before);
        // A few pages for versions that had to stay meanwhile; the row may have come to lie in the last of them.
        assert!(vacuumed <= table_after && table_after <= table_before + 16 * 8_192);
        Ok(())
    })
}
