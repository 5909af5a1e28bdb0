//! Metatag values and their types (REST contract, "metatags"; limits: retrieval semantics §2.5).

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

use crate::error::{FieldError, pointer};

/// The longest name of a metatag, in characters.
pub const MAX_NAME: usize = 128;
/// The largest value, in bytes of what it holds: texts, names of members, numbers and words. What JSON puts around them
/// (quotes, escapes, commas, brackets) does not count.
pub const MAX_VALUE: usize = 64 * 1024;
/// The most that all metatags of one file may take, in bytes of JSON.
pub const MAX_TOTAL: usize = 256 * 1024;

/// The type of a metatag, as its JSON value has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
pub enum TagType {
    /// A text.
    #[serde(rename = "string")]
    String,
    /// An array of texts only, `[]` included.
    #[serde(rename = "string[]")]
    StringArray,
    /// An integer within 64 bits, or a double.
    #[serde(rename = "number")]
    Number,
    /// `true` or `false`.
    #[serde(rename = "boolean")]
    Boolean,
    /// Everything structured: objects, and arrays that hold anything but texts.
    #[serde(rename = "object")]
    Object,
}

impl TagType {
    /// The type of a value; `null` has none.
    pub fn of(value: &Value) -> Option<TagType> {
        Some(match value {
            Value::Null => return None,
            Value::Bool(_) => TagType::Boolean,
            Value::Number(_) => TagType::Number,
            Value::String(_) => TagType::String,
            Value::Array(elements) if elements.iter().all(Value::is_string) => TagType::StringArray,
            Value::Array(_) | Value::Object(_) => TagType::Object,
        })
    }

    /// The name that the API gives it.
    pub fn as_str(self) -> &'static str {
        match self {
            TagType::String => "string",
            TagType::StringArray => "string[]",
            TagType::Number => "number",
            TagType::Boolean => "boolean",
            TagType::Object => "object",
        }
    }
}

/// The metatags of one file: valid names, no nulls, within the limits.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
#[serde(transparent)]
pub struct Tags(Map<String, Value>);

impl Tags {
    /// Checks metatags; `base` is the pointer of the object they came in. Nulls set no tag, and are given back by name.
    ///
    /// # Errors
    /// Every wrong name and value, by pointer.
    pub fn parse(given: Map<String, Value>, base: &str) -> Result<(Tags, Vec<String>), Vec<FieldError>> {
        let (nulls, tags): (Map<_, _>, Map<_, _>) = given.into_iter().partition(|(_, value)| value.is_null());
        let mut errors: Vec<FieldError> = tags
            .iter()
            .filter_map(|(name, value)| {
                let detail = wrong_name(name).or_else(|| wrong_value(value))?;
                Some(FieldError::new(pointer(base, name), detail))
            })
            .collect();
        if errors.is_empty() && json_size(&tags) > MAX_TOTAL {
            errors.push(FieldError::new(
                base,
                format!("all metatags together may take {MAX_TOTAL} bytes of JSON"),
            ));
        }
        if errors.is_empty() {
            Ok((Tags(tags), nulls.into_iter().map(|(name, _)| name).collect()))
        } else {
            Err(errors)
        }
    }

    /// Of metatags that a document carries, those that can be set on it, where the slate allows only `types` (name → type);
    /// and what is wrong with the others, by name. Without a name it is wrong with all of them together.
    pub fn settable(
        mut given: Map<String, Value>,
        types: &Map<String, Value>,
    ) -> (Tags, Vec<(Option<String>, String)>) {
        let mut wrong = Vec::new();
        loop {
            let errors = match Tags::parse(given.clone(), "") {
                Ok((tags, _)) => match tags.check_types(types, "") {
                    errors if errors.is_empty() => return (tags, wrong),
                    errors => errors,
                },
                Err(errors) => errors,
            };
            // Each turn takes something away, so there is a last one.
            for FieldError { pointer: at, detail } in errors {
                let name = given.keys().find(|name| pointer("", name) == at).cloned();
                match &name {
                    Some(name) => drop(given.shift_remove(name)),
                    None => given.clear(),
                }
                wrong.push((name, detail));
            }
        }
    }

