//! A server that answers as it is told, one connection after the other, and counts them.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use anyhow::Result;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpListener,
};

pub(crate) struct Scripted {
    pub(crate) url: String,
    asked: Arc<AtomicUsize>,
}

impl Scripted {
    /// Each answer is a status and a body; an empty one hangs up. The last one is repeated.
    pub(crate) async fn start(responses: &'static [(u16, &'static str)]) -> Result<Self> {
        Self::start_with(responses, String::new()).await
    }

    /// Starts a server whose answers have one more header.
    pub(crate) async fn start_with(responses: &'static [(u16, &'static str)], header: String) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let url = format!("http://{}", listener.local_addr()?);
        let asked = Arc::<AtomicUsize>::default();
        let counter = asked.clone();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let number = counter.fetch_add(1, Ordering::Relaxed);
                let (status, body) = responses[number.min(responses.len() - 1)];
                drop(stream.read(&mut [0; 16_384]).await);
                if status != 0 {
                    let head = format!(
                        "HTTP/1.1 {status} X\r\n{header}Content-Type: application/json\r\nConnection: close\r\n"
                    );
                    let response = format!("{head}Content-Length: {}\r\n\r\n{body}", body.len());
                    drop(stream.write_all(response.as_bytes()).await);
                }
            }
        });
        Ok(Self { url, asked })
    }

    pub(crate) fn asked(&self) -> usize {
        self.asked.load(Ordering::Relaxed)
    }
}
