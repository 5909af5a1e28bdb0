//! What happens to a session, for whoever watches it (REST contract, "Sessions").

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

use super::machine::Status;
use super::output::DecisionKind;
use super::view::RoundView;

/// What happened. It tells where to look and holds no contents, so that a watcher who is slow costs little.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
#[schema(as = SessionEvent)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Happened {
    /// The service was asked to make the calls.
    Run {
        /// The model's name.
        #[schema(example = "gpt-5")]
        model: String,
    },
    /// A call of the model came to nothing, and is made again.
    Retry {
        /// Why, to test for.
        #[schema(example = "model_rate_limited")]
        reason: String,
        /// Why, for people.
        detail: String,
        /// When, at the earliest.
        next_at: DateTime<Utc>,
    },
    /// A round was taken.
    Round {
        /// Its number.
        #[schema(example = 1)]
        round: u32,
        /// What the output was read as.
        decision: DecisionKind,
        /// The session's status after it.
        status: Status,
        /// How many items of each status it gave.
        #[schema(example = json!({"fetched": 2, "not_found": 1}))]
        items: BTreeMap<&'static str, u64>,
        /// Whether a limit left something out.
        truncated: bool,
    },
    /// A new context epoch began.
    Forgotten {
        /// The epoch.
        #[schema(example = 2)]
        epoch: u32,
        /// How many files are no longer in context.
        #[schema(example = 3)]
        forgotten: i64,
    },
    /// The session came to its end.
    Finished {
        /// How.
        status: Status,
        /// Why it failed, where it did.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schema(value_type = Option<Object>)]
        failure: Option<Value>,
    },
}

impl Happened {
    /// What came of a round.
    pub fn round(view: &RoundView) -> Happened {
        let mut items = BTreeMap::new();
        for item in &view.items {
            *items.entry(item.status.as_str()).or_default() += 1;
        }
        let RoundView { round, decision, status, truncated, .. } = *view;
        Happened::Round { round, decision, status, items, truncated }
    }

    /// The name of its kind, which is that of the event.
    pub fn kind(&self) -> &'static str {
        match self {
            Happened::Run { .. } => "run",
            Happened::Retry { .. } => "retry",
            Happened::Round { .. } => "round",
            Happened::Forgotten { .. } => "forgotten",
            Happened::Finished { .. } => "finished",
        }
    }
}

/// An event as it was stored.
#[derive(Debug, Clone, PartialEq)]
pub struct Event {
    /// Counts the session's events, from 1.
    pub number: i64,
    /// As [`Happened::kind`].
    pub kind: String,
    /// A [`Happened`].
    pub data: Value,
}

impl Event {
    /// The event as Server-Sent Events write it. JSON is one line.
    pub fn to_sse(&self) -> String {
        format!("id: {}\nevent: {}\ndata: {}\n\n", self.number, self.kind, self.data)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_name_of_the_event_is_its_kind() {
        let finished =
            Happened::Finished { status: Status::Failed, failure: Some(json!({"reason": "x\ny"})) };
        let data = serde_json::to_value(&finished).unwrap();
        assert_eq!(data["kind"], finished.kind());
        let event = Event { number: 7, kind: finished.kind().into(), data };
        assert_eq!(
            event.to_sse(),
            "id: 7\nevent: finished\ndata: {\"kind\":\"finished\",\"status\":\"failed\",\"failure\":{\"reason\":\"x\\ny\"}}\n\n"
        );
    }
}
