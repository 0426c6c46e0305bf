//! The URL of a database, with libpq's names for its TLS settings.

use std::{fs, os::unix::fs::PermissionsExt as _, path::PathBuf};

use percent_encoding::percent_decode_str;
use zeroize::Zeroizing;

use crate::net::tls;

/// The URL of a database. Its certificates are in files.
#[derive(Clone, Default)]
pub struct DatabaseUrl {
    /// The URL as the driver understands it.
    pub text: Zeroizing<String>,
    /// `sslrootcert`: the certificate authorities that are trusted, instead of those of `database.ca_file`.
    pub ca_file: Option<PathBuf>,
    /// `sslcert` and `sslkey`.
    pub client_certificate: Option<ClientCertificate>,
}

/// The files of a client certificate and its private key.
#[derive(Clone, Debug)]
pub struct ClientCertificate {
    pub certificate: PathBuf,
    pub key: PathBuf,
}

impl DatabaseUrl {
    /// Parses a URL; `None`: it is not one, or only one of `sslcert` and `sslkey` is given.
    ///
    /// The driver knows `sslmode=disable`, `prefer` and `require`. Wherever TLS is used, certificate and name are verified. So
    /// `verify-ca` and `verify-full` are the same as `require`.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (address, query) = split_query(text);
        let (mut ca_file, mut certificate, mut key) = (None, None, None);
        let mut of_driver = Vec::new();
        for parameter in query.split('&').filter(|parameter| !parameter.is_empty()) {
            let (name, value) = parameter.split_once('=')?;
            let path = || Some(PathBuf::from(&*percent_decode_str(value).decode_utf8().ok()?));
            match (name, value) {
                ("sslmode", "verify-ca" | "verify-full") => of_driver.push("sslmode=require"),
                ("sslrootcert", _) => ca_file = Some(path()?),
                ("sslcert", _) => certificate = Some(path()?),
                ("sslkey", _) => key = Some(path()?),
                _ => of_driver.push(parameter),
            }
        }
        let client_certificate = match (certificate, key) {
            (None, None) => None,
            (Some(certificate), Some(key)) => Some(ClientCertificate { certificate, key }),
            _ => return None,
        };
        let separator = if of_driver.is_empty() { "" } else { "?" };
        let text = Zeroizing::new(format!("{address}{separator}{}", of_driver.join("&")));
        let parsed = text.parse::<tokio_postgres::Config>().ok().filter(|parsed| !parsed.get_hosts().is_empty());
        parsed.map(|_| Self { text, ca_file, client_certificate })
    }

    /// Returns what is wrong with its files. The names of the files are not in it, because the URL is a secret.
    pub(super) fn problem(&self) -> Option<&'static str> {
        let is_writable =
            |key: &ClientCertificate| fs::metadata(&key.key).is_ok_and(|file| file.permissions().mode() & 0o002 != 0);
        if tls::client(self.ca_file.as_deref(), None).is_err() {
            Some("sslrootcert is not a file with PEM certificates")
        } else if self.client_certificate.is_some() && tls::client(None, self.client_certificate.as_ref()).is_err() {
            Some("sslcert and sslkey are not PEM files of a certificate and its private key")
        } else if self.client_certificate.as_ref().is_some_and(is_writable) {
            Some("sslkey is a file that other users can write to: run chmod o-w on it")
        } else {
            None
        }
    }
}

/// Splits a URL before its query as the driver does: user and password end at the first `@`, and may contain `?`.
fn split_query(text: &str) -> (&str, &str) {
    if !text.starts_with("postgres://") && !text.starts_with("postgresql://") {
        return (text, "");
    }
    let after_password = text.find('@').unwrap_or_default();
    match text[after_password..].find('?') {
        Some(at) => (&text[..after_password + at], &text[after_password + at + 1..]),
        None => (text, ""),
    }
}

#[cfg(test)]
mod tests {
    use tokio_postgres::config::SslMode;

    use super::*;

    fn parse(query: &str) -> Option<DatabaseUrl> {
        DatabaseUrl::parse(&format!("postgres://serviced:a?b&sslmode=x@db1.example,db2.example:5433/service{query}"))
    }

    #[test]
    fn a_url_has_the_parameters_of_libpq_op_04() {
        for (mode, expected) in [
            ("disable", SslMode::Disable),
            ("prefer", SslMode::Prefer),
            ("require", SslMode::Require),
            ("verify-ca", SslMode::Require),
            ("verify-full", SslMode::Require),
        ] {
            let url = parse(&format!("?sslrootcert=%2Fetc%2Fa%20b.pem&sslmode={mode}&target_session_attrs=read-write"));
            let url = url.unwrap();
            let parsed = url.text.parse::<tokio_postgres::Config>().unwrap();
            assert_eq!(parsed.get_ssl_mode(), expected, "{mode}");
            assert_eq!(parsed.get_password(), Some(&b"a?b&sslmode=x"[..]));
            assert_eq!((parsed.get_hosts().len(), parsed.get_dbname()), (2, Some("service")));
            assert_eq!(url.ca_file, Some(PathBuf::from("/etc/a b.pem")));
        }
        assert!(parse("").is_some_and(|url| url.ca_file.is_none() && url.client_certificate.is_none()));
        let client = parse("?sslcert=/a&sslkey=/b").unwrap().client_certificate.unwrap();
        assert_eq!((client.certificate, client.key), (PathBuf::from("/a"), PathBuf::from("/b")));
        for wrong in ["?sslmode=verify", "?sslmode=allow", "?sslmode", "?sslcert=/a", "?sslkey=/a", "?sslcrl=/a"] {
            assert!(parse(wrong).is_none(), "{wrong}");
        }
    }
}
