//! Exports of account data: who starts and downloads them, how often, and what ends a download.

use std::{net::IpAddr, time::Duration};

use anyhow::{Context as _, Result, ensure};
use futures_util::future::try_join_all;
use reqwest::{Method, Response};
use serde_json::json;
use service_api::account_exports::MAX_DOWNLOADS;
use service_server::node_limits::network_places::{Holder, MAX_DOWNLOADS_AT_ONCE, MAX_OUTGOING_PLACES};
use service_testkit::{
    server::{SignedIn, TestServer, with_server},
    tab::Tab,
};
use tokio::time::{Instant, sleep, timeout};

use crate::support::{
    cli_tokens::{make, post},
    exports::{EXPORTS, begin, export, fill, refused, start, started, state, unzip},
    new_sign_ins::{ANN, HOUR},
    passkeys::{events, signed_in_tab},
    refresh::refreshed,
    step_up::check_stale,
};

const DAY: i64 = 86_400;
const PAGE: &str = "/account/data";
/// More than the buffers between a server and a client that does not read.
const LARGE: u32 = 40;
/// Less than the server waits for a client that does not read.
const STALLED: Duration = Duration::from_secs(8);
const SOON: Duration = Duration::from_secs(20);

/// A user with more data than fits into buffers, and a download of it that is not read on.
async fn stalled(server: &TestServer, email: &str) -> Result<(SignedIn, String, Response)> {
    let who = server.sign_in(email, "read write").await?;
    fill(server, &who, LARGE).await?;
    let id = started(server, &who).await?;
    let mut response = begin(server, &who, &id).await?;
    response.chunk().await?.context("nothing was sent")?;
    Ok((who, id, response))
}

/// Waits until an export has this status.
async fn until(server: &TestServer, who: &SignedIn, id: &str, status: &str) -> Result<()> {
    let began = Instant::now();
    loop {
        let found = state(server, who, id).await?;
        if found.body["status"] == status {
            return Ok(());
        }
        ensure!(began.elapsed() < SOON, "{}", found.text);
        sleep(Duration::from_millis(50)).await;
    }
}

/// Waits until the page says that an export was downloaded. Its end is recorded after its last byte.
async fn until_downloaded(tab: &Tab) -> Result<()> {
    let began = Instant::now();
    loop {
        let page = tab.get(PAGE).await?;
        if page.text.contains("Downloaded") {
            return Ok(());
        }
        ensure!(began.elapsed() < SOON, "{}", page.text);
        sleep(Duration::from_millis(50)).await;
    }
}

#[test]
fn an_old_sign_in_starts_no_export_ex_07() -> Result<()> {
    with_server(async |server| {
        let ann = server.sign_in(ANN, "read write").await?;
        let (_, token) = make(server, &ann, &json!({ "scopes": ["read", "write", "sessions:write"] })).await?;
        assert_eq!(post(server, EXPORTS, &token, &json!({})).await?.error(), "forbidden");
        let id = started(server, &ann).await?;
        server.advance(901);
        let later = refreshed(server, &ann.refresh_token).await?;
        check_stale(&start(server, &later).await?, "started");
        // What was started is downloaded without another sign-in.
        unzip(&begin(server, &later, &id).await?.bytes().await?)?;
        assert_eq!(events(server, "account.export_started").await?, 1);
        Ok(())
    })
}

