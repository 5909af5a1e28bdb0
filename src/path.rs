//! Paths and names (retrieval semantics §2.2 and §2.5): parsed at the edge, bytes as they were given.
//!
//! A path is names with a `/` between each two. The root is the folder `""`. What cannot be a path is refused, never
//! normalised into something readable.

use std::fmt;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The longest name, in bytes.
pub const MAX_NAME: usize = 255;
/// The longest path, in bytes.
pub const MAX_PATH: usize = 1024;
/// The most names in a path.
pub const MAX_LEVELS: usize = 64;

/// Whether another text may have the same Unicode normal form C (retrieval semantics §2.3). The normal form of three
/// characters is ASCII: of U+212A it is `K`, of U+037E `;`, and of U+1FEF `` ` ``. The schema keeps the normal form of such
/// paths alone.
pub fn has_spellings(path: &str) -> bool {
    !path.is_ascii() || path.contains(['K', ';', '`'])
}

/// Paths in byte order from `from` on, to the last before `beyond`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Span {
    /// The first.
    pub from: String,
    /// None where there is no end.
    pub beyond: Option<String>,
}

impl Span {
    /// What lies below the folder at `path`; all paths, where that is the root.
    pub fn below(path: &str) -> Span {
        match path {
            "" => Span::default(),
            // `0` is the character after `/`.
            path => Span { from: format!("{path}/"), beyond: Some(format!("{path}0")) },
        }
    }

    /// The paths that are in both.
    pub fn and(&self, other: &Span) -> Span {
        let beyond = match (&self.beyond, &other.beyond) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.as_ref().or(other.as_ref()),
        };
        Span { from: self.from.clone().max(other.from.clone()), beyond: beyond.cloned() }
    }
}

/// The Unicode normal form C of each path, which the schema keeps of those that have other spellings.
pub fn normal_forms(paths: &[&str]) -> Vec<String> {
    use unicode_normalization::UnicodeNormalization;
    paths.iter().map(|path| path.nfc().collect()).collect()
}

/// Why a text is no path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PathError {
    /// It is empty, where a file must be named.
    #[error("must not be empty")]
    Empty,
    /// It starts with `/`.
    #[error("must not start with `/`")]
    Absolute,
    /// It has an empty segment, a `/` at its end included.
    #[error("must not have an empty segment")]
    EmptySegment,
    /// It has a segment `.` or `..`.
    #[error("must not have a segment `.` or `..`")]
    DotSegment,
    /// It holds a backslash.
    #[error("must not hold a backslash")]
    Backslash,
    /// It holds U+0000.
    #[error("must not hold U+0000")]
    Nul,
    /// A name is to hold a `/`.
    #[error("must not hold `/`")]
    Slash,
    /// A name in it is longer than [`MAX_NAME`].
    #[error("must not have a name longer than {MAX_NAME} bytes")]
    NameTooLong,
    /// It is longer than [`MAX_PATH`].
    #[error("must not be longer than {MAX_PATH} bytes")]
    TooLong,
    /// It has more names than [`MAX_LEVELS`].
    #[error("must not be deeper than {MAX_LEVELS} levels")]
    TooDeep,
}

