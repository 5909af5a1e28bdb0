//! What a tenant and a key are, and which names they may have.

use std::fmt;

use chrono::{DateTime, Utc};

use crate::ctx::{Scope, TenantId};
use crate::error::{FieldError, Result, pointer};
use crate::path::Name;

/// Characters that a key's label may have.
pub const MAX_LABEL: usize = 200;
/// 9999-12-31T23:59:59Z, the last second that RFC 3339 can write.
const LAST_SECOND: i64 = 253_402_300_799;

/// Slates that a key may be bound to, at most.
pub const MAX_KEY_SLATES: usize = 1000;

/// A tenant's name: 1 to 63 of `a-z0-9-`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct TenantName(String);

impl TenantName {
    /// Reads a name.
    ///
    /// # Errors
    /// 422 at `/name`.
    pub fn parse(text: &str) -> Result<TenantName> {
        let allowed = text.bytes().all(|b| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'-'));
        if allowed && (1..=63).contains(&text.len()) {
            Ok(TenantName(text.to_owned()))
        } else {
            Err(FieldError::new("/name", "must be 1 to 63 characters of a-z, 0-9 and -").into())
        }
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for TenantName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// An isolated customer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tenant {
    /// Its number, which its tokens carry.
    pub id: TenantId,
    /// Its name.
    pub name: String,
    /// When it was made.
    pub created_at: DateTime<Utc>,
}

/// A key to be made, checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewKey {
    /// What people call it.
    pub label: String,
    /// What it may do, each once, in the order of [`Scope::ALL`].
    pub scopes: Vec<Scope>,
    /// The only slates that it may touch; `None` is all of them.
    pub slates: Option<Vec<String>>,
    /// When it ends to open anything.
    pub expires_at: Option<DateTime<Utc>>,
}

impl NewKey {
    /// Checks a key; it is made at `now`.
    ///
    /// # Errors
    /// 422 for each member that is wrong.
    pub fn parse(
        label: String,
        scopes: &[Scope],
        slates: Option<Vec<String>>,
        expires_at: Option<DateTime<Utc>>,
        now: DateTime<Utc>,
    ) -> Result<NewKey> {
        let mut errors = Vec::new();
        if label.trim().is_empty() || label.chars().count() > MAX_LABEL {
            errors.push(FieldError::new(
                "/label",
                format!("must be 1 to {MAX_LABEL} characters, not all of them spaces"),
            ));
        } else if label.chars().any(char::is_control) {
            errors.push(FieldError::new("/label", "must hold no control characters"));
        }
        if scopes.is_empty() {
            errors.push(FieldError::new("/scopes", "must name at least one scope"));
        }
        match slates.as_deref() {
            Some([]) => {
                errors.push(FieldError::new("/slates", "must name at least one slate; leave it out for all"))
            }
            Some(many) if many.len() > MAX_KEY_SLATES => {
                errors.push(FieldError::new("/slates", format!("must name at most {MAX_KEY_SLATES} slates")));
            }
            named => {
                errors.extend(named.unwrap_or_default().iter().enumerate().filter_map(|(index, name)| {
                    let error = Name::parse(name).err()?;
                    Some(FieldError::new(pointer("/slates", index), error.to_string()))
                }))
            }
        }
        if expires_at.is_some_and(|end| end <= now) {
            errors.push(FieldError::new("/expires_at", "must lie in the future"));
        }
        // The leap second after which there are five digits is one of the year 9999.
        let last = DateTime::from_timestamp(LAST_SECOND, 0);
        if expires_at.is_some_and(|end| last.is_some_and(|last| end > last)) {
            errors.push(FieldError::new("/expires_at", "must have a year of four digits; null is never"));
        }
        if !errors.is_empty() {
            return Err(crate::error::Error::invalid(errors));
        }
        let scopes = Scope::ALL.into_iter().filter(|scope| scopes.contains(scope)).collect();
        Ok(NewKey { label, scopes, slates, expires_at })
    }
}

/// A key, without anything that would open a door.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Key {
    /// Its number within the tenant.
    pub id: i64,
    /// What people call it.
    pub label: String,
    /// What it may do.
    pub scopes: Vec<Scope>,
    /// The only slates that it may touch; `None` is all of them.
    pub slates: Option<Vec<String>>,
    /// When it was made.
    pub created_at: DateTime<Utc>,
    /// When it ends to open anything.
    pub expires_at: Option<DateTime<Utc>>,
    /// When it was revoked.
    pub revoked_at: Option<DateTime<Utc>>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_tenants() {
        for good in ["a", "acme-2", "-", &"x".repeat(63)] {
            assert!(TenantName::parse(good).is_ok(), "{good}");
        }
        for bad in ["", "Acme", "a_b", "a b", "ä", "a\0", &"x".repeat(64)] {
            assert!(TenantName::parse(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn every_wrong_member_of_a_key_is_named() {
        let now = DateTime::from_timestamp_micros(1).unwrap();
        let key = |label: &str, scopes: &[Scope], slates: Option<&[&str]>, end| {
            let slates = slates.map(|names| names.iter().map(|name| name.to_string()).collect());
            NewKey::parse(label.to_owned(), scopes, slates, end, now)
        };
        let error = key(" ", &[], Some(&["ok", "a/b", "\0"]), Some(now)).unwrap_err();
        let pointers: Vec<_> = error.errors.iter().map(|e| e.pointer.as_str()).collect();
        assert_eq!(pointers, ["/label", "/scopes", "/slates/1", "/slates/2", "/expires_at"]);
        assert!(key("a\nb", &[Scope::Read], None, None).is_err());
        assert!(key(&"ä".repeat(201), &[Scope::Read], None, None).is_err());
        assert!(key("a", &[Scope::Read], Some(&[]), None).is_err());
        let made = key(&"ä".repeat(200), &[Scope::Write, Scope::Read, Scope::Write], None, None).unwrap();
        assert_eq!(made.scopes, [Scope::Read, Scope::Write]);
    }
}
