//! A retrieval request: its modes, their shapes and their limits (retrieval semantics §2.5 and §3).
//!
//! Three things may be wrong with a mode, and they are kept apart because their readers differ. A wrong *shape* is
//! refused by a query and is a mode error in a round; a passed *limit* is a mode error for both; a member that is
//! no mode, or a mode that was not granted, is ignored and named. A mode that is null is absent.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

use crate::error::{FieldError, pointer};
use crate::given::member;
use crate::item::Mode;
use crate::retrieval::filter::{self, Filter};
use crate::retrieval::glob::Glob;

/// The most entries that `files` and `subfolders` may have.
pub const MAX_ENTRIES: usize = 1000;
/// The longest text to look for in metatag values, in bytes: no value is longer.
pub const MAX_CONTAINS: usize = 64 * 1024;
/// How many wrong entries of one mode are reported.
const MAX_REPORTED: usize = 10;

/// Which files the mode `metatag` asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MetatagTest {
    /// The metatag's name, exactly.
    pub name: String,
    /// Literal text that the value, or an element of it, contains; without it, that the metatag is set suffices.
    pub contains: Option<String>,
}

/// What is asked for, in shape and within limits. Paths and the declared folder are not looked at here.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Request {
    /// Paths as they were written, in the order asked.
    pub files: Option<Vec<String>>,
    /// Paths of folders as they were written, in the order asked.
    pub subfolders: Option<Vec<String>>,
    /// A test on a metatag.
    pub metatag: Option<MetatagTest>,
    /// A pattern that [`Glob::parse`] takes.
    pub glob: Option<String>,
    /// A filter tree.
    pub filter: Option<Filter>,
}

impl Request {
    /// Whether no mode is to be run.
    pub fn is_empty(&self) -> bool {
        self.files.is_none()
            && self.subfolders.is_none()
            && self.metatag.is_none()
            && self.glob.is_none()
            && self.filter.is_none()
    }
}

/// A mode that could not be run. It yields nothing, and the other modes run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ModeError {
    /// The mode that was not run.
    pub mode: Mode,
    /// A sentence for people and models.
    pub detail: String,
}

/// A request, and all that is wrong with it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Parsed {
    /// The modes that can be run.
    pub request: Request,
    /// Members that are no modes, or modes that were not granted, in the order met.
    pub ignored: Vec<String>,
    /// Modes of a wrong shape.
    pub shape: Vec<(Mode, FieldError)>,
    /// Modes that pass a limit, or whose pattern is invalid.
    pub errors: Vec<ModeError>,
}

impl Parsed {
    /// Whether the request named no granted mode at all, not even a wrong one.
    pub fn is_empty(&self) -> bool {
        self.request.is_empty() && self.shape.is_empty() && self.errors.is_empty()
    }

    /// Turns wrong shapes into mode errors, as a round reports them (retrieval semantics §7.3).
    pub fn shape_as_errors(mut self) -> Parsed {
        let shape = self.shape.drain(..);
        self.errors.extend(
            shape.map(|(mode, e)| ModeError { mode, detail: format!("{}: {}", e.pointer, e.detail) }),
        );
        self
    }
}

/// Parses the members of a request. Pointers of wrong shapes start with `base`, the pointer of the request itself.
pub fn parse(value: &Map<String, Value>, granted: &[Mode], base: &str) -> Parsed {
    let mut parsed = Parsed::default();
    for (name, value) in value {
        let mode = Mode::from_name(name);
        if mode.is_some() && value.is_null() {
            continue;
        }
        let Some(mode) = mode.filter(|mode| granted.contains(mode)) else {
            parsed.ignored.push(name.clone());
            continue;
        };
        match parse_mode(mode, value, &pointer(base, name), &mut parsed.request) {
            Ok(()) => {}
            Err(Wrong::Shape(errors)) => parsed.shape.extend(errors.into_iter().map(|e| (mode, e))),
            Err(Wrong::Limit(detail)) => parsed.errors.push(ModeError { mode, detail }),
        }
    }
    parsed
}

enum Wrong {
    Shape(Vec<FieldError>),
    Limit(String),
}

fn parse_mode(mode: Mode, value: &Value, at: &str, request: &mut Request) -> Result<(), Wrong> {
    match mode {
        Mode::Files => request.files = Some(strings(value, at)?),
        Mode::Subfolders => request.subfolders = Some(strings(value, at)?),
        Mode::Metatag => request.metatag = Some(metatag(value, at)?),
        Mode::Glob => {
            let pattern = value.as_str().ok_or_else(|| shape(at, "must be a string"))?;
            Glob::parse(pattern).map_err(|e| Wrong::Limit(e.to_string()))?;
            request.glob = Some(pattern.to_owned());
        }
        Mode::Where => request.filter = Some(filter::parse(value, at).map_err(Wrong::Shape)?),
    }
    Ok(())
}

