//! What a caller asks of `retrieve` (provenance, "Input"), checked.

use serde::Deserialize;
use serde_json::{Map, Value};
use utoipa::ToSchema;

use super::extract::data::Filter;
use super::format::Format;
use super::target::{Locator, SourceType, locate};
use crate::error::{Error, FieldError, Result, pointer};
use crate::given::unsigned;
use crate::path::Name;
use crate::provenance::lines::LineRange;
use crate::schema::Schema;

/// All constraints.
const CONSTRAINTS: &[&str] =
    &["lines", "sections", "filters", "fields", "version", "schema", "max_bytes", "max_age", "slate"];

/// The most line ranges, sections, filters and fields of a request, each.
pub const MAX_PARTS: usize = 100;
/// The longest target, filter, section or pointer, in bytes.
pub const MAX_TEXT: usize = 4096;
/// The longest citation of a file, in bytes: a path whose every byte is escaped, and as many lines as may be cited.
pub const MAX_CITATION: usize = 64 * 1024;

/// The body of `POST /v1/retrieve`.
#[derive(Debug, Clone, Deserialize, ToSchema)]
#[schema(as = RetrieveRequest)]
#[serde(deny_unknown_fields)]
pub struct Asked {
    /// What to retrieve: a path, a URL, a citation, or an object that names an API, a database or a file.
    #[schema(value_type = Target, example = "config/database.yml")]
    pub target: Value,
    /// Where to read it; left out, inferred from the target.
    pub source: Option<SourceType>,
    /// The format that is expected; left out, detected. Another one is the failure `format_mismatch`.
    pub format: Option<Format>,
    /// What is wanted of it.
    #[schema(value_type = Option<Constraints>)]
    pub constraints: Option<Map<String, Value>>,
}

/// What to retrieve.
#[derive(ToSchema)]
#[schema(as = RetrieveTarget)]
#[serde(untagged)]
#[allow(dead_code, reason = "it documents what `Request::parse` takes")]
enum Target {
    /// A path, a URL, or a citation.
    Text(String),
    /// A file.
    File(FileTarget),
    /// A path of a registered API.
    Api(ApiTarget),
    /// A row of a table of a registered database.
    Row(RowTarget),
    /// The rows of a query of a registered database.
    Query(QueryTarget),
}

/// A file of a slate.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
#[allow(dead_code, reason = "it documents what `Request::parse` takes")]
struct FileTarget {
    /// The slate's name.
    #[schema(example = "Knowledge")]
    slate: String,
    /// The path from its root.
    #[schema(example = "config/database.yml")]
    path: String,
    /// The version; left out, the newest.
    version: Option<Version>,
}

/// A path of a registered API.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
#[allow(dead_code, reason = "it documents what `Request::parse` takes")]
struct ApiTarget {
    /// The API's name.
    #[schema(example = "weather")]
    api: String,
    /// The path below its base URL.
    #[schema(example = "cities/oslo")]
    path: String,
    /// Parameters of the URL's query.
    #[schema(value_type = Option<Object>, example = json!({"units": "metric"}))]
    query: Option<Value>,
}

/// A row of a table of a registered database.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
#[allow(dead_code, reason = "it documents what `Request::parse` takes")]
struct RowTarget {
    /// The database's name.
    #[schema(example = "shop")]
    database: String,
    /// The table, by the name that it is registered under.
    #[schema(example = "orders")]
    table: String,
    /// The key of the row: a text, a number or a boolean.
    #[schema(example = 42)]
    key: Value,
}

/// The rows of a query of a registered database.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
#[allow(dead_code, reason = "it documents what `Request::parse` takes")]
struct QueryTarget {
    /// The database's name.
    #[schema(example = "shop")]
    database: String,
    /// The query, by the name that it is registered under.
    #[schema(example = "of_customer")]
    query: String,
    /// Its parameters, by name.
    #[schema(value_type = Option<Object>, example = json!({"customer": "c-7"}))]
    params: Option<Value>,
}

