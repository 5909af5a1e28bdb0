//! The master keys, and what is encrypted under them: XChaCha20-Poly1305, with the tenant and the name of the secret as
//! associated data.

use std::fmt;

use base64::Engine;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use chacha20poly1305::aead::{Aead, Payload};
use chacha20poly1305::{Key, KeyInit, XChaCha20Poly1305, XNonce};
use sha2::{Digest, Sha256};

use super::name::{SecretName, SecretValue};
use crate::ctx::TenantId;
use crate::hex::hex;

/// Bytes of a key.
pub const KEY_LENGTH: usize = 32;
/// Bytes of a nonce, random for each encryption: so many that none ever comes twice.
pub const NONCE_LENGTH: usize = 24;

const LENIENT: GeneralPurposeConfig =
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent);

/// The master keys: the first encrypts, all of them decrypt. There may be none.
#[derive(Clone, Default)]
pub struct Keys(Vec<Master>);

#[derive(Clone)]
struct Master {
    id: String,
    cipher: XChaCha20Poly1305,
}

/// What is stored of a secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sealed {
    /// Which key opens it: the beginning of a hash of the key.
    pub key_id: String,
    /// The nonce.
    pub nonce: Vec<u8>,
    /// The secret, encrypted, with its authentication tag.
    pub ciphertext: Vec<u8>,
}

/// Why a secret cannot be sealed or opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// There is no master key.
    #[error("the service has no key to encrypt secrets with: SLATEBASE_SECRETS_KEY is not set")]
    None,
    /// The key that it was encrypted under is not there.
    #[error("it was encrypted under a key that is not among those of SLATEBASE_SECRETS_KEY")]
    Unknown,
    /// It is not what was encrypted for this tenant under this name.
    #[error("what is stored is not what was encrypted")]
    Altered,
}

impl Keys {
    /// Parses keys: 32 bytes each, as base64 or as hexadecimal digits, separated by commas.
    ///
    /// # Errors
    /// Which one is wrong, by its place; never its text.
    pub fn parse(text: &str) -> Result<Keys, String> {
        let keys = text.split(',').enumerate().map(|(at, key)| {
            let key = decode(key.trim()).ok_or_else(|| {
                format!(
                    "SLATEBASE_SECRETS_KEY: key {} is not {KEY_LENGTH} bytes in base64 or hexadecimal",
                    at + 1
                )
            })?;
            Ok(Master::new(&key))
        });
        keys.collect::<Result<_, String>>().map(Keys)
    }

    /// Whether secrets can be stored.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The id of the key that encrypts.
    pub fn first(&self) -> Option<&str> {
        self.0.first().map(|key| key.id.as_str())
    }

    /// Encrypts a secret under the first key. The nonce must be random, and never used before.
    ///
    /// # Errors
    /// [`KeyError::None`].
    pub fn seal(
        &self,
        tenant: TenantId,
        name: &SecretName,
        value: &SecretValue,
        nonce: [u8; NONCE_LENGTH],
    ) -> Result<Sealed, KeyError> {
        let key = self.0.first().ok_or(KeyError::None)?;
        let aad = bound_to(tenant, name);
        let payload = Payload { msg: value.expose().as_bytes(), aad: &aad };
        // Fails only for texts of hundreds of gigabytes.
        let ciphertext =
            key.cipher.encrypt(XNonce::from_slice(&nonce), payload).map_err(|_| KeyError::Altered)?;
        Ok(Sealed { key_id: key.id.clone(), nonce: nonce.into(), ciphertext })
    }

    /// Decrypts a secret.
    ///
    /// # Errors
    /// [`KeyError`].
    pub fn open(
        &self,
        tenant: TenantId,
        name: &SecretName,
        sealed: &Sealed,
    ) -> Result<SecretValue, KeyError> {
        let missing = if self.is_empty() { KeyError::None } else { KeyError::Unknown };
        let key = self.0.iter().find(|key| key.id == sealed.key_id).ok_or(missing)?;
        if sealed.nonce.len() != NONCE_LENGTH {
            return Err(KeyError::Altered);
        }
        let aad = bound_to(tenant, name);
        let payload = Payload { msg: &sealed.ciphertext, aad: &aad };
        let plain =
            key.cipher.decrypt(XNonce::from_slice(&sealed.nonce), payload).map_err(|_| KeyError::Altered)?;
        String::from_utf8(plain).map(SecretValue::stored).map_err(|_| KeyError::Altered)
    }
}

