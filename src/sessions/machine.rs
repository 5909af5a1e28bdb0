//! The life of a session, as a pure function (retrieval semantics §7, architecture, invariant 3).
//!
//! ```text
//! open ── retrieval or tool, rounds left ──▶ open
//!      ── retrieval or tool, the last ─────▶ exhausted ── any output ──▶ answered (forced)
//!      ── answer ──────────────────▶ answered
//! open, exhausted ── cancel ──▶ cancelled        ── failure ──▶ failed
//! ```
//!
//! A replayed round never comes here: whoever calls [`step`] has looked for the round first.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::sessions::output::DecisionKind;

/// Where a session is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[schema(as = SessionStatus)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// It takes rounds.
    Open,
    /// Its rounds are spent; the next output is the answer, whatever it is.
    Exhausted,
    /// It has its answer.
    Answered,
    /// It ended without an answer, by a failure.
    Failed,
    /// It was ended by its owner.
    Cancelled,
}

impl Status {
    /// Every status, in the order of their codes.
    pub const ALL: &[Status] =
        &[Status::Open, Status::Exhausted, Status::Answered, Status::Failed, Status::Cancelled];

    /// The name on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Status::Open => "open",
            Status::Exhausted => "exhausted",
            Status::Answered => "answered",
            Status::Failed => "failed",
            Status::Cancelled => "cancelled",
        }
    }

    /// The number by which it is stored. Numbers never change their meaning.
    pub fn code(self) -> i16 {
        match self {
            Status::Open => 1,
            Status::Exhausted => 2,
            Status::Answered => 3,
            Status::Failed => 4,
            Status::Cancelled => 5,
        }
    }

    /// The status with this [code](Status::code).
    pub fn from_code(code: i16) -> Option<Status> {
        Status::ALL.iter().copied().find(|status| status.code() == code)
    }

    /// The status of this [name](Status::as_str).
    pub fn from_name(name: &str) -> Option<Status> {
        Status::ALL.iter().copied().find(|status| status.as_str() == name)
    }

    /// Whether nothing can follow.
    pub fn is_finished(self) -> bool {
        !matches!(self, Status::Open | Status::Exhausted)
    }

    /// What the caller is to do.
    pub fn next(self) -> Next {
        match self {
            Status::Open => Next::LlmCall,
            Status::Exhausted => Next::FinalLlmCall,
            Status::Answered | Status::Failed | Status::Cancelled => Next::Done,
        }
    }
}

/// What the caller is to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[schema(as = NextStep)]
#[serde(rename_all = "snake_case")]
pub enum Next {
    /// Call the model with the prompt, and submit its output as a round.
    LlmCall,
    /// The same, once more and for the last time.
    FinalLlmCall,
    /// Nothing.
    Done,
}

/// All that decides what may happen next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct State {
    /// Where it is in its life.
    pub status: Status,
    /// The rounds taken so far; the forced last call is round `max_rounds + 1`.
    pub round: u32,
    /// How many rounds may retrieve.
    pub max_rounds: u32,
    /// The context epoch, counted from 1.
    pub epoch: u32,
}

impl State {
    /// A session that was just opened.
    pub fn new(max_rounds: u32) -> State {
        State { status: Status::Open, round: 0, max_rounds, epoch: 1 }
    }
}

/// What happens to a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// An output was submitted that no round holds yet.
    Round {
        /// Which round the caller takes it for, if it says so.
        number: Option<u32>,
        /// What [`decide`](crate::sessions::output::decide) takes it for.
        decision: DecisionKind,
    },
    /// Its model has lost its context.
    Forget,
    /// Its owner ends it.
    Cancel,
    /// It cannot go on.
    Fail,
}

/// What is to be done, in the transaction that stores the new state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// Run the request's modes in this epoch, and record what they found under this round.
    Fetch {
        /// The round.
        round: u32,
        /// The epoch.
        epoch: u32,
    },
    /// Record the output as the answer, under this round.
    RecordAnswer {
        /// The round.
        round: u32,
        /// Whether it is the output of the forced last call, and so the answer whatever it is.
        forced: bool,
    },
    /// Begin this epoch; what is not forgotten is carried over from the one before.
    BeginEpoch {
        /// The new epoch.
        epoch: u32,
    },
    /// Seal the record: nothing is added to it any more.
    Seal,
}

