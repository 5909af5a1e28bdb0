//! What secrets are called, and what they say.

use std::fmt;

use chrono::{DateTime, Utc};

use crate::error::{Error, Result};

/// The longest name, in bytes.
pub const MAX_NAME: usize = 128;
/// The longest secret, in bytes.
pub const MAX_VALUE: usize = 64 << 10;

/// The name of a secret: 1 to 128 of A-Z, a-z, 0-9, `.`, `_` and `-`, the first a letter, a digit or `_`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SecretName(String);

impl SecretName {
    /// Parses a name.
    ///
    /// # Errors
    /// A sentence, which begins with "must".
    pub fn parse(text: &str) -> Result<SecretName, &'static str> {
        let bytes = text.as_bytes();
        let word = |b: &u8| b.is_ascii_alphanumeric() || *b == b'_';
        let good = bytes.len() <= MAX_NAME
            && bytes.first().is_some_and(word)
            && bytes.iter().all(|b| word(b) || matches!(b, b'.' | b'-'));
        if good {
            Ok(SecretName(text.to_owned()))
        } else {
            Err(
                "must be a secret's name: 1 to 128 of A-Z, a-z, 0-9, `.`, `_` and `-`, not beginning with `.` or `-`",
            )
        }
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// A secret in the clear. It prints as nothing.
#[derive(Clone, PartialEq, Eq)]
pub struct SecretValue(String);

impl SecretValue {
    /// Checks a secret that is to be stored.
    ///
    /// # Errors
    /// [`Code::Invalid`](crate::error::Code::Invalid) at `/value` where it is empty, too long, or holds U+0000.
    pub fn parse(text: String) -> Result<SecretValue> {
        if text.is_empty() || text.len() > MAX_VALUE || text.contains('\0') {
            let detail = format!("must be a text of 1 to {MAX_VALUE} bytes without U+0000");
            return Err(Error::invalid_at("/value", detail));
        }
        Ok(SecretValue(text))
    }

    /// One that was stored.
    pub(super) fn stored(text: String) -> SecretValue {
        SecretValue(text)
    }

    /// The secret itself: for the request that needs it, and never for a log, a record or an answer.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for SecretValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretValue(…)")
    }
}

/// What may be told of a secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// Its name.
    pub name: String,
    /// When it was first stored.
    pub created_at: DateTime<Utc>,
    /// When it was last replaced.
    pub updated_at: DateTime<Utc>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        for good in ["a", "Weather-API.key_2", "_x", "9"] {
            assert_eq!(SecretName::parse(good).unwrap().as_str(), good);
        }
        for bad in ["", ".a", "-a", "a b", "a/b", "é", "a\0", &"x".repeat(129)] {
            assert!(SecretName::parse(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn values_are_not_printed() {
        let value = SecretValue::parse("hunter2".into()).unwrap();
        assert_eq!(value.expose(), "hunter2");
        assert!(!format!("{value:?}").contains("hunter2"));
        for bad in [String::new(), "a\0".into(), "x".repeat(MAX_VALUE + 1)] {
            assert!(SecretValue::parse(bad).is_err());
        }
    }
}
