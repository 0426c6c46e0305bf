//! Several requests about one domain at once.

use anyhow::{Result, ensure};
use futures_util::future::try_join;
use serde_json::json;
use service_testkit::server::TestServer;

use crate::support::connections::{Company, route, txt, with_dns};

const ROUNDS: usize = 8;

/// The workspaces that count as having verified a domain, by their own rows.
async fn verified_by(server: &TestServer, domain: &str) -> Result<Vec<String>> {
    let sql = format!(
        "select string_agg(workspace_id::text, ' ') from workspace_domains where domain = '{domain}' and verified_at is not null"
    );
    Ok(server.sql(&sql).await?.unwrap_or_default().split_whitespace().map(str::to_owned).collect())
}

#[test]
fn two_workspaces_that_verify_a_domain_at_once_do_not_both_have_it() -> Result<()> {
    with_dns(async |server, dns| {
        let (acme, dock) =
            (Company::found(server, "ann@acme.test").await?, Company::found(server, "bob@dock.test").await?);
        let (of_acme, of_dock) = (acme.connect(server).await?, dock.connect(server).await?);
        for round in 0..ROUNDS {
            let domain = format!("d{round}.test");
            let first = acme.claim_for(server, &domain, &of_acme).await?;
            let second = dock.claim_for(server, &domain, &of_dock).await?;
            dns.serve(&[txt(&domain, &first), txt(&domain, &second)])?;
            let (one, other) = try_join(acme.verify(server, &domain), dock.verify(server, &domain)).await?;
            let mut statuses = [one.status.as_u16(), other.status.as_u16()];
            statuses.sort_unstable();
            ensure!(statuses[0] == 200 && matches!(statuses[1], 409 | 503), "{domain}: {statuses:?}");
            let holder = route(server, &domain).await?.map(|route| service_api::ids::Id::uuid(route.workspace_id));
            let holder = holder.map(|id| id.to_string());
            assert_eq!(verified_by(server, &domain).await?, holder.into_iter().collect::<Vec<_>>(), "{domain}");
        }
        Ok(())
    })
}

#[test]
fn a_change_of_the_former_workspace_does_not_bring_a_domain_back() -> Result<()> {
    with_dns(async |server, dns| {
        let (acme, dock) =
            (Company::found(server, "ann@acme.test").await?, Company::found(server, "bob@dock.test").await?);
        let (of_acme, of_dock) = (acme.connect(server).await?, dock.connect(server).await?);
        for round in 0..ROUNDS {
            let domain = format!("d{round}.test");
            let first = acme.claim_for(server, &domain, &of_acme).await?;
            let second = dock.claim_for(server, &domain, &of_dock).await?;
            dns.serve(&[txt(&domain, &first)])?;
            ensure!(acme.verify(server, &domain).await?.field("status") == "verified");
            dns.serve(&[txt(&domain, &second)])?;
            let name = json!({ "name": format!("Acme {round}") });
            let (moved, changed) = try_join(dock.verify(server, &domain), acme.change(server, &of_acme, &name)).await?;
            ensure!(moved.status == 200 && changed.status == 200, "{} {}", moved.text, changed.text);
            let holder = route(server, &domain).await?.map(|route| route.workspace_id.to_string());
            assert_eq!(holder.as_deref(), Some(dock.id.as_str()), "{domain}");
            assert_eq!(verified_by(server, &domain).await?.len(), 1, "{domain}");
        }
        Ok(())
    })
}