fn strings(value: &Value, at: &str) -> Result<Vec<String>, Wrong> {
    let entries = value.as_array().ok_or_else(|| shape(at, "must be an array of strings"))?;
    if entries.len() > MAX_ENTRIES {
        return Err(Wrong::Limit(format!(
            "has {} entries, at most {MAX_ENTRIES} are allowed",
            entries.len()
        )));
    }
    let wrong: Vec<_> = (entries.iter().enumerate())
        .filter(|(_, entry)| !entry.is_string())
        .take(MAX_REPORTED)
        .map(|(i, _)| FieldError::new(pointer(at, i), "must be a string"))
        .collect();
    if !wrong.is_empty() {
        return Err(Wrong::Shape(wrong));
    }
    Ok(entries.iter().filter_map(Value::as_str).map(str::to_owned).collect())
}

/// An unknown member is a wrong shape, not an ignored one: without it the test would find more than was asked for.
fn metatag(value: &Value, at: &str) -> Result<MetatagTest, Wrong> {
    let members = value.as_object().ok_or_else(|| shape(at, "must be an object"))?;
    let mut wrong = Vec::new();
    let mut text = |name: &str| match member(members, name) {
        None => None,
        Some(Value::String(text)) => Some(text.clone()),
        Some(_) => {
            wrong.push(FieldError::new(pointer(at, name), "must be a string"));
            None
        }
    };
    let (name, contains) = (text("name"), text("contains"));
    if member(members, "name").is_none() {
        wrong.push(FieldError::new(pointer(at, "name"), "is required"));
    }
    let unknown = members.keys().filter(|member| !matches!(member.as_str(), "name" | "contains"));
    wrong.extend(
        unknown
            .take(MAX_REPORTED)
            .map(|member| FieldError::new(pointer(at, member), "is not a member of a metatag test")),
    );
    let Some(name) = name.filter(|_| wrong.is_empty()) else { return Err(Wrong::Shape(wrong)) };
    if name.contains('\0') || contains.as_ref().is_some_and(|text| text.contains('\0')) {
        return Err(Wrong::Limit("holds U+0000, which no metatag can hold".into()));
    }
    if contains.as_ref().is_some_and(|text| text.len() > MAX_CONTAINS) {
        return Err(Wrong::Limit(format!("`contains` is longer than {MAX_CONTAINS} bytes")));
    }
    Ok(MetatagTest { name, contains })
}

