//! JSON bodies (REST contract, "Errors"): 415 for another media type, 400 for what is no JSON, and 422 with a JSON
//! Pointer for what is JSON of the wrong shape, unknown members included. The pointer of an unknown member names it.
//! A member that is null is as if it were not there, wherever it may be left out, and an integer may be written
//! `5.0`: see [`given`](crate::given).

use actix_web::dev::Payload;
use actix_web::http::header::CONTENT_TYPE;
use actix_web::web::Bytes;
use actix_web::{FromRequest, HttpRequest};
use futures_util::future::LocalBoxFuture;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::Value;
use serde_path_to_error::{Path, Segment};

use super::body::{DEFAULT_LIMIT, read};
use super::json_scan;
use crate::error::{Code, Error, Result, pointer};
use crate::given::{Given, LeftOut, Misfit};

/// How often a value is read anew without members that are null; each time those of one name are left out, or of one map.
const MAX_READINGS: usize = 32;

/// A JSON body of at most `LIMIT` bytes. Its type should `deny_unknown_fields`.
pub struct Body<T, const LIMIT: usize = DEFAULT_LIMIT>(pub T);

/// The same where the body may be left out.
pub struct OptionalBody<T, const LIMIT: usize = DEFAULT_LIMIT>(pub Option<T>);

/// The same where the body may also be YAML, by its `Content-Type`: `application/yaml`.
pub struct JsonOrYaml<T, const LIMIT: usize = DEFAULT_LIMIT>(pub T);

impl<T: DeserializeOwned + 'static, const LIMIT: usize> FromRequest for Body<T, LIMIT> {
    type Error = Error;
    type Future = LocalBoxFuture<'static, Result<Self>>;

    fn from_request(req: &HttpRequest, payload: &mut Payload) -> Self::Future {
        let (req, mut payload) = (req.clone(), payload.take());
        Box::pin(async move {
            if !is_json(&req) {
                return Err(wrong_type("application/json"));
            }
            parse(&read(&req, &mut payload, LIMIT).await?).map(Body)
        })
    }
}

impl<T: DeserializeOwned + 'static, const LIMIT: usize> FromRequest for OptionalBody<T, LIMIT> {
    type Error = Error;
    type Future = LocalBoxFuture<'static, Result<Self>>;

    fn from_request(req: &HttpRequest, payload: &mut Payload) -> Self::Future {
        let (req, mut payload) = (req.clone(), payload.take());
        Box::pin(async move {
            let body = read(&req, &mut payload, LIMIT).await?;
            match body.is_empty() {
                true => Ok(OptionalBody(None)),
                false if is_json(&req) => parse(&body).map(|value| OptionalBody(Some(value))),
                false => Err(wrong_type("application/json")),
            }
        })
    }
}

impl<T: DeserializeOwned + 'static, const LIMIT: usize> FromRequest for JsonOrYaml<T, LIMIT> {
    type Error = Error;
    type Future = LocalBoxFuture<'static, Result<Self>>;

    fn from_request(req: &HttpRequest, payload: &mut Payload) -> Self::Future {
        let (req, mut payload) = (req.clone(), payload.take());
        Box::pin(async move {
            let yaml = is_yaml(&req);
            if !yaml && !is_json(&req) {
                return Err(wrong_type("application/json or application/yaml"));
            }
            let body: Bytes = read(&req, &mut payload, LIMIT).await?;
            if yaml { parse_yaml(&body) } else { parse(&body) }.map(JsonOrYaml)
        })
    }
}

/// Reads JSON text into a type.
///
/// # Errors
/// 400 for what is no JSON, 422 with a pointer for what is no object or does not fit the type.
pub fn parse<T: DeserializeOwned>(body: &[u8]) -> Result<T> {
    let text = std::str::from_utf8(body)
        .map_err(|error| malformed(Code::MalformedJson, format!("the body is not UTF-8: {error}")))?;
    serde_json::from_str::<IgnoredAny>(text)
        .map_err(|error| malformed(Code::MalformedJson, error.to_string()))?;
    json_scan::check(text)?;
    if !text.trim_ascii_start().starts_with('{') {
        return Err(no_object());
    }
    typed(|| {
        let mut json = serde_json::Deserializer::from_str(text);
        serde_path_to_error::deserialize(&mut json).map_err(|error| {
            // The pointer tells where; a line and a column of a body that no editor shows tell nobody anything.
            let detail = error.inner().to_string();
            let detail = detail.rsplit_once(" at line ").map_or(detail.as_str(), |(what, _)| what);
            Error::invalid_at(pointer_to(error.path()), detail)
        })
    })
}

/// Reads YAML text into a type, by way of the JSON value that it stands for.
///
/// # Errors
/// As [`parse`].
pub fn parse_yaml<T: DeserializeOwned>(body: &[u8]) -> Result<T> {
    let text = std::str::from_utf8(body)
        .map_err(|error| malformed(Code::MalformedYaml, format!("the body is not UTF-8: {error}")))?;
    let value =
        crate::yaml::parse(text).map_err(|error| malformed(Code::MalformedYaml, error.to_string()))?;
    if !value.is_object() {
        return Err(no_object());
    }
    from_value(value)
}

