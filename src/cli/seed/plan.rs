//! What is to be loaded, whether a directory or a manifest says so, and the reading of one file of it.

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use chrono::{DateTime, Utc};
use serde_json::{Map, Value};

use super::manifest::{self, Settings};
use super::{Problem, walk};
use crate::authority::Authority;
use crate::metatags::front_matter::{self, FrontMatter};
use crate::path::FilePath;

/// All that is to be loaded.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Plan {
    /// The slate that a manifest names.
    pub slate: Option<String>,
    /// The settings of the slate, where some are given.
    pub settings: Option<Settings>,
    /// The files: a directory's in byte order of their paths, a manifest's in its order. No path comes twice.
    pub files: Vec<SeedFile>,
    /// What is already known not to load.
    pub problems: Vec<Problem>,
}

/// A file to load, not yet read. What is `None` was not said.
#[derive(Debug, Clone, PartialEq)]
pub struct SeedFile {
    /// Its path in the slate.
    pub path: FilePath,
    /// Where its contents are.
    pub source: Source,
    /// The metatags that a manifest gives it; a null takes away what the front matter sets.
    pub metatags: Map<String, Value>,
    /// How far its source is to be trusted.
    pub authority: Option<Authority>,
    /// Whether its contents are sensitive.
    pub sensitive: Option<bool>,
    /// Its media type.
    pub media_type: Option<String>,
    /// What its source calls this version.
    pub source_version: Option<String>,
    /// When it was last changed at its source.
    pub source_modified_at: Option<DateTime<Utc>>,
}

/// Where the contents of a file are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// Here.
    Text(String),
    /// In a file, by its absolute path.
    Disk(PathBuf),
}

/// The contents of a file and its metatags.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Document {
    /// The contents, byte for byte, front matter included.
    pub contents: Vec<u8>,
    /// The metatags to set: name to value, never null.
    pub metatags: Map<String, Value>,
    /// The names of metatags whose value is null, in byte order. They are not set.
    pub nulls: Vec<String>,
    /// Whether it is Markdown without front matter.
    pub bare: bool,
    /// Broken front matter. The contents are to be stored all the same.
    pub problem: Option<Problem>,
    front_matter: FrontMatter,
}

impl Document {
    /// The line of the contents, from 1, on which the front matter sets a metatag; none if something else sets it.
    pub fn line_of(&self, metatag: &str) -> Option<u32> {
        let set = self.front_matter.metatags.get(metatag)?;
        (self.metatags.get(metatag) == Some(set)).then(|| self.front_matter.line_of(metatag))
    }
}

/// Looks at a directory, or reads a manifest.
///
/// # Errors
/// The directory or manifest itself cannot be read. What is wrong with one file or with `slate.yaml` is in
/// [`Plan::problems`].
pub fn plan(source: &Path) -> Result<Plan, Problem> {
    let kind = fs::metadata(source)
        .map_err(|error| Problem::new(source.to_string_lossy(), None, error.to_string()))?;
    if kind.is_file() {
        return manifest::read(source);
    }
    let mut found = walk::walk(source)?;
    let settings = manifest::settings_of(source).unwrap_or_else(|problem| {
        found.problems.push(problem);
        None
    });
    let files =
        found.entries.into_iter().map(|entry| SeedFile::new(entry.path, Source::Disk(entry.absolute)));
    Ok(Plan { slate: None, settings, files: files.collect(), problems: found.problems })
}

impl SeedFile {
    /// A file about which nothing more is said.
    pub fn new(path: FilePath, source: Source) -> Self {
        Self {
            path,
            source,
            metatags: Map::new(),
            authority: None,
            sensitive: None,
            media_type: None,
            source_version: None,
            source_modified_at: None,
        }
    }

