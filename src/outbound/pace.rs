//! How often a host is asked: by our own measure, a token bucket each, and by its own where it says when to come back.

use std::collections::HashMap;
use std::num::NonZeroU32;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use governor::clock::{Clock, DefaultClock};
use governor::{DefaultKeyedRateLimiter, Quota, RateLimiter};

/// Hosts that are remembered before those that need not be are forgotten.
const REMEMBERED: usize = 10_000;

pub(super) struct Pace {
    buckets: DefaultKeyedRateLimiter<String>,
    /// Until when a host is left alone, because it asked for that.
    resting: Mutex<HashMap<String, Instant>>,
}

impl Pace {
    pub(super) fn new(per_second: u32) -> Pace {
        let rate = NonZeroU32::new(per_second).unwrap_or(NonZeroU32::MIN);
        let quota =
            Quota::per_second(rate).allow_burst(rate.saturating_mul(const { NonZeroU32::new(2).unwrap() }));
        Pace { buckets: RateLimiter::keyed(quota), resting: Mutex::new(HashMap::new()) }
    }

    /// Takes a token, or tells how long to wait.
    pub(super) fn take(&self, host: &str) -> Result<(), Duration> {
        let now = Instant::now();
        let mut resting = self.resting.lock().unwrap_or_else(PoisonError::into_inner);
        if resting.len() + self.buckets.len() > REMEMBERED {
            resting.retain(|_, until| *until > now);
            self.buckets.retain_recent();
        }
        if let Some(until) = resting.get(host).filter(|until| **until > now) {
            return Err(*until - now);
        }
        drop(resting);
        let clock = DefaultClock::default();
        self.buckets.check_key(&host.to_owned()).map_err(|not_until| not_until.wait_time_from(clock.now()))
    }

    /// Leaves the host alone for so long.
    pub(super) fn rest(&self, host: &str, time: Duration) {
        let mut resting = self.resting.lock().unwrap_or_else(PoisonError::into_inner);
        resting.insert(host.to_owned(), Instant::now() + time);
    }
}
