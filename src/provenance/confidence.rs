//! How far an item can be relied on (provenance, "Output"): freshness, and a score that the same record always gets.

use chrono::{DateTime, Duration, Utc};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::authority::Authority;

/// The age in seconds past which a volatile source is stale, where it says none: a day.
pub const DEFAULT_MAX_AGE: i64 = 24 * 60 * 60;

/// Whether a source may have changed since it was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Freshness {
    /// Not volatile, or younger than its age limit.
    Fresh,
    /// Volatile, and older than its age limit.
    Stale,
    /// The source does not say when it was last modified.
    Unknown,
}

impl Freshness {
    /// Every one, in the order of their codes.
    pub const ALL: &[Freshness] = &[Freshness::Fresh, Freshness::Stale, Freshness::Unknown];

    /// The number in a manifest. Numbers never change their meaning.
    pub fn code(self) -> i16 {
        match self {
            Freshness::Fresh => 0,
            Freshness::Stale => 1,
            Freshness::Unknown => 2,
        }
    }

    /// The freshness that a manifest's number stands for.
    pub fn from_code(code: i16) -> Option<Freshness> {
        Freshness::ALL.iter().copied().find(|freshness| freshness.code() == code)
    }

    /// The freshness at `now` of a source that was last modified then. `max_age` is in seconds.
    pub fn of(
        last_modified: Option<DateTime<Utc>>,
        volatile: bool,
        max_age: Option<i64>,
        now: DateTime<Utc>,
    ) -> Freshness {
        let Some(last_modified) = last_modified else { return Freshness::Unknown };
        let max_age = Duration::try_seconds(max_age.unwrap_or(DEFAULT_MAX_AGE)).unwrap_or(Duration::MAX);
        match volatile && now.signed_duration_since(last_modified) > max_age {
            true => Freshness::Stale,
            false => Freshness::Fresh,
        }
    }
}

/// The facts on record that an item is scored by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Facts {
    /// It came over a network, from the web or an API.
    pub remote: bool,
    /// Something was cut or left out.
    pub truncated: bool,
    /// See [`Freshness`].
    pub freshness: Freshness,
    /// A hash of the whole original is on record.
    pub hashed: bool,
    /// See [`Authority`].
    pub authority: Authority,
    /// The encoding was not told and not proven.
    pub encoding_guessed: bool,
    /// Nothing was retrieved.
    pub failed: bool,
}

/// The confidence, from 0 to 1 in hundredths.
pub fn score(facts: Facts) -> f64 {
    if facts.failed {
        return 0.0;
    }
    let deductions = [
        (facts.remote, 5),
        (facts.truncated, 5),
        (facts.freshness == Freshness::Unknown, 10),
        (facts.freshness == Freshness::Stale, 20),
        (!facts.hashed, 10),
        (facts.authority == Authority::Low, 10),
        (facts.encoding_guessed, 5),
    ];
    let left = deductions.iter().filter(|(holds, _)| *holds).fold(100_i32, |left, (_, points)| left - points);
    f64::from(left.max(0)) / 100.0
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOUND: Facts = Facts {
        remote: false,
        truncated: false,
        freshness: Freshness::Fresh,
        hashed: true,
        authority: Authority::Medium,
        encoding_guessed: false,
        failed: false,
    };

    macro_rules! scores {
        ($($name:ident: { $($field:ident: $value:expr),* } => $score:literal;)*) => {
            $(#[test] fn $name() { assert_eq!(score(Facts { $($field: $value,)* ..SOUND }), $score); })*
        };
    }

    scores! {
        sound: {} => 1.0;
        high_authority_adds_nothing: { authority: Authority::High } => 1.0;
        remote: { remote: true } => 0.95;
        truncated: { truncated: true } => 0.95;
        unknown: { freshness: Freshness::Unknown } => 0.9;
        stale: { freshness: Freshness::Stale } => 0.8;
        no_hash: { hashed: false } => 0.9;
        low: { authority: Authority::Low } => 0.9;
        guessed: { encoding_guessed: true } => 0.95;
        all: { remote: true, truncated: true, freshness: Freshness::Stale, hashed: false, authority: Authority::Low,
               encoding_guessed: true } => 0.45;
        failed: { failed: true } => 0.0;
    }

    fn at(seconds: i64) -> DateTime<Utc> {
        DateTime::from_timestamp(seconds, 0).unwrap()
    }

    #[test]
    fn freshness_needs_volatility_and_age() {
        let day = DEFAULT_MAX_AGE;
        for (modified, volatile, max_age, expected) in [
            (None, true, None, Freshness::Unknown),
            (None, false, None, Freshness::Unknown),
            (Some(0), false, Some(1), Freshness::Fresh),
            (Some(0), true, Some(2 * day), Freshness::Fresh),
            (Some(0), true, None, Freshness::Stale),
            (Some(1), true, None, Freshness::Fresh),
            (Some(0), true, Some(i64::MAX), Freshness::Fresh),
            (Some(5 * day), true, None, Freshness::Fresh),
        ] {
            assert_eq!(
                Freshness::of(modified.map(at), volatile, max_age, at(day + 1)),
                expected,
                "{modified:?}"
            );
        }
    }

    #[test]
    fn codes_go_round() {
        for &freshness in Freshness::ALL {
            assert_eq!(Freshness::from_code(freshness.code()), Some(freshness));
        }
        assert_eq!(Freshness::from_code(9), None);
    }
}
