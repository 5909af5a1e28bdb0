//! `requestMatch`: the JSON Schema that tells a request from an answer, and grants modes (retrieval semantics §7.3).

use serde_json::Value;

use crate::error::FieldError;
use crate::item::Mode;
use crate::schema::Schema;

/// Checks and compiles a `requestMatch`, which must declare at least one mode. The error's pointer starts with `base` and
/// leads to the part of the schema at fault, as far as that is known.
pub fn compile_request_match(schema: &Value, base: &str) -> Result<Schema, FieldError> {
    let compiled = Schema::compile(schema, base)?;
    if compiled.granted.is_empty() {
        let modes: Vec<_> = Mode::ALL.iter().map(|mode| mode.as_str()).collect();
        let detail = format!("must declare at least one mode under `properties`: {}", modes.join(", "));
        return Err(FieldError::new(base, detail));
    }
    Ok(compiled)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_mode_must_be_declared() {
        for schema in [json!({"properties": {"answer": {}}}), json!(true), json!("object")] {
            assert_eq!(compile_request_match(&schema, "/r").unwrap_err().pointer, "/r");
        }
        let granted = compile_request_match(&json!({"properties": {"glob": {}}}), "/r").unwrap().granted;
        assert_eq!(granted, [Mode::Glob]);
    }
}
