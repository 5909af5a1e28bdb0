//! What a target names, and so which source reads it (provenance, "Input").
//!
//! | target | source |
//! |---|---|
//! | `https://…`, `http://…` | `web` |
//! | `slate://Slate/path`, with or without `@version` and `#L1-50` | `file` |
//! | `api:<name>/<path>`, `{api, path, query?}` | `api` |
//! | `database:<name>/<table>/<key>`, `{database, table, key}`, `{database, query, params?}` | `database` |
//! | `{slate, path, version?}`, any other text: a path from the slate's root | `file` |

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use utoipa::ToSchema;

use super::request::{Constrained, MAX_CITATION, MAX_TEXT};
use crate::error::{FieldError, pointer};
use crate::given::{integer, present};
use crate::provenance::citation::Address;
use crate::provenance::lines::LineRange;

/// Where a thing is read from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum SourceType {
    /// The tenant's own slates.
    File,
    /// An `http` or `https` URL.
    Web,
    /// A registered API.
    Api,
    /// A registered database.
    Database,
}

impl SourceType {
    /// The word in the contract.
    pub fn as_str(self) -> &'static str {
        match self {
            SourceType::File => "file",
            SourceType::Web => "web",
            SourceType::Api => "api",
            SourceType::Database => "database",
        }
    }
}

/// What a target names.
#[derive(Debug, Clone, PartialEq)]
pub enum Locator {
    /// A file.
    File(FileTarget),
    /// A URL.
    Web(url::Url),
    /// A path of a registered API.
    Api {
        /// The API's name.
        api: String,
        /// The path, without a leading `/`.
        path: String,
        /// Parameters of the URL's query, in order.
        query: Vec<(String, String)>,
    },
    /// Rows of a registered database.
    Database {
        /// The database's name.
        database: String,
        /// Which rows.
        rows: Rows,
    },
}

impl Locator {
    /// Which source reads it.
    pub fn source(&self) -> SourceType {
        match self {
            Locator::File(_) => SourceType::File,
            Locator::Web(_) => SourceType::Web,
            Locator::Api { .. } => SourceType::Api,
            Locator::Database { .. } => SourceType::Database,
        }
    }
}

/// A file of the tenant's slates.
#[derive(Debug, Clone, PartialEq)]
pub struct FileTarget {
    /// The slate; none for the tenant's default.
    pub slate: Option<String>,
    /// The path from the slate's root, as written; it may be none that can exist.
    pub path: String,
    /// The version: our number, or the source's own.
    pub version: Option<String>,
}

/// Rows of a database.
#[derive(Debug, Clone, PartialEq)]
pub enum Rows {
    /// The row of a table that has this key.
    Key {
        /// The table's name.
        table: String,
        /// The key, as text.
        key: String,
    },
    /// The rows of a registered query.
    Query {
        /// The query's name.
        query: String,
        /// Its parameters, by name.
        params: Map<String, Value>,
    },
}

/// What a target names; what is wrong goes to `errors`. A citation's version and lines become constraints.
pub(super) fn locate(
    target: &Value,
    source: Option<SourceType>,
    parsed: &mut Constrained,
    errors: &mut Vec<FieldError>,
) -> Option<Locator> {
    const AT: &str = "/target";
    let found = match target {
        Value::String(text) => of_text(text, source, parsed),
        Value::Object(members) => {
            let members = present(members).map(|(name, value)| (name.clone(), value.clone())).collect();
            of_object(&members, parsed)
        }
        Value::Null => Err(FieldError::new(AT, "is required")),
        _ => Err(FieldError::new(AT, "must be a text or an object")),
    };
    let located = found.map_err(|error| errors.push(error)).ok()?;
    if parsed.slate.is_some() {
        errors.push(FieldError::new("/constraints/slate", "is for a path in a slate"));
    }
    parsed.wanted.version = parsed.version.take();
    match source.filter(|source| *source != located.source()) {
        Some(source) => {
            let (asked, is) = (source.as_str(), located.source().as_str());
            errors.push(FieldError::new("/source", format!("is {asked}, but the target is of a {is}")));
            None
        }
        None => Some(located),
    }
}

