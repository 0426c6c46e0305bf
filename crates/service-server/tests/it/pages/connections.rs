//! The pages on which owners set up single sign-on, without a provider: forms, refusals, and who may use them.

use anyhow::{Context as _, Result};
use serde_json::json;
use service_api::workspaces::Role;
use service_testkit::{
    server::{SignedIn, TestServer, with_server},
    tab::{Shown, Tab},
};

const ISSUER: &str = "https://login.acme.example";
const SECRET: &str = "a-client-secret-of-the-provider";

/// A workspace of Ann, in which Bob is a member, and a browser of Ann.
struct Acme {
    ann: SignedIn,
    tab: Tab,
    /// The page of all connections.
    path: String,
    id: String,
}

impl Acme {
    async fn make(server: &TestServer) -> Result<Self> {
        server.leaks.register("client secret of a provider", SECRET);
        let ann = server.sign_in("ann@acme.example", "read write").await?;
        let bob = server.sign_in("bob@acme.example", "read write").await?;
        let members = [(ann.user_id, Role::Owner), (bob.user_id, Role::Member)];
        let id = server.make_workspace("Acme", &members).await?.to_string();
        let tab = open(server, "ann@acme.example").await?;
        Ok(Self { ann, tab, path: format!("/workspaces/{id}/connections"), id })
    }

    /// Creates a connection; returns its page.
    async fn connect(&self, name: &str) -> Result<String> {
        self.tab.get(&self.path).await?;
        let made = self.tab.submit(&self.path, &[("name", name), ("issuer", ISSUER)]).await?;
        let page = made.next()?.to_owned();
        self.tab.get(&page).await?;
        Ok(page)
    }
}

/// A browser with a signed-in user.
async fn open(server: &TestServer, email: &str) -> Result<Tab> {
    server.advance(61);
    let tab = Tab::open(server)?;
    let path = tab.get("/sign-in").await?.next()?.to_owned();
    tab.sign_in(&server.mailbox, &path, email).await?;
    tab.get("/account/workspaces").await?;
    Ok(tab)
}

/// Checks that a page says what is wrong, with this status.
#[track_caller]
fn check_refused(page: &Shown, status: u16, said: &str) {
    assert_eq!(page.status.as_u16(), status, "{}", page.text);
    let alert = page.text.split("role=\"alert\">").nth(1).and_then(|rest| rest.split('<').next()).unwrap_or_default();
    assert!(alert.contains(said), "{said}: {}", page.text);
}

/// The step that is open on the page of a connection.
fn open_step(page: &Shown) -> Option<&str> {
    let steps = page.text.split("<details class=\"panel\" id=\"").skip(1);
    steps.filter_map(|step| step.split_once('"')).find(|(_, rest)| rest.starts_with(" open")).map(|(id, _)| id)
}

#[test]
fn an_owner_sets_up_a_connection_step_by_step() -> Result<()> {
    with_server(async |server| {
        let acme = Acme::make(server).await?;
        let tab = &acme.tab;
        assert!(tab.get(&acme.path).await?.text.contains("No identity provider is connected yet."));
        let path = acme.connect("Acme").await?;
        let page = tab.get(&path).await?;
        let id = path.rsplit('/').next().context("no id")?;
        for shown in [format!("https://service.test/sso/callback/{id}"), format!("/sso/backchannel-logout/{id}")] {
            assert!(page.text.contains(&shown), "{shown}: {}", page.text);
        }
        assert_eq!(open_step(&page), Some("provider"));

        let provider = [("client_id", "service"), ("client_secret", SECRET), ("auth_method", "client_secret_post")];
        assert_eq!(tab.submit(&format!("{path}/provider"), &provider).await?.next()?, path);
        let page = tab.get(&path).await?;
        assert!(page.text.contains("A secret is stored.") && !page.text.contains(SECRET), "{}", page.text);
        assert!(page.text.contains("value=\"client_secret_post\" selected"), "{}", page.text);
        assert_eq!(open_step(&page), Some("domain"));
        // An empty field keeps the secret.
        tab.submit(&format!("{path}/provider"), &[("client_id", "other"), ("client_secret", "")]).await?;
        let page = tab.get(&path).await?;
        assert!(page.text.contains("A secret is stored.") && page.text.contains("value=\"other\""), "{}", page.text);

        assert_eq!(tab.submit(&format!("{path}/domains"), &[("domain", " ACME.example ")]).await?.next()?, path);
        let page = tab.get(&path).await?;
        let value = page.text.split("value=\"service-verification=").nth(1).and_then(|rest| rest.split('"').next());
        assert!(value.is_some_and(|value| value.len() >= 32), "{}", page.text);
        assert!(page.text.contains("<bdi>acme.example</bdi>") && page.text.contains("Not verified yet"));

        // What DNS and the provider would prove is set by hand here.
        server.sql("update workspace_domains set verified_at = created_at, checked_at = created_at").await?;
        assert_eq!(open_step(&tab.get(&path).await?), Some("try"));
        check_refused(
            &tab.submit(&format!("{path}/enable"), &[("on", "true")]).await?,
            409,
            "Try the connection first",
        );
        server.sql("update connections set tried_at = created_at").await?;
        assert_eq!(open_step(&tab.get(&path).await?), Some("on"));
        assert_eq!(tab.submit(&format!("{path}/enable"), &[("on", "true")]).await?.next()?, path);
        assert!(tab.get(&path).await?.text.contains("Turned on: <time"));
        let listed = tab.get(&acme.path).await?;
        assert!(listed.text.contains(">On</span>") && listed.text.contains("acme.example"), "{}", listed.text);
        assert_eq!(tab.submit(&format!("{path}/enable"), &[]).await?.next()?, path);
        assert!(tab.get(&acme.path).await?.text.contains("Ready to turn on"));
        Ok(())
    })
}

