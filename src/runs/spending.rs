//! What a tenant may spend on runs, and what it has spent today: pure functions.

use chrono::{DateTime, Days, NaiveTime, Utc};

/// How long to wait for a run to end, in seconds, where too many are running.
const WHILE_RUNNING: u64 = 5;

/// A tenant's limits; `None` is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Limits {
    /// Runs that have not ended, at once.
    pub runs: Option<i64>,
    /// Calls that may begin in a day of UTC.
    pub rounds: Option<i64>,
    /// Tokens of a day, past which no call begins.
    pub tokens: Option<i64>,
}

/// What was spent today.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Spent {
    /// Calls that began.
    pub rounds: i64,
    /// Tokens, of prompts and completions.
    pub tokens: i64,
}

/// A limit that is reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reached {
    /// For people.
    pub detail: String,
    /// When to come back, in seconds from now.
    pub seconds: u64,
}

/// Whether a further run may begin while so many have not ended.
pub fn check_start(limits: Limits, running: i64, spent: Spent, now: DateTime<Utc>) -> Result<(), Reached> {
    if let Some(most) = limits.runs.filter(|most| running >= *most) {
        let detail = format!("the tenant may have {most} runs at once");
        return Err(Reached { detail, seconds: WHILE_RUNNING });
    }
    check_call(limits, spent, now)
}

/// Whether a further call may begin today.
pub fn check_call(limits: Limits, spent: Spent, now: DateTime<Utc>) -> Result<(), Reached> {
    let over = |most: Option<i64>, spent: i64, what: &str| {
        let most = most.filter(|most| spent >= *most)?;
        Some(Reached {
            detail: format!("the tenant may spend {most} {what} a day"),
            seconds: rest_of_day(now),
        })
    };
    let reached =
        over(limits.rounds, spent.rounds, "rounds").or_else(|| over(limits.tokens, spent.tokens, "tokens"));
    reached.map_or(Ok(()), Err)
}

/// Seconds until the day of UTC ends, from 1.
fn rest_of_day(now: DateTime<Utc>) -> u64 {
    let tomorrow = now.date_naive() + Days::new(1);
    let rest = tomorrow.and_time(NaiveTime::MIN).and_utc() - now;
    u64::try_from(rest.num_seconds()).unwrap_or_default() + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_reached_when_they_are_spent() {
        let now = DateTime::parse_from_rfc3339("2026-11-02T23:59:30Z").unwrap().to_utc();
        let none = Limits::default();
        let much = Spent { rounds: 1_000_000, tokens: 1_000_000 };
        assert_eq!(check_start(none, 1_000_000, much, now), Ok(()));
        for (limits, running, spent, seconds) in [
            (Limits { runs: Some(2), ..none }, 1, much, None),
            (Limits { runs: Some(2), ..none }, 2, Spent::default(), Some(5)),
            (Limits { runs: Some(0), ..none }, 0, Spent::default(), Some(5)),
            (Limits { rounds: Some(3), ..none }, 0, Spent { rounds: 2, tokens: 9 }, None),
            (Limits { rounds: Some(3), ..none }, 0, Spent { rounds: 3, tokens: 0 }, Some(31)),
            (Limits { tokens: Some(3), ..none }, 0, Spent { rounds: 9, tokens: 2 }, None),
            (Limits { tokens: Some(3), ..none }, 0, Spent { rounds: 0, tokens: 7 }, Some(31)),
        ] {
            let reached = check_start(limits, running, spent, now).err().map(|reached| reached.seconds);
            assert_eq!(reached, seconds, "{limits:?} {running} {spent:?}");
        }
    }
}
