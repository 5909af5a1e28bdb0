//! Reading a model's output: is it a retrieval request, or the final answer? (retrieval semantics §7.3)
//!
//! An output is any JSON value. Where it is a text, the text is a request only if the whole of it, trimmed, is one JSON
//! value or one Markdown code fence that holds one. Prose around JSON is an answer.
//!
//! A mode that is null is absent. Since models whose schema makes every member required send nulls, an output that does not
//! satisfy the schema as it came is tested once more without its members that are null.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

use crate::given::{member, without_nulls};
use crate::schema::Schema;

/// What an output is, in the words that go on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum DecisionKind {
    /// A retrieval request.
    Retrieval,
    /// The final answer.
    Answer,
    /// A call of a tool of the session's route, by the model of a run.
    Tool,
}

impl DecisionKind {
    /// The name on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            DecisionKind::Retrieval => "retrieval",
            DecisionKind::Answer => "answer",
            DecisionKind::Tool => "tool",
        }
    }

    /// The kind of this [name](DecisionKind::as_str).
    pub fn from_name(name: &str) -> Option<DecisionKind> {
        let all = [DecisionKind::Retrieval, DecisionKind::Answer, DecisionKind::Tool];
        all.into_iter().find(|kind| kind.as_str() == name)
    }
}

/// Why an output is not a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum AnswerReason {
    /// It does not satisfy the schema.
    NoMatch,
    /// It satisfies the schema, and names no mode that the schema grants.
    NoGrantedMode,
    /// It is a text that holds no JSON value, or more than one.
    NotJson,
    /// Its caller said that it is the answer.
    Said,
}

impl AnswerReason {
    /// Every reason.
    pub const ALL: &[AnswerReason] =
        &[AnswerReason::NoMatch, AnswerReason::NoGrantedMode, AnswerReason::NotJson, AnswerReason::Said];

    /// The reason of this [name](AnswerReason::as_str).
    pub fn from_name(name: &str) -> Option<AnswerReason> {
        AnswerReason::ALL.iter().copied().find(|reason| reason.as_str() == name)
    }

    /// The name on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            AnswerReason::NoMatch => "no_match",
            AnswerReason::NoGrantedMode => "no_granted_mode",
            AnswerReason::NotJson => "not_json",
            AnswerReason::Said => "said",
        }
    }
}

/// What an output is.
#[derive(Debug, Clone, PartialEq)]
pub enum Decision {
    /// A request with these members, at least one of which is a granted mode.
    Retrieval(Map<String, Value>),
    /// The final answer, and why it is one.
    Answer(AnswerReason),
    /// A call of a tool; whoever submits it has made the call.
    Tool,
}

impl Decision {
    /// Which of them it is.
    pub fn kind(&self) -> DecisionKind {
        match self {
            Decision::Retrieval(_) => DecisionKind::Retrieval,
            Decision::Answer(_) => DecisionKind::Answer,
            Decision::Tool => DecisionKind::Tool,
        }
    }
}

/// Decides what an output is, by the schema and the modes that it grants.
pub fn decide(output: &Value, schema: &Schema) -> Decision {
    let candidate = match output {
        Value::String(text) => match only_value(text) {
            Some(value) => Cow::Owned(value),
            None => return Decision::Answer(AnswerReason::NotJson),
        },
        value => Cow::Borrowed(value),
    };
    if !schema.is_valid(&candidate) && !schema.is_valid(&without_nulls(&candidate)) {
        return Decision::Answer(AnswerReason::NoMatch);
    }
    match candidate.into_owned() {
        Value::Object(members)
            if schema.granted.iter().any(|mode| member(&members, mode.as_str()).is_some()) =>
        {
            Decision::Retrieval(members)
        }
        _ => Decision::Answer(AnswerReason::NoGrantedMode),
    }
}

/// The one JSON value that the text is, or that its one code fence holds.
fn only_value(text: &str) -> Option<Value> {
    let text = text.trim();
    // Nesting too deep and numbers out of range are errors of the parser like any other.
    serde_json::from_str(fenced(text).unwrap_or(text)).ok()
}

