//! JSON bodies (REST contract, "Errors"): 415 for another media type, 400 for what is no JSON, and 422 with a JSON
//! Pointer for what is JSON of the wrong shape, unknown members included. The pointer of an unknown member names it.

use actix_web::dev::Payload;
use actix_web::http::header::CONTENT_TYPE;
use actix_web::web::Bytes;
use actix_web::{FromRequest, HttpRequest};
use futures_util::future::LocalBoxFuture;
use serde::de::{DeserializeOwned, Deserializer, IgnoredAny};
use serde_path_to_error::{Path, Segment};

use super::body::{DEFAULT_LIMIT, read};
use super::json_scan;
use crate::error::{Code, Error, Result, pointer};

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
    typed(&mut serde_json::Deserializer::from_str(text))
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
    typed(value)
}

/// Reads a JSON value, part of a body that was read whole, into a type.
///
/// # Errors
/// 422 with a pointer for what does not fit the type.
pub fn from_value<T: DeserializeOwned>(value: serde_json::Value) -> Result<T> {
    typed(value)
}

/// Every body is an object; the members of one could otherwise be given as an array, in order.
fn no_object() -> Error {
    Error::invalid_at("", "the body must be an object")
}

fn typed<'de, T: serde::Deserialize<'de>, D>(deserializer: D) -> Result<T>
where
    D: Deserializer<'de, Error = serde_json::Error>,
{
    serde_path_to_error::deserialize(deserializer).map_err(|error| {
        let detail = error.inner().to_string();
        // The pointer tells where; a line and a column of a body that no editor shows tell nobody anything.
        let detail = detail.rsplit_once(" at line ").map_or(detail.as_str(), |(what, _)| what);
        Error::invalid_at(pointer_to(error.path()), detail)
    })
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
    use serde::Deserialize;

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