/// A text, or an array of texts.
#[derive(ToSchema)]
#[serde(untagged)]
#[allow(dead_code, reason = "it documents what `texts` takes")]
enum OneOrMore {
    /// One.
    One(String),
    /// From 1 to 100.
    More(Vec<String>),
}

/// A version.
#[derive(ToSchema)]
#[schema(as = SourceVersion)]
#[serde(untagged)]
#[allow(dead_code, reason = "it documents what `Constraints::parse` takes")]
enum Version {
    /// Our number.
    Number(u64),
    /// Our number, or the source's own version.
    Text(String),
}

/// What is wanted of a target. Either `lines` and `sections`, or `schema`, `filters` and `fields`.
#[derive(ToSchema)]
#[allow(dead_code, reason = "it documents what `Constraints::parse` takes")]
struct Constraints {
    /// The slate that a plain path is looked up in; left out, the tenant's `default_slate`.
    #[schema(example = "Knowledge")]
    slate: Option<String>,
    /// The version: a number, or the source's own.
    #[schema(example = "3")]
    version: Option<Version>,
    /// Lines, from 1: `"1-50"`, `"7"`, `"40-"`, or an array of those.
    #[schema(example = "1-50")]
    lines: Option<OneOrMore>,
    /// Sections: the text of a Markdown heading; of code, the keyword or the name of a top-level construct.
    #[schema(example = json!(["Set up"]))]
    sections: Option<OneOrMore>,
    /// A JSONPath (RFC 9535), or several, whose nodes are given as an array.
    #[schema(example = "$.items[?@.n > 1]")]
    filters: Option<OneOrMore>,
    /// JSON Pointers (RFC 6901) to the members to keep; of an array, those of each element.
    #[schema(example = json!(["/name"]))]
    fields: Option<Vec<String>>,
    /// A JSON Schema that the data must satisfy.
    schema: Option<Value>,
    /// Bytes that are returned at most; text is cut after a line.
    #[schema(minimum = 1)]
    max_bytes: Option<u64>,
    /// Seconds since the source was last modified at most; older is the failure `stale`.
    max_age: Option<u64>,
}

/// A request, checked.
#[derive(Debug)]
pub struct Request {
    /// The target as asked.
    pub target: Value,
    /// What it names.
    pub locator: Locator,
    /// The format that is expected.
    pub format: Option<Format>,
    /// What is wanted of it.
    pub wanted: Wanted,
    /// Whether the bytes are wanted as they are: a text whatever its format.
    pub exact: bool,
}

/// What is wanted of a target.
#[derive(Debug, Default)]
pub struct Wanted {
    /// Lines, as asked.
    pub lines: Vec<LineRange>,
    /// Sections, as asked.
    pub sections: Vec<String>,
    /// JSONPaths, in order.
    pub filters: Vec<Filter>,
    /// JSON Pointers, in order.
    pub fields: Vec<String>,
    /// What the data must satisfy.
    pub schema: Option<Schema>,
    /// Bytes that are returned at most.
    pub max_bytes: Option<u64>,
    /// Seconds since the source was last modified, at most.
    pub max_age: Option<i64>,
    /// The version that a source without versions to choose from must have; of a file, its target tells.
    pub version: Option<String>,
    /// The constraints as they were given, without those that only locate; none where there are none.
    pub verbatim: Option<Value>,
}

impl Wanted {
    /// Whether text is taken out of the target by lines or sections.
    pub fn text(&self) -> bool {
        !self.lines.is_empty() || !self.sections.is_empty()
    }

    /// Whether the target is wanted as data.
    pub fn data(&self) -> bool {
        !self.filters.is_empty() || !self.fields.is_empty() || self.schema.is_some()
    }
}

