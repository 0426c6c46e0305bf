//! `cargo xtask screenshots`: a picture of every page, light and dark, on a desk and on a phone, under target/screenshots.

use std::fs;

use anyhow::Result;
use service_testkit::{
    browser::{Browser, Looks},
    server::Setup,
    tour::tour,
};

use crate::{root, say};

pub(crate) fn run() -> Result<()> {
    let folder = root().join("target/screenshots");
    fs::create_dir_all(&folder)?;
    for (phone, dark) in [(false, false), (false, true), (true, false), (true, true)] {
        let looks = Looks { phone, dark, without_scripts: false };
        let kind = format!("{}-{}", if phone { "phone" } else { "desk" }, if dark { "dark" } else { "light" });
        Setup::default().on_system_clock().run(async |server| {
            let browser = Browser::open(looks).await?;
            let look = async |name: &str, browser: &Browser| {
                let path = folder.join(format!("{name}-{kind}.png"));
                fs::write(&path, browser.picture().await?)?;
                say(&path.display().to_string());
                Ok(())
            };
            tour(server, &browser, "ann@harbour.example", look).await
        })?;
    }
    Ok(())
}