macro_rules! text_newtype {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema)]
        #[serde(try_from = "String", into = "String")]
        #[schema(value_type = String)]
        pub struct $name(String);

        impl $name {
            /// The text, as it was given.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl TryFrom<String> for $name {
            type Error = PathError;

            fn try_from(text: String) -> Result<$name, PathError> {
                $name::parse(&text)
            }
        }

        impl From<$name> for String {
            fn from(value: $name) -> String {
                value.0
            }
        }

        impl AsRef<str> for $name {
            fn as_ref(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

text_newtype! {
    /// The name of a file or folder in its parent: not empty, at most 255 bytes.
    Name
}

text_newtype! {
    /// The path of a file: at least one name.
    FilePath
}

text_newtype! {
    /// The path of a folder; the root is `""`.
    #[derive(Default)]
    FolderPath
}

impl Name {
    /// Parses a name.
    pub fn parse(text: &str) -> Result<Name, PathError> {
        match text {
            "" => Err(PathError::Empty),
            _ if text.contains('/') => Err(PathError::Slash),
            _ => check(text).map(|()| Name(text.to_owned())),
        }
    }
}

impl FilePath {
    /// Parses a path.
    pub fn parse(text: &str) -> Result<FilePath, PathError> {
        if text.is_empty() {
            return Err(PathError::Empty);
        }
        check(text).map(|()| FilePath(text.to_owned()))
    }

    /// The last name.
    pub fn name(&self) -> Name {
        Name(split(&self.0).1.to_owned())
    }

    /// The folder that the file is in.
    pub fn parent(&self) -> FolderPath {
        FolderPath(split(&self.0).0.to_owned())
    }

    /// The folders that the file is in, the root first, its parent last.
    pub fn ancestors(&self) -> impl Iterator<Item = FolderPath> + '_ {
        ancestors(&self.0)
    }

    /// The path from `folder`, if the file is in it or below it.
    pub fn relative_to(&self, folder: &FolderPath) -> Option<&str> {
        relative(&self.0, folder)
    }
}

impl FolderPath {
    /// Parses a path; `""` is the root.
    pub fn parse(text: &str) -> Result<FolderPath, PathError> {
        if !text.is_empty() {
            check(text)?;
        }
        Ok(FolderPath(text.to_owned()))
    }

    /// Parses an entry of `subfolders` (retrieval semantics §3.2): `""` and `"."` are the declared folder itself, and
    /// one `/` may end it.
    pub fn parse_entry(text: &str) -> Result<FolderPath, PathError> {
        match text.strip_suffix('/').unwrap_or(text) {
            "" if !text.is_empty() => Err(PathError::Absolute),
            "." => Ok(FolderPath::root()),
            path => FolderPath::parse(path),
        }
    }

    /// The folder that holds everything.
    pub fn root() -> FolderPath {
        FolderPath::default()
    }

    /// Whether this is the root.
    pub fn is_root(&self) -> bool {
        self.0.is_empty()
    }

    /// The last name; the root has none.
    pub fn name(&self) -> Option<Name> {
        (!self.is_root()).then(|| Name(split(&self.0).1.to_owned()))
    }

    /// The folder that this one is in; the root is in none.
    pub fn parent(&self) -> Option<FolderPath> {
        (!self.is_root()).then(|| FolderPath(split(&self.0).0.to_owned()))
    }

    /// The folders that this one is in, the root first, its parent last.
    pub fn ancestors(&self) -> impl Iterator<Item = FolderPath> + '_ {
        ancestors(&self.0)
    }

    /// The path of a file, given from this folder.
    pub fn join(&self, file: &FilePath) -> Result<FilePath, PathError> {
        FilePath::parse(&self.joined(&file.0))
    }

    /// The path of a folder, given from this folder.
    pub fn join_folder(&self, folder: &FolderPath) -> Result<FolderPath, PathError> {
        FolderPath::parse(&self.joined(&folder.0))
    }

    /// The path from `folder`, if this is that folder (`""`) or is below it.
    pub fn relative_to(&self, folder: &FolderPath) -> Option<&str> {
        if self == folder { Some("") } else { relative(&self.0, folder) }
    }

    /// Bounds of the paths below, by code point: the least, and the first beyond. The root has none.
    pub fn below(&self) -> Option<(String, String)> {
        // `0` is the character after `/`.
        (!self.is_root()).then(|| (format!("{}/", self.0), format!("{}0", self.0)))
    }

    fn joined(&self, path: &str) -> String {
        match (self.0.as_str(), path) {
            ("", path) | (path, "") => path.to_owned(),
            (folder, path) => format!("{folder}/{path}"),
        }
    }
}

fn check(path: &str) -> Result<(), PathError> {
    if path.starts_with('/') {
        return Err(PathError::Absolute);
    }
    let mut levels = 0;
    for name in path.split('/') {
        levels += 1;
        match name {
            "" => return Err(PathError::EmptySegment),
            "." | ".." => return Err(PathError::DotSegment),
            _ if name.contains('\\') => return Err(PathError::Backslash),
            _ if name.contains('\0') => return Err(PathError::Nul),
            _ if name.len() > MAX_NAME => return Err(PathError::NameTooLong),
            _ => {}
        }
    }
    match () {
        _ if path.len() > MAX_PATH => Err(PathError::TooLong),
        _ if levels > MAX_LEVELS => Err(PathError::TooDeep),
        _ => Ok(()),
    }
}

fn split(path: &str) -> (&str, &str) {
    path.rsplit_once('/').unwrap_or(("", path))
}

fn ancestors(path: &str) -> impl Iterator<Item = FolderPath> + '_ {
    let root = (!path.is_empty()).then(FolderPath::root);
    root.into_iter().chain(path.match_indices('/').map(|(at, _)| FolderPath(path[..at].to_owned())))
}

fn relative<'a>(path: &'a str, folder: &FolderPath) -> Option<&'a str> {
    if folder.is_root() { Some(path) } else { path.strip_prefix(folder.as_str())?.strip_prefix('/') }
}

#[cfg(test)]
mod tests {
    use super::*;

