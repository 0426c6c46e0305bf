//! The end date that a person sets: no session, token, code or reused consent lasts longer.

use anyhow::{Context as _, Result};
use serde_json::{Value, json};
use service_rules::lifetimes;
use service_server::flows::oauth::consents;
use service_testkit::{
    response::TestResponse,
    server::{TestServer, with_server},
    tab::{Shown, Tab},
};

use crate::support::authorize::{CALLBACK, agree, asking, code, exchange, go_through, register};

const DAY: i64 = 86_400;
const PERSONAL: (&str, &str) = ("space", "personal");

async fn redeem(server: &TestServer, client: &str, done: &Shown) -> Result<TestResponse> {
    let response = server.http.post("/oauth/token", &exchange(client, &code(done)?)).await?;
    assert_eq!(response.status, 200, "{}", response.text);
    Ok(response)
}

async fn refresh(server: &TestServer, client: &str, refresh_token: &str) -> Result<TestResponse> {
    let body = json!({ "grant_type": "refresh_token", "client_id": client, "refresh_token": refresh_token });
    server.http.post("/oauth/token", &body).await
}

/// Signs in, and lets an app in for so many days.
async fn allow(server: &TestServer, tab: &Tab, address: &str, days: &str) -> Result<Shown> {
    let begun = tab.get(address).await?;
    let shown = match begun.next()? {
        path if path.starts_with("/sign-in/") => tab.sign_in(&server.mailbox, path, "ann@acme.test").await?,
        _ => begun,
    };
    agree(tab, shown, &[PERSONAL, ("expires", days)]).await
}

/// The address of a request about which the person is asked.
fn again(client: &str) -> String {
    asking(client, &[("prompt", "consent")])
}

/// In how many seconds the sessions expire, the next one first.
async fn session_ends(server: &TestServer) -> Result<Vec<i64>> {
    let ends = "select string_agg(extract(epoch from expires_at)::bigint::text, ' ' order by expires_at)
                  from grants where revoked_at is null";
    let ends = server.sql(ends).await?.unwrap_or_default();
    let now = server.now().as_second();
    ends.split(' ').filter(|end| !end.is_empty()).map(|end| Ok(end.parse::<i64>()? - now)).collect()
}

#[test]
fn no_token_outlives_the_end_date_and_the_person_is_asked_again() -> Result<()> {
    with_server(async |server| {
        let client = register(server, "Web app", &[CALLBACK]).await?;
        let tab = Tab::open(server)?;
        let done = allow(server, &tab, &asking(&client, &[]), "1").await?;
        let tokens = redeem(server, &client, &done).await?;
        assert_eq!(session_ends(server).await?, [DAY]);
        let recorded = "select details ->> 'expiresAt' from audit_events where event = 'consent.granted'";
        let end = server.sql(recorded).await?.context("not recorded")?;
        server.advance(DAY - 300);
        let refreshed = refresh(server, &client, tokens.field("refresh_token")).await?;
        assert_eq!((refreshed.status.as_u16(), refreshed.body["expires_in"].as_i64()), (200, Some(300)));
        // Another code of the same consent, and the first token again.
        let silent = redeem(server, &client, &tab.get(&asking(&client, &[("prompt", "none")])).await?).await?;
        assert_eq!(silent.body["expires_in"].as_i64(), Some(300));
        assert_eq!(session_ends(server).await?, [300, 300]);
        server.advance(50);
        let repeated = refresh(server, &client, tokens.field("refresh_token")).await?;
        assert_eq!((repeated.status.as_u16(), repeated.body["expires_in"].as_i64()), (200, Some(250)));
        let page = tab.get("/account/apps").await?;
        assert!(page.text.contains("Expires") && page.text.contains(&end), "{}", page.text);
        // A code that is made before the end and arrives after it.
        server.advance(220);
        let late = tab.get(&asking(&client, &[])).await?;
        let late_code = code(&late)?;
        server.advance(30);
        let refused = server.http.post("/oauth/token", &exchange(&client, &late_code)).await?;
        assert_eq!((refused.status.as_u16(), refused.error()), (400, "invalid_grant"), "{}", refused.text);
        for token in [&refreshed, &silent, &repeated] {
            let refused = refresh(server, &client, token.field("refresh_token")).await?;
            assert_eq!((refused.status.as_u16(), refused.error()), (400, "invalid_grant"), "{}", refused.text);
            assert_eq!(refused.body["details"]["reason"], "expired");
        }
        // Within the difference that clocks may have, an access token still counts.
        server.advance(lifetimes::CLOCK_SKEW + 1);
        for token in [&refreshed, &silent, &repeated] {
            assert_eq!(server.http.get("/v1/whoami", Some(token.field("access_token"))).await?.status, 401);
        }
        let silent = tab.get(&asking(&client, &[("prompt", "none")])).await?;
        assert_eq!(silent.parameter("error").as_deref(), Some("consent_required"));
        let begun = tab.get(&asking(&client, &[])).await?;
        let page = tab.get(begun.next()?).await?;
        assert!(page.text.contains("This app would like to") && !page.text.contains("It already can"), "{}", page.text);
        // It is not listed any more, and is deleted with an event that says why.
        assert!(!tab.get("/account/apps").await?.text.contains("Web app"));
        assert_eq!(consents::expire(&server.app).await?, 1);
        let because = "select details ->> 'because' from audit_events where event = 'consent.expired'";
        assert_eq!(server.sql(because).await?.as_deref(), Some("end_date"));
        Ok(())
    })
}

