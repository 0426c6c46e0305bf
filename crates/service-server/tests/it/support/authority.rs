//! A certificate authority for servers and clients under test.

use std::{fs, os::unix::fs::PermissionsExt as _};

use anyhow::Result;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, KeyUsagePurpose};
use tempfile::TempDir;

/// A certificate authority, whose files are in a directory.
pub(crate) struct Authority {
    pub(crate) issuer: CertifiedIssuer<'static, KeyPair>,
    directory: TempDir,
}

impl Authority {
    pub(crate) fn new() -> Result<Self> {
        let mut parameters = CertificateParams::new(Vec::new())?;
        parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        parameters.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        let issuer = CertifiedIssuer::self_signed(parameters, KeyPair::generate()?)?;
        let directory = tempfile::tempdir()?;
        fs::write(directory.path().join("ca.pem"), issuer.pem())?;
        Ok(Self { issuer, directory })
    }

    pub(crate) fn path(&self, name: &str) -> String {
        self.directory.path().join(name).display().to_string()
    }

    /// Issues a certificate for this host, or else for a user of this name.
    pub(crate) fn issue(&self, file: &str, host: Option<&str>, user: &str) -> Result<()> {
        let key = KeyPair::generate()?;
        let mut parameters = CertificateParams::new(host.map(str::to_owned).into_iter().collect::<Vec<_>>())?;
        parameters.distinguished_name.push(DnType::CommonName, user);
        fs::write(self.path(&format!("{file}.pem")), parameters.signed_by(&key, &self.issuer)?.pem())?;
        let private = self.path(&format!("{file}.key"));
        fs::write(&private, key.serialize_pem())?;
        Ok(fs::set_permissions(private, fs::Permissions::from_mode(0o600))?)
    }
}
