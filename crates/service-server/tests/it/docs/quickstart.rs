//! The operator's quickstart, executed with the real `serviced` on an empty database.

use std::path::Path;

use anyhow::{Context as _, Result};
use service_testkit::{
    documents::{self, Shell},
    ports,
    server::Setup,
};

#[test]
fn the_quickstart_for_operators_is_true() -> Result<()> {
    Setup::default().on_system_clock().run(async |server| {
        let name = format!("quickstart_{}", server.database);
        let url = server.cluster.create_database(&name, None).await?;
        let directory = tempfile::tempdir()?;
        let programs = Path::new(env!("CARGO_BIN_EXE_serviced")).parent().context("no folder")?;
        let address = format!("127.0.0.1:{}", ports::free()?);
        let shell = Shell {
            directory: directory.path().to_owned(),
            programs: programs.to_owned(),
            environment: Vec::new(),
            replaced: [
                ("postgres://serviced:secret@localhost/service", url),
                ("localhost:8080", address.clone()),
                ("127.0.0.1:8080", address),
                ("127.0.0.1:9090", format!("127.0.0.1:{}", ports::free()?)),
                ("port = 25", format!("port = {}", server.mailbox.smtp_address().port())),
            ]
            .map(|(shown, real)| (shown.to_owned(), real))
            .to_vec(),
            mailbox: &server.mailbox,
            user: "ann@acme.example",
            leaks: &server.leaks,
        };
        shell.run(&documents::read("docs/quickstart/run.md")?).await
    })
}