    /// Reads the file and, where it is Markdown (by its media type, or else its extension), its front matter.
    ///
    /// # Errors
    /// It cannot be read, is no regular file any more, or has more than `max_bytes`.
    pub fn load(&self, max_bytes: u64) -> Result<Document, Problem> {
        let contents =
            self.read(max_bytes).map_err(|detail| Problem::new(self.path.as_str(), None, detail))?;
        let mut document = Document { contents, ..Document::default() };
        if self.is_markdown() {
            match front_matter::read(&document.contents) {
                Ok(found) => {
                    document.bare = found.is_none();
                    document.front_matter = found.unwrap_or_default();
                }
                Err(error) => {
                    document.problem = Some(Problem::new(self.path.as_str(), Some(error.line), error.detail));
                }
            }
        }
        document.metatags = document.front_matter.metatags.clone();
        document.nulls = document.front_matter.nulls.clone();
        document.nulls.retain(|name| !self.metatags.contains_key(name));
        for (name, value) in &self.metatags {
            if value.is_null() {
                document.metatags.remove(name);
                document.nulls.push(name.clone());
            } else {
                document.metatags.insert(name.clone(), value.clone());
            }
        }
        document.nulls.sort_unstable();
        Ok(document)
    }

    /// Whether its front matter is read: by its media type, or else its extension.
    pub fn is_markdown(&self) -> bool {
        match &self.media_type {
            Some(given) => given.parse::<mime_guess::Mime>().is_ok_and(|given| is_markdown(&given)),
            None => mime_guess::from_path(self.path.as_str()).iter().any(|guess| is_markdown(&guess)),
        }
    }

    fn read(&self, max_bytes: u64) -> Result<Vec<u8>, String> {
        let mut contents = Vec::new();
        match &self.source {
            Source::Text(text) => contents.extend_from_slice(text.as_bytes()),
            Source::Disk(file) => {
                // Opening a pipe would wait for a writer.
                if !fs::metadata(file).map_err(|error| error.to_string())?.is_file() {
                    return Err("not a regular file".into());
                }
                let file = File::open(file).map_err(|error| error.to_string())?;
                file.take(max_bytes.saturating_add(1))
                    .read_to_end(&mut contents)
                    .map_err(|error| error.to_string())?;
            }
        }
        match u64::try_from(contents.len()).is_ok_and(|length| length <= max_bytes) {
            true => Ok(contents),
            false => Err(format!("larger than {max_bytes} bytes")),
        }
    }
}