/// Why an event was refused. The state stays as it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// Nothing can follow.
    #[error("the session is finished")]
    SessionFinished,
    /// The round is taken, or lies ahead.
    #[error("the next round is {expected}")]
    RoundNotNext {
        /// The round that is next.
        expected: u32,
    },
}

/// What follows from an event: the new state and what to do, or why nothing does.
pub fn step(state: State, event: Event) -> Result<(State, Vec<Effect>), Refusal> {
    if state.status.is_finished() {
        // Cancelling again asks for what is so already.
        return match (state.status, event) {
            (Status::Cancelled, Event::Cancel) => Ok((state, vec![])),
            _ => Err(Refusal::SessionFinished),
        };
    }
    match event {
        Event::Round { number, decision } => {
            let round = state.round + 1;
            if number.is_some_and(|number| number != round) {
                return Err(Refusal::RoundNotNext { expected: round });
            }
            let forced = state.status == Status::Exhausted;
            if forced || decision == DecisionKind::Answer {
                let effects = vec![Effect::RecordAnswer { round, forced }, Effect::Seal];
                return Ok((State { status: Status::Answered, round, ..state }, effects));
            }
            let status = if round >= state.max_rounds { Status::Exhausted } else { Status::Open };
            let effects = match decision {
                DecisionKind::Tool => vec![],
                _ => vec![Effect::Fetch { round, epoch: state.epoch }],
            };
            Ok((State { status, round, ..state }, effects))
        }
        Event::Forget => {
            let epoch = state.epoch + 1;
            Ok((State { epoch, ..state }, vec![Effect::BeginEpoch { epoch }]))
        }
        Event::Cancel => Ok((State { status: Status::Cancelled, ..state }, vec![Effect::Seal])),
        Event::Fail => Ok((State { status: Status::Failed, ..state }, vec![Effect::Seal])),
    }
}

#[cfg(test)]
mod tests {
    use super::DecisionKind::{Answer, Retrieval};
    use super::Status::{Answered, Cancelled, Exhausted, Failed, Open};
    use super::*;

    fn state(status: Status, round: u32) -> State {
        State { status, round, max_rounds: 3, epoch: 2 }
    }

    fn round(number: Option<u32>, decision: DecisionKind) -> Event {
        Event::Round { number, decision }
    }

    fn answered(round: u32, forced: bool) -> Vec<Effect> {
        vec![Effect::RecordAnswer { round, forced }, Effect::Seal]
    }

    fn fetch(round: u32) -> Vec<Effect> {
        vec![Effect::Fetch { round, epoch: 2 }]
    }