fn shape(at: &str, detail: &str) -> Wrong {
    Wrong::Shape(vec![FieldError::new(at, detail)])
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn parse_all(value: Value) -> Parsed {
        parse(value.as_object().unwrap(), Mode::ALL, "/request")
    }

    #[test]
    fn names_and_bits_of_modes_go_round() {
        for &mode in Mode::ALL {
            assert_eq!(serde_json::to_value(mode).unwrap(), mode.as_str());
            assert_eq!(Mode::from_name(mode.as_str()), Some(mode));
            assert_eq!(Mode::from_bits(mode.bit()), [mode]);
        }
        assert_eq!(Mode::from_name("Files"), None);
        assert_eq!(Mode::from_bits(9), [Mode::Files, Mode::Glob]);
    }

    #[test]
    fn all_modes_at_once() {
        let parsed = parse_all(json!({
            "files": ["b.md", "a.md", ""], "subfolders": ["."], "glob": "",
            "metatag": {"name": "category", "contains": ""}, "where": {"tag": "category"},
        }));
        assert_eq!(
            parsed.request,
            Request {
                files: Some(vec!["b.md".into(), "a.md".into(), "".into()]),
                subfolders: Some(vec![".".into()]),
                metatag: Some(MetatagTest { name: "category".into(), contains: Some("".into()) }),
                glob: Some("".into()),
                filter: Some(Filter::Tag("category".into(), vec![])),
            }
        );
        assert!(parsed.ignored.is_empty() && parsed.shape.is_empty() && parsed.errors.is_empty());
    }

    #[test]
    fn what_is_no_granted_mode_is_ignored_in_the_order_met_whatever_it_holds() {
        let value = json!({"zeta": 1, "glob": 7, "files": ["a"], "Files": [], "alpha": null});
        let parsed = parse(value.as_object().unwrap(), &[Mode::Files], "");
        assert_eq!(parsed.ignored, ["zeta", "glob", "Files", "alpha"]);
        assert_eq!(parsed.request, Request { files: Some(vec!["a".into()]), ..Request::default() });
    }

    #[test]
    fn a_mode_that_is_null_is_absent_granted_or_not() {
        let value = json!({"files": null, "glob": null, "subfolders": [], "x": null});
        let parsed = parse(value.as_object().unwrap(), &[Mode::Files, Mode::Subfolders], "");
        assert_eq!(parsed.request, Request { subfolders: Some(vec![]), ..Request::default() });
        assert_eq!(parsed.ignored, ["x"]);
        assert!(parsed.shape.is_empty() && parsed.errors.is_empty());
        assert!(parse_all(json!({"files": null, "where": null})).is_empty());
        let parsed = parse_all(json!({"metatag": {"name": "n", "contains": null}}));
        assert_eq!(parsed.request.metatag, Some(MetatagTest { name: "n".into(), contains: None }));
    }

    #[test]
    fn empty_is_only_a_request_without_any_mode() {
        assert!(parse_all(json!({})).is_empty());
        assert!(parse_all(json!({"x": 1})).is_empty());
        assert!(!parse_all(json!({"files": []})).is_empty());
        assert!(!parse_all(json!({"glob": "["})).is_empty());
        assert!(!parse_all(json!({"files": 1})).is_empty());
        assert!(parse_all(json!({"files": 1})).request.is_empty());
    }

    macro_rules! shapes {
        ($($name:ident: $request:tt => $pointers:expr;)*) => {
            $(#[test] fn $name() {
                let parsed = parse_all(json!($request));
                let pointers: Vec<_> = parsed.shape.iter().map(|(_, e)| e.pointer.as_str()).collect();
                assert_eq!(pointers, $pointers);
                assert!(parsed.request.is_empty() && parsed.errors.is_empty());
            })*
        };
    }

    shapes! {
        files_not_an_array: {"files": "core.md"} => ["/request/files"];
        files_entries: {"files": ["a", 1, "b", null]} => ["/request/files/1", "/request/files/3"];
        subfolders_an_object: {"subfolders": {}} => ["/request/subfolders"];
        glob_a_number: {"glob": 1} => ["/request/glob"];
        metatag_a_string: {"metatag": "x"} => ["/request/metatag"];
        metatag_without_name: {"metatag": {"contains": "x"}} => ["/request/metatag/name"];
        metatag_empty: {"metatag": {}} => ["/request/metatag/name"];
        metatag_members: {"metatag": {"name": 1, "contains": 2}} =>
            ["/request/metatag/name", "/request/metatag/contains"];
        metatag_name_null: {"metatag": {"name": null, "contains": null}} => ["/request/metatag/name"];
        metatag_unknown: {"metatag": {"name": "x", "eq/uals": 1}} => ["/request/metatag/eq~1uals"];
    }

    macro_rules! limits {
        ($($name:ident: $request:expr => $mode:ident;)*) => {
            $(#[test] fn $name() {
                let parsed = parse_all($request);
                let modes: Vec<_> = parsed.errors.iter().map(|e| e.mode).collect();
                assert_eq!(modes, [Mode::$mode], "{parsed:?}");
                assert!(parsed.request.is_empty() && parsed.shape.is_empty());
            })*
        };
    }

    limits! {
        too_many_files: json!({"files": vec!["a"; MAX_ENTRIES + 1]}) => Files;
        too_many_subfolders: json!({"subfolders": vec!["a"; MAX_ENTRIES + 1]}) => Subfolders;
        an_invalid_glob: json!({"glob": "report-["}) => Glob;
        a_glob_too_long: json!({"glob": "x".repeat(1025)}) => Glob;
        a_nul_in_a_glob: json!({"glob": "a\0"}) => Glob;
        a_nul_in_a_name: json!({"metatag": {"name": "a\0"}}) => Metatag;
        a_nul_in_contains: json!({"metatag": {"name": "a", "contains": "\0"}}) => Metatag;
        contains_too_long: json!({"metatag": {"name": "a", "contains": "x".repeat(MAX_CONTAINS + 1)}}) => Metatag;
    }

    #[test]
    fn limits_themselves_are_allowed() {
        let parsed = parse_all(json!({
            "files": vec!["a"; MAX_ENTRIES], "glob": "x".repeat(1024),
            "metatag": {"name": "a", "contains": "x".repeat(MAX_CONTAINS)},
        }));
        assert!(parsed.shape.is_empty() && parsed.errors.is_empty());
    }

    #[test]
    fn the_other_modes_run_and_a_round_reports_shapes_as_errors() {
        let parsed = parse_all(json!({"metatag": {}, "glob": "[", "files": ["a"]})).shape_as_errors();
        assert_eq!(parsed.request.files, Some(vec!["a".into()]));
        let modes: Vec<_> = parsed.errors.iter().map(|e| e.mode).collect();
        assert_eq!(modes, [Mode::Glob, Mode::Metatag]);
        assert_eq!(parsed.errors[1].detail, "/request/metatag/name: is required");
        assert!(parsed.shape.is_empty());
        assert_eq!(
            serde_json::to_value(&parsed.errors[1]).unwrap(),
            json!({"mode": "metatag", "detail": "/request/metatag/name: is required"})
        );
    }

    #[test]
    fn many_wrong_entries_are_reported_in_part() {
        let parsed = parse_all(json!({"files": vec![1; 1000]}));
        assert_eq!(parsed.shape.len(), MAX_REPORTED);
    }
}
