//! What is sent to a tool, and what is kept of its answer (corpora, "Retrieve tools", 1 to 3).
//!
//! A payload is the union of the session's goal, of the slots whose names the input schema declares, and of the call's
//! arguments; where they clash, the arguments win, then the goal. A goal that is a text is the member `goal`. With declared
//! `properties`, every other member is dropped. The session's notes never travel; the packed text does, where `packed_text` is
//! declared.

use serde_json::{Map, Value};

use crate::corpora::pack::packed_text;
use crate::error::pointer;

/// Members by which a payload names corpora.
const CORPORA: [&str; 4] = ["corpus", "corpus_id", "corpora", "corpus_ids"];

/// What is sent.
pub fn payload(
    goal: Option<&Value>,
    working: &Value,
    input_schema: &Value,
    arguments: &Map<String, Value>,
) -> Map<String, Value> {
    let declared = input_schema["properties"].as_object();
    let mut payload = Map::new();
    for name in declared.into_iter().flat_map(|declared| declared.keys()) {
        let slot = match name.as_str() {
            "packed_text" => packed_text(working).map(Value::from),
            name => working["slots"].get(name).cloned(),
        };
        payload.extend(slot.map(|slot| (name.clone(), slot)));
    }
    match goal {
        Some(Value::Object(members)) => payload.extend(members.clone()),
        Some(text) => {
            payload.insert("goal".into(), text.clone());
        }
        None => {}
    }
    payload.extend(arguments.clone());
    if let Some(declared) = declared {
        payload.retain(|name, _| declared.contains_key(name));
    }
    payload
}

/// The corpora that a payload names, each with its pointer from `base`.
pub fn corpora<'a>(payload: &'a Map<String, Value>, base: &str) -> Vec<(String, &'a str)> {
    let mut named = Vec::new();
    for member in CORPORA {
        let at = pointer(base, member);
        match payload.get(member) {
            Some(Value::String(id)) => named.push((at, id.as_str())),
            Some(Value::Array(ids)) => {
                let ids = ids.iter().enumerate().filter_map(|(i, id)| Some((pointer(&at, i), id.as_str()?)));
                named.extend(ids);
            }
            _ => {}
        }
    }
    named
}

/// What is kept of an answer: the properties that the output schema declares, where it declares any.
pub fn projected(answer: Value, output_schema: &Value) -> Value {
    match (answer, output_schema["properties"].as_object()) {
        (Value::Object(mut members), Some(declared)) => {
            members.retain(|name, _| declared.contains_key(name));
            Value::Object(members)
        }
        (answer, _) => answer,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn made(goal: Value, slots: Value, schema: Value, arguments: Value) -> Value {
        let working = json!({"slots": slots, "notes": ["never"]});
        let goal = Some(&goal).filter(|goal| !goal.is_null());
        payload(goal, &working, &schema, arguments.as_object().unwrap()).into()
    }

    #[test]
    fn arguments_win_then_the_goal_then_slots() {
        let schema = json!({"properties": {"a": {}, "b": {}, "c": {}, "notes": {}, "packed_text": {}}});
        let goal = json!({"a": "goal", "b": "goal", "x": "dropped"});
        let slots = json!({"a": "slot", "b": "slot", "c": "slot", "y": "dropped"});
        assert_eq!(
            made(goal, slots, schema, json!({"a": "argument", "z": "dropped"})),
            json!({"a": "argument", "b": "goal", "c": "slot"})
        );
    }

    #[test]
    fn without_declared_properties_nothing_is_dropped_and_no_slot_travels() {
        let open = json!({"type": "object"});
        assert_eq!(
            made(json!({"a": 1}), json!({"s": 1}), open.clone(), json!({"b": 2})),
            json!({"a": 1, "b": 2})
        );
        assert_eq!(made(json!("text"), json!({}), open.clone(), json!({})), json!({"goal": "text"}));
        assert_eq!(made(Value::Null, json!({}), open, json!({})), json!({}));
    }

    #[test]
    fn the_packed_text_travels_where_it_is_declared() {
        let slots = json!({"prefetch": {"chunks": [{"corpus_id": "c", "id": "1", "text": "x"}]}});
        let declared = json!({"properties": {"packed_text": {}, "prefetch": {}}});
        assert_eq!(
            made(Value::Null, slots.clone(), declared, json!({})),
            json!({"packed_text": "[c:1] x", "prefetch": slots["prefetch"]})
        );
    }

    #[test]
    fn named_corpora() {
        let payload = json!({"corpus": "a", "corpora": ["b", 1, "c"], "corpus_id": null, "other": "d"});
        let named = corpora(payload.as_object().unwrap(), "/arguments");
        let expected =
            [("/arguments/corpus", "a"), ("/arguments/corpora/0", "b"), ("/arguments/corpora/2", "c")];
        assert_eq!(named, expected.map(|(at, id)| (at.to_owned(), id)));
    }

    #[test]
    fn answers_are_projected() {
        let schema = json!({"properties": {"a": {}}});
        assert_eq!(projected(json!({"a": 1, "b": 2}), &schema), json!({"a": 1}));
        assert_eq!(projected(json!([1]), &schema), json!([1]));
        assert_eq!(projected(json!({"b": 2}), &json!({"type": "object"})), json!({"b": 2}));
    }
}