#[test]
fn only_the_session_that_started_an_export_finds_it_ex_08() -> Result<()> {
    with_server(async |server| {
        let ann = server.sign_in(ANN, "read write").await?;
        let (other, bob) =
            (server.sign_in(ANN, "read write").await?, server.sign_in("bob@acme.test", "read write").await?);
        let tab = signed_in_tab(server, ANN).await?;
        let id = started(server, &ann).await?;
        let mut texts = std::collections::BTreeSet::new();
        for who in [&other, &bob] {
            for (path, id) in
                [(false, id.as_str()), (true, &id), (true, "export_01m955vw00fjqrz47smcqrkmzz"), (true, "x")]
            {
                let answer = if path { refused(server, who, id).await? } else { state(server, who, id).await? };
                assert_eq!((answer.status.as_u16(), answer.error()), (404, "not_found"), "{id}");
                texts.insert(answer.text.replace(answer.field("request_id"), ""));
            }
        }
        assert_eq!(texts.len(), 1, "{texts:?}");
        assert_eq!(tab.get(&format!("{PAGE}/{id}")).await?.next()?, PAGE);
        assert_eq!(state(server, &ann, &id).await?.body["status"], "ready");
        let files = unzip(&begin(server, &ann, &id).await?.bytes().await?)?;
        assert_eq!(files["account.json"]["email"], ANN);
        until(server, &ann, &id, "finished").await?;
        let found = state(server, &ann, &id).await?.body;
        assert_eq!(found["progress"]["files"], found["progress"]["totalFiles"]);
        assert_eq!(
            (&found["downloadsLeft"], found["progress"]["files"].as_u64()),
            (&json!(4), Some(files.len() as u64))
        );
        Ok(())
    })
}

#[test]
fn revoking_the_session_ends_a_download_ex_09() -> Result<()> {
    with_server(async |server| {
        let (ann, id, response) = stalled(server, ANN).await?;
        let other = server.sign_in(ANN, "read write").await?;
        let revoked = server.http.request(Method::DELETE, &format!("/v1/sessions/{}", ann.grant_id));
        assert_eq!(server.http.send(revoked.bearer_auth(&other.access_token)).await?.status, 204);
        assert!(timeout(SOON, response.bytes()).await?.is_err(), "the download went on");
        assert_eq!(refused(server, &ann, &id).await?.status, 401);
        assert_eq!(refused(server, &other, &id).await?.status, 404);
        Ok(())
    })
}

#[test]
fn disabling_the_user_ends_a_download_ex_10() -> Result<()> {
    with_server(async |server| {
        let (_, _, response) = stalled(server, ANN).await?;
        crate::support::admin::run(server, &["user", "disable", ANN])?;
        assert!(timeout(SOON, response.bytes()).await?.is_err(), "the download went on");
        Ok(())
    })
}

#[test]
fn a_user_starts_three_exports_a_day_ex_11() -> Result<()> {
    with_server(async |server| {
        let ann = server.sign_in(ANN, "read write").await?;
        for _ in 0..3 {
            started(server, &ann).await?;
        }
        let limited = start(server, &ann).await?;
        assert_eq!((limited.status.as_u16(), limited.error()), (429, "rate_limited"));
        assert_eq!(limited.header("retry-after"), Some("86400"));
        assert_eq!(limited.header("ratelimit-policy"), Some("\"account-exports\";q=3;w=86400"));
        let said = limited.field("error_description");
        assert!(said.contains("3 times in 24 hours") && said.contains("try again in 24 hours"), "{said}");
        // Another session of the same user counts as well, and another user does not.
        assert_eq!(start(server, &server.sign_in(ANN, "read write").await?).await?.status, 429);
        started(server, &server.sign_in("bob@acme.test", "read write").await?).await?;
        server.advance(DAY);
        started(server, &server.sign_in(ANN, "read write").await?).await?;
        Ok(())
    })
}

#[test]
fn one_download_of_a_user_runs_at_a_time_ex_12() -> Result<()> {
    with_server(async |server| {
        let (ann, id, response) = stalled(server, ANN).await?;
        assert_eq!(state(server, &ann, &id).await?.body["status"], "running");
        let second = started(server, &ann).await?;
        for id in [&id, &second] {
            let answer = refused(server, &ann, id).await?;
            assert_eq!((answer.status.as_u16(), answer.error()), (429, "rate_limited"), "{}", answer.text);
            assert_eq!(answer.header("retry-after"), Some("60"));
            assert!(answer.field("error_description").contains("Wait until it ends"), "{}", answer.text);
        }
        let bob = server.sign_in("bob@acme.test", "read write").await?;
        export(server, &bob).await?;
        // A client that disconnects ends its download.
        drop(response);
        until(server, &ann, &id, "ready").await?;
        let files = unzip(&begin(server, &ann, &id).await?.bytes().await?)?;
        assert_eq!(files["contents/records.json"].as_array().map(Vec::len), Some(LARGE as usize * 4));
        Ok(())
    })
}

