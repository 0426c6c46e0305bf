//! The sign-in page in a frame of another origin, which is of the same site: so the browser sends the cookies along.

use anyhow::{Result, ensure};
use service_testkit::{
    browser::{Browser, Looks},
    ports,
    server::Setup,
    virtual_authenticator::PLATFORM,
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpListener,
    task::JoinHandle,
};

use super::{ONLY_BY_BUTTON, Rig, phishing_proxy::PhishingProxy, run};

/// A site whose only page shows another page in a frame, which may ask for passkeys.
struct FramingSite {
    url: String,
    serving: JoinHandle<()>,
}

impl Drop for FramingSite {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

impl FramingSite {
    async fn of(framed: &str) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let url = format!("http://localhost:{}/", listener.local_addr()?.port());
        let page = format!(
            "<!doctype html><title>Prizes</title>\
             <iframe src=\"{framed}\" allow=\"publickey-credentials-get *\" width=600 height=600></iframe>"
        );
        let answer = format!(
            "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{page}",
            page.len()
        );
        let serving = tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let mut head = [0; 4096];
                drop(stream.read(&mut head).await);
                drop(stream.write_all(answer.as_bytes()).await);
            }
        });
        Ok(Self { url, serving })
    }
}

#[test]
fn no_other_origin_shows_the_sign_in_page_in_a_frame_pk_04() -> Result<()> {
    run(async |rig| {
        let site = FramingSite::of(&format!("{}/sign-in", rig.url)).await?;
        rig.browser.go(&site.url).await?;
        rig.browser.enter_frame("iframe").await?;
        let shown = rig.browser.source().await?;
        ensure!(!shown.contains("data-passkey"), "the page is shown in a frame: {shown}");
        Ok(())
    })
}

#[test]
fn a_frame_shows_no_passkey_button_even_if_a_proxy_drops_the_headers_that_forbid_frames_pk_04() -> Result<()> {
    let (service_port, port) = (ports::free()?, ports::free()?);
    let setup = Setup::default().on_system_clock().set("http.listen", &format!("127.0.0.1:{service_port}"));
    setup.set("base_url", &format!("http://localhost:{port}")).run(async |server| {
        let proxy = PhishingProxy::allow_frames(service_port, port).await?;
        let rig = Rig { server, browser: Browser::open(Looks::default()).await?, url: proxy.url.clone() };
        rig.browser.run_in_new_pages(ONLY_BY_BUTTON).await?;
        let _device = rig.browser.plug_in(PLATFORM).await?;
        rig.sign_in_by_code("ann@acme.test").await?;
        rig.add("Laptop").await?;
        rig.sign_out().await?;
        let site = FramingSite::of(&format!("{}/sign-in", rig.url)).await?;
        rig.browser.go(&site.url).await?;
        rig.browser.enter_frame("iframe").await?;
        let shown = rig.browser.wait_for_text("h1").await?;
        ensure!(shown == "Open this page in a tab", "{shown}");
        ensure!(!rig.browser.source().await?.contains("data-passkey"), "a passkey can be used in a frame");
        // Without a frame the passkey works.
        rig.press().await?;
        rig.wait_for_account("ann@acme.test").await
    })
}
