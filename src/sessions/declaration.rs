//! The declaration of a session, the member `retrieve` of the body that opens it (REST contract, "Sessions").

use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::error::{FieldError, pointer};
use crate::given::{member, present, unsigned};
use crate::item::Mode;
use crate::path::FolderPath;
use crate::retrieval::limits::{AskedLimits, Limits};
use crate::sessions::fields::is_heading;
use crate::sessions::schema::compile_request_match;

/// The most rounds that a session may have.
pub const MAX_ROUNDS: u32 = 100;
/// The longest `as`, in characters.
const MAX_AS: usize = 128;
const BASE: &str = "/retrieve";

/// A valid declaration. Whether the slate and the folder exist is not known here.
#[derive(Debug, Clone, PartialEq)]
pub struct Declaration {
    /// The name of the slate, `to.slate`.
    pub slate: String,
    /// The declared folder, `to.folder`; the root unless said otherwise.
    pub folder: FolderPath,
    /// The heading under which the prompt holds what was retrieved.
    pub as_field: String,
    /// How many rounds may retrieve: 1 to 100.
    pub max_rounds: u32,
    /// The schema that tells a request from an answer, as it was given; [`Schema`](crate::schema::Schema) compiles it.
    pub request_match: Value,
    /// The modes that the schema grants; at least one.
    pub granted: Vec<Mode>,
    /// Whether `metatag` and `glob` look at the whole subtree.
    pub recursive: bool,
    /// Whether a file that changed is given again.
    pub refetch_changed: bool,
    /// What was asked for, or the defaults.
    pub limits: Limits,
    /// Whether the prompt tells how to retrieve.
    pub instructions: bool,
}

/// The member of a stored declaration that holds what the prompt tells of retrieving. No declaration that is given has it.
pub const INSTRUCTIONS: &str = "#instructions";

impl Declaration {
    /// Parses and checks a declaration. All that is wrong is reported, with pointers under `/retrieve`.
    pub fn parse(value: &Value) -> Result<Declaration, Vec<FieldError>> {
        let mut errors = Vec::new();
        let Some(members) = object(value, BASE, &mut errors) else { return Err(errors) };
        const MEMBERS: &[&str] = &[
            "to",
            "as",
            "maxRounds",
            "requestMatch",
            "recursive",
            "refetchChanged",
            "limits",
            "instructions",
        ];
        refuse_others(members, MEMBERS, BASE, &mut errors);

        let mut required = |name: &str| {
            let given = member(members, name);
            if given.is_none() {
                errors.push(FieldError::new(pointer(BASE, name), "is required"));
            }
            given
        };
        let (to, as_field) = (required("to"), required("as"));
        let (max_rounds, request_match) = (required("maxRounds"), required("requestMatch"));

        let to = to.and_then(|value| target(value, &mut errors));
        let as_field = as_field.and_then(|value| heading(value, &mut errors));
        let max_rounds = max_rounds.and_then(|value| rounds(value, &mut errors));
        let compiled = request_match.and_then(|schema| {
            let compiled = compile_request_match(schema, &pointer(BASE, "requestMatch"));
            compiled.map_err(|error| errors.push(error)).ok()
        });
        let recursive = flag(members, "recursive", &mut errors);
        let refetch_changed = flag(members, "refetchChanged", &mut errors);
        let instructions = flag(members, "instructions", &mut errors);
        let limits = member(members, "limits").map_or_else(AskedLimits::default, |value| {
            AskedLimits::parse(value, &pointer(BASE, "limits"), &mut errors)
        });

        match (to, as_field, max_rounds, request_match, compiled) {
            (Some((slate, folder)), Some(as_field), Some(max_rounds), Some(schema), Some(compiled))
                if errors.is_empty() =>
            {
                Ok(Declaration {
                    slate,
                    folder,
                    as_field,
                    max_rounds,
                    request_match: schema.clone(),
                    granted: compiled.granted,
                    recursive,
                    refetch_changed,
                    limits: limits.for_session(),
                    instructions,
                })
            }
            _ => Err(errors),
        }
    }
}

/// What of a stored declaration its session needs at every turn.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Terms {
    /// As [`Declaration::as_field`].
    #[serde(rename = "as")]
    pub as_field: String,
    /// As [`Declaration::max_rounds`].
    pub max_rounds: u32,
    /// As [`Declaration::request_match`].
    pub request_match: Value,
    /// As [`Declaration::recursive`].
    #[serde(default)]
    pub recursive: bool,
    /// As [`Declaration::refetch_changed`].
    #[serde(default)]
    pub refetch_changed: bool,
    /// As [`Declaration::limits`].
    pub limits: Limits,
    /// What the prompt tells of retrieving.
    #[serde(default, rename = "#instructions")]
    pub instructions: Option<String>,
}

impl Declaration {
    /// The declaration to store: `given`, from which this one was parsed, with all its limits, so that other defaults in
    /// a later version change nothing of an open session. [`Terms`] are read from it.
    pub fn to_store(&self, given: &Value) -> Value {
        let members = given.as_object().into_iter().flat_map(present);
        let mut stored: Map<String, Value> =
            members.map(|(name, value)| (name.clone(), value.clone())).collect();
        if let Some(Value::Object(to)) = stored.get_mut("to") {
            to.retain(|_, value| !value.is_null());
        }
        stored.insert("maxRounds".into(), self.max_rounds.into());
        stored.insert("limits".into(), json!(self.limits));
        stored.into()
    }
}

