//! A backup is restored, and addresses of accounts were changed after it.

use anyhow::{Context as _, Result};
use service_api::ids::Id as _;
use service_server::flows::account::address_change::due;
use service_testkit::server::{Setup, SignedIn};

use crate::{
    operations::restores::{check_fenced, restore_backup, start},
    support::admin::run_beside,
};

#[test]
fn an_address_that_changed_after_the_backup_changes_again_and_no_requested_one_does_ac_18() -> Result<()> {
    Setup::default().on_system_clock().run(async |server| {
        let (ann, bob) =
            (server.sign_in("ann@acme.test", "write").await?, server.sign_in("bob@acme.test", "write").await?);
        let row = |user: &SignedIn, address: &str| {
            let id = user.user_id.uuid();
            format!(
                "insert into address_changes values ('{id}', shard_of('{id}'), gen_random_uuid(), '{address}', 'c{id}', 'n{id}', 1,
                     'x', now(), now(), now(), now(), now())"
            )
        };
        let tables = ["users", "emails", "address_changes"];
        for table in tables {
            server.sql(&format!("create table {table}_before as table {table}")).await?;
        }
        // After the backup:
        server.sql(&row(&ann, "ann.lee@acme.test")).await?;
        assert_eq!(due::change_due(&server.app).await?, 1);

        let folder = tempfile::tempdir()?;
        let file = folder.path().join("audit.jsonl");
        let copy = server.sql("select string_agg(row_to_json(e)::text, E'\\n') from audit_events e").await?;
        std::fs::write(&file, copy.context("no events")?)?;
        for table in tables {
            server.sql(&format!("delete from {table}; insert into {table} select * from {table}_before")).await?;
        }
        server.sql(&row(&bob, "bob.lee@acme.test")).await?;
        restore_backup(server).await?;
        check_fenced(&start(server, &server.settings).await?, None).await?;
        run_beside(server, &["restore", "finish", "--audit-copy", file.to_str().context("no path")?]).await?;
        let stored = server.sql("select string_agg(email, ' ' order by email) from users").await?;
        assert_eq!(stored.as_deref(), Some("ann.lee@acme.test bob@acme.test"));
        assert_eq!(server.sql("select count(*) from address_changes").await?.as_deref(), Some("0"));
        Ok(())
    })
}