/// What the code fence holds that the trimmed text consists of. That nothing follows the first fence is not looked at:
/// what a fence would close within it is no JSON.
fn fenced(text: &str) -> Option<&str> {
    let mark = text.chars().next().filter(|c| matches!(c, '`' | '~'))?;
    let (opening, rest) = text.split_once(['\n', '\r'])?;
    let info = opening.trim_start_matches(mark);
    let length = opening.len() - info.len();
    if length < 3 || (mark == '`' && info.contains('`')) {
        return None;
    }
    let (body, closing) = rest.rsplit_once(['\n', '\r']).unwrap_or(("", rest));
    let closing = closing.trim();
    (closing.len() >= length && closing.chars().all(|c| c == mark)).then_some(body)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn decide_by(schema: Value, output: Value) -> Decision {
        let schema = Schema::compile(&schema, "").unwrap();
        decide(&output, &schema)
    }

    fn lax() -> Value {
        json!({"properties": {"files": {}, "metatag": {}}})
    }

    fn strict() -> Value {
        json!({"type": "object", "required": ["files"],
            "properties": {"files": {"type": "array", "items": {"type": "string"}}}})
    }

    macro_rules! requests {
        ($($name:ident: $output:expr => $members:tt;)*) => {
            $(#[test] fn $name() {
                let Value::Object(members) = json!($members) else { panic!() };
                assert_eq!(decide_by(lax(), Value::from($output)), Decision::Retrieval(members));
            })*
        };
    }

    requests! {
        a_value: json!({"files": ["a"]}) => {"files": ["a"]};
        a_wrong_shape_under_a_lax_schema: json!({"metatag": {}}) => {"metatag": {}};
        a_mode_and_more: json!({"files": [], "glob": "*", "x": 1}) => {"files": [], "glob": "*", "x": 1};
        text: "  {\"files\": [\"a\"]}\n" => {"files": ["a"]};
        a_fence: "```json\n{\"files\": [\"a\"]}\n```" => {"files": ["a"]};
        a_fence_without_language: "\n```\n\n{\"files\":\n[]}\n\n```\n" => {"files": []};
        a_fence_of_tildes: "~~~~ json title=`x`\n{\"files\": []}\n~~~~" => {"files": []};
        a_fence_with_carriage_returns: "```json\r\n{\"files\": []}\r\n```\r\n" => {"files": []};
        a_longer_closing_fence: "```\n{\"files\": []}\n  `````" => {"files": []};
        fences_within_a_string: "```\n{\"files\": [\"```\"]}\n```" => {"files": ["```"]};
        a_huge_integer: "{\"files\": [], \"n\": 123456789012345678901234567890}" =>
            {"files": [], "n": 123456789012345678901234567890f64};
    }

    #[test]
    fn nulls_are_absent_where_the_schema_takes_none() {
        let closed = json!({"type": "object", "additionalProperties": false, "properties": {
            "files": {"type": "array", "items": {"type": "string"}}, "glob": {"type": "string"},
            "metatag": {"type": "object", "properties": {"name": {"type": "string"}, "contains": {"type": "string"}}}}});
        for output in [
            json!({"files": ["a"], "glob": null}),
            json!({"files": ["a"], "where": null}),
            json!({"files": null, "metatag": {"name": "n", "contains": null}}),
            json!("{\"glob\": \"*\", \"files\": null}"),
        ] {
            assert_eq!(decide_by(closed.clone(), output).kind(), DecisionKind::Retrieval);
        }
        for (output, reason) in [
            (json!({"files": null, "glob": null}), AnswerReason::NoGrantedMode),
            (json!({"files": [null]}), AnswerReason::NoMatch),
        ] {
            assert_eq!(decide_by(closed.clone(), output), Decision::Answer(reason));
        }
        // A schema that asks for nulls is satisfied by them.
        let nullable = json!({"required": ["files", "glob"], "properties": {"files": {}, "glob": {"type": ["string", "null"]}}});
        assert_eq!(
            decide_by(nullable, json!({"files": ["a"], "glob": null})).kind(),
            DecisionKind::Retrieval
        );
    }

    macro_rules! answers {
        ($($name:ident: $schema:expr, $output:expr => $reason:ident;)*) => {
            $(#[test] fn $name() {
                assert_eq!(decide_by($schema, Value::from($output)), Decision::Answer(AnswerReason::$reason));
            })*
        };
    }

    answers! {
        prose: lax(), "The report says so." => NotJson;
        nothing: lax(), "" => NotJson;
        prose_before: lax(), "Sure! {\"files\": []}" => NotJson;
        prose_after: lax(), "{\"files\": []} there" => NotJson;
        prose_around_a_fence: lax(), "Here:\n```json\n{\"files\": []}\n```" => NotJson;
        prose_after_a_fence: lax(), "```json\n{\"files\": []}\n```\nDone." => NotJson;
        two_fences: lax(), "```\n{\"files\": []}\n```\n```\n{\"files\": []}\n```" => NotJson;
        two_values: lax(), "{\"files\": []}{\"files\": []}" => NotJson;
        two_values_in_a_fence: lax(), "```\n{\"files\": []}\n{}\n```" => NotJson;
        an_open_fence: lax(), "```json\n{\"files\": []}" => NotJson;
        a_shorter_closing_fence: lax(), "````\n{\"files\": []}\n```" => NotJson;
        another_closing_fence: lax(), "```\n{\"files\": []}\n~~~" => NotJson;
        code_in_a_line: lax(), "```{\"files\": []}```" => NotJson;
        two_marks: lax(), "``\n{\"files\": []}\n``" => NotJson;
        only_marks: lax(), "```\n```" => NotJson;
        out_of_range: lax(), "{\"files\": [1e400]}" => NotJson;
        deep: lax(), format!("{{\"files\": {}{}}}", "[".repeat(5000), "]".repeat(5000)) => NotJson;
        no_mode: lax(), json!({"answer": 42}) => NoGrantedMode;
        nothing_but_nulls: lax(), json!({"files": null, "metatag": null}) => NoGrantedMode;
        nothing_but_nulls_under_a_strict_schema: strict(), json!({"files": null}) => NoMatch;
        a_wrong_shape_under_a_strict_schema: strict(), json!({"files": "core.md"}) => NoMatch;
        an_undeclared_mode: lax(), json!({"glob": "*"}) => NoGrantedMode;
        no_object: lax(), json!(["files"]) => NoGrantedMode;
        null: lax(), json!(null) => NoGrantedMode;
        null_as_text: lax(), "null" => NoGrantedMode;
        text_in_text: lax(), "\"{\\\"files\\\": []}\"" => NoGrantedMode;
        text_that_does_not_match: strict(), "{\"files\": [1]}" => NoMatch;
    }

    #[test]
    fn names_on_the_wire() {
        for &reason in AnswerReason::ALL {
            assert_eq!(serde_json::to_value(reason).unwrap(), reason.as_str());
            assert_eq!(AnswerReason::from_name(reason.as_str()), Some(reason));
        }
        for kind in [DecisionKind::Retrieval, DecisionKind::Answer] {
            assert_eq!(serde_json::to_value(kind).unwrap(), kind.as_str());
            assert_eq!(DecisionKind::from_name(kind.as_str()), Some(kind));
        }
        assert_eq!(Decision::Answer(AnswerReason::NoMatch).kind(), DecisionKind::Answer);
    }
}