#[test]
fn of_several_downloads_at_once_one_begins_ex_13() -> Result<()> {
    with_server(async |server| {
        let ann = server.sign_in(ANN, "read write").await?;
        fill(server, &ann, LARGE).await?;
        let id = started(server, &ann).await?;
        let path = format!("{EXPORTS}/{id}/content");
        let ask = async || server.http.request(Method::GET, &path).bearer_auth(&ann.access_token).send().await;
        let answers = try_join_all((0..4).map(|_| ask())).await?;
        let mut statuses: Vec<_> = answers.iter().map(|answer| answer.status().as_u16()).collect();
        statuses.sort_unstable();
        assert_eq!(statuses, [200, 429, 429, 429]);
        Ok(())
    })
}

#[test]
fn a_download_whose_node_died_is_in_the_way_for_a_minute_ex_14() -> Result<()> {
    with_server(async |server| {
        let ann = server.sign_in(ANN, "read write").await?;
        let id = started(server, &ann).await?;
        let until = service_rules::signing::later(server.now(), 60);
        let dead = format!(
            "update account_exports set stream_id = gen_random_uuid(), stream_until = '{until}', downloads = 1"
        );
        server.sql(&dead).await?;
        assert_eq!(refused(server, &ann, &id).await?.status, 429);
        server.advance(60);
        unzip(&begin(server, &ann, &id).await?.bytes().await?)?;
        Ok(())
    })
}

#[test]
fn an_export_is_downloaded_five_times_and_for_an_hour_ex_15() -> Result<()> {
    with_server(async |server| {
        let ann = server.sign_in(ANN, "read write").await?;
        let id = started(server, &ann).await?;
        for left in (0..5).rev() {
            unzip(&begin(server, &ann, &id).await?.bytes().await?)?;
            until(server, &ann, &id, "finished").await?;
            assert_eq!(state(server, &ann, &id).await?.body["downloadsLeft"], left);
        }
        let often = refused(server, &ann, &id).await?;
        assert_eq!((often.status.as_u16(), often.error()), (409, "conflict"), "{}", often.text);
        assert!(often.field("error_description").contains("Start a new one"));
        assert_eq!(events(server, "account.export_downloaded").await?, 5);
        let ann = server.sign_in(ANN, "read write").await?;
        let id = started(server, &ann).await?;
        server.sql("update account_exports set expires_at = expires_at - interval '1 hour'").await?;
        for answer in [state(server, &ann, &id).await?, refused(server, &ann, &id).await?] {
            assert_eq!(answer.status, 404, "{}", answer.text);
        }
        service_server::tasks::housekeeping::clean_once(&server.app).await?;
        assert_eq!(server.sql("select count(*) from account_exports").await?.as_deref(), Some("0"));
        Ok(())
    })
}

#[test]
fn clients_that_do_not_read_hold_no_connection_and_delay_no_other_user_ex_16() -> Result<()> {
    with_server(async |server| {
        let mut held = Vec::new();
        for name in ["one", "two"] {
            held.push(stalled(server, &format!("{name}@acme.test")).await?);
        }
        let began = Instant::now();
        let pools = [&server.app.database, &server.app.content_database];
        while pools.iter().any(|pool| pool.usage().idle < pool.usage().connections) {
            ensure!(began.elapsed() < STALLED, "a download holds a connection");
            sleep(Duration::from_millis(20)).await;
        }
        let open = "select count(*) from pg_stat_activity where datname = current_database() and xact_start is not null
                       and pid <> pg_backend_pid()";
        assert_eq!(server.sql(open).await?.as_deref(), Some("0"), "a transaction is open");
        let (who, id, _) = held.last().context("none")?;
        assert_eq!(state(server, who, id).await?.body["status"], "running", "the server gave up");
        let ann = server.sign_in(ANN, "read write").await?;
        timeout(SOON, export(server, &ann)).await.context("others wait")??;
        Ok(())
    })
}

