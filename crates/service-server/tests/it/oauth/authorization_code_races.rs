//! Many uses of one code at once, over several processes.

use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use futures_util::future::try_join_all;
use service_testkit::{leaks::Leaks, process::Process, response::TestClient, rounds::rounds, server::Setup, tab::Tab};

use crate::support::authorize::{CALLBACK, asking, code, exchange, go_through, register};

const AT_ONCE: usize = 100;

/// A check and an update that are not one would let two through; and because there were several, none keeps its tokens.
#[test]
fn of_a_hundred_uses_at_once_over_three_nodes_one_succeeds_ac_02() -> Result<()> {
    Setup::default().on_system_clock().run(async |server| {
        let start = || Process::start(Path::new(env!("CARGO_BIN_EXE_serviced")), &server.settings, &server.leaks);
        let (nodes, codes) = ([start()?, start()?, start()?], rounds(20, 100));
        let clients = nodes
            .iter()
            .map(|node| TestClient::new(node.http.url.clone(), Leaks::default()))
            .collect::<Result<Vec<_>>>()?;
        let client = register(server, "Web app", &[CALLBACK]).await?;
        let tab = Tab::open(server)?;
        go_through(server, &tab, &asking(&client, &[]), "ann@acme.test").await?;
        for round in 0..codes {
            let body = exchange(&client, &code(&tab.get(&asking(&client, &[])).await?)?);
            let uses = (0..AT_ONCE).map(|number| clients[number % clients.len()].post("/oauth/token", &body));
            let mut responses = try_join_all(uses).await?;
            // On a slow machine some wait for the row until the deadline. They try again, as the response tells them to.
            for late in responses.iter_mut().filter(|response| response.status == 503) {
                *late = clients[round % clients.len()].post("/oauth/token", &body).await?;
            }
            let good: Vec<_> = responses.iter().filter(|response| response.status == 200).collect();
            let refused = responses.iter().filter(|response| response.error() == "invalid_grant").count();
            ensure!(
                (good.len(), refused) == (1, AT_ONCE - 1),
                "round {round}: {} succeeded, {refused} refused",
                good.len()
            );
            let token = good.first().context("none")?.field("access_token").to_owned();
            let who = clients[round % clients.len()].get("/v1/whoami", Some(&token)).await?;
            // The node that ended it knows at once, the others within a second.
            ensure!(who.status == 401 || who.status == 200, "{}", who.text);
        }
        let living = server.sql("select count(*) from grants where revoked_at is null").await?;
        assert_eq!(living.as_deref(), Some("0"), "a session lives although its code was used twice");
        assert!(!server.cluster.log()?.contains("deadlock detected"), "deadlocks");
        println!("{codes} codes, {AT_ONCE} uses of each at once over {} processes: one success each", nodes.len());
        Ok(())
    })
}