/// Reads a JSON value, part of a body that was read whole, into a type.
///
/// # Errors
/// 422 with a pointer for what does not fit the type.
pub fn from_value<T: DeserializeOwned>(value: Value) -> Result<T> {
    typed(|| Ok(value.clone()))
}

/// Every body is an object; the members of one could otherwise be given as an array, in order.
fn no_object() -> Error {
    Error::invalid_at("", "the body must be an object")
}

/// Reads the value, which can be had again and again, until no null is in the way that may be left out.
fn typed<T: DeserializeOwned>(value: impl Fn() -> Result<Value>) -> Result<T> {
    let given_as_null = |at: &str, name: &str| {
        Ok::<_, Error>(value()?.pointer(&pointer(at, name)).is_some_and(Value::is_null))
    };
    let left_out = LeftOut::default();
    let mut maps: Vec<String> = Vec::new();
    let mut readings = 1;
    loop {
        let last = readings == MAX_READINGS;
        let mut value = value()?;
        for map in &maps {
            if let Some(Value::Object(members)) = value.pointer_mut(map) {
                members.retain(|_, value| !value.is_null());
            }
        }
        let given = Given { value, left_out: &left_out };
        let error = match serde_path_to_error::deserialize(given) {
            Ok(read) => return Ok(read),
            Err(error) => error,
        };
        let at = pointer_to(error.path());
        match error.into_inner() {
            Misfit::Missing(name) if given_as_null(&at, name)? => {
                return Err(Error::invalid_at(pointer(&at, name), "is required"));
            }
            Misfit::Null { of: Some(of), member } if !last && left_out.add(of, &member) => {}
            Misfit::Null { of: None, member } if !last => {
                maps.push(at.strip_suffix(&pointer("", member)).unwrap_or(&at).to_owned());
            }
            other => return Err(Error::invalid_at(at, other.to_string())),
        }
        readings += 1;
    }
}

fn pointer_to(path: &Path) -> String {
    path.iter().fold(String::new(), |base, segment| match segment {
        Segment::Seq { index } => pointer(&base, index),
        Segment::Map { key } => pointer(&base, key),
        Segment::Enum { variant } => pointer(&base, variant),
        Segment::Unknown => base,
    })
}

fn malformed(code: Code, detail: String) -> Error {
    Error::new(code, detail)
}

fn wrong_type(wanted: &str) -> Error {
    Error::new(Code::UnsupportedMediaType, format!("send the body as Content-Type: {wanted}"))
}

/// The media type in lower case, without its parameters.
pub fn media_type(req: &HttpRequest) -> Option<String> {
    let value = req.headers().get(CONTENT_TYPE)?.to_str().ok()?;
    Some(value.split(';').next()?.trim_ascii().to_ascii_lowercase())
}

fn is_json(req: &HttpRequest) -> bool {
    media_type(req).is_some_and(|kind| {
        kind == "application/json" || kind.starts_with("application/") && kind.ends_with("+json")
    })
}

