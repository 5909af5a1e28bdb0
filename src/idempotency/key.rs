//! What a key is, what makes two requests the same, and what is kept of a result.

use sha2::{Digest, Sha256};

use crate::error::{Error, FieldError};

/// How long a call may work before another takes its key over, in seconds.
pub const LEASE_SECONDS: i64 = 60;
/// How long a result is kept, in hours.
pub const KEPT_HOURS: i64 = 24;

/// An `Idempotency-Key`: 1 to 255 visible ASCII characters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Key(String);

impl Key {
    /// Reads the header's value.
    ///
    /// # Errors
    /// 422 for anything else than visible ASCII of that length.
    pub fn parse(value: &[u8]) -> Result<Key, Error> {
        let visible = value.iter().all(u8::is_ascii_graphic);
        match std::str::from_utf8(value) {
            Ok(text) if visible && (1..=255).contains(&text.len()) => Ok(Key(text.to_owned())),
            _ => {
                Err(FieldError::new("", "the Idempotency-Key must be 1 to 255 visible ASCII characters")
                    .into())
            }
        }
    }

    /// The key.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// What makes two requests the same: each part is preceded by its length, so that no two lists of parts are confused.
pub fn fingerprint(parts: [&[u8]; 5]) -> [u8; 32] {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part);
    }
    hash.finalize().into()
}

/// A result that is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// The HTTP status.
    pub status: u16,
    /// `Content-Type`, where there is one.
    pub content_type: Option<String>,
    /// `ETag`, where there is one.
    pub etag: Option<String>,
    /// The body; `None` where it held a secret.
    pub body: Option<Vec<u8>>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_visible_ascii() {
        assert_eq!(Key::parse(b"a-1~!").unwrap().as_str(), "a-1~!");
        for bad in [&b""[..], b"a b", b"a\tb", "é".as_bytes(), b"\xff", &[b'x'; 256]] {
            assert!(Key::parse(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn parts_do_not_run_into_each_other() {
        assert_ne!(fingerprint([b"ab", b"c", b"", b"", b""]), fingerprint([b"a", b"bc", b"", b"", b""]));
    }
}