impl Request {
    /// Checks what was asked. Pointers of errors lead into the body.
    ///
    /// # Errors
    /// [`Code::Invalid`](crate::error::Code::Invalid), with everything that is wrong.
    pub fn parse(asked: Asked) -> Result<Request> {
        let Asked { target, source, format, constraints } = asked;
        let mut errors = Vec::new();
        let mut parsed = Constrained::parse(constraints.unwrap_or_default(), &mut errors);
        let locator = locate(&target, source, &mut parsed, &mut errors);
        if parsed.wanted.text() && parsed.wanted.data() {
            errors.push(FieldError::new(
                "/constraints",
                "may take text by lines and sections, or data by schema, filters and fields, not both",
            ));
        }
        match locator.filter(|_| errors.is_empty()) {
            Some(locator) => Ok(Request { target, locator, format, wanted: parsed.wanted, exact: false }),
            None => Err(Error::invalid(errors)),
        }
    }
}

/// Constraints, and those of them that only locate.
pub(super) struct Constrained {
    /// The slate that a path alone is looked up in.
    pub slate: Option<String>,
    /// The version.
    pub version: Option<String>,
    /// All others.
    pub wanted: Wanted,
}

impl Constrained {
    fn parse(given: Map<String, Value>, errors: &mut Vec<FieldError>) -> Constrained {
        const BASE: &str = "/constraints";
        let (mut slate, mut version, mut wanted) = (None, None, Wanted::default());
        let mut wrong = |at: String, detail: &str| errors.push(FieldError::new(at, detail));
        for (name, value) in &given {
            let at = pointer(BASE, name);
            match name.as_str() {
                known if value.is_null() && CONSTRAINTS.contains(&known) => {}
                "slate" => match value.as_str().and_then(|name| Name::parse(name).ok()) {
                    Some(name) => slate = Some(name.as_str().to_owned()),
                    None => wrong(at, "must be the name of a slate"),
                },
                "version" => match (value.as_str(), unsigned(value)) {
                    (Some(text), _) if !text.is_empty() && text.len() <= MAX_TEXT => {
                        version = Some(text.to_owned())
                    }
                    (_, Some(number)) => version = Some(number.to_string()),
                    _ => wrong(at, "must be a version: a number, or the source's own as a text"),
                },
                "lines" => {
                    for (at, text) in texts(value, &at, true, &mut wrong) {
                        match text.parse() {
                            Ok(range) => wanted.lines.push(range),
                            Err(error) => wrong(at, &error.to_string()),
                        }
                    }
                }
                "sections" => {
                    for (at, text) in texts(value, &at, true, &mut wrong) {
                        match text.trim() {
                            "" => wrong(at, "must not be empty"),
                            text => wanted.sections.push(text.to_owned()),
                        }
                    }
                }
                "filters" => {
                    for (at, text) in texts(value, &at, true, &mut wrong) {
                        match Filter::parse(text) {
                            Ok(filter) => wanted.filters.push(filter),
                            Err(detail) => wrong(at, &detail),
                        }
                    }
                }
                "fields" => {
                    for (at, text) in texts(value, &at, false, &mut wrong) {
                        match is_pointer(&text) {
                            true => wanted.fields.push(text),
                            false => wrong(at, "must be a JSON Pointer (RFC 6901), such as `/name`"),
                        }
                    }
                }
                "schema" => match Schema::compile(value, &at) {
                    Ok(schema) => wanted.schema = Some(schema),
                    Err(error) => wrong(error.pointer, &error.detail),
                },
                "max_bytes" => match unsigned(value).filter(|bytes| *bytes > 0) {
                    Some(bytes) => wanted.max_bytes = Some(bytes),
                    None => wrong(at, "must be a number of bytes, from 1"),
                },
                "max_age" => match unsigned(value).and_then(|seconds| i64::try_from(seconds).ok()) {
                    Some(seconds) => wanted.max_age = Some(seconds),
                    None => wrong(at, "must be a number of seconds, from 0"),
                },
                _ => wrong(at, &format!("is no constraint; there are {}", CONSTRAINTS.join(", "))),
            }
        }
        let kept = given.into_iter().filter(|(name, value)| name != "slate" && !value.is_null());
        let verbatim: Map<String, Value> = kept.collect();
        wanted.verbatim = (!verbatim.is_empty()).then_some(Value::Object(verbatim));
        Constrained { slate, version, wanted }
    }
}