    /// What a merge patch (RFC 7396) makes of these metatags: a null removes, objects merge member by member.
    ///
    /// # Errors
    /// As [`Tags::parse`], for the members of the patch and for the whole.
    pub fn merge(&self, patch: Map<String, Value>, base: &str) -> Result<Tags, Vec<FieldError>> {
        let mut merged = Value::Object(self.0.clone());
        json_merge(&mut merged, Value::Object(patch));
        let Value::Object(merged) = merged else { unreachable!("an object merged with an object is one") };
        Tags::parse(merged, base).map(|(tags, _)| tags)
    }

    /// What these metatags are once a file's source says that it has those of `source`, having set those of the names in `owned`
    /// before: the source's own are replaced, all others stay.
    ///
    /// # Errors
    /// As [`Tags::parse`], for the whole.
    pub fn with_source(&self, source: &Tags, owned: &[String], base: &str) -> Result<Tags, Vec<FieldError>> {
        let mut all = self.0.clone();
        all.retain(|name, _| !owned.contains(name));
        all.extend(source.0.clone());
        Tags::parse(all, base).map(|(tags, _)| tags)
    }

    /// The names whose value is of another type than `types` (name → type) allows.
    pub fn check_types(&self, types: &Map<String, Value>, base: &str) -> Vec<FieldError> {
        self.0
            .iter()
            .filter_map(|(name, value)| {
                let allowed = types.get(name)?.as_str()?;
                let found = TagType::of(value)?.as_str();
                let detail = format!("is a {found}, and the slate allows only {allowed}");
                (found != allowed).then(|| FieldError::new(pointer(base, name), detail))
            })
            .collect()
    }

    /// The metatags by name.
    pub fn as_map(&self) -> &Map<String, Value> {
        &self.0
    }

    /// Metatags as they were stored.
    pub fn stored(value: Value) -> Tags {
        match value {
            Value::Object(map) => Tags(map),
            _ => Tags::default(),
        }
    }
}

pub(crate) fn wrong_name(name: &str) -> Option<String> {
    if name.is_empty() || name.chars().count() > MAX_NAME {
        Some(format!("the name of a metatag has 1 to {MAX_NAME} characters"))
    } else if name.chars().any(char::is_control) {
        Some("the name of a metatag holds no control characters".into())
    } else {
        None
    }
}

fn wrong_value(value: &Value) -> Option<String> {
    let size = held(value);
    if size > MAX_VALUE {
        Some(format!("a value may take {MAX_VALUE} bytes, this one takes {size}"))
    } else if holds_nul(value) {
        Some("must not hold U+0000".into())
    } else {
        None
    }
}

/// Bytes of what a value holds.
fn held(value: &Value) -> usize {
    match value {
        Value::Null => "null".len(),
        Value::Bool(truth) => truth.to_string().len(),
        Value::Number(number) => number.to_string().len(),
        Value::String(text) => text.len(),
        Value::Array(elements) => elements.iter().map(held).sum(),
        Value::Object(members) => members.iter().map(|(name, value)| name.len() + held(value)).sum(),
    }
}

pub(crate) fn holds_nul(value: &Value) -> bool {
    match value {
        Value::String(text) => text.contains('\0'),
        Value::Array(elements) => elements.iter().any(holds_nul),
        Value::Object(members) => members.iter().any(|(name, value)| name.contains('\0') || holds_nul(value)),
        _ => false,
    }
}

fn json_size(value: &impl Serialize) -> usize {
    serde_json::to_vec(value).map_or(usize::MAX, |json| json.len())
}

