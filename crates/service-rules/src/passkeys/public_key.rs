//! The public key of a passkey: a COSE key (RFC 9052, RFC 8230) with exactly the parameters that its algorithm needs.

use coset::{
    Algorithm, CborSerializable as _, CoseKey, KeyType, Label,
    cbor::Value,
    iana::{self, EnumI64 as _},
};

use super::PasskeyError;

/// The exponent of every RSA key that authenticators make: 65,537.
const RSA_EXPONENT: [u8; 3] = [1, 0, 1];
/// Bytes of the shortest and the longest RSA modulus: 2,048 and 4,096 bits.
const RSA_MODULUS_BYTES: std::ops::RangeInclusive<usize> = 256..=512;

/// A key that verifies the signatures of a passkey.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PublicKey {
    /// ECDSA on P-256 with SHA-256: the point, uncompressed. Whether it is on the curve is checked with each signature.
    Es256([u8; 65]),
    /// `EdDSA` on Ed25519.
    Ed25519([u8; 32]),
    /// RSASSA-PKCS1-v1_5 with SHA-256: the modulus. The exponent is 65,537.
    Rs256(Vec<u8>),
}

impl PublicKey {
    /// The algorithms in the order of preference, as COSE numbers them.
    pub const ALGORITHMS: [iana::Algorithm; 3] =
        [iana::Algorithm::ES256, iana::Algorithm::EdDSA, iana::Algorithm::RS256];

    /// Reads a COSE key.
    ///
    /// # Errors
    /// [`PasskeyError::PublicKey`] if it is of another algorithm, or lacks a parameter, or has one too many: also the private
    /// one.
    pub fn read(cose: &[u8]) -> Result<Self, PasskeyError> {
        let key = CoseKey::from_slice(cose).map_err(|_| PasskeyError::PublicKey)?;
        if !key.key_id.is_empty() || !key.key_ops.is_empty() || !key.base_iv.is_empty() {
            return Err(PasskeyError::PublicKey);
        }
        let (KeyType::Assigned(kind), Some(Algorithm::Assigned(algorithm))) = (&key.kty, &key.alg) else {
            return Err(PasskeyError::PublicKey);
        };
        let parameters = KeyParameters(&key.params);
        let read = match (kind, algorithm) {
            (iana::KeyType::EC2, iana::Algorithm::ES256) => parameters.es256(),
            (iana::KeyType::OKP, iana::Algorithm::EdDSA) => parameters.ed25519(),
            (iana::KeyType::RSA, iana::Algorithm::RS256) => parameters.rs256(),
            _ => None,
        };
        read.ok_or(PasskeyError::PublicKey)
    }
}

struct KeyParameters<'a>(&'a [(Label, Value)]);

impl KeyParameters<'_> {
    fn es256(&self) -> Option<PublicKey> {
        use iana::Ec2KeyParameter::{Crv, X, Y};
        self.has_curve(Crv.to_i64(), iana::EllipticCurve::P_256)?;
        let mut point = [4; 65];
        point[1..33].copy_from_slice(&self.bytes::<32>(X.to_i64())?);
        point[33..].copy_from_slice(&self.bytes::<32>(Y.to_i64())?);
        (self.0.len() == 3).then_some(PublicKey::Es256(point))
    }

    fn ed25519(&self) -> Option<PublicKey> {
        use iana::OkpKeyParameter::{Crv, X};
        self.has_curve(Crv.to_i64(), iana::EllipticCurve::Ed25519)?;
        let x = self.bytes(X.to_i64())?;
        (self.0.len() == 2).then_some(PublicKey::Ed25519(x))
    }

    fn rs256(&self) -> Option<PublicKey> {
        use iana::RsaKeyParameter::{E, N};
        let modulus = self.get(N.to_i64())?.as_bytes()?;
        let fits = RSA_MODULUS_BYTES.contains(&modulus.len()) && modulus[0] >= 0x80;
        let exponent: [u8; 3] = self.bytes(E.to_i64())?;
        (self.0.len() == 2 && fits && exponent == RSA_EXPONENT).then(|| PublicKey::Rs256(modulus.clone()))
    }

    fn get(&self, label: i64) -> Option<&Value> {
        self.0.iter().find_map(|(found, value)| (*found == Label::Int(label)).then_some(value))
    }

    fn has_curve(&self, label: i64, curve: iana::EllipticCurve) -> Option<()> {
        (self.get(label)? == &Value::from(curve.to_i64())).then_some(())
    }

    fn bytes<const LENGTH: usize>(&self, label: i64) -> Option<[u8; LENGTH]> {
        self.get(label)?.as_bytes()?.as_slice().try_into().ok()
    }
}
