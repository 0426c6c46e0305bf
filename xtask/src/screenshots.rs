//! `cargo xtask screenshots`: takes a screenshot of every page, light and dark, wide and narrow, under
//! target/screenshots. Two of these four are taken in German too.

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
    let english = [(false, false), (false, true), (true, false), (true, true)].map(|(phone, dark)| (phone, dark, "en"));
    let german = [(false, false, "de"), (true, true, "de")];
    for (phone, dark, language) in english.into_iter().chain(german) {
        let looks = Looks { phone, dark, language: Some(language), without_scripts: false };
        let (size, light) = (if phone { "phone" } else { "desk" }, if dark { "dark" } else { "light" });
        let kind = format!("{size}-{light}-{language}");
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