#[test]
fn an_owner_is_shown_the_public_key_that_the_provider_has_to_know() -> Result<()> {
    with_server(async |server| {
        let acme = Acme::make(server).await?;
        let path = acme.connect("Acme").await?;
        let tab = &acme.tab;
        assert!(!tab.get(&path).await?.text.contains("public_key"));
        let refused = [("client_id", "service"), ("client_secret", SECRET), ("auth_method", "private_key_jwt")];
        check_refused(&tab.submit(&format!("{path}/provider"), &refused).await?, 422, "leave it empty");
        let signed = [("client_id", "service"), ("client_secret", ""), ("auth_method", "private_key_jwt")];
        assert_eq!(tab.submit(&format!("{path}/provider"), &signed).await?.next()?, path);
        let page = tab.get(&path).await?;
        let shown = server.http.get(&format!("/v1{path}"), Some(&acme.ann.access_token)).await?;
        let key = shown.body["publicKey"].to_string();
        let field = page.text.split("id=\"public_key\"").nth(1).and_then(|rest| rest.split('>').next());
        let field = field.context("no field")?.replace("&#34;", "\"");
        assert!(field.contains(&format!("value=\"{key}\"")), "{key}: {field}");
        assert!(key.contains("\"kty\":\"EC\"") && page.text.contains("register the public key from step 1"));
        assert_eq!(open_step(&page), Some("domain"));
        // A secret instead of the key.
        let secret = [("client_id", "service"), ("auth_method", "client_secret_post")];
        tab.submit(&format!("{path}/provider"), &secret).await?;
        let page = tab.get(&path).await?;
        assert!(!page.text.contains("public_key") && !page.text.contains("A secret is stored."), "{}", page.text);
        assert_eq!(open_step(&page), Some("provider"));
        Ok(())
    })
}

#[test]
fn what_cannot_be_is_refused_in_words() -> Result<()> {
    with_server(async |server| {
        let acme = Acme::make(server).await?;
        let tab = &acme.tab;
        tab.get(&acme.path).await?;
        for (name, issuer, said) in [
            ("", ISSUER, "Enter a name"),
            ("Acme", "login.acme.example", "exactly as your provider shows it"),
            ("Acme", "http://login.acme.example", "starts with https://"),
            ("Acme", "https://login.microsoftonline.com/common/v2.0", "tenant ID"),
        ] {
            let refused = tab.submit(&acme.path, &[("name", name), ("issuer", issuer)]).await?;
            check_refused(&refused, 422, said);
        }
        let path = acme.connect("Acme").await?;
        for (action, fields, status, said) in [
            ("provider", &[("client_id", "ä")][..], 422, "client ID exactly"),
            ("provider", &[("client_id", "x"), ("client_secret", "ä")], 422, "client secret exactly"),
            ("domains", &[("domain", "co.uk")], 422, "own domain"),
            ("domains", &[("domain", "gmail.com")], 422, "own domain"),
            ("domains", &[("domain", "localhost")], 422, "such as acme.example"),
            ("domains", &[("domain", "a b")], 422, "such as acme.example"),
            ("settings", &[("name", "Acme"), ("session_hours", "0"), ("token_days", "30")], 422, "1 to 720 hours"),
            ("settings", &[("name", "Acme"), ("session_hours", "12"), ("token_days", "x")], 422, "1 to 366 days"),
            ("verify-domain", &[("domain", "acme.example")], 404, "doesn’t have that domain"),
            ("remove-domain", &[("domain", "acme.example")], 404, "doesn’t have that domain"),
            ("require", &[("existing", "keep")], 409, "Turn the connection on"),
        ] {
            let refused = tab.submit(&format!("{path}/{action}"), fields).await?;
            check_refused(&refused, status, said);
        }
        tab.submit(&format!("{path}/domains"), &[("domain", "acme.example")]).await?;
        let again = tab.submit(&format!("{path}/domains"), &[("domain", "acme.example")]).await?;
        check_refused(&again, 409, "already has that domain");
        assert_eq!(open_step(&again), Some("domain"));
        let settings = [("name", "Acme"), ("role", "viewer"), ("session_hours", "8"), ("token_days", "7")];
        assert_eq!(tab.submit(&format!("{path}/settings"), &settings).await?.next()?, path);
        let page = tab.get(&path).await?;
        for kept in
            ["value=\"viewer\" selected", "max=\"720\" required value=\"8\"", "max=\"366\" required value=\"7\""]
        {
            assert!(page.text.contains(kept), "{kept}: {}", page.text);
        }
        Ok(())
    })
}