fn of_text(text: &str, source: Option<SourceType>, parsed: &mut Constrained) -> Result<Locator, FieldError> {
    let wrong = |detail: String| Err(FieldError::new("/target", detail));
    // A citation of many sections is longer than a path.
    let most = if text.starts_with("slate://") { MAX_CITATION } else { MAX_TEXT };
    if text.is_empty() || text.len() > most {
        return wrong(format!("must be a text of 1 to {most} bytes"));
    }
    let (scheme, rest) = text.split_once(':').unwrap_or(("", text));
    let path_alone = source == Some(SourceType::File) && !text.starts_with("slate://");
    match scheme.to_ascii_lowercase().as_str() {
        _ if path_alone => {}
        "http" | "https" if rest.starts_with("//") => {
            return match url::Url::parse(text) {
                Ok(url) if !url.username().is_empty() || url.password().is_some() => {
                    wrong("must not hold a user or a password".into())
                }
                Ok(url) => Ok(Locator::Web(url)),
                Err(error) => wrong(format!("is no URL: {error}")),
            };
        }
        "slate" if rest.starts_with("//") => return of_citation(text, parsed),
        "api" => {
            return match rest.split_once('/') {
                Some((api, path)) if !api.is_empty() => {
                    let (path, query) = path.split_once('?').unwrap_or((path, ""));
                    let query = url::form_urlencoded::parse(query.as_bytes()).into_owned().collect();
                    Ok(Locator::Api { api: api.to_owned(), path: path.to_owned(), query })
                }
                _ => wrong("is no `api:<name>/<path>`".into()),
            };
        }
        "database" => {
            let mut parts = rest.splitn(3, '/').map(decoded);
            return match (parts.next().flatten(), parts.next().flatten(), parts.next().flatten()) {
                (Some(database), Some(table), Some(key)) => {
                    Ok(Locator::Database { database, rows: Rows::Key { table, key } })
                }
                _ => wrong("is no `database:<name>/<table>/<key>`, each percent-encoded".into()),
            };
        }
        _ => {}
    }
    if source.is_some_and(|source| source != SourceType::File) {
        let form = match source {
            Some(SourceType::Web) => "an http or https URL",
            Some(SourceType::Api) => "`api:<name>/<path>`",
            _ => "`database:<name>/<table>/<key>`",
        };
        return wrong(format!("must be {form} for this source"));
    }
    if scheme.len() > 1 && rest.starts_with("//") && !path_alone {
        return wrong(
            "has a scheme that no source reads; http, https, slate, api and database are read".into(),
        );
    }
    file(parsed, None, text.to_owned(), None)
}

fn decoded(part: &str) -> Option<String> {
    let text = percent_encoding::percent_decode_str(part).decode_utf8().ok()?;
    (!text.is_empty()).then(|| text.into_owned())
}

fn of_citation(text: &str, parsed: &mut Constrained) -> Result<Locator, FieldError> {
    let address = Address::parse(text).map_err(|error| FieldError::new("/target", error.to_string()))?;
    if !address.lines.is_empty() {
        if parsed.wanted.text() || parsed.wanted.data() {
            return Err(FieldError::new(
                "/constraints",
                "must not take parts of a target that cites lines already",
            ));
        }
        let lines: Vec<String> = address.lines.iter().map(LineRange::to_string).collect();
        let lines = if lines.len() == 1 { json!(lines[0]) } else { json!(lines) };
        let verbatim = parsed.wanted.verbatim.get_or_insert_with(|| json!({}));
        verbatim["lines"] = lines;
        parsed.wanted.lines = address.lines;
    }
    let version = address.version.map(|version| version.to_string());
    file(parsed, Some(address.slate.as_str().to_owned()), address.path.as_str().to_owned(), version)
}

