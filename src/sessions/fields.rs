//! A session's fields: named texts that open its prompt, in the order given (retrieval semantics §7.1).

use serde_json::Value;

use crate::error::{FieldError, pointer};

/// The most bytes that the fields may have together, names included.
pub const MAX_FIELDS: usize = 1 << 20;

/// One field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Field {
    /// Its heading: not empty, one line.
    pub name: String,
    /// A string as it was given, any other JSON value in compact form.
    pub value: String,
}

/// Parses the member `fields`, whose pointer is `base`: an object, whose members keep their order.
pub fn parse(value: &Value, base: &str) -> Result<Vec<Field>, Vec<FieldError>> {
    let Some(members) = value.as_object() else {
        return Err(vec![FieldError::new(base, "must be an object")]);
    };
    let wrong: Vec<_> = (members.keys())
        .filter(|name| !is_heading(name))
        .map(|name| {
            FieldError::new(pointer(base, name), "must have a name of one line, without control characters")
        })
        .collect();
    if !wrong.is_empty() {
        return Err(wrong);
    }
    let fields: Vec<_> = (members.iter())
        .map(|(name, value)| Field {
            name: name.clone(),
            value: value.as_str().map_or_else(|| value.to_string(), str::to_owned),
        })
        .collect();
    let size: usize = fields.iter().map(|field| field.name.len() + field.value.len()).sum();
    if size > MAX_FIELDS {
        return Err(vec![FieldError::new(base, format!("must not have more than {MAX_FIELDS} bytes"))]);
    }
    Ok(fields)
}

/// Whether the text can stand in a line of its own in a prompt.
pub(super) fn is_heading(text: &str) -> bool {
    !text.is_empty() && !text.contains(|c: char| c.is_control() || matches!(c, '\u{2028}' | '\u{2029}'))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_order_given_is_kept_and_values_are_rendered() {
        let fields = parse(
            &json!({"Question": "What\nis \"it\"?\0", "A": 1.5, "Z": null, "B": {"y": [1, "x"], "a": true}}),
            "/fields",
        );
        let fields: Vec<_> = fields.unwrap().into_iter().map(|f| (f.name, f.value)).collect();
        let expected = [
            ("Question", "What\nis \"it\"?\0"),
            ("A", "1.5"),
            ("Z", "null"),
            ("B", r#"{"y":[1,"x"],"a":true}"#),
        ];
        assert_eq!(fields, expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
    }

    macro_rules! refused {
        ($($name:ident: $fields:expr => $pointers:expr;)*) => {
            $(#[test] fn $name() {
                let errors = parse(&$fields, "/fields").unwrap_err();
                let pointers: Vec<_> = errors.iter().map(|e| e.pointer.as_str()).collect();
                assert_eq!(pointers, $pointers);
            })*
        };
    }

    refused! {
        no_object: json!([]) => ["/fields"];
        names: json!({"": 1, "ok": 2, "a\nb": 3, "c\u{2028}": 4}) => ["/fields/", "/fields/a\nb", "/fields/c\u{2028}"];
        too_large: json!({"a": "x".repeat(MAX_FIELDS)}) => ["/fields"];
    }

    #[test]
    fn the_largest() {
        assert!(parse(&json!({"a": "x".repeat(MAX_FIELDS - 1)}), "").is_ok());
        assert_eq!(parse(&json!({}), ""), Ok(vec![]));
    }
}
