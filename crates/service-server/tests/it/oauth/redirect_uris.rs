//! Redirect URIs at the front door: each of these is refused with a page and without a redirect.

use anyhow::Result;
use service_testkit::{
    server::{TestServer, with_server},
    tab::Tab,
};

use crate::support::authorize::{CALLBACK, asking, register};

async fn check(server: &TestServer, registered: &str, refused: &[&str]) -> Result<()> {
    let client = register(server, "Web app", &[registered]).await?;
    let tab = Tab::open(server)?;
    for uri in refused {
        let shown = tab.get(&asking(&client, &[("redirect_uri", uri)])).await?;
        assert_eq!((shown.status.as_u16(), shown.location.as_deref()), (400, None), "{uri}");
    }
    assert_eq!(server.sql("select count(*) from sign_in_flows").await?.as_deref(), Some("0"));
    Ok(())
}

#[test]
fn only_the_registered_address_itself_is_answered_ru_01_ru_02_ru_03_ru_04_ru_05_ru_06_ru_10() -> Result<()> {
    with_server(async |server| {
        let others = [
            "https://app.test/cb/",
            "https://app.test/CB",
            "https://APP.test/cb",
            "https://app.test:443/cb",
            "https://app.test/cb?x=1",
            "https://app.test/cb#f",
            "http://app.test/cb",
        ];
        check(server, CALLBACK, &others).await
    })
}

#[test]
fn nothing_is_resolved_or_decoded_into_a_match_ru_07_ru_08_ru_09_ru_12_ru_13() -> Result<()> {
    with_server(async |server| {
        let others = [
            "https://app.test/cb/../evil",
            "https://app.test/cb%2f..%2fevil",
            "https://app.test/./cb",
            "https://app.test@evil.test/cb",
            "https://app.test%40evil.test/cb",
            "https://app.test\\@evil.test/cb",
            "https://app.test.evil.test/cb",
            "https://evil.test/?https://app.test/cb",
            "https://fooapp-test/cb",
            "https://xn--app-.test/cb",
            "https://app。test/cb",
            " https://app.test/cb",
            "https://app.test/cb ",
            "https://app.test/cb\t",
            "https://app.test/cb\r\n",
        ];
        check(server, CALLBACK, &others).await
    })
}

#[test]
fn a_free_port_frees_nothing_else_ru_14_ru_15_ru_16() -> Result<()> {
    with_server(async |server| {
        let others = [
            "http://localhost:53682/cb",
            "http://[::1]:1/cb",
            "http://127.0.0.2:1/cb",
            "http://127.1:1/cb",
            "http://2130706433:1/cb",
            "http://0.0.0.0:1/cb",
            "http://127.0.0.1:53682/cb2",
            "http://127.0.0.1:0/cb",
            "http://127.0.0.1:65536/cb",
            "http://127.0.0.1:80a/cb",
            "javascript:alert(1)",
        ];
        check(server, "http://127.0.0.1/cb", &others).await?;
        let client = register(server, "Local app", &["http://127.0.0.1/cb"]).await?;
        let shown = Tab::open(server)?.get(&asking(&client, &[("redirect_uri", "http://127.0.0.1:53682/cb")])).await?;
        assert!(shown.next()?.starts_with("/sign-in/"));
        Ok(())
    })
}

#[test]
fn an_address_that_would_run_code_cannot_be_registered_ru_11_ru_17() -> Result<()> {
    with_server(async |server| {
        for uri in [
            "javascript:alert(1)",
            "data:text/html,x",
            "vbscript:x",
            "file:///x",
            "blob:https://app.test/x",
            "myapp:/cb",
        ] {
            assert!(register(server, "App", &[uri]).await.is_err(), "an operator may register {uri}");
            let body = serde_json::json!({ "redirect_uris": [uri] });
            let response = server.http.post("/oauth/register", &body).await?;
            assert_eq!((response.status.as_u16(), response.error()), (400, "invalid_redirect_uri"), "{uri}");
        }
        Ok(())
    })
}