    macro_rules! refused {
        ($($name:ident: $path:expr => $why:ident;)*) => {
            $(#[test] fn $name() {
                let path: &str = &$path;
                assert_eq!(FilePath::parse(path), Err(PathError::$why));
                if !path.is_empty() {
                    assert_eq!(FolderPath::parse(path), Err(PathError::$why));
                }
            })*
        };
    }

    refused! {
        empty: "" => Empty;
        absolute: "/a" => Absolute;
        a_slash: "/" => Absolute;
        upwards: "../a" => DotSegment;
        upwards_within: "a/../b" => DotSegment;
        a_dot: "./a" => DotSegment;
        a_dot_at_the_end: "a/." => DotSegment;
        two_slashes: "a//b" => EmptySegment;
        a_slash_at_the_end: "a/" => EmptySegment;
        a_backslash: "a\\b" => Backslash;
        a_nul: "a/b\0" => Nul;
        a_long_name: format!("a/{}", "é".repeat(128)) => NameTooLong;
        a_long_path: vec!["a".repeat(200); 6].join("/") => TooLong;
        a_deep_path: vec!["a"; 65].join("/") => TooDeep;
    }

    #[test]
    fn whatever_else_is_a_path() {
        let longest = [vec!["a".repeat(255); 3].join("/"), "b".repeat(255)].join("/") + "c";
        let deepest = vec!["a"; 64].join("/");
        for path in
            ["a", "a.md", ".hidden", "...", "..a/b..", "a b/c", "new\nline", "%_*?[x]!", "日本/é/𝄞", &deepest]
        {
            assert_eq!(FilePath::parse(path).unwrap().as_str(), path);
            assert_eq!(FolderPath::parse(path).unwrap().as_str(), path);
        }
        assert_eq!(longest.len(), 1024);
        assert_eq!(FilePath::parse(&longest), Err(PathError::NameTooLong));
        assert!(FilePath::parse(&longest[..1023]).is_ok());
    }

    #[test]
    fn names() {
        assert_eq!(Name::parse("a.md").unwrap().as_str(), "a.md");
        assert_eq!(Name::parse(""), Err(PathError::Empty));
        assert_eq!(Name::parse("a/b"), Err(PathError::Slash));
        assert_eq!(Name::parse(".."), Err(PathError::DotSegment));
        assert_eq!(Name::parse(&"x".repeat(256)), Err(PathError::NameTooLong));
    }

    #[test]
    fn entries_of_subfolders() {
        for (entry, path) in [("", ""), (".", ""), ("./", ""), ("a", "a"), ("a/", "a"), ("a/b/", "a/b")] {
            assert_eq!(FolderPath::parse_entry(entry).unwrap().as_str(), path, "{entry:?}");
        }
        assert_eq!(FolderPath::parse_entry("/"), Err(PathError::Absolute));
        assert_eq!(FolderPath::parse_entry("/a/"), Err(PathError::Absolute));
        assert_eq!(FolderPath::parse_entry("a//"), Err(PathError::EmptySegment));
        assert_eq!(FolderPath::parse_entry("../"), Err(PathError::DotSegment));
        assert_eq!(FolderPath::parse_entry("./a"), Err(PathError::DotSegment));
    }

    fn file(path: &str) -> FilePath {
        FilePath::parse(path).unwrap()
    }

    fn folder(path: &str) -> FolderPath {
        FolderPath::parse(path).unwrap()
    }

    #[test]
    fn parts_of_a_path() {
        let path = file("a/b/c.md");
        assert_eq!((path.parent().as_str(), path.name().as_str()), ("a/b", "c.md"));
        assert_eq!((file("c.md").parent(), file("c.md").name().as_str()), (FolderPath::root(), "c.md"));
        assert_eq!(path.ancestors().collect::<Vec<_>>(), [folder(""), folder("a"), folder("a/b")]);
        assert_eq!(folder("a/b").ancestors().collect::<Vec<_>>(), [folder(""), folder("a")]);
        assert_eq!(folder("").ancestors().count(), 0);
        assert_eq!((folder("a/b").parent(), folder("a").parent()), (Some(folder("a")), Some(folder(""))));
        assert_eq!((folder("").parent(), folder("").name()), (None, None));
        assert_eq!(folder("a/b").name().unwrap().as_str(), "b");
        assert_eq!(folder("docs").below(), Some(("docs/".into(), "docs0".into())));
        assert_eq!(folder("").below(), None);
    }

    #[test]
    fn joined_and_taken_apart() {
        assert_eq!(folder("docs").join(&file("a/b.md")), Ok(file("docs/a/b.md")));
        assert_eq!(folder("").join(&file("b.md")), Ok(file("b.md")));
        assert_eq!(folder("docs").join_folder(&folder("")), Ok(folder("docs")));
        assert_eq!(folder("docs").join_folder(&folder("x")), Ok(folder("docs/x")));
        let deep = folder(&vec!["a"; 60].join("/"));
        assert_eq!(deep.join(&file("b/b/b/b/b")), Err(PathError::TooDeep));
        assert_eq!(file("docs/a.md").relative_to(&folder("docs")), Some("a.md"));
        assert_eq!(file("docs/a.md").relative_to(&folder("")), Some("docs/a.md"));
        assert_eq!(file("docs2/a.md").relative_to(&folder("docs")), None);
        assert_eq!(folder("docs").relative_to(&folder("docs")), Some(""));
        assert_eq!(folder("docs/x").relative_to(&folder("docs")), Some("x"));
        assert_eq!(folder("doc").relative_to(&folder("docs")), None);
    }

    #[test]
    fn json_is_parsed_too() {
        assert_eq!(serde_json::from_str::<FilePath>(r#""a/b""#).unwrap(), file("a/b"));
        let error = serde_json::from_str::<FilePath>(r#""a//b""#).unwrap_err();
        assert!(error.to_string().starts_with("must not have an empty segment"));
        assert_eq!(serde_json::to_string(&folder("a")).unwrap(), r#""a""#);
    }
}