/// The texts of an array; where `one` may stand for an array of itself, also a text. Each with its pointer.
fn texts(value: &Value, at: &str, one: bool, wrong: &mut impl FnMut(String, &str)) -> Vec<(String, String)> {
    let elements: Vec<(String, &Value)> = match value {
        Value::String(_) if one => vec![(at.to_owned(), value)],
        Value::Array(all) if (1..=MAX_PARTS).contains(&all.len()) => {
            all.iter().enumerate().map(|(i, value)| (pointer(at, i), value)).collect()
        }
        _ => {
            let text = if one { "a text or " } else { "" };
            wrong(at.to_owned(), &format!("must be {text}an array of 1 to {MAX_PARTS} texts"));
            return Vec::new();
        }
    };
    let text = |(at, value): (String, &Value)| match value.as_str() {
        Some(text) if text.len() <= MAX_TEXT => Some((at, text.to_owned())),
        _ => {
            wrong(at, &format!("must be a text of at most {MAX_TEXT} bytes"));
            None
        }
    };
    elements.into_iter().filter_map(text).collect()
}

fn is_pointer(text: &str) -> bool {
    let escapes = text.split('~').skip(1).all(|rest| rest.starts_with(['0', '1']));
    (text.is_empty() || text.starts_with('/')) && escapes
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::capability::target::{FileTarget, Rows};

    fn parse(body: Value) -> Result<Request, Vec<(String, String)>> {
        let asked = serde_json::from_value(body).unwrap();
        Request::parse(asked)
            .map_err(|error| error.errors.into_iter().map(|e| (e.pointer, e.detail)).collect())
    }

    fn located(target: Value) -> Locator {
        parse(json!({"target": target})).unwrap().locator
    }

    fn file(slate: Option<&str>, path: &str, version: Option<&str>) -> Locator {
        let own = |text: Option<&str>| text.map(str::to_owned);
        Locator::File(FileTarget { slate: own(slate), path: path.into(), version: own(version) })
    }

    #[test]
    fn targets_tell_their_source() {
        assert_eq!(located(json!("a/b.md")), file(None, "a/b.md", None));
        assert_eq!(located(json!("a#b@2?.md")), file(None, "a#b@2?.md", None));
        assert_eq!(located(json!("c:d/e.md")), file(None, "c:d/e.md", None));
        assert_eq!(located(json!("slate://K/a%20b.md@3")), file(Some("K"), "a b.md", Some("3")));
        assert_eq!(
            located(json!({"slate": "K", "path": "a.md", "version": 2})),
            file(Some("K"), "a.md", Some("2"))
        );
        assert_eq!(located(json!("HTTPS://a.test/x?y#z")).source(), SourceType::Web);
        let api = |path: &str, query: &[(&str, &str)]| Locator::Api {
            api: "crm".into(),
            path: path.into(),
            query: query.iter().map(|(n, v)| (n.to_string(), v.to_string())).collect(),
        };
        assert_eq!(located(json!("api:crm/customers/7?a=b%20c")), api("customers/7", &[("a", "b c")]));
        assert_eq!(located(json!({"api": "crm", "path": "/x", "query": {"n": 1}})), api("x", &[("n", "1")]));
        let key = Rows::Key { table: "t".into(), key: "a/b".into() };
        let row = Locator::Database { database: "d".into(), rows: key };
        assert_eq!(located(json!("database:d/t/a%2Fb")), row);
        assert_eq!(located(json!("database:d/t/a/b")), row);
        assert_eq!(located(json!({"database": "d", "table": "t", "key": "a/b"})), row);
    }

    #[test]
    fn a_path_may_look_like_something_else_when_the_source_says_file() {
        let request = parse(json!({"target": "http://x", "source": "file"})).unwrap();
        assert_eq!(request.locator, file(None, "http://x", None));
    }

    #[test]
    fn a_citation_brings_its_lines() {
        let request = parse(json!({"target": "slate://K/a.md@3#L1-3,7"})).unwrap();
        assert_eq!(request.wanted.lines.len(), 2);
        assert_eq!(request.wanted.verbatim, Some(json!({"lines": ["1-3", "7"]})));
    }

    macro_rules! refused {
        ($($name:ident: $body:tt => $pointer:expr;)*) => {
            $(#[test] fn $name() { assert_eq!(parse(json!($body)).unwrap_err()[0].0, $pointer); })*
        };
    }

    refused! {
        a_number: {"target": 7} => "/target";
        nothing: {"target": ""} => "/target";
        nobody: {"target": {"path": "a"}} => "/target";
        another_scheme: {"target": "ftp://x/y"} => "/target";
        a_password: {"target": "http://u:p@x/y"} => "/target";
        another_source: {"target": "http://x/y", "source": "api"} => "/source";
        an_unknown_member: {"target": {"api": "a", "paths": "b"}} => "/target/paths";
        two_kinds_of_rows: {"target": {"database": "d", "table": "t", "query": "q"}} => "/target";
        no_key: {"target": {"database": "d", "table": "t"}} => "/target/key";
        an_unknown_constraint: {"target": "a", "constraints": {"line": "1"}} => "/constraints/line";
        no_range: {"target": "a", "constraints": {"lines": ["1", "5-3"]}} => "/constraints/lines/1";
        no_ranges: {"target": "a", "constraints": {"lines": []}} => "/constraints/lines";
        no_json_path: {"target": "a", "constraints": {"filters": "items"}} => "/constraints/filters";
        no_pointer: {"target": "a", "constraints": {"fields": ["/a", "b"]}} => "/constraints/fields/1";
        fields_as_a_text: {"target": "a", "constraints": {"fields": "/a"}} => "/constraints/fields";
        no_schema: {"target": "a", "constraints": {"schema": {"type": "x"}}} => "/constraints/schema/type";
        no_bytes: {"target": "a", "constraints": {"max_bytes": 0}} => "/constraints/max_bytes";
        both_ways: {"target": "a", "constraints": {"lines": "1", "filters": "$"}} => "/constraints";
        lines_twice: {"target": "slate://K/a@1#L1", "constraints": {"lines": "1"}} => "/constraints";
        slates_that_differ: {"target": "slate://K/a", "constraints": {"slate": "L"}} => "/constraints/slate";
        a_slate_for_the_web: {"target": "http://a.test/", "constraints": {"slate": "K"}} => "/constraints/slate";
        versions_that_differ: {"target": "slate://K/a@1", "constraints": {"version": "2"}} => "/constraints/version";
    }

    #[test]
    fn null_is_absent_and_integers_may_have_a_fraction_of_zero() {
        let constraints = json!({"slate": null, "version": 2.0, "lines": null, "schema": null, "max_bytes": 5.0,
            "max_age": 0.0, "filters": null});
        let request =
            parse(json!({"target": {"slate": "K", "path": "a", "version": null}, "source": null, "constraints": constraints}))
                .unwrap();
        let Locator::File(file) = &request.locator else { unreachable!() };
        assert_eq!(file.version.as_deref(), Some("2"));
        assert_eq!((request.wanted.max_bytes, request.wanted.max_age), (Some(5), Some(0)));
        assert!(!request.wanted.text() && !request.wanted.data());
        let request = parse(json!({"target": "a", "constraints": {"lines": null}})).unwrap();
        assert_eq!(request.wanted.verbatim, None);
        let nulls = json!({"api": "a", "path": null, "query": null, "slate": null, "version": null});
        assert!(matches!(parse(json!({"target": nulls})).unwrap().locator, Locator::Api { .. }));
    }

    #[test]
    fn constraints_are_kept_as_they_were_given() {
        let request =
            parse(json!({"target": "a", "constraints": {"slate": "K", "lines": ["1", "3-"]}})).unwrap();
        assert_eq!(request.wanted.verbatim, Some(json!({"lines": ["1", "3-"]})));
        assert_eq!(
            parse(json!({"target": "a", "constraints": {"slate": "K"}})).unwrap().wanted.verbatim,
            None
        );
    }
}
