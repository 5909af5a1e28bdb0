//! A tenant's settings, checked.

use crate::error::{Error, FieldError, Result};
use crate::path::Name;
use crate::retrieval::deny::deny_regex;

/// The deny globs of a tenant that has not said otherwise (provenance, "Safety").
pub const DEFAULT_DENY_GLOBS: [&str; 8] = [
    "**/.env",
    "**/.env.*",
    "**/*.pem",
    "**/*.key",
    "**/id_rsa",
    "**/id_ed25519",
    "**/credentials.json",
    "**/.git/**",
];

/// Days that a finished session is kept where the tenant has not said otherwise.
pub const DEFAULT_RETENTION_DAYS: i32 = 90;

/// The settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// Where plain paths are looked up that name no slate; it need not exist yet.
    pub default_slate: Option<String>,
    /// Paths that no front door reads.
    pub deny_globs: Vec<String>,
    /// [`deny_globs`](Settings::deny_globs) as one regular expression over whole paths; `None` where there are none.
    pub deny_regex: Option<String>,
    /// Days that a finished session is kept.
    pub session_retention_days: i32,
}

impl Settings {
    /// Checks settings; what is not given is the default.
    ///
    /// # Errors
    /// 422 for each member that is wrong.
    pub fn parse(
        default_slate: Option<String>,
        deny_globs: Option<Vec<String>>,
        session_retention_days: Option<i32>,
    ) -> Result<Settings> {
        let mut errors = Vec::new();
        if let Some(Err(error)) = default_slate.as_deref().map(Name::parse) {
            errors.push(FieldError::new("/default_slate", error.to_string()));
        }
        let deny_globs = deny_globs.unwrap_or_else(|| DEFAULT_DENY_GLOBS.map(String::from).into());
        let deny_regex = deny_regex(&deny_globs).unwrap_or_else(|error| {
            errors.push(error);
            None
        });
        let days = session_retention_days.unwrap_or(DEFAULT_RETENTION_DAYS);
        if !(1..=36_500).contains(&days) {
            errors.push(FieldError::new("/session_retention_days", "must be from 1 to 36500"));
        }
        match errors.is_empty() {
            true => Ok(Settings { default_slate, deny_globs, deny_regex, session_retention_days: days }),
            false => Err(Error::invalid(errors)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_are_valid() {
        let settings = Settings::parse(None, None, None).unwrap();
        assert_eq!(settings.session_retention_days, 90);
        assert!(settings.deny_regex.is_some_and(|regex| regex.contains("id_ed25519")));
    }

    #[test]
    fn every_wrong_member_is_named() {
        let error =
            Settings::parse(Some("a/b".into()), Some(vec!["ok".into(), "a**".into()]), Some(0)).unwrap_err();
        let pointers: Vec<_> = error.errors.iter().map(|e| e.pointer.as_str()).collect();
        assert_eq!(pointers, ["/default_slate", "/deny_globs/1", "/session_retention_days"]);
        assert!(Settings::parse(None, Some(vec![]), Some(36_500)).unwrap().deny_regex.is_none());
    }
}