fn object<'a>(value: &'a Value, at: &str, errors: &mut Vec<FieldError>) -> Option<&'a Map<String, Value>> {
    if !value.is_object() {
        let detail = if value.is_null() { "is required" } else { "must be an object" };
        errors.push(FieldError::new(at, detail));
    }
    value.as_object()
}

fn refuse_others(members: &Map<String, Value>, known: &[&str], at: &str, errors: &mut Vec<FieldError>) {
    let others = members.keys().filter(|name| !known.contains(&name.as_str()));
    errors.extend(others.map(|name| FieldError::new(pointer(at, name), "is not a member of this")));
}

fn target(value: &Value, errors: &mut Vec<FieldError>) -> Option<(String, FolderPath)> {
    let at = pointer(BASE, "to");
    let members = object(value, &at, errors)?;
    refuse_others(members, &["slate", "folder"], &at, errors);
    let slate = member(members, "slate");
    let named = slate.and_then(Value::as_str).filter(|name| !name.is_empty() && !name.contains('\0'));
    if named.is_none() {
        let detail = if slate.is_none() { "is required" } else { "must be the name of a slate" };
        errors.push(FieldError::new(pointer(&at, "slate"), detail));
    }
    let folder = match member(members, "folder") {
        None => Some(FolderPath::root()),
        Some(value) => {
            let path = value.as_str().ok_or_else(|| "must be a string".to_owned());
            let folder = path.and_then(|path| FolderPath::parse(path).map_err(|e| e.to_string()));
            folder.map_err(|detail| errors.push(FieldError::new(pointer(&at, "folder"), detail))).ok()
        }
    };
    Some((named?.to_owned(), folder?))
}

fn heading(value: &Value, errors: &mut Vec<FieldError>) -> Option<String> {
    let text = value.as_str().filter(|text| is_heading(text) && text.chars().count() <= MAX_AS);
    if text.is_none() {
        let detail = format!("must be a text of 1 to {MAX_AS} characters, without control characters");
        errors.push(FieldError::new(pointer(BASE, "as"), detail));
    }
    text.map(str::to_owned)
}

fn rounds(value: &Value, errors: &mut Vec<FieldError>) -> Option<u32> {
    let rounds = unsigned(value).and_then(|n| u32::try_from(n).ok()).filter(|n| (1..=MAX_ROUNDS).contains(n));
    if rounds.is_none() {
        let detail = format!("must be an integer from 1 to {MAX_ROUNDS}");
        errors.push(FieldError::new(pointer(BASE, "maxRounds"), detail));
    }
    rounds
}

