//! API keys as text: `slb_<tenant number>_<key id>_<secret>` (REST contract, "Who calls").

use std::fmt;

use sha2::{Digest, Sha256};

use crate::ctx::TenantId;

/// Bytes of a secret, all of them random.
pub const SECRET_LENGTH: usize = 32;

/// A token, taken apart. Whether it opens anything is not known yet.
#[derive(Clone, PartialEq, Eq)]
pub struct Token {
    /// Whose key it claims to be.
    pub tenant: TenantId,
    /// Which key it claims to be.
    pub key_id: i64,
    secret: [u8; SECRET_LENGTH],
}

impl Token {
    /// A new key's token.
    pub fn new(tenant: TenantId, key_id: i64, secret: [u8; SECRET_LENGTH]) -> Token {
        Token { tenant, key_id, secret }
    }

    /// Reads a token in the one way that it is written; anything else is none.
    pub fn parse(text: &str) -> Option<Token> {
        let mut parts = text.strip_prefix("slb_")?.split('_');
        let tenant = number(parts.next()?)?;
        let key_id = number(parts.next()?)?;
        let secret = hex(parts.next()?)?;
        parts.next().is_none().then_some(Token { tenant: TenantId(tenant), key_id, secret })
    }

    /// The token as text: to be shown once, and never logged.
    pub fn expose(&self) -> String {
        format!("slb_{}_{}_{}", self.tenant.0, self.key_id, crate::hex::hex(&self.secret))
    }

    /// What is stored of the secret.
    pub fn secret_sha256(&self) -> [u8; 32] {
        Sha256::digest(self.secret).into()
    }
}

/// The least and the most characters of a fixed token.
pub const FIXED_LENGTH: std::ops::RangeInclusive<usize> = 8..=512;

/// A text that is to open a key beside the key's own token: visible ASCII, and no key's own token.
#[derive(Clone, PartialEq, Eq)]
pub struct FixedToken([u8; 32]);

impl FixedToken {
    /// Reads one; only its hash is kept.
    ///
    /// # Errors
    /// What is wrong with it, for people.
    pub fn parse(text: &str) -> Result<FixedToken, String> {
        let (least, most) = (FIXED_LENGTH.start(), FIXED_LENGTH.end());
        if !FIXED_LENGTH.contains(&text.len()) || !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(format!("must be {least} to {most} visible characters of ASCII, without spaces"));
        }
        if text.starts_with("slb_") {
            return Err("must not begin as the keys' own tokens do, with `slb_`".into());
        }
        Ok(FixedToken(Sha256::digest(text).into()))
    }

    /// What is stored of it.
    pub fn sha256(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Debug for FixedToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("FixedToken(…)")
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "slb_{}_{}_…", self.tenant.0, self.key_id)
    }
}

fn number(text: &str) -> Option<i64> {
    let canonical = text.bytes().all(|b| b.is_ascii_digit()) && !text.starts_with('0');
    canonical.then(|| text.parse().ok()).flatten()
}

fn hex(text: &str) -> Option<[u8; SECRET_LENGTH]> {
    let digits = text.as_bytes();
    let lower = digits.iter().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
    if digits.len() != 2 * SECRET_LENGTH || !lower {
        return None;
    }
    let mut bytes = [0; SECRET_LENGTH];
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_read_back() {
        let token = Token::new(TenantId(7), 12, std::array::from_fn(|i| i as u8 * 8));
        let text = token.expose();
        assert!(text.starts_with("slb_7_12_0008101820") && text.len() == 9 + 64, "{text}");
        assert_eq!(Token::parse(&text), Some(token.clone()));
        assert_eq!(format!("{token:?}"), "slb_7_12_…");
    }

    #[test]
    fn anything_else_is_no_token() {
        let good = Token::new(TenantId(7), 12, [0xab; SECRET_LENGTH]).expose();
        for bad in [
            "",
            "slb_",
            "slb_7_12",
            "slb_7_12_",
            &good[1..],
            &good[..good.len() - 1],
            &good.replace("ab", "AB"),
            &good.replace("_7_", "_07_"),
            &good.replace("_7_", "_+7_"),
            &good.replace("_7_", "_-7_"),
            &good.replace("_7_", "__"),
            &good.replace("_7_", "_99999999999999999999_"),
            &format!("{good}_"),
            &format!("{good} "),
        ] {
            assert!(Token::parse(bad).is_none(), "{bad}");
        }
    }
}
