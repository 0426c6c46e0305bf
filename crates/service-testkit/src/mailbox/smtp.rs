//! An SMTP server (RFC 5321) with STARTTLS (RFC 3207) and AUTH PLAIN (RFC 4954), which accepts any password.
//!
//! It is strict where a lenient server would hide a broken client: lines end with CRLF and have a maximum length.

use std::io::{self, ErrorKind};
use std::time::Duration;

use tokio::io::{AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::sleep;
use tokio_rustls::TlsAcceptor;

use super::{Mail, Mailbox};

/// Serves every connection in a task of its own.
pub(super) async fn serve(listener: TcpListener, mailbox: Mailbox, tls: Option<TlsAcceptor>) {
    loop {
        match listener.accept().await {
            Ok((socket, _)) => {
                let session = Session { mailbox: mailbox.clone(), tls: tls.clone(), from: None, to: Vec::new() };
                tokio::spawn(session.converse(socket));
            }
            // The process is out of file descriptors for the moment.
            Err(_) => sleep(Duration::from_millis(50)).await,
        }
    }
}

const MAX_MESSAGE_BYTES: usize = 1024 * 1024;
const MAX_LINE_BYTES: u64 = 1000;
const MAX_RECIPIENTS: usize = 100;

const OK: &str = "250 2.0.0 OK";

struct Session {
    mailbox: Mailbox,
    /// `Some` until it was used: STARTTLS is offered and required.
    tls: Option<TlsAcceptor>,
    from: Option<String>,
    to: Vec<String>,
}

#[derive(PartialEq, Eq)]
enum Next {
    Close,
    Encrypt,
}

impl Session {
    async fn converse(mut self, socket: TcpStream) -> io::Result<()> {
        let mut plain = BufReader::new(socket);
        self.reply(&mut plain, "220 mailbox.test ESMTP").await?;
        if self.obey(&mut plain).await? == Next::Close {
            return Ok(());
        }
        // Bytes that were sent in clear after STARTTLS must not count as sent under TLS.
        if !plain.buffer().is_empty() {
            return Ok(());
        }
        let Some(tls) = self.tls.take() else { return Ok(()) };
        let mut encrypted = BufReader::new(tls.accept(plain.into_inner()).await?);
        self.reset();
        self.obey(&mut encrypted).await.map(drop)
    }

    async fn obey<S>(&mut self, stream: &mut BufReader<S>) -> io::Result<Next>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        loop {
            match self.obey_line(stream).await {
                Ok(None) => {}
                Ok(Some(next)) => return Ok(next),
                Err(error) if error.kind() == ErrorKind::InvalidData => {
                    self.reply(stream, &format!("500 5.5.2 {error}")).await?;
                    return Ok(Next::Close);
                }
                Err(error) => return Err(error),
            }
        }
    }

    async fn obey_line<S>(&mut self, stream: &mut BufReader<S>) -> io::Result<Option<Next>>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let line = read_line(stream).await?;
        let line = String::from_utf8_lossy(&line);
        let (verb, argument) = line.trim_end().split_once(' ').unwrap_or((line.trim_end(), ""));
        let reply = match verb.to_ascii_uppercase().as_str() {
            "EHLO" => {
                self.reset();
                self.extensions()
            }
            "HELO" | "RSET" => {
                self.reset();
                OK
            }
            "NOOP" => OK,
            "QUIT" => {
                self.reply(stream, "221 2.0.0 Bye").await?;
                return Ok(Some(Next::Close));
            }
            "STARTTLS" if self.tls.is_some() => {
                self.reply(stream, "220 2.0.0 Ready to start TLS").await?;
                return Ok(Some(Next::Encrypt));
            }
            _ if self.tls.is_some() => "530 5.7.0 Must issue a STARTTLS command first",
            "AUTH" => self.authenticate(stream, argument).await?,
            "MAIL" => self.sender(argument),
            "RCPT" => self.recipient(argument),
            "DATA" => self.message(stream).await?,
            _ => "502 5.5.1 Command not implemented",
        };
        self.reply(stream, reply).await?;
        Ok(None)
    }

    fn extensions(&self) -> &'static str {
        if self.tls.is_some() {
            "250-mailbox.test\r\n250-SIZE 1048576\r\n250-8BITMIME\r\n250-SMTPUTF8\r\n250 STARTTLS"
        } else {
            "250-mailbox.test\r\n250-SIZE 1048576\r\n250-8BITMIME\r\n250-SMTPUTF8\r\n250 AUTH PLAIN"
        }
    }

    async fn authenticate<S>(&self, stream: &mut BufReader<S>, argument: &str) -> io::Result<&'static str>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let (mechanism, response) = argument.split_once(' ').unwrap_or((argument, ""));
        if !mechanism.eq_ignore_ascii_case("PLAIN") {
            return Ok("504 5.5.4 Only PLAIN is offered");
        }
        if response.is_empty() {
            self.reply(stream, "334 ").await?;
            read_line(stream).await?;
        }
        Ok("235 2.7.0 Authentication successful")
    }

    fn sender(&mut self, argument: &str) -> &'static str {
        let Some((address, parameters)) = path(argument, "FROM:") else { return "501 5.5.4 MAIL FROM:<address>" };
        let declared = parameters.split(' ').find_map(|parameter| parameter.strip_prefix("SIZE="));
        if declared.and_then(|size| size.parse::<usize>().ok()).is_some_and(|size| size > MAX_MESSAGE_BYTES) {
            return "552 5.3.4 Message too big";
        }
        if self.from.is_some() {
            return "503 5.5.1 The sender is known already";
        }
        self.from = Some(address);
        "250 2.1.0 OK"
    }

    fn recipient(&mut self, argument: &str) -> &'static str {
        let Some((address, _)) = path(argument, "TO:") else { return "501 5.5.4 RCPT TO:<address>" };
        if self.from.is_none() {
            return "503 5.5.1 MAIL comes first";
        }
        if let Some(refusal) = self.mailbox.refusal() {
            return refusal;
        }
        if self.to.len() == MAX_RECIPIENTS {
            return "452 4.5.3 Too many recipients";
        }
        self.to.push(address);
        "250 2.1.5 OK"
    }

    async fn message<S>(&mut self, stream: &mut BufReader<S>) -> io::Result<&'static str>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        if self.to.is_empty() {
            return Ok("503 5.5.1 RCPT comes first");
        }
        self.reply(stream, "354 End with a line of one dot").await?;
        let mut message = Vec::new();
        loop {
            let line = read_line(stream).await?;
            if line == b".\r\n" {
                break;
            }
            // A message that is too long is read to its end, but not kept.
            if message.len() <= MAX_MESSAGE_BYTES {
                message.extend_from_slice(line.strip_prefix(b".").unwrap_or(&line));
            }
        }
        let (from, to) = (self.from.take().unwrap_or_default(), std::mem::take(&mut self.to));
        if message.len() > MAX_MESSAGE_BYTES {
            return Ok("552 5.3.4 Message too big");
        }
        self.mailbox.receive(Mail::parse(from, to, &message));
        Ok(OK)
    }

    fn reset(&mut self) {
        self.from = None;
        self.to.clear();
    }

    async fn reply<S>(&self, stream: &mut BufReader<S>, reply: &str) -> io::Result<()>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        self.mailbox.until_not_stalled().await;
        stream.write_all(format!("{reply}\r\n").as_bytes()).await?;
        stream.flush().await
    }
}

/// Reads the next line with its end. Fails with `InvalidData` if the line is malformed.
async fn read_line<S: AsyncRead + Unpin>(stream: &mut BufReader<S>) -> io::Result<Vec<u8>> {
    let mut line = Vec::new();
    stream.take(MAX_LINE_BYTES).read_until(b'\n', &mut line).await?;
    if line.is_empty() {
        return Err(ErrorKind::UnexpectedEof.into());
    }
    if !line.ends_with(b"\r\n") {
        return Err(io::Error::new(ErrorKind::InvalidData, "Line too long or without CRLF"));
    }
    Ok(line)
}

/// Parses the address in `FROM:<address> PARAMETERS` and the parameters.
fn path<'a>(argument: &'a str, word: &str) -> Option<(String, &'a str)> {
    let (start, rest) = argument.split_at_checked(word.len())?;
    let (address, parameters) = rest.trim_start().strip_prefix('<')?.split_once('>')?;
    start.eq_ignore_ascii_case(word).then(|| (address.to_owned(), parameters))
}