fn file(
    parsed: &mut Constrained,
    slate: Option<String>,
    path: String,
    version: Option<String>,
) -> Result<Locator, FieldError> {
    if version.is_some() && parsed.version.is_some() && version != parsed.version {
        return Err(FieldError::new("/constraints/version", "is another version than the target's"));
    }
    if slate.is_some() && parsed.slate.is_some() && slate != parsed.slate {
        return Err(FieldError::new("/constraints/slate", "is another slate than the target's"));
    }
    let slate = parsed.slate.take().or(slate);
    Ok(Locator::File(FileTarget { slate, path, version: version.or_else(|| parsed.version.take()) }))
}

fn of_object(members: &Map<String, Value>, parsed: &mut Constrained) -> Result<Locator, FieldError> {
    let wrong = |member: &str, detail: &str| FieldError::new(pointer("/target", member), detail);
    let allowed: &[&str] = match () {
        _ if members.contains_key("api") => &["api", "path", "query"],
        _ if members.contains_key("database") => &["database", "table", "key", "query", "params"],
        _ if members.contains_key("slate") => &["slate", "path", "version"],
        _ => return Err(FieldError::new("/target", "must name an `api`, a `database` or a `slate`")),
    };
    if let Some(unknown) = members.keys().find(|name| !allowed.contains(&name.as_str())) {
        return Err(wrong(unknown, "is no member of such a target"));
    }
    let text = |member: &'static str| match members.get(member).map(Value::as_str) {
        Some(Some(text)) if !text.is_empty() && text.len() <= MAX_TEXT => Ok(text.to_owned()),
        None => Err(wrong(member, "is required")),
        _ => Err(wrong(member, "must be a text")),
    };
    let object = |member: &'static str| match members.get(member) {
        None => Ok(Map::new()),
        Some(Value::Object(object)) => Ok(object.clone()),
        Some(_) => Err(wrong(member, "must be an object")),
    };
    match allowed[0] {
        "api" => {
            let pairs = object("query")?.into_iter().map(|(name, value)| match scalar(&value) {
                Some(value) => Ok((name, value)),
                None => Err(wrong("query", "must be an object of texts, numbers and booleans")),
            });
            let query = pairs.collect::<Result<_, _>>()?;
            let path = match members.get("path") {
                None => String::new(),
                Some(_) => text("path")?.trim_start_matches('/').to_owned(),
            };
            Ok(Locator::Api { api: text("api")?, path, query })
        }
        "database" => {
            let rows = match (members.contains_key("query"), members.contains_key("table")) {
                (true, false) => Rows::Query { query: text("query")?, params: object("params")? },
                (false, true) => {
                    let key = members.get("key").and_then(whole_or_scalar).filter(|key| !key.is_empty());
                    let key = key.ok_or_else(|| wrong("key", "must be a text or a number"))?;
                    Rows::Key { table: text("table")?, key }
                }
                _ => {
                    let detail = "must name a `table` and a `key`, or a registered `query`";
                    return Err(FieldError::new("/target", detail));
                }
            };
            Ok(Locator::Database { database: text("database")?, rows })
        }
        _ => {
            let version = match members.get("version") {
                None => None,
                Some(value) => {
                    Some(whole_or_scalar(value).ok_or_else(|| wrong("version", "must be a version"))?)
                }
            };
            file(parsed, Some(text("slate")?), text("path")?, version)
        }
    }
}

/// The same, an integer without a fraction of zero.
fn whole_or_scalar(value: &Value) -> Option<String> {
    integer(value).map(|number| number.to_string()).or_else(|| scalar(value))
}

/// A text, a number or a boolean as text.
fn scalar(value: &Value) -> Option<String> {
    match value {
        Value::String(text) if text.len() <= MAX_TEXT => Some(text.clone()),
        Value::Number(_) | Value::Bool(_) => Some(value.to_string()),
        _ => None,
    }
}