    macro_rules! steps {
        ($($name:ident: $status:expr, $round:expr, $event:expr => $result:expr;)*) => {
            $(#[test] fn $name() { assert_eq!(step(state($status, $round), $event), $result); })*
        };
    }

    steps! {
        a_request: Open, 0, round(None, Retrieval) => Ok((state(Open, 1), fetch(1)));
        a_request_by_number: Open, 1, round(Some(2), Retrieval) => Ok((state(Open, 2), fetch(2)));
        the_last_request: Open, 2, round(None, Retrieval) => Ok((state(Exhausted, 3), fetch(3)));
        an_answer: Open, 1, round(Some(2), Answer) => Ok((state(Answered, 2), answered(2, false)));
        an_answer_in_the_last_round: Open, 2, round(None, Answer) => Ok((state(Answered, 3), answered(3, false)));
        a_round_taken: Open, 2, round(Some(2), Retrieval) => Err(Refusal::RoundNotNext { expected: 3 });
        a_round_ahead: Open, 2, round(Some(4), Answer) => Err(Refusal::RoundNotNext { expected: 3 });
        round_zero: Open, 0, round(Some(0), Retrieval) => Err(Refusal::RoundNotNext { expected: 1 });
        forced_from_a_request: Exhausted, 3, round(None, Retrieval) => Ok((state(Answered, 4), answered(4, true)));
        forced_from_an_answer: Exhausted, 3, round(Some(4), Answer) => Ok((state(Answered, 4), answered(4, true)));
        not_next_when_exhausted: Exhausted, 3, round(Some(3), Answer) => Err(Refusal::RoundNotNext { expected: 4 });
        forget: Open, 1, Event::Forget =>
            Ok((State { epoch: 3, ..state(Open, 1) }, vec![Effect::BeginEpoch { epoch: 3 }]));
        forget_gives_no_round_back: Exhausted, 3, Event::Forget =>
            Ok((State { epoch: 3, ..state(Exhausted, 3) }, vec![Effect::BeginEpoch { epoch: 3 }]));
        cancel: Open, 1, Event::Cancel => Ok((state(Cancelled, 1), vec![Effect::Seal]));
        cancel_when_exhausted: Exhausted, 3, Event::Cancel => Ok((state(Cancelled, 3), vec![Effect::Seal]));
        cancel_again: Cancelled, 1, Event::Cancel => Ok((state(Cancelled, 1), vec![]));
        fail: Open, 0, Event::Fail => Ok((state(Failed, 0), vec![Effect::Seal]));
        fail_when_exhausted: Exhausted, 3, Event::Fail => Ok((state(Failed, 3), vec![Effect::Seal]));
    }

    fn every_event() -> Vec<Event> {
        let numbers = [None, Some(0), Some(1), Some(2), Some(3), Some(4), Some(5), Some(u32::MAX)];
        let rounds = numbers.iter().flat_map(|&number| [round(number, Retrieval), round(number, Answer)]);
        rounds.chain([Event::Forget, Event::Cancel, Event::Fail]).collect()
    }

    #[test]
    fn finished_sessions_take_nothing() {
        for &status in Status::ALL.iter().filter(|status| status.is_finished()) {
            for event in every_event() {
                if (status, event) != (Cancelled, Event::Cancel) {
                    let result = step(state(status, 2), event);
                    assert_eq!(result, Err(Refusal::SessionFinished), "{status:?} {event:?}");
                }
            }
        }
    }

    /// Every state that can be reached, by every event, for small and large `max_rounds`.
    #[test]
    fn what_always_holds() {
        for max_rounds in [1, 2, 3, 100] {
            let mut todo = vec![State::new(max_rounds)];
            let mut seen = std::collections::HashSet::new();
            while let Some(before) = todo.pop() {
                if before.epoch > 3 || !seen.insert((before.status.code(), before.round, before.epoch)) {
                    continue;
                }
                for event in every_event() {
                    let Ok((after, effects)) = step(before, event) else { continue };
                    let counts = |wanted: fn(&Effect) -> bool| effects.iter().filter(|e| wanted(e)).count();
                    let fetches = counts(|e| matches!(e, Effect::Fetch { .. }));
                    let answers = counts(|e| matches!(e, Effect::RecordAnswer { .. }));
                    let seals = counts(|e| matches!(e, Effect::Seal));
                    assert_eq!(after.max_rounds, max_rounds);
                    assert!(after.round <= max_rounds + 1);
                    assert_eq!(fetches + answers, usize::from(matches!(event, Event::Round { .. })));
                    assert_eq!(after.round - before.round, u32::from(matches!(event, Event::Round { .. })));
                    assert!(fetches == 0 || after.round <= max_rounds, "no round past the last one fetches");
                    assert_eq!(seals == 1, after.status.is_finished() && !before.status.is_finished());
                    assert_eq!(answers == 1, after.status == Answered);
                    assert_eq!(
                        after.status == Exhausted,
                        !after.status.is_finished() && after.round == max_rounds
                    );
                    assert!(matches!(after.epoch - before.epoch, 0 | 1));
                    todo.push(after);
                }
            }
            assert!(
                seen.iter().any(|&(status, round, _)| status == Answered.code() && round == max_rounds + 1)
            );
        }
    }

    #[test]
    fn names_and_codes_go_round() {
        for &status in Status::ALL {
            assert_eq!(serde_json::to_value(status).unwrap(), status.as_str());
            assert_eq!(Status::from_code(status.code()), Some(status));
            assert_eq!(Status::from_name(status.as_str()), Some(status));
        }
        assert_eq!(Status::from_code(0), None);
        let next: Vec<_> =
            Status::ALL.iter().map(|status| serde_json::to_value(status.next()).unwrap()).collect();
        assert_eq!(next, ["llm_call", "final_llm_call", "done", "done", "done"]);
    }
}
