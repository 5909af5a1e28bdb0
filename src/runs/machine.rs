//! What a run does next, and what follows when a call of its model comes to nothing: pure functions.

use std::time::Duration;

use crate::sessions::machine::Status;

/// The wait after the first failure; twice as long after each further one, and up to half as long again.
const BACK_OFF: Duration = Duration::from_secs(1);
/// The longest wait that nobody asked for.
const MAX_BACK_OFF: Duration = Duration::from_secs(60);
/// The longest wait that a host is granted.
const MAX_PATIENCE: Duration = Duration::from_secs(3600);
/// How many times more attempts are made where the host asks for patience.
const PATIENT: u32 = 3;

/// What is to be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Nothing any more.
    Stop,
    /// Submit the answer that is stored for this round.
    Submit {
        /// The round.
        round: u32,
    },
    /// Ask the model for this round.
    Call {
        /// The round.
        round: u32,
        /// Whether its answer will be the session's, whatever it is.
        last: bool,
    },
}

/// What is to be done for a session that stands so, with or without a stored answer for its next round.
pub fn next(status: Status, round: u32, stored: bool) -> Step {
    let round = round + 1;
    match status {
        Status::Answered | Status::Failed | Status::Cancelled => Step::Stop,
        _ if stored => Step::Submit { round },
        Status::Open => Step::Call { round, last: false },
        Status::Exhausted => Step::Call { round, last: true },
    }
}

macro_rules! reasons {
    ($($(#[$doc:meta])* $variant:ident $name:literal $again:literal;)*) => {
        /// Why a call came to nothing.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Reason {
            $($(#[$doc])* $variant,)*
        }

        impl Reason {
            /// The name on the wire.
            pub fn as_str(self) -> &'static str {
                match self { $(Reason::$variant => $name,)* }
            }

            /// Whether the same call may come to something later.
            pub fn is_passing(self) -> bool {
                match self { $(Reason::$variant => $again,)* }
            }
        }
    };
}

reasons! {
    /// The model's host cannot be reached, or hung up.
    Unreachable "model_unreachable" true;
    /// It did not answer in time.
    Timeout "model_timeout" true;
    /// It was asked too often.
    RateLimited "model_rate_limited" true;
    /// It answered with 5xx.
    Unavailable "model_unavailable" true;
    /// Something is wrong on our side.
    Internal "internal" true;
    /// Requests to that address are not made.
    Refused "model_refused" false;
    /// It refuses the request.
    Rejected "model_rejected" false;
    /// Its answer is none of a chat endpoint.
    BadAnswer "bad_answer" false;
    /// There is neither text nor a call in its answer.
    EmptyAnswer "empty_answer" false;
    /// Its answer is larger than an output may be.
    AnswerTooLarge "answer_too_large" false;
    /// It called a tool that it was not given.
    UnknownTool "unknown_tool" false;
    /// The secret that the run names is not there, or cannot be read.
    NoSecret "secret_unavailable" false;
    /// The key that asked for the run opens nothing any more.
    KeyRevoked "key_revoked" false;
}

/// A call that came to nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trouble {
    /// Why, to test for.
    pub reason: Reason,
    /// Why, for people; it holds nothing of a URL but its host.
    pub detail: String,
    /// How long the host asks to be left alone.
    pub after: Option<Duration>,
}

impl Trouble {
    /// The reason, and a sentence.
    pub fn new(reason: Reason, detail: impl Into<String>) -> Trouble {
        Trouble { reason, detail: detail.into(), after: None }
    }
}

/// How long to wait before the call is made again, or `None` where the session fails. It has failed `attempts` times in a
/// row, this one included, of at most `most`; `jitter` is from 0 to 1.
pub fn wait(trouble: &Trouble, attempts: u32, most: u32, jitter: f64) -> Option<Duration> {
    let most = if trouble.reason == Reason::RateLimited { most.saturating_mul(PATIENT) } else { most };
    if !trouble.reason.is_passing() || attempts >= most {
        return None;
    }
    let doubled = BACK_OFF.saturating_mul(1 << attempts.saturating_sub(1).min(16)).min(MAX_BACK_OFF);
    let back_off = doubled + doubled.mul_f64(jitter.clamp(0.0, 1.0) / 2.0);
    Some(trouble.after.map_or(back_off, |after| after.min(MAX_PATIENCE)))
}

#[cfg(test)]
mod tests {
    use super::Status::{Answered, Cancelled, Exhausted, Failed, Open};
    use super::*;

    #[test]
    fn steps() {
        for (status, round, stored, step) in [
            (Open, 0, false, Step::Call { round: 1, last: false }),
            (Open, 1, true, Step::Submit { round: 2 }),
            (Exhausted, 3, false, Step::Call { round: 4, last: true }),
            (Exhausted, 3, true, Step::Submit { round: 4 }),
            (Answered, 4, false, Step::Stop),
            (Failed, 0, true, Step::Stop),
            (Cancelled, 1, true, Step::Stop),
        ] {
            assert_eq!(next(status, round, stored), step, "{status:?} {round} {stored}");
        }
    }

    #[test]
    fn waits_grow_and_end() {
        let seconds =
            |reason, attempts| wait(&Trouble::new(reason, ""), attempts, 8, 0.0).map(|wait| wait.as_secs());
        let waits: Vec<_> = (1..=8).map(|attempts| seconds(Reason::Unavailable, attempts)).collect();
        let expected = [Some(1), Some(2), Some(4), Some(8), Some(16), Some(32), Some(60), None];
        assert_eq!(waits, expected);
        assert_eq!(seconds(Reason::RateLimited, 23), Some(60));
        assert_eq!(seconds(Reason::RateLimited, 24), None);
        for reason in [Reason::Rejected, Reason::BadAnswer, Reason::EmptyAnswer, Reason::AnswerTooLarge] {
            assert_eq!(seconds(reason, 1), None);
        }
        let most = wait(&Trouble::new(Reason::Timeout, ""), 1, 8, 1.0).unwrap();
        assert_eq!(most.as_millis(), 1500);
    }

    #[test]
    fn the_host_is_granted_what_it_asks() {
        let trouble =
            Trouble { after: Some(Duration::from_secs(90)), ..Trouble::new(Reason::RateLimited, "") };
        assert_eq!(wait(&trouble, 1, 8, 0.5), Some(Duration::from_secs(90)));
        let trouble = Trouble { after: Some(Duration::from_secs(90_000)), ..trouble };
        assert_eq!(wait(&trouble, 1, 8, 0.5), Some(Duration::from_secs(3600)));
    }
}
