//! The two YAML files that steer seeding: `slate.yaml` in a directory, and a manifest given in place of one.
//!
//! ```yaml
//! # slate.yaml: the members of `PUT /v1/slates/{slate}`, all optional
//! description: What this slate is about
//! authority: high            # low, medium or high
//! volatile: false
//! max_age_seconds: 86400
//! retention_days: 30
//! metatag_types: { owner: string, topics: "string[]" }   # string, string[], number, boolean or object
//! language: english          # of searches: simple, or another text-search configuration of Postgres
//! ```
//!
//! ```yaml
//! # a manifest
//! slate: handbook            # optional
//! settings: {}               # optional, as slate.yaml
//! files:
//!   - path: notes/today.md   # where it goes in the slate
//!     content: "# Today"     # its text, or `from`: a file in the manifest's folder or below
//!     metatags: { a: 1 }     # optional, like all that follow; each wins over the front matter's of that name
//!     authority: low
//!     sensitive: true
//!     media_type: text/markdown
//!     source_version: "7"
//!     source_modified_at: 2026-01-01T00:00:00Z
//! ```

use std::collections::hash_map::Entry as Slot;
use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::{Path, PathBuf};

use chrono::{DateTime, Utc};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::Problem;
use super::plan::{Plan, SeedFile, Source};
use super::walk::{SETTINGS_FILE, file_inside, same_name};
use crate::authority::Authority;
use crate::metatags::TagType;
use crate::path::FilePath;
use crate::yaml::{self, Lines};

/// Settings of a slate, in the shape of `PUT /v1/slates/{slate}`: known members of the right type, none null.
pub type Settings = Map<String, Value>;

/// Reads the settings of a directory; none if it has no `slate.yaml`.
///
/// # Errors
/// The file leads out of the directory, cannot be read, is not YAML, or has a member that is unknown or of the wrong
/// type.
pub fn settings_of(directory: &Path) -> Result<Option<Settings>, Problem> {
    let file = directory.join(SETTINGS_FILE);
    if file.symlink_metadata().is_err() {
        return Ok(None);
    }
    let problem = |line, detail: String| Problem::new(SETTINGS_FILE, line, detail);
    let root = fs::canonicalize(directory).map_err(|error| problem(None, error.to_string()))?;
    let file = file_inside(&root, &file).map_err(|detail| problem(None, detail))?;
    let text = fs::read_to_string(file).map_err(|error| problem(None, error.to_string()))?;
    settings(&text).map(Some).map_err(|(line, detail)| problem(Some(line), detail))
}

/// Reads the text of a `slate.yaml`.
///
/// # Errors
/// Its line, from 1, and what is wrong.
pub fn settings(text: &str) -> Result<Settings, (u32, String)> {
    let (value, lines) = yaml::parse_located(text).map_err(|error| (error.line, error.detail))?;
    check_settings(value, &lines, "")
}