#[test]
fn a_domain_moves_between_the_connections_of_a_workspace() -> Result<()> {
    with_server(async |server| {
        let acme = Acme::make(server).await?;
        let (first, second) = (acme.connect("First").await?, acme.connect("Second").await?);
        let tab = &acme.tab;
        tab.submit(&format!("{first}/domains"), &[("domain", "acme.example")]).await?;
        assert!(tab.get(&second).await?.text.contains("Use acme.example with this connection"));
        assert_eq!(tab.submit(&format!("{second}/use-domain"), &[("domain", "acme.example")]).await?.next()?, second);
        assert!(tab.get(&first).await?.text.contains("Use acme.example with this connection"));
        assert!(tab.get(&second).await?.text.contains("id=\"domain-1\"><bdi>acme.example"));
        let removed = tab.submit(&format!("{second}/remove-domain"), &[("domain", "acme.example")]).await?;
        assert!(removed.next()?.starts_with(&format!("{second}?done=")));
        for page in [&first, &second] {
            assert!(!tab.get(page).await?.text.contains("<bdi>acme.example"), "{page}");
        }
        Ok(())
    })
}

#[test]
fn requiring_single_sign_on_shows_what_it_touches_and_needs_an_owner_for_emergencies() -> Result<()> {
    with_server(async |server| {
        let acme = Acme::make(server).await?;
        let path = acme.connect("Acme").await?;
        let tab = &acme.tab;
        tab.submit(&format!("{path}/domains"), &[("domain", "acme.example")]).await?;
        server.sql("update workspace_domains set verified_at = created_at, checked_at = created_at").await?;
        server.sql("update connections set tried_at = created_at").await?;
        tab.submit(&format!("{path}/enable"), &[("on", "true")]).await?;

        let require = format!("{path}/require");
        let page = tab.get(&require).await?;
        for shown in ["acme.example", "<dt>People</dt><dd>2</dd>", "<dt>CLI tokens</dt><dd>0</dd>"] {
            assert!(page.text.contains(shown), "{shown}: {}", page.text);
        }
        let owner = format!("owner.{}", acme.ann.user_id);
        assert!(page.text.contains(&format!("name=\"{owner}\" value=\"true\" checked")), "{}", page.text);
        assert!(!page.text.contains("bob@acme.example"), "a member who is no owner is offered");
        check_refused(&tab.submit(&require, &[("existing", "keep")]).await?, 409, "at least one owner");
        check_refused(&tab.submit(&require, &[(&owner, "true")]).await?, 422, "isn’t valid");
        let stranger = server.sign_in("eve@other.example", "read").await?;
        let foreign = format!("owner.{}", stranger.user_id);
        let refused = tab.submit(&require, &[(&foreign, "true"), ("existing", "keep")]).await?;
        check_refused(&refused, 422, "owners of this workspace");
        assert_eq!(tab.submit(&require, &[(&owner, "true"), ("existing", "revoke")]).await?.next()?, path);
        assert!(tab.get(&acme.path).await?.text.contains(">Required</span>"));
        assert_eq!(server.sql("select revoke_before is not null from connections").await?.as_deref(), Some("t"));

        // The last owner who could sign in stays named, and cannot leave.
        tab.get(&require).await?;
        check_refused(&tab.submit(&require, &[("decision", "owners")]).await?, 409, "at least one owner");
        assert_eq!(tab.submit(&require, &[("decision", "stop")]).await?.next()?, path);
        assert!(tab.get(&path).await?.text.contains("or with an email code"));
        Ok(())
    })
}