#[test]
fn the_end_date_is_listed_and_by_default_the_longest() -> Result<()> {
    with_server(async |server| {
        let client = register(server, "Web app", &[CALLBACK]).await?;
        let tab = Tab::open(server)?;
        let options = |page: &Shown| -> Vec<String> {
            let select = page.text.split_once("<select id=\"expires\"").map_or("", |(_, rest)| rest);
            let select = select.split("</select>").next().unwrap_or_default();
            select.split("<option value=\"").skip(1).map(|rest| rest.replacen('"', "", 1)).collect()
        };
        let done = go_through(server, &tab, &asking(&client, &[]), "ann@acme.test").await?;
        redeem(server, &client, &done).await?;
        let page = tab.get(tab.get(&again(&client)).await?.next()?).await?;
        let expected = ["1>In 1 day<", "7>In 7 days<", "30>In 30 days<", "90 selected>In 90 days<"];
        let shown = options(&page);
        assert!(shown.iter().zip(expected).all(|(shown, expected)| shown.starts_with(expected)), "{shown:?}");
        assert_eq!((shown.len(), session_ends(server).await?), (4, vec![90 * DAY]));
        // For MCP sessions live longer.
        server.advance(1);
        let mcp = asking(&client, &[("resource", &server.app.mcp_audience)]);
        let begun = tab.get(&mcp).await?;
        let shown = options(&tab.get(begun.next()?).await?);
        assert!(shown.len() == 5 && shown[4].starts_with("365 selected>In 365 days<"), "{shown:?}");
        redeem(server, &client, &agree(&tab, begun, &[PERSONAL]).await?).await?;
        assert_eq!(session_ends(server).await?, [90 * DAY - 1, 365 * DAY]);
        server.advance(61);
        let ann = server.sign_in("ann@acme.test", "read write").await?;
        let listed = server.http.get("/v1/consents", Some(&ann.access_token)).await?;
        let ends: Vec<Option<i64>> = listed.body["data"]
            .as_array()
            .context("no list")?
            .iter()
            .map(|one| Value::as_str(&one["expiresAt"])?.parse::<jiff::Timestamp>().ok())
            .map(|end| Some(end?.as_second() - server.now().as_second()))
            .collect();
        assert_eq!(ends, [Some(365 * DAY - 61), Some(90 * DAY - 62)]);
        Ok(())
    })
}

#[test]
fn a_client_that_asks_again_does_not_get_longer_by_default() -> Result<()> {
    with_server(async |server| {
        let client = register(server, "Web app", &[CALLBACK]).await?;
        let tab = Tab::open(server)?;
        redeem(server, &client, &allow(server, &tab, &asking(&client, &[]), "7").await?).await?;
        server.advance(3 * DAY);
        let begun = tab.get(&asking(&client, &[("scope", "write")])).await?;
        let page = tab.get(begun.next()?).await?;
        assert!(page.text.contains("you chose before"), "{}", page.text);
        redeem(server, &client, &agree(&tab, begun, &[PERSONAL]).await?).await?;
        assert_eq!(session_ends(server).await?, [4 * DAY, 4 * DAY]);
        // And again; also if the form has no date at all.
        server.advance(DAY);
        redeem(server, &client, &allow(server, &tab, &again(&client), "").await?).await?;
        assert_eq!(session_ends(server).await?, [3 * DAY; 3]);
        // The person can choose more, for what is new.
        redeem(server, &client, &allow(server, &tab, &again(&client), "30").await?).await?;
        assert_eq!(session_ends(server).await?, [3 * DAY, 3 * DAY, 3 * DAY, 30 * DAY]);
        Ok(())
    })
}