/// Reads a manifest. A file of it that is not well described is among the problems, and the rest go on.
///
/// # Errors
/// The manifest cannot be read, is not YAML, or is not a mapping with the members above.
pub fn read(manifest: &Path) -> Result<Plan, Problem> {
    let name = manifest.file_name().unwrap_or(manifest.as_os_str()).to_string_lossy().into_owned();
    let problem = |line, detail: String| Problem::new(name.clone(), line, detail);
    let io = |error: std::io::Error| Problem::new(name.clone(), None, error.to_string());
    let text = fs::read_to_string(manifest).map_err(io)?;
    let folder = match manifest.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let root = fs::canonicalize(folder).map_err(io)?;
    let (value, lines) =
        yaml::parse_located(&text).map_err(|error| problem(Some(error.line), error.detail))?;
    let shape: ManifestShape =
        read_shape(value, &lines, "").map_err(|(line, detail)| problem(Some(line), detail))?;
    let settings = shape
        .settings
        .map(|settings| check_settings(settings, &lines, "/settings"))
        .transpose()
        .map_err(|(line, detail)| problem(Some(line), detail))?;
    let mut plan = Plan { slate: shape.slate, settings, ..Plan::default() };
    let mut taken = HashMap::new();
    for (index, file) in shape.files.into_iter().enumerate() {
        let pointer = format!("/files/{index}");
        let file = read_shape(file, &lines, &pointer).and_then(|shape| {
            seed_file(shape, &root)
                .map_err(|(member, detail)| (lines.near(&format!("{pointer}{member}")), detail))
        });
        let line = lines.near(&pointer);
        match file {
            Ok(file) => match taken.entry(same_name(&file.path)) {
                Slot::Vacant(slot) => {
                    slot.insert(line);
                    plan.files.push(file);
                }
                Slot::Occupied(first) => {
                    let detail =
                        format!("{} is already the path of the file on line {}", file.path, first.get());
                    plan.problems.push(problem(Some(line), detail));
                }
            },
            Err((line, detail)) => plan.problems.push(problem(Some(line), detail)),
        }
    }
    Ok(plan)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ManifestShape {
    slate: Option<String>,
    settings: Option<Value>,
    files: Vec<Value>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileShape {
    path: FilePath,
    content: Option<String>,
    from: Option<PathBuf>,
    metatags: Option<Map<String, Value>>,
    authority: Option<Authority>,
    sensitive: Option<bool>,
    media_type: Option<String>,
    source_version: Option<String>,
    source_modified_at: Option<DateTime<Utc>>,
}

/// Only ever read, to check the members: the settings themselves stay JSON.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "a shape to check against")]
struct SettingsShape {
    description: Option<String>,
    authority: Option<Authority>,
    volatile: Option<bool>,
    max_age_seconds: Option<u64>,
    retention_days: Option<u32>,
    metatag_types: Option<BTreeMap<String, TagType>>,
    language: Option<String>,
}

fn check_settings(value: Value, lines: &Lines, pointer: &str) -> Result<Settings, (u32, String)> {
    let mut settings = match value {
        Value::Null => Settings::new(),
        Value::Object(members) => members,
        _ => return Err((lines.near(pointer), "settings must be a mapping".into())),
    };
    read_shape::<SettingsShape>(Value::Object(settings.clone()), lines, pointer)?;
    settings.retain(|_, value| !value.is_null());
    Ok(settings)
}

/// Reads a value of the text into a shape. An error names the member and its line.
fn read_shape<T: DeserializeOwned>(value: Value, lines: &Lines, pointer: &str) -> Result<T, (u32, String)> {
    serde_path_to_error::deserialize(value).map_err(|error| {
        let mut at = pointer.to_owned();
        for segment in error.path() {
            let segment = segment.to_string();
            let segment = segment.trim_matches(['[', ']']);
            at = format!("{at}/{}", segment.replace('~', "~0").replace('/', "~1"));
        }
        let member = error.path().to_string();
        let detail = error.into_inner().to_string();
        match member.as_str() {
            "." => (lines.near(&at), detail),
            member => (lines.near(&at), format!("{member}: {detail}")),
        }
    })
}

/// An error is the pointer of the member to blame, from the file's mapping, and what is wrong.
fn seed_file(shape: FileShape, root: &Path) -> Result<SeedFile, (&'static str, String)> {
    let source = match (shape.content, shape.from) {
        (Some(text), None) => Source::Text(text),
        (None, Some(from)) if from.is_absolute() => {
            return Err(("/from", "from: must be relative to the manifest's folder".into()));
        }
        (None, Some(from)) => Source::Disk(
            file_inside(root, &root.join(&from))
                .map_err(|detail| ("/from", format!("from: {} {detail}", from.display())))?,
        ),
        _ => return Err(("", format!("{}: needs either content or from", shape.path))),
    };
    Ok(SeedFile {
        path: shape.path,
        source,
        metatags: shape.metatags.unwrap_or_default(),
        authority: shape.authority,
        sensitive: shape.sensitive,
        media_type: shape.media_type,
        source_version: shape.source_version,
        source_modified_at: shape.source_modified_at,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn settings_are_kept_as_they_are() {
        let text = "description: Things\nauthority: high\nvolatile: true\nmax_age_seconds: 60\n\
                    retention_days: 7\nmetatag_types:\n  a: string\n  b: string[]\n  c: number\n  \
                    d: boolean\n  e: object\nlanguage: english\n";
        let types = json!({"a": "string", "b": "string[]", "c": "number", "d": "boolean", "e": "object"});
        let expected = json!({"description": "Things", "authority": "high", "volatile": true,
                              "max_age_seconds": 60, "retention_days": 7, "metatag_types": types, "language": "english"});
        assert_eq!(settings(text).map(Value::Object), Ok(expected));
        assert_eq!(settings("# nothing\n"), Ok(Settings::new()));
        assert_eq!(settings("description:\n"), Ok(Settings::new()));
    }

    #[test]
    fn settings_refusals_name_the_member_and_its_line() {
        for (text, line, word) in [
            ("description: x\ncolour: red\n", 2, "colour"),
            ("description: x\n\nvolatile: yes\n", 3, "volatile"),
            ("authority: great\n", 1, "authority"),
            ("retention_days: -1\n", 1, "retention_days"),
            ("metatag_types:\n  a: string\n  x/y: text\n", 3, "x/y"),
            ("metatag_types: [a]\n", 1, "metatag_types"),
            ("- a\n", 1, "mapping"),
            ("a: 1\na: 2\n", 2, "already"),
        ] {
            let (at, detail) = settings(text).expect_err(text);
            assert_eq!(at, line, "{text}: {detail}");
            assert!(detail.contains(word), "{text}: {detail}");
        }
    }

    #[test]
    fn settings_of_a_directory() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(settings_of(dir.path()), Ok(None));
        fs::write(dir.path().join("slate.yaml"), "description: x\nwhat: 1\n").unwrap();
        let problem = settings_of(dir.path()).expect_err("is refused");
        assert_eq!((problem.path.as_str(), problem.line), ("slate.yaml", Some(2)));
        fs::write(dir.path().join("slate.yaml"), "description: x\n").unwrap();
        assert_eq!(settings_of(dir.path()).unwrap().unwrap()["description"], "x");
        let outside = tempfile::tempdir().unwrap();
        fs::write(outside.path().join("s"), "description: secret\n").unwrap();
        fs::remove_file(dir.path().join("slate.yaml")).unwrap();
        std::os::unix::fs::symlink(outside.path().join("s"), dir.path().join("slate.yaml")).unwrap();
        assert!(settings_of(dir.path()).expect_err("is refused").detail.contains("out of"));
    }

    fn manifest(text: &str) -> (tempfile::TempDir, Result<Plan, Problem>) {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("sub")).unwrap();
        fs::write(dir.path().join("sub/a.bin"), [0, 255]).unwrap();
        fs::write(dir.path().join("m.yaml"), text).unwrap();
        let plan = read(&dir.path().join("m.yaml"));
        (dir, plan)
    }

    #[test]
    fn a_manifest_in_full() {
        let (dir, plan) = manifest(concat!(
            "slate: docs\nsettings: {description: x}\nfiles:\n",
            "  - path: a/b.md\n    content: |\n      # B\n    metatags: {n: 1, gone: null}\n",
            "    authority: low\n    sensitive: true\n    media_type: text/markdown\n",
            "    source_version: '7'\n    source_modified_at: 2026-01-01T01:00:00+01:00\n",
            "  - {path: é.bin, from: sub/a.bin}\n",
        ));
        let plan = plan.unwrap();
        assert_eq!(plan.slate.as_deref(), Some("docs"));
        assert_eq!(plan.settings.map(Value::Object), Some(json!({"description": "x"})));
        assert_eq!(plan.problems, []);
        let file = |path: &str, source| SeedFile::new(FilePath::parse(path).unwrap(), source);
        let first = SeedFile {
            metatags: Map::from_iter([("n".into(), json!(1)), ("gone".into(), Value::Null)]),
            authority: Some(Authority::Low),
            sensitive: Some(true),
            media_type: Some("text/markdown".into()),
            source_version: Some("7".into()),
            source_modified_at: Some("2026-01-01T00:00:00Z".parse().unwrap()),
            ..file("a/b.md", Source::Text("# B\n".into()))
        };
        let bytes = fs::canonicalize(dir.path().join("sub/a.bin")).unwrap();
        assert_eq!(plan.files, [first, file("é.bin", Source::Disk(bytes))]);
    }

    #[test]
    fn bad_files_are_reported_and_the_rest_go_on() {
        let (_dir, plan) = manifest(concat!(
            "files:\n",
            "  - {path: ../up, content: ''}\n",
            "  - {path: both, content: '', from: sub/a.bin}\n",
            "  - {path: neither}\n",
            "  - path: good\n    content: ''\n",
            "  - path: unknown\n    content: ''\n    colour: red\n",
            "  - path: missing\n    from: sub/none\n",
            "  - {path: out, from: ../../etc/passwd}\n",
            "  - {path: absolute, from: /etc/passwd}\n",
            "  - {path: folder, from: sub}\n",
            "  - {path: good, content: again}\n",
            "  - {path: number, content: 1}\n",
            "  - just text\n",
            "  - {content: x}\n",
            "  - {path: day, content: '', source_modified_at: 2026-01-01}\n",
        ));
        let plan = plan.unwrap();
        assert_eq!(plan.files.iter().map(|file| file.path.as_str()).collect::<Vec<_>>(), ["good"]);
        let expected = [
            (2, "`..`"),
            (3, "either"),
            (4, "either"),
            (9, "colour"),
            (11, "nowhere"),
            (12, "from"),
            (13, "relative"),
            (14, "folder"),
            (15, "line 5"),
            (16, "content"),
            (17, "invalid type"),
            (18, "`path`"),
            (19, "source_modified_at"),
        ];
        assert_eq!(plan.problems.len(), expected.len(), "{:#?}", plan.problems);
        for (problem, (line, word)) in plan.problems.iter().zip(expected) {
            assert_eq!((problem.path.as_str(), problem.line), ("m.yaml", Some(line)), "{problem}");
            assert!(problem.detail.contains(word), "{problem} has no {word:?}");
        }
    }

    #[test]
    fn a_manifest_of_another_shape_is_refused() {
        for (text, line, word) in [
            ("", 1, "invalid type"),
            ("slate: x\n", 1, "files"),
            ("slate: x\nfile: []\n", 2, "file"),
            ("slate: 1\nfiles: []\n", 1, "slate"),
            ("files: []\nsettings:\n  volatile: 1\n", 3, "volatile"),
            ("files: [\n", 1, "bracket"),
        ] {
            let problem = manifest(text).1.expect_err(text);
            assert_eq!(problem.line, Some(line), "{text}: {problem}");
            assert!(problem.detail.contains(word), "{text}: {problem}");
        }
    }
}