fn flag(members: &Map<String, Value>, name: &str, errors: &mut Vec<FieldError>) -> bool {
    match member(members, name) {
        None => false,
        Some(Value::Bool(flag)) => *flag,
        Some(_) => {
            errors.push(FieldError::new(pointer(BASE, name), "must be true or false"));
            false
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn good() -> Value {
        json!({
            "to": {"slate": "Knowledge", "folder": "docs"}, "as": "Docs", "maxRounds": 3,
            "requestMatch": {"type": "object", "properties": {"files": {}, "glob": {}}},
        })
    }

    #[test]
    fn what_is_stored_says_all() {
        let mut given = with("limits", Some(json!({"maxFilesPerRound": 7})));
        given["refetchChanged"] = json!(true);
        let declaration = Declaration::parse(&given).unwrap();
        let stored = declaration.to_store(&given);
        assert_eq!(stored["to"], given["to"]);
        let terms: Terms = serde_json::from_value(stored).unwrap();
        assert_eq!(terms.limits, declaration.limits);
        assert_eq!((terms.as_field.as_str(), terms.max_rounds), ("Docs", 3));
        assert_eq!((terms.recursive, terms.refetch_changed), (false, true));
        assert_eq!(terms.request_match, given["requestMatch"]);
    }

    /// The good declaration with one member changed, or taken out.
    fn with(name: &str, value: Option<Value>) -> Value {
        let mut declaration = good();
        let members = declaration.as_object_mut().unwrap();
        match value {
            Some(value) => members.insert(name.into(), value),
            None => members.remove(name),
        };
        declaration
    }

    #[test]
    fn defaults() {
        let declaration = Declaration::parse(&good()).unwrap();
        assert_eq!(
            declaration,
            Declaration {
                slate: "Knowledge".into(),
                folder: FolderPath::parse("docs").unwrap(),
                as_field: "Docs".into(),
                max_rounds: 3,
                request_match: good()["requestMatch"].clone(),
                granted: vec![Mode::Files, Mode::Glob],
                recursive: false,
                refetch_changed: false,
                limits: AskedLimits::default().for_session(),
                instructions: false,
            }
        );
        let rootless = with("to", Some(json!({"slate": "K"})));
        assert!(Declaration::parse(&rootless).unwrap().folder.is_root());
    }

    #[test]
    fn null_is_absent_and_an_integer_may_have_a_fraction_of_zero() {
        let mut value = with("limits", Some(json!({"maxFilesPerRound": 7.0, "maxTotalBytes": null})));
        for member in ["recursive", "refetchChanged"] {
            value[member] = json!(null);
        }
        value["to"]["folder"] = json!(null);
        value["maxRounds"] = json!(4.0);
        let declaration = Declaration::parse(&value).unwrap();
        assert!(declaration.folder.is_root() && !declaration.recursive);
        assert_eq!((declaration.max_rounds, declaration.limits.max_files_per_round), (4, 7));
        assert_eq!(declaration.limits.max_total_bytes, 8 << 20);
        let stored = declaration.to_store(&value);
        assert_eq!(stored["to"], json!({"slate": "Knowledge"}));
        assert_eq!(serde_json::from_value::<Terms>(stored).unwrap().max_rounds, 4);
    }

    #[test]
    fn options() {
        let mut value = with("limits", Some(json!({"maxFilesPerRound": 7})));
        value["recursive"] = json!(true);
        value["refetchChanged"] = json!(true);
        let declaration = Declaration::parse(&value).unwrap();
        assert!(declaration.recursive && declaration.refetch_changed);
        assert_eq!(declaration.limits.max_files_per_round, 7);
        for rounds in [1, 100] {
            assert!(Declaration::parse(&with("maxRounds", Some(json!(rounds)))).is_ok());
        }
        assert!(Declaration::parse(&with("as", Some(json!("é".repeat(128))))).is_ok());
    }

    macro_rules! refused {
        ($($name:ident: $declaration:expr => $pointers:expr;)*) => {
            $(#[test] fn $name() {
                let errors = Declaration::parse(&$declaration).unwrap_err();
                let pointers: Vec<_> = errors.iter().map(|e| e.pointer.as_str()).collect();
                assert_eq!(pointers, $pointers);
            })*
        };
    }

    refused! {
        no_object: json!("x") => ["/retrieve"];
        null: json!(null) => ["/retrieve"];
        nulls: json!({"to": {"slate": null}, "as": null, "maxRounds": null, "requestMatch": null}) =>
            ["/retrieve/as", "/retrieve/maxRounds", "/retrieve/requestMatch", "/retrieve/to/slate"];
        nothing: json!({}) => ["/retrieve/to", "/retrieve/as", "/retrieve/maxRounds", "/retrieve/requestMatch"];
        unknown: with("max/rounds", Some(json!(1))) => ["/retrieve/max~1rounds"];
        to_is_text: with("to", Some(json!("Knowledge"))) => ["/retrieve/to"];
        to_members: with("to", Some(json!({"slate": "", "folder": "../x", "x": 1}))) =>
            ["/retrieve/to/x", "/retrieve/to/slate", "/retrieve/to/folder"];
        to_folder_type: with("to", Some(json!({"slate": "a\0", "folder": 1}))) =>
            ["/retrieve/to/slate", "/retrieve/to/folder"];
        as_is_empty: with("as", Some(json!(""))) => ["/retrieve/as"];
        as_is_two_lines: with("as", Some(json!("a\nb"))) => ["/retrieve/as"];
        as_is_long: with("as", Some(json!("x".repeat(129)))) => ["/retrieve/as"];
        no_rounds: with("maxRounds", Some(json!(0))) => ["/retrieve/maxRounds"];
        too_many_rounds: with("maxRounds", Some(json!(101))) => ["/retrieve/maxRounds"];
        negative_rounds: with("maxRounds", Some(json!(-1))) => ["/retrieve/maxRounds"];
        half_rounds: with("maxRounds", Some(json!(1.5))) => ["/retrieve/maxRounds"];
        rounds_past_32_bits: with("maxRounds", Some(json!(4294967297u64))) => ["/retrieve/maxRounds"];
        rounds_as_text: with("maxRounds", Some(json!("3"))) => ["/retrieve/maxRounds"];
        no_schema: with("requestMatch", None) => ["/retrieve/requestMatch"];
        bad_schema: with("requestMatch", Some(json!({"type": "objectt", "properties": {"files": {}}}))) =>
            ["/retrieve/requestMatch/type"];
        no_mode: with("requestMatch", Some(json!({"properties": {"answer": {}}}))) => ["/retrieve/requestMatch"];
        flags: with("recursive", Some(json!("true"))) => ["/retrieve/recursive"];
        limits: with("limits", Some(json!({"maxFilesPerRound": 0, "x": 1}))) =>
            ["/retrieve/limits/maxFilesPerRound", "/retrieve/limits/x"];
        all_at_once: json!({"to": 1, "as": 2, "maxRounds": 3.5, "requestMatch": 4, "recursive": 5, "refetchChanged": 6,
            "limits": 7, "x": 8}) => ["/retrieve/x", "/retrieve/to", "/retrieve/as", "/retrieve/maxRounds",
            "/retrieve/requestMatch", "/retrieve/recursive", "/retrieve/refetchChanged", "/retrieve/limits"];
    }
}