fn is_markdown(media_type: &mime_guess::Mime) -> bool {
    media_type.essence_str() == "text/markdown"
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::metatags::{TagType, Tags};

    fn text(path: &str, text: &str) -> SeedFile {
        SeedFile::new(FilePath::parse(path).unwrap(), Source::Text(text.into()))
    }

    #[test]
    fn a_directory_is_planned() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("slate.yaml"), "volatile: true\n").unwrap();
        fs::write(dir.path().join("b.md"), "---\na: 1\n---\nB").unwrap();
        fs::write(dir.path().join("a.bin"), [0, 255, 13, 10]).unwrap();
        let plan = plan(dir.path()).unwrap();
        assert_eq!(plan.settings.map(Value::Object), Some(json!({"volatile": true})));
        assert_eq!(plan.problems, []);
        let documents: Vec<_> = plan.files.iter().map(|file| file.load(100).unwrap()).collect();
        assert_eq!(documents[0].contents, [0, 255, 13, 10]);
        assert_eq!(documents[1].contents, b"---\na: 1\n---\nB");
        assert_eq!(documents[1].metatags["a"], 1);
    }

    #[test]
    fn broken_settings_do_not_stop_the_rest() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("slate.yaml"), "\nnope: 1\n").unwrap();
        fs::write(dir.path().join("a"), "").unwrap();
        let plan = plan(dir.path()).unwrap();
        assert_eq!((plan.files.len(), plan.settings), (1, None));
        assert_eq!((plan.problems.len(), plan.problems[0].line), (1, Some(2)));
    }

    #[test]
    fn a_file_is_planned_as_a_manifest() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("m.yaml");
        fs::write(&file, "slate: s\nfiles: [{path: a.md, content: x}]\n").unwrap();
        let plan = plan(&file).unwrap();
        assert_eq!((plan.slate.as_deref(), plan.files), (Some("s"), vec![text("a.md", "x")]));
        assert!(super::plan(&dir.path().join("none")).is_err());
    }

    #[test]
    fn our_own_seeds_load_and_show_every_type() {
        let seeds = Path::new(env!("CARGO_MANIFEST_DIR")).join("seeds");
        let mut values = Vec::new();
        for slate in ["handbook", "cookbook", "telescopes"] {
            let plan = plan(&seeds.join(slate)).unwrap();
            assert_eq!(plan.problems, []);
            let Value::Object(types) = plan.settings.unwrap()["metatag_types"].clone() else { panic!() };
            for file in plan.files {
                let document = file.load(1 << 16).unwrap();
                assert_eq!((document.problem, document.nulls), (None, vec![]), "{}", file.path);
                values.extend(document.metatags.values().cloned());
                assert!(document.metatags.keys().all(|name| types.contains_key(name)), "{}", file.path);
                let (tags, _) = Tags::parse(document.metatags, "").unwrap();
                assert_eq!(tags.check_types(&types, ""), [], "{slate}/{}", file.path);
            }
        }
        for shown in [json!(""), json!(0), json!(false), json!(true), json!([]), json!({}), json!(0.72)] {
            assert!(values.contains(&shown), "no metatag is {shown}");
        }
        assert!(values.iter().any(|value| value.is_array() && TagType::of(value) == Some(TagType::Object)));
    }

    #[test]
    fn only_markdown_has_front_matter() {
        let front = "---\na: 1\n---\n";
        for (path, media_type, read) in [
            ("a.md", None, true),
            ("A.MD", None, true),
            ("a.markdown", None, true),
            ("a.txt", None, false),
            ("md", None, false),
            ("a.txt", Some("text/markdown; charset=utf-8"), true),
            ("a.md", Some("text/plain"), false),
        ] {
            let file = SeedFile { media_type: media_type.map(Into::into), ..text(path, front) };
            let document = file.load(100).unwrap();
            assert_eq!(document.metatags.contains_key("a"), read, "{path} {media_type:?}");
            assert_eq!(document.contents, front.as_bytes());
        }
    }

    #[test]
    fn broken_front_matter_is_told_and_the_contents_stay() {
        let document = text("x/a.md", "---\na: 1\na: 2\n---\nbody").load(100).unwrap();
        let problem = document.problem.unwrap();
        assert_eq!((problem.path.as_str(), problem.line), ("x/a.md", Some(3)));
        assert_eq!(document.contents, b"---\na: 1\na: 2\n---\nbody");
        assert!(document.metatags.is_empty());
    }

    #[test]
    fn a_manifests_metatags_win() {
        let file = SeedFile {
            metatags: Map::from_iter([
                ("a".into(), json!("given")),
                ("b".into(), Value::Null),
                ("n".into(), json!(2)),
            ]),
            ..text("a.md", "---\na: 1\nb: 1\nc: 1\nn:\nz:\n---\n")
        };
        let document = file.load(100).unwrap();
        assert_eq!(Value::Object(document.metatags.clone()), json!({"a": "given", "c": 1, "n": 2}));
        assert_eq!(document.nulls, ["b", "z"]);
        assert_eq!(
            (document.line_of("a"), document.line_of("b"), document.line_of("c")),
            (None, None, Some(4))
        );
    }

    #[test]
    fn what_cannot_be_read_is_a_problem() {
        let dir = tempfile::tempdir().unwrap();
        let file = |source| SeedFile::new(FilePath::parse("f").unwrap(), source);
        let gone = file(Source::Disk(dir.path().join("gone"))).load(9).unwrap_err();
        assert_eq!(gone.path, "f");
        assert!(file(Source::Disk(dir.path().into())).load(9).unwrap_err().detail.contains("regular"));
        let nine = dir.path().join("nine");
        fs::write(&nine, "123456789").unwrap();
        assert_eq!(file(Source::Disk(nine.clone())).load(9).unwrap().contents, b"123456789");
        assert!(file(Source::Disk(nine)).load(8).unwrap_err().detail.contains("larger"));
        assert!(file(Source::Text("123456789".into())).load(8).unwrap_err().detail.contains("larger"));
    }
}