impl Master {
    fn new(key: &[u8; KEY_LENGTH]) -> Master {
        let named = Sha256::new().chain_update(b"slatebase secrets key\0").chain_update(key).finalize();
        Master { id: hex(&named[..8]), cipher: XChaCha20Poly1305::new(Key::from_slice(key)) }
    }
}

impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.iter().map(|key| &key.id)).finish()
    }
}

/// The tenant's number has a fixed length, so no two pairs give the same bytes.
fn bound_to(tenant: TenantId, name: &SecretName) -> Vec<u8> {
    [b"slatebase secret\0".as_slice(), &tenant.0.to_be_bytes(), name.as_str().as_bytes()].concat()
}

fn decode(text: &str) -> Option<[u8; KEY_LENGTH]> {
    let hexadecimal = || {
        let pairs = text.as_bytes().chunks(2);
        let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
        pairs.map(byte).collect::<Option<Vec<u8>>>()
    };
    let bytes = if text.len() == 2 * KEY_LENGTH && text.bytes().all(|b| b.is_ascii_hexdigit()) {
        hexadecimal()?
    } else if text.contains(['-', '_']) {
        GeneralPurpose::new(&alphabet::URL_SAFE, LENIENT).decode(text).ok()?
    } else {
        GeneralPurpose::new(&alphabet::STANDARD, LENIENT).decode(text).ok()?
    };
    bytes.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEX: &str = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";
    const BASE64: &str = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";
    const OTHER: &str = "__________________________________________8";

    fn name(text: &str) -> SecretName {
        SecretName::parse(text).unwrap()
    }

    #[test]
    fn keys_are_read_in_either_form() {
        let id = |text: &str| Keys::parse(text).unwrap().first().unwrap().to_owned();
        assert_eq!(id(HEX), id(BASE64));
        assert_eq!(id(HEX), id(&BASE64.replace('=', "")));
        assert_eq!(id(&format!(" {HEX} ,{OTHER}")), id(&HEX.to_uppercase()));
        for bad in ["", "hunter2", &HEX[1..], &format!("{HEX}00"), &format!("{HEX},"), &"A".repeat(64)[..41]]
        {
            let error = Keys::parse(bad).unwrap_err();
            assert!(!error.contains("hunter2") && error.contains("key"), "{error}");
        }
    }

    #[test]
    fn what_was_sealed_is_opened_and_nothing_else() {
        let keys = Keys::parse(HEX).unwrap();
        let value = SecretValue::parse("hunter2".into()).unwrap();
        let sealed = keys.seal(TenantId(7), &name("a"), &value, [9; NONCE_LENGTH]).unwrap();
        assert_eq!(keys.open(TenantId(7), &name("a"), &sealed), Ok(value.clone()));
        assert_eq!(keys.open(TenantId(8), &name("a"), &sealed), Err(KeyError::Altered));
        assert_eq!(keys.open(TenantId(7), &name("b"), &sealed), Err(KeyError::Altered));
        for at in 0..sealed.ciphertext.len() {
            let mut altered = sealed.clone();
            altered.ciphertext[at] ^= 1;
            assert_eq!(keys.open(TenantId(7), &name("a"), &altered), Err(KeyError::Altered));
        }
        let mut short = sealed.clone();
        short.nonce.pop();
        assert_eq!(keys.open(TenantId(7), &name("a"), &short), Err(KeyError::Altered));
        let none = Keys::default();
        assert_eq!(none.open(TenantId(7), &name("a"), &sealed), Err(KeyError::None));
        assert_eq!(none.seal(TenantId(7), &name("a"), &value, [0; NONCE_LENGTH]), Err(KeyError::None));
        assert_eq!(
            Keys::parse(OTHER).unwrap().open(TenantId(7), &name("a"), &sealed),
            Err(KeyError::Unknown)
        );
        let both = Keys::parse(&format!("{OTHER},{HEX}")).unwrap();
        assert_eq!(both.open(TenantId(7), &name("a"), &sealed), Ok(value.clone()));
        let anew = both.seal(TenantId(7), &name("a"), &value, [1; NONCE_LENGTH]).unwrap();
        assert_ne!(anew.key_id, sealed.key_id);
        assert!(!format!("{both:?} {sealed:?}").contains("hunter2"));
    }
}