#[test]
fn a_session_that_cannot_read_everything_downloads_nothing_ex_17() -> Result<()> {
    with_server(async |server| {
        let ann = server.sign_in(ANN, "projects:read sessions:read sessions:write").await?;
        let id = started(server, &ann).await?;
        let answer = refused(server, &ann, &id).await?;
        assert_eq!((answer.status.as_u16(), answer.error()), (403, "insufficient_scope"), "{}", answer.text);
        assert_eq!(state(server, &ann, &id).await?.body["downloadsLeft"], 5);
        Ok(())
    })
}

#[test]
fn a_head_request_begins_no_download_ex_18() -> Result<()> {
    with_server(async |server| {
        let ann = server.sign_in(ANN, "read write").await?;
        let id = started(server, &ann).await?;
        let request = server.http.request(Method::HEAD, &format!("{EXPORTS}/{id}/content"));
        let head = server.http.send(request.bearer_auth(&ann.access_token)).await?;
        assert_eq!((head.status.as_u16(), head.header("content-type")), (200, Some("application/zip")));
        assert_eq!(state(server, &ann, &id).await?.body["downloadsLeft"], 5);
        Ok(())
    })
}

#[test]
fn a_download_that_fails_is_not_taken_for_complete_ex_19() -> Result<()> {
    with_server(async |server| {
        let ann = server.sign_in(ANN, "read write").await?;
        let id = started(server, &ann).await?;
        server.sql("alter table passkeys rename to elsewhere").await?;
        let broken = begin(server, &ann, &id).await?.bytes().await;
        assert!(broken.is_err(), "{broken:?}");
        server.sql("alter table elsewhere rename to passkeys").await?;
        until(server, &ann, &id, "ready").await?;
        unzip(&begin(server, &ann, &id).await?.bytes().await?)?;
        Ok(())
    })
}

#[test]
fn the_account_page_exports_without_a_script_ex_20() -> Result<()> {
    with_server(async |server| {
        let (tab, other) = (signed_in_tab(server, ANN).await?, signed_in_tab(server, ANN).await?);
        assert!(tab.get("/account/security").await?.text.contains("href=\"/account/data\""));
        assert!(tab.get(PAGE).await?.text.contains("Start an export"));
        let begun = tab.submit(PAGE, &[]).await?;
        assert_eq!(begun.status, 303, "{}", begun.text);
        let page = tab.get(begun.next()?).await?;
        assert!(
            page.text.contains("Your export is ready to download.") && !page.text.contains("<script"),
            "{}",
            page.text
        );
        let (_, rest) = page.text.split_once("href=\"/account/data/").context("no link")?;
        let path = format!("{PAGE}/{}", rest.split('"').next().unwrap_or_default());
        assert_eq!(other.get(&path).await?.next()?, PAGE, "another browser finds it");
        assert_eq!(Tab::open(server)?.get(&path).await?.next()?, "/sign-in");
        let response = tab.request(Method::GET, &path).send().await?;
        let disposition = response.headers()["content-disposition"].to_str()?.to_owned();
        assert!(disposition.starts_with("attachment; filename=\"account-data-2027-"), "{disposition}");
        assert_eq!(response.headers()["cache-control"], "no-store");
        assert_eq!(response.headers()["x-accel-buffering"], "no");
        assert_eq!(unzip(&response.bytes().await?)?["account.json"]["email"], ANN);
        until_downloaded(&tab).await?;
        for _ in 0..2 {
            assert_eq!(tab.submit(PAGE, &[]).await?.status, 303);
        }
        let limited = tab.submit(PAGE, &[]).await?;
        assert!(limited.status == 429 && limited.text.contains("3 exports in 24 hours"), "{}", limited.text);
        server.advance(901);
        assert!(tab.submit(PAGE, &[]).await?.next()?.starts_with("/sign-in/"));
        assert_eq!(tab.submit("/sign-out", &[]).await?.next()?, "/sign-in");
        assert_eq!(tab.get(&path).await?.next()?, "/sign-in");
        Ok(())
    })
}

