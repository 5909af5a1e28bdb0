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

/// What a tenant may spend on sessions that the service runs. `None` is no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Spending {
    /// Runs that have not ended, at once.
    pub max_concurrent_runs: Option<i32>,
    /// Calls of a model that may begin in a day of UTC.
    pub max_rounds_per_day: Option<i64>,
    /// Tokens of a day of UTC, prompts and completions, past which no call begins.
    pub max_tokens_per_day: Option<i64>,
}

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
    /// What may be spent.
    pub spending: Spending,
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
        spending: Spending,
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
        let Spending { max_concurrent_runs, max_rounds_per_day, max_tokens_per_day } = spending;
        for (name, limit) in [
            ("max_concurrent_runs", max_concurrent_runs.map(i64::from)),
            ("max_rounds_per_day", max_rounds_per_day),
            ("max_tokens_per_day", max_tokens_per_day),
        ] {
            if limit.is_some_and(|limit| limit < 0) {
                errors.push(FieldError::new(format!("/{name}"), "must not be negative"));
            }
        }
        match errors.is_empty() {
            true => {
                Ok(Settings { default_slate, deny_globs, deny_regex, session_retention_days: days, spending })
            }
            false => Err(Error::invalid(errors)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_are_valid() {
        let settings = Settings::parse(None, None, None, Spending::default()).unwrap();
        assert_eq!(settings.session_retention_days, 90);
        assert!(settings.deny_regex.is_some_and(|regex| regex.contains("id_ed25519")));
    }

    #[test]
    fn every_wrong_member_is_named() {
        let globs = Some(vec!["ok".into(), "a**".into()]);
        let spending = Spending { max_rounds_per_day: Some(-1), ..Spending::default() };
        let error = Settings::parse(Some("a/b".into()), globs, Some(0), spending).unwrap_err();
        let pointers: Vec<_> = error.errors.iter().map(|e| e.pointer.as_str()).collect();
        assert_eq!(
            pointers,
            ["/default_slate", "/deny_globs/1", "/session_retention_days", "/max_rounds_per_day"]
        );
        let none = Settings::parse(None, Some(vec![]), Some(36_500), Spending::default()).unwrap();
        assert!(none.deny_regex.is_none());
    }
}