fn is_yaml(req: &HttpRequest) -> bool {
    media_type(req).is_some_and(|kind| {
        matches!(kind.as_str(), "application/yaml" | "application/x-yaml" | "text/yaml" | "text/x-yaml")
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde::Deserialize;
    use serde_json::{Map, json};

    use super::*;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    #[allow(dead_code, reason = "it is only read into")]
    struct Outer {
        name: String,
        #[serde(default)]
        inner: Vec<Inner>,
    }

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    #[allow(dead_code, reason = "it is only read into")]
    struct Inner {
        count: Option<u32>,
        #[serde(default)]
        flag: bool,
        #[serde(default)]
        named: BTreeMap<String, u8>,
        #[serde(default)]
        free: Map<String, Value>,
        any: Option<Required>,
    }

    #[derive(Debug, Deserialize)]
    struct Required {
        value: Value,
    }

    #[derive(Debug, Deserialize)]
    #[serde(tag = "kind", rename_all = "lowercase")]
    enum Tagged {
        Plain {},
    }

    #[test]
    fn a_variant_is_named_never_numbered() {
        assert!(matches!(from_value(json!({"kind": "plain"})), Ok(Tagged::Plain {})));
        for kind in [json!(0), json!(0.0), json!(true), json!(["plain"])] {
            let error = from_value::<Tagged>(json!({"kind": kind})).unwrap_err();
            let wrong = &error.errors[0];
            assert_eq!(
                (wrong.pointer.as_str(), wrong.detail.as_str()),
                ("/kind", "must be a text"),
                "{kind}"
            );
        }
    }

    fn refusal(text: &str) -> (u16, String) {
        let error = parse::<Outer>(text.as_bytes()).unwrap_err();
        (error.code.status(), error.errors.first().map_or("-".into(), |e| e.pointer.clone()))
    }

    macro_rules! refusals {
        ($($name:ident: $text:expr => $status:literal $pointer:literal;)*) => {
            $(#[test] fn $name() { assert_eq!(refusal($text), ($status, $pointer.to_owned())); })*
        };
    }

    refusals! {
        nothing: "" => 400 "-";
        half: "{\"name\":" => 400 "-";
        more_than_one: "{\"name\":\"a\"} {}" => 400 "-";
        not_an_object: "[]" => 422 "";
        members_without_names: " [\"a\",[]]" => 422 "";
        missing: "{}" => 422 "";
        missing_as_null: r#"{"name":null}"# => 422 "/name";
        unknown_and_null: r#"{"name":"a","foo":null}"# => 422 "/foo";
        an_element_that_is_null: r#"{"name":"a","inner":[null]}"# => 422 "/inner/0";
        half_an_integer: r#"{"name":"a","inner":[{"count":1.5}]}"# => 422 "/inner/0/count";
        a_negative_integer: r#"{"name":"a","inner":[{"count":-1.0}]}"# => 422 "/inner/0/count";
        members_without_names_within: r#"{"name":"a","inner":[[1]]}"# => 422 "/inner/0";
        wrong_type_of_member: r#"{"name":1}"# => 422 "/name";
        unknown: r#"{"name":"a","foo":1}"# => 422 "/foo";
        unknown_within: r#"{"name":"a","inner":[{},{"a/b":1}]}"# => 422 "/inner/1/a~1b";
        too_large_for_its_type: r#"{"name":"a","inner":[{"count":4294967296}]}"# => 422 "/inner/0/count";
        never_rounded: r#"{"name":"a","inner":[{"count":123456789012345678901234567890}]}"# => 422 "/inner/0/count";
        infinite: r#"{"name":"a","inner":[{"count":1e400}]}"# => 422 "/inner/0/count";
        twice: r#"{"name":"a","name":"b"}"# => 422 "/name";
        half_a_surrogate_pair: r#"{"name":"\ud800"}"# => 422 "/name";
    }

    #[test]
    fn null_is_absent_where_a_member_may_be_left_out() {
        let text = r#"{"name": "a", "inner": [
            {"count": null, "flag": null, "named": null, "free": null, "any": null},
            {"count": 5.0, "flag": true, "named": {"a": null, "b": 2.0, "c": null}, "free": {"a": null, "b": 1.0}},
            {"flag": null, "named": {"d": null}, "any": {"value": null}}]}"#;
        let read = parse::<Outer>(text.as_bytes()).unwrap().inner;
        assert_eq!(
            (read[0].count, read[0].flag, read[0].named.len(), read[0].free.len()),
            (None, false, 0, 0)
        );
        assert!(read[0].any.is_none());
        assert_eq!((read[1].count, read[1].flag), (Some(5), true));
        assert_eq!(read[1].named, BTreeMap::from([("b".to_owned(), 2)]));
        assert_eq!(Value::Object(read[1].free.clone()), json!({"a": null, "b": 1.0}));
        assert_eq!(read[2].any.as_ref().unwrap().value, Value::Null);
        assert!(parse::<Outer>(br#"{"name": "a", "inner": null}"#).unwrap().inner.is_empty());
        assert!(parse_yaml::<Outer>(b"name: a\ninner: ~\n").unwrap().inner.is_empty());
    }

    #[test]
    fn readings_are_bounded() {
        let inner: Vec<String> = (0..1000).map(|_| r#"{"named": {"a": null}}"#.into()).collect();
        let text = format!(r#"{{"name": "a", "inner": [{}]}}"#, inner.join(","));
        assert_eq!(parse::<Outer>(text.as_bytes()).unwrap_err().errors[0].detail, "must not be null");
    }

    #[test]
    fn yaml_has_pointers_too() {
        let error = parse_yaml::<Outer>(b"name: a\ninner:\n- count: x\n").unwrap_err();
        assert_eq!(error.errors[0].pointer, "/inner/0/count");
        assert_eq!(parse_yaml::<Outer>(b"a: [").unwrap_err().code, Code::MalformedYaml);
        assert_eq!(parse_yaml::<Outer>(b"\xff").unwrap_err().code, Code::MalformedYaml);
        assert_eq!(parse_yaml::<Outer>(b"name: a").unwrap().name, "a");
    }

    #[test]
    fn deep_nesting_is_refused_and_not_followed() {
        let error = parse::<serde_json::Value>("[".repeat(200_000).as_bytes()).unwrap_err();
        assert_eq!(error.code, Code::MalformedJson);
        let deep = format!("{{\"a\":{}{}}}", "[".repeat(200_000), "]".repeat(200_000));
        assert_eq!(parse::<serde_json::Value>(deep.as_bytes()).unwrap_err().code, Code::Invalid);
    }
}
