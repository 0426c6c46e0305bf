//! Verifies signatures of passkeys.

use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_ASN1, ED25519, RSA_PKCS1_2048_8192_SHA256, RsaPublicKeyComponents, UnparsedPublicKey,
};
use service_rules::passkeys::PublicKey;

use crate::crypto::digest::sha256;

const RSA_EXPONENT: [u8; 3] = [1, 0, 1];

/// Whether a passkey signed this authenticator data and client data.
#[must_use]
pub fn verifies(key: &PublicKey, authenticator_data: &[u8], client_data: &[u8], signature: &[u8]) -> bool {
    let message = [authenticator_data, &sha256(client_data)].concat();
    let verified = match key {
        PublicKey::Es256(point) => UnparsedPublicKey::new(&ECDSA_P256_SHA256_ASN1, point).verify(&message, signature),
        PublicKey::Ed25519(key) => UnparsedPublicKey::new(&ED25519, key).verify(&message, signature),
        PublicKey::Rs256(modulus) => {
            let key = RsaPublicKeyComponents { n: modulus.as_slice(), e: RSA_EXPONENT.as_slice() };
            key.verify(&RSA_PKCS1_2048_8192_SHA256, &message, signature)
        }
    };
    verified.is_ok()
}