#[test]
fn an_earlier_end_date_counts_for_sessions_and_codes_from_before() -> Result<()> {
    with_server(async |server| {
        let client = register(server, "Web app", &[CALLBACK]).await?;
        let tab = Tab::open(server)?;
        let long = redeem(server, &client, &allow(server, &tab, &asking(&client, &[]), "90").await?).await?;
        let pending = tab.get(&asking(&client, &[])).await?;
        let short = allow(server, &tab, &again(&client), "1").await?;
        assert_eq!(session_ends(server).await?, [DAY], "the session from before was not shortened");
        redeem(server, &client, &pending).await?;
        // A code for a day stays one for a day.
        allow(server, &tab, &again(&client), "90").await?;
        redeem(server, &client, &short).await?;
        assert_eq!(session_ends(server).await?, [DAY; 3]);
        server.advance(DAY);
        let refused = refresh(server, &client, long.field("refresh_token")).await?;
        assert_eq!((refused.status.as_u16(), &refused.body["details"]["reason"]), (400, &json!("expired")));
        Ok(())
    })
}

#[test]
fn an_end_that_is_nearer_than_tokens_live_revokes_their_sessions() -> Result<()> {
    with_server(async |server| {
        let client = register(server, "Web app", &[CALLBACK]).await?;
        let tab = Tab::open(server)?;
        allow(server, &tab, &asking(&client, &[]), "1").await?;
        server.advance(DAY - 100);
        // Two windows: one keeps the end that it shows, in the other one the person had chosen a later one meanwhile.
        let old = tab.get(&again(&client)).await?;
        let page = tab.get(old.next()?).await?;
        let (_, kept) = page.text.split_once("value=\"until.").context("the end is not offered")?;
        let kept = format!("until.{}", kept.split('"').next().unwrap_or_default());
        let long = redeem(server, &client, &allow(server, &tab, &again(&client), "90").await?).await?;
        tab.get("/account/apps").await?;
        let fields = [("decision", "allow"), PERSONAL, ("scope.read", "true"), ("expires", &kept)];
        let short = redeem(server, &client, &tab.submit(old.next()?, &fields).await?).await?;
        assert_eq!(short.body["expires_in"].as_i64(), Some(100));
        assert_eq!(session_ends(server).await?, [100]);
        assert_eq!(server.http.get("/v1/whoami", Some(long.field("access_token"))).await?.status, 401);
        assert_eq!(server.http.get("/v1/whoami", Some(short.field("access_token"))).await?.status, 200);
        Ok(())
    })
}

#[test]
fn an_end_date_that_was_not_offered_is_refused() -> Result<()> {
    with_server(async |server| {
        let client = register(server, "Web app", &[CALLBACK]).await?;
        let tab = Tab::open(server)?;
        let begun = tab.get(&asking(&client, &[])).await?;
        let shown = tab.sign_in(&server.mailbox, begun.next()?, "ann@acme.test").await?;
        let path = shown.next()?.to_owned();
        tab.get(&path).await?;
        let past = format!("until.{}", server.now().as_second());
        for wrong in ["0", "-1", "2", "365", "x", "until.", "until.0", past.as_str()] {
            let refused = tab.submit(&path, &[("decision", "allow"), PERSONAL, ("expires", wrong)]).await?;
            assert_eq!(refused.status, 400, "{wrong}");
            assert!(refused.text.contains("choose another date"), "{wrong}: {}", refused.text);
            tab.get(&path).await?;
        }
        assert_eq!(server.sql("select count(*) from consents").await?.as_deref(), Some("0"));
        let far = format!("until.{}", server.now().as_second() + 1_000 * DAY);
        let done = tab.submit(&path, &[("decision", "allow"), PERSONAL, ("expires", &far)]).await?;
        redeem(server, &client, &done).await?;
        assert_eq!(session_ends(server).await?, [90 * DAY]);
        Ok(())
    })
}