#[test]
fn an_export_outlives_its_access_token_ex_21() -> Result<()> {
    with_server(async |server| {
        let ann = server.sign_in(ANN, "read write").await?;
        let id = started(server, &ann).await?;
        server.advance(HOUR - 1);
        let refreshed = refreshed(server, &ann.refresh_token).await?;
        unzip(&begin(server, &refreshed, &id).await?.bytes().await?)?;
        server.advance(1);
        assert_eq!(refused(server, &refreshed, &id).await?.status, 404);
        Ok(())
    })
}

#[test]
fn securing_the_account_ends_a_download_by_a_copied_cookie_ex_22() -> Result<()> {
    with_server(async |server| {
        fill(server, &server.sign_in(ANN, "read write").await?, LARGE).await?;
        let (own, copy) = (signed_in_tab(server, ANN).await?, Tab::open(server)?);
        copy.set_cookie(own.cookie());
        copy.get(PAGE).await?;
        let page = copy.get(copy.submit(PAGE, &[]).await?.next()?).await?;
        let (_, rest) = page.text.split_once("href=\"/account/data/").context("no link")?;
        let path = format!("{PAGE}/{}", rest.split('"').next().unwrap_or_default());
        let mut response = copy.request(Method::GET, &path).send().await?;
        response.chunk().await?.context("nothing was sent")?;
        own.get("/account/secure").await?;
        assert_eq!(own.submit("/account/secure", &[]).await?.status, 303);
        assert!(timeout(SOON, response.bytes()).await?.is_err(), "the download went on");
        assert_eq!(own.get(&path).await?.next()?, PAGE, "the export is gone");
        Ok(())
    })
}

#[test]
fn downloads_have_places_of_their_own_ex_23() -> Result<()> {
    with_server(async |server| {
        let ann = server.sign_in(ANN, "read write").await?;
        let id = started(server, &ann).await?;
        let tab = signed_in_tab(server, ANN).await?;
        tab.get(PAGE).await?;
        let page = tab.get(tab.submit(PAGE, &[]).await?.next()?).await?;
        let (_, rest) = page.text.split_once("href=\"/account/data/").context("no link")?;
        let path = format!("{PAGE}/{}", rest.split('"').next().unwrap_or_default());
        // One slow download each, from as many networks as it takes.
        let address = |number: usize| anyhow::Ok(IpAddr::from([10, u8::try_from(number)?, 0, 1]));
        let take = |number| anyhow::Ok(server.app.downloads.take(Holder::Caller(address(number)?), 1));
        let held: Vec<_> = (0..MAX_DOWNLOADS_AT_ONCE).map(take).collect::<Result<_>>()?;
        assert!(held.iter().all(Option::is_some));

        let busy = refused(server, &ann, &id).await?;
        assert!(busy.status == 503 && busy.error() == "temporarily_unavailable", "{} {}", busy.status, busy.text);
        assert!(busy.header("retry-after").is_some());
        assert_eq!(state(server, &ann, &id).await?.body["downloadsLeft"], MAX_DOWNLOADS, "the refused one was counted");
        let busy = tab.get(&path).await?;
        assert!(busy.status == 503 && busy.text.contains("Too many downloads"), "{} {}", busy.status, busy.text);
        assert_eq!(server.app.outgoing.free(), MAX_OUTGOING_PLACES, "downloads take places of other responses");

        drop(held);
        unzip(&begin(server, &ann, &id).await?.bytes().await?)?;
        let released = async {
            while server.app.downloads.free() < MAX_DOWNLOADS_AT_ONCE {
                sleep(Duration::from_millis(20)).await;
            }
        };
        timeout(SOON, released).await.context("the place of a download was not released")?;
        Ok(())
    })
}