fn json_merge(target: &mut Value, patch: Value) {
    let Value::Object(patch) = patch else {
        *target = patch;
        return;
    };
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    if let Value::Object(members) = target {
        for (name, value) in patch {
            if value.is_null() {
                members.remove(&name);
            } else {
                json_merge(members.entry(name).or_insert(Value::Null), value);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn map(value: Value) -> Map<String, Value> {
        match value {
            Value::Object(map) => map,
            _ => unreachable!(),
        }
    }

    #[test]
    fn types_follow_from_the_json() {
        for (value, name) in [
            (json!("x"), "string"),
            (json!([]), "string[]"),
            (json!(["a", "b"]), "string[]"),
            (json!(0), "number"),
            (json!(2.5), "number"),
            (json!(false), "boolean"),
            (json!({}), "object"),
            (json!(["a", 1]), "object"),
            (json!([{"a": 1}]), "object"),
            (json!([null]), "object"),
        ] {
            assert_eq!(TagType::of(&value).map(TagType::as_str), Some(name), "{value}");
        }
        assert_eq!(TagType::of(&Value::Null), None);
    }

    #[test]
    fn nulls_set_no_tag_and_are_given_back() {
        let (tags, nulls) = Tags::parse(map(json!({"a": 1, "b": null})), "").unwrap();
        assert_eq!((tags.as_map().len(), nulls), (1, vec!["b".to_owned()]));
    }

    #[test]
    fn wrong_names_and_values_are_named() {
        let long = "n".repeat(MAX_NAME + 1);
        for (given, at) in [
            (json!({"": 1}), "/metatags/"),
            (json!({"a\nb": 1}), "/metatags/a\nb"),
            (json!({&long: 1}), &*format!("/metatags/{long}")),
            (json!({"a/b": "x\u{0}"}), "/metatags/a~1b"),
            (json!({"o": {"k": ["\u{0}"]}}), "/metatags/o"),
            (json!({"v": "x".repeat(MAX_VALUE + 1)}), "/metatags/v"),
        ] {
            let errors = Tags::parse(map(given), "/metatags").unwrap_err();
            assert_eq!(errors[0].pointer, at);
        }
        let many: Map<_, _> = (0..5).map(|i| (format!("t{i}"), json!("x".repeat(60_000)))).collect();
        assert_eq!(Tags::parse(many, "/m").unwrap_err()[0].pointer, "/m");
        for fits in
            [json!("x".repeat(MAX_VALUE)), json!([{"a\"": "\n".repeat(MAX_VALUE - 10)}, 1.5, true, 7])]
        {
            assert!(Tags::parse(map(json!({"v": fits})), "").is_ok());
        }
        let longer = json!([{"a\"": "\n".repeat(MAX_VALUE - 10)}, 1.5, true, 77]);
        assert_eq!(Tags::parse(map(json!({"v": longer})), "").unwrap_err().len(), 1);
    }

    #[test]
    fn a_patch_merges_and_null_removes() {
        let tags = Tags::stored(json!({"a": 1, "o": {"x": 1, "y": 2}, "s": ["p"]}));
        let merged = tags.merge(map(json!({"a": null, "o": {"y": null, "z": 3}, "s": ["q"]})), "").unwrap();
        assert_eq!(Value::Object(merged.as_map().clone()), json!({"o": {"x": 1, "z": 3}, "s": ["q"]}));
    }

    #[test]
    fn what_can_be_set_is_and_the_rest_is_told() {
        let given = map(json!({"a": 1, "b": "x\u{0}", "c": "text", "d": null}));
        let (tags, wrong) = Tags::settable(given, &map(json!({"c": "number"})));
        assert_eq!(Value::Object(tags.as_map().clone()), json!({"a": 1}));
        let names: Vec<_> = wrong.iter().map(|(name, _)| name.as_deref()).collect();
        assert_eq!(names, [Some("b"), Some("c")]);
        let many: Map<_, _> = (0..5).map(|i| (format!("t{i}"), json!("x".repeat(60_000)))).collect();
        let (tags, wrong) = Tags::settable(many, &Map::new());
        assert_eq!((tags.as_map().len(), wrong.len(), &wrong[0].0), (0, 1, &None));
    }

    #[test]
    fn a_slate_may_fix_types() {
        let tags = Tags::stored(json!({"p": "3", "q": true, "r": 1}));
        let errors = tags.check_types(&map(json!({"p": "number", "q": "boolean"})), "/metatags");
        assert_eq!(errors.len(), 1);
        assert_eq!(errors[0].pointer, "/metatags/p");
    }
}
