//! The whole set-up as a new owner does it, from an empty workspace to the first colleague who is signed in. The pictures of
//! `docs/sso.md` are taken here.

use anyhow::{Result, ensure};
use service_testkit::browser::{Browser, Looks};

use crate::sso::{CLIENT_ID, CLIENT_SECRET, Rig, Walk, run};

#[test]
fn a_new_owner_sets_up_single_sign_on_and_a_colleague_signs_in() -> Result<()> {
    set_up(&Walk::new()?, Looks { phone: true, ..Looks::default() })
}

#[test]
fn without_scripts_single_sign_on_is_set_up_and_used() -> Result<()> {
    set_up(&Walk::without_scripts(), Looks { without_scripts: true, ..Looks::default() })
}

fn set_up(walk: &Walk, looks: Looks) -> Result<()> {
    run(async |rig| {
        let owner = Browser::open(looks).await?;
        rig.sign_in_by_code(&owner, "ann@acme.test").await?;
        owner.go(&format!("{}/workspaces", rig.server.http.url)).await?;
        owner.type_into("form[action='/workspaces'] input[name=name]", "Acme").await?;
        owner.click("form[action='/workspaces'] button.main").await?;
        // The page before has tabs too.
        owner.wait_for("nav.tabs a[href$='/connections']").await?;
        let workspace = owner.address().await?;
        owner.click("nav.tabs a[href$='/connections']").await?;
        owner.type_into("#name", "Acme").await?;
        owner.type_into("#issuer", &rig.provider.issuer).await?;
        walk.look(&owner, "1-provider").await?;
        owner.click("form.panel button.main").await?;

        // The addresses that the page shows are entered at the provider.
        owner.wait_for("#provider[open]").await?;
        rig.register(&owner).await?;
        owner.type_into("#client_id", CLIENT_ID).await?;
        owner.type_into("#client_secret", CLIENT_SECRET).await?;
        walk.look(&owner, "2-client").await?;
        owner.click("#provider button.main").await?;

        owner.wait_for("#domain[open]").await?;
        owner.type_into("#new-domain", "acme.test").await?;
        owner.click("#domain button.main").await?;
        owner.wait_for("#record-1").await?;
        walk.look(&owner, "3-domain").await?;
        owner.click("form[action$='/verify-domain'] button").await?;
        owner.wait_for("[role=alert]").await?;
        walk.look(&owner, "4-record-missing").await?;
        rig.add_record(&owner).await?;
        owner.click("form[action$='/verify-domain'] button").await?;

        owner.wait_for("#try[open]").await?;
        walk.look(&owner, "5-try").await?;
        owner.click("#try button.main").await?;
        rig.sign_in_at_provider(&owner, "ann").await?;
        owner.wait_for("a.button.main[href*='/connections/']").await?;
        walk.look(&owner, "6-tried").await?;
        owner.click("a.button.main[href*='/connections/']").await?;

        owner.wait_for("#on[open]").await?;
        walk.look(&owner, "7-turn-on").await?;
        owner.click("#on button.main").await?;
        owner.wait_for("#on a.button[href$='/require']").await?;
        let page = owner.text("body").await?;
        ensure!(page.contains("The provider is responding."), "{page}");
        first_colleague(&rig, walk, &Browser::open(looks).await?).await?;

        owner.go(&workspace).await?;
        let members = owner.text("body").await?;
        ensure!(members.contains("bob@acme.test"), "the colleague did not join: {members}");
        walk.look(&owner, "10-members").await?;
        require(walk, &owner, &workspace).await
    })
}

/// A colleague without an account signs in with the provider.
async fn first_colleague(rig: &Rig<'_>, walk: &Walk, colleague: &Browser) -> Result<()> {
    colleague.go(&format!("{}/sign-in", rig.server.http.url)).await?;
    colleague.type_into("input[name=email]", "bob@acme.test").await?;
    walk.look(colleague, "8-colleague").await?;
    colleague.click("button[type=submit]").await?;
    rig.sign_in_at_provider(colleague, "bob").await?;
    rig.wait_for_account(colleague, "bob@acme.test").await?;
    walk.look(colleague, "9-signed-in").await?;
    let codes = rig.server.sql("select count(*) from otps where address = 'bob@acme.test'").await?;
    ensure!(codes.as_deref() == Some("0"), "a code was sent");
    Ok(())
}

/// The owner sees what requiring single sign-on touches, requires it, and is named for emergencies.
async fn require(walk: &Walk, owner: &Browser, workspace: &str) -> Result<()> {
    owner.go(&format!("{workspace}/connections")).await?;
    owner.click(".entry a.button").await?;
    owner.click("a.button[href$='/require']").await?;
    owner.wait_for("#impact").await?;
    owner.click("input[value=keep]").await?;
    walk.look(owner, "11-require").await?;
    owner.click("form.panel button.main").await?;
    owner.wait_for("#provider").await?;
    let page = owner.text("h2").await?;
    ensure!(page.contains("Required"), "{page}");
    Ok(())
}