#[test]
fn a_connection_is_deleted_only_by_an_owner_who_is_sure() -> Result<()> {
    with_server(async |server| {
        let acme = Acme::make(server).await?;
        let path = acme.connect("Acme").await?;
        let tab = &acme.tab;
        assert_eq!(open_step(&tab.submit(&format!("{path}/delete"), &[]).await?), Some("delete"));
        let bob = open(server, "bob@acme.example").await?;
        for page in [&acme.path, &path, &format!("{path}/require")] {
            assert_eq!(bob.get(page).await?.status, 403, "{page}");
            assert_eq!(Tab::open(server)?.get(page).await?.next()?, "/sign-in", "{page}");
        }
        bob.get("/account/tokens").await?;
        let forms =
            ["provider", "settings", "enable", "domains", "use-domain", "verify-domain", "remove-domain", "require"];
        for form in forms.into_iter().chain(["delete"]) {
            let fields = [("sure", "true"), ("domain", "acme.example"), ("name", "x"), ("decision", "stop")];
            let refused = bob.submit(&format!("{path}/{form}"), &fields).await?;
            assert_eq!(refused.status, 403, "{form}: {}", refused.text);
        }
        let new = [("name", "Evil"), ("issuer", ISSUER)];
        assert_eq!(bob.submit(&acme.path, &new).await?.status, 403);
        let eve = open(server, "eve@other.example").await?;
        assert_eq!(eve.get(&path).await?.status, 404);
        // The same connection in another workspace of its owner is not found.
        let other = server.make_workspace("Other", &[(acme.ann.user_id, Role::Owner)]).await?.to_string();
        assert_eq!(tab.get(&path.replace(&acme.id, &other)).await?.status, 404);
        tab.get(&path).await?;
        let deleted = tab.submit(&format!("{path}/delete"), &[("sure", "true")]).await?;
        assert!(deleted.next()?.starts_with(&format!("{}?done=", acme.path)));
        assert_eq!(tab.get(&path).await?.status, 404);
        Ok(())
    })
}

#[test]
fn an_owner_who_signed_in_long_ago_signs_in_again_first() -> Result<()> {
    with_server(async |server| {
        let acme = Acme::make(server).await?;
        let path = acme.connect("Acme").await?;
        server.advance(15 * 60 + 1);
        let tab = &acme.tab;
        let domain = [("domain", "acme.example")];
        for (action, fields) in
            [("provider", &[("client_id", "x")][..]), ("domains", &domain), ("delete", &[("sure", "y")])]
        {
            let asked = tab.submit(&format!("{path}/{action}"), fields).await?;
            assert!(asked.next()?.starts_with("/sign-in/flow_"), "{action}");
        }
        // After signing in, the owner is where the change is made.
        let asked = tab.submit(&format!("{path}/provider"), &[("client_id", "x")]).await?;
        let shown = tab.sign_in(&server.mailbox, asked.next()?, "ann@acme.example").await?;
        assert_eq!(shown.next()?, path);
        tab.get(&path).await?;
        assert_eq!(tab.submit(&format!("{path}/domains"), &domain).await?.next()?, path);
        let changed = server.sql("select count(*) from audit_events where event like 'connection.c%'").await?;
        assert_eq!(changed.as_deref(), Some("1"));
        Ok(())
    })
}

#[test]
fn health_and_lost_domains_are_told_in_words() -> Result<()> {
    with_server(async |server| {
        let acme = Acme::make(server).await?;
        let path = acme.connect("Acme").await?;
        let tab = &acme.tab;
        assert!(tab.get(&path).await?.text.contains("We haven’t contacted the provider yet."));
        tab.submit(&format!("{path}/domains"), &[("domain", "acme.example")]).await?;
        let error = "The provider did not answer in time. <b>Try again.</b>";
        server.sql(&format!("update trusted_issuers set last_error = '{error}', last_error_at = created_at")).await?;
        server.sql("update workspace_domains set failures = 3, last_error = 'The record was not found.'").await?;
        for page in [&path, &acme.path] {
            let page = tab.get(page).await?;
            assert!(page.text.contains("The provider had a problem:") && page.text.contains("did not answer in time"));
            assert!(!page.text.contains("<b>Try") && page.text.contains("Lost"), "{}", page.text);
        }
        server.sql("update trusted_issuers set last_success_at = created_at + interval '1 second'").await?;
        let page = tab.get(&path).await?;
        assert!(page.text.contains("The provider is responding.") && !page.text.contains("in time"), "{}", page.text);
        let german = Tab::in_language(server, "de")?;
        german.set_cookie(tab.cookie());
        let page = german.get(&path).await?;
        assert!(page.text.contains("Der Anbieter antwortet.") && page.text.contains("Verloren"), "{}", page.text);
        assert_eq!(json!(page.text.contains(['{', '}'])), json!(false), "{}", page.text);
        Ok(())
    })
}
