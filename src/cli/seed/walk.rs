//! Finds the files of a directory that is to be seeded.
//!
//! - Files come in the byte order of their paths, the same on every run and machine.
//! - A symbolic link is followed to a file inside the directory. One that leaves it, leads to nothing or leads to a
//!   folder (which could be a cycle) is reported and not followed.
//! - Names that no slate can hold (retrieval semantics §2.5), names that are not UTF-8, and special files such as
//!   pipes and devices are reported. Of names in a folder that are equal after Unicode NFC (§2.3) the first in byte
//!   order is loaded, the others are reported.
//! - Anything named `.git` is skipped without a word, and so is `slate.yaml` at the top: it holds settings. Other
//!   names that begin with a dot are loaded. An empty folder leaves no trace: folders come into being with files.

use std::collections::HashMap;
use std::collections::hash_map::Entry as Slot;
use std::fs;
use std::path::{Path, PathBuf};

use unicode_normalization::UnicodeNormalization;
use walkdir::{DirEntry, WalkDir};

use super::Problem;
use crate::path::FilePath;

/// The name of the file that holds a directory's settings.
pub const SETTINGS_FILE: &str = "slate.yaml";

/// A file to load.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Its path from the directory, which is its path in the slate.
    pub path: FilePath,
    /// Where its bytes are; the target, where a symbolic link led there.
    pub absolute: PathBuf,
}

/// What a directory holds.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Walk {
    /// The files to load, in byte order of their paths.
    pub entries: Vec<Entry>,
    /// What is not loaded, in the order it was met.
    pub problems: Vec<Problem>,
}

/// Walks a directory to its end.
///
/// # Errors
/// The directory itself is not there, is no directory or cannot be read. Whatever is wrong below it is in
/// [`Walk::problems`].
pub fn walk(root: &Path) -> Result<Walk, Problem> {
    let unreadable = |error: std::io::Error| Problem::new(root.to_string_lossy(), None, error.to_string());
    let root = fs::canonicalize(root).map_err(unreadable)?;
    fs::read_dir(&root).map_err(unreadable)?;
    let mut walk = Walk::default();
    let mut taken = HashMap::new();
    let mut items = WalkDir::new(&root).min_depth(1).sort_by_file_name().into_iter();
    while let Some(item) = items.next() {
        let item = match item {
            Ok(item) => item,
            Err(error) => {
                let at = error.path().map_or_else(String::new, |path| relative(&root, path));
                let detail = error.io_error().map_or_else(|| error.to_string(), ToString::to_string);
                walk.problems.push(Problem::new(at, None, detail));
                continue;
            }
        };
        match judge(&root, &item, &mut taken) {
            Ok(Verdict::Load(entry)) => walk.entries.push(entry),
            Ok(Verdict::Enter) => {}
            Ok(Verdict::Skip) => leave(&mut items, &item),
            Err(detail) => {
                walk.problems.push(Problem::new(relative(&root, item.path()), None, detail));
                leave(&mut items, &item);
            }
        }
    }
    // A folder's files come at the place of its name: `a/x` before `a-b`. By bytes it is the other way round.
    walk.entries.sort_unstable_by(|a, b| a.path.as_str().cmp(b.path.as_str()));
    Ok(walk)
}

/// The file that a path inside a directory leads to, symbolic links followed, if it stays inside and is one.
///
/// `root` must be canonical.
pub(super) fn file_inside(root: &Path, path: &Path) -> Result<PathBuf, String> {
    let target = fs::canonicalize(path).map_err(|error| format!("leads nowhere: {error}"))?;
    let Ok(inside) = target.strip_prefix(root) else {
        return Err("leads out of the directory".into());
    };
    if inside.components().any(|name| name.as_os_str() == ".git") {
        return Err("leads into .git".into());
    }
    let kind = fs::metadata(&target).map_err(|error| format!("leads nowhere: {error}"))?;
    if kind.is_dir() {
        return Err("leads to a folder".into());
    }
    if !kind.is_file() {
        return Err("leads to something that is not a regular file".into());
    }
    Ok(target)
}

enum Verdict {
    Load(Entry),
    Enter,
    Skip,
}

/// Says what to do with an item, or why it is not loaded.
fn judge(root: &Path, item: &DirEntry, taken: &mut HashMap<String, String>) -> Result<Verdict, String> {
    if item.file_name() == ".git" || (item.depth() == 1 && item.file_name() == SETTINGS_FILE) {
        return Ok(Verdict::Skip);
    }
    let path = relative_text(root, item.path()).ok_or("the name is not valid UTF-8")?;
    let path = FilePath::parse(&path).map_err(|error| format!("the path {error}"))?;
    let kind = item.file_type();
    let absolute = if kind.is_symlink() {
        file_inside(root, item.path()).map_err(|detail| format!("a symbolic link that {detail}"))?
    } else if kind.is_file() || kind.is_dir() {
        item.path().to_owned()
    } else {
        return Err("not a regular file".into());
    };
    match taken.entry(same_name(&path)) {
        Slot::Vacant(slot) => slot.insert(path.to_string()),
        Slot::Occupied(first) => {
            let first = first.get();
            return Err(format!("the name is the same as that of {first} after Unicode normalization (NFC)"));
        }
    };
    Ok(if kind.is_dir() { Verdict::Enter } else { Verdict::Load(Entry { path, absolute }) })
}

/// What two paths have in common that cannot both be: their folder, and their name after NFC.
pub(super) fn same_name(path: &FilePath) -> String {
    format!("{}/{}", path.parent(), path.name().as_str().nfc())
}

/// Keeps the walk out of an item, if it is a folder.
fn leave(items: &mut walkdir::IntoIter, item: &DirEntry) {
    if item.file_type().is_dir() {
        items.skip_current_dir();
    }
}

fn relative(root: &Path, path: &Path) -> String {
    path.strip_prefix(root).unwrap_or(path).to_string_lossy().into_owned()
}

fn relative_text(root: &Path, path: &Path) -> Option<String> {
    let names: Option<Vec<_>> = path.strip_prefix(root).ok()?.iter().map(|name| name.to_str()).collect();
    Some(names?.join("/"))
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::fs::symlink;
    use std::os::unix::net::UnixListener;

    use super::*;

    fn put(root: &Path, path: impl AsRef<Path>) {
        let path = root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "x").unwrap();
    }

    fn paths(walk: &Walk) -> Vec<&str> {
        walk.entries.iter().map(|entry| entry.path.as_str()).collect()
    }

    fn problem<'a>(walk: &'a Walk, path: &str) -> &'a str {
        let found: Vec<_> = walk.problems.iter().filter(|problem| problem.path == path).collect();
        assert_eq!(found.len(), 1, "{path}: {:?}", walk.problems);
        &found[0].detail
    }

    #[test]
    fn files_come_in_byte_order() {
        let dir = tempfile::tempdir().unwrap();
        for path in ["b.md", "a/x", "a-b", "a/é/z.txt", "Z", ".hidden/x", ".env", "a/slate.yaml", "名"] {
            put(dir.path(), path);
        }
        let walk = walk(dir.path()).unwrap();
        assert_eq!(
            paths(&walk),
            [".env", ".hidden/x", "Z", "a-b", "a/slate.yaml", "a/x", "a/é/z.txt", "b.md", "名"]
        );
        assert_eq!(walk.problems, []);
        assert_eq!(fs::read(&walk.entries[4].absolute).unwrap(), b"x");
    }

    #[test]
    fn git_and_settings_are_skipped_in_silence() {
        let dir = tempfile::tempdir().unwrap();
        for path in [".git/config", "sub/.git", "slate.yaml", ".gitignore", "a"] {
            put(dir.path(), path);
        }
        let walk = walk(dir.path()).unwrap();
        assert_eq!((paths(&walk), walk.problems.len()), (vec![".gitignore", "a"], 0));
    }

    #[test]
    fn links_are_followed_to_files_inside_only() {
        let outside = tempfile::tempdir().unwrap();
        put(outside.path(), "secret");
        let dir = tempfile::tempdir().unwrap();
        put(dir.path(), "sub/file");
        put(dir.path(), ".git/config");
        for (target, name) in [
            (dir.path().join("sub/file"), "absolute"),
            ("sub/file".into(), "relative"),
            ("relative".into(), "twice"),
            (outside.path().join("secret"), "out"),
            (outside.path().into(), "out_folder"),
            (PathBuf::from("..").join(outside.path().file_name().unwrap()).join("secret"), "upwards"),
            ("sub".into(), "folder"),
            (".".into(), "cycle"),
            ("self".into(), "self"),
            ("nothing".into(), "dangling"),
            (".git/config".into(), "git"),
        ] {
            symlink(target, dir.path().join(name)).unwrap();
        }
        let walk = walk(dir.path()).unwrap();
        assert_eq!(paths(&walk), ["absolute", "relative", "sub/file", "twice"]);
        for entry in &walk.entries {
            assert!(entry.absolute.ends_with("sub/file"), "{entry:?}");
        }
        for (path, detail) in [
            ("out", "out of"),
            ("out_folder", "out of"),
            ("upwards", "out of"),
            ("folder", "folder"),
            ("cycle", "folder"),
            ("self", "nowhere"),
            ("dangling", "nowhere"),
            ("git", ".git"),
        ] {
            assert!(problem(&walk, path).contains(detail), "{path}: {:?}", walk.problems);
        }
        assert_eq!(walk.problems.len(), 8);
    }

    #[test]
    fn names_that_no_slate_holds_are_reported() {
        let dir = tempfile::tempdir().unwrap();
        let bad = OsStr::from_bytes(b"bad\xff");
        put(dir.path(), bad);
        put(dir.path(), Path::new(OsStr::from_bytes(b"folder\xff")).join("inside"));
        put(dir.path(), "back\\slash");
        put(dir.path(), ["d"; 63].join("/") + "/deepest");
        put(dir.path(), ["e"; 64].join("/") + "/too_deep");
        put(dir.path(), vec!["l".repeat(250); 4].join("/") + "/short");
        put(dir.path(), vec!["m".repeat(250); 4].join("/") + "/" + &"n".repeat(30));
        UnixListener::bind(dir.path().join("socket")).unwrap();
        let walk = walk(dir.path()).unwrap();
        assert_eq!(paths(&walk).len(), 2);
        for (path, detail) in [
            ("bad\u{fffd}", "UTF-8"),
            ("folder\u{fffd}", "UTF-8"),
            ("back\\slash", "backslash"),
            (&(["e"; 64].join("/") + "/too_deep"), "64 levels"),
            (&(vec!["m".repeat(250); 4].join("/") + "/" + &"n".repeat(30)), "1024 bytes"),
            ("socket", "regular"),
        ] {
            assert!(problem(&walk, path).contains(detail), "{path}: {:?}", walk.problems);
        }
        assert_eq!(walk.problems.len(), 6, "{:?}", walk.problems);
    }

    #[test]
    fn the_first_of_names_equal_after_nfc_is_loaded() {
        let dir = tempfile::tempdir().unwrap();
        for path in ["e\u{301}.md", "é.md", "x/e\u{301}/a", "x/é/b", "y/é.md"] {
            put(dir.path(), path);
        }
        let walk = walk(dir.path()).unwrap();
        assert_eq!(paths(&walk), ["e\u{301}.md", "x/e\u{301}/a", "y/é.md"]);
        assert!(problem(&walk, "é.md").contains("e\u{301}.md after Unicode"));
        assert!(problem(&walk, "x/é").contains("NFC"));
    }

    #[test]
    fn only_a_directory_is_walked() {
        let dir = tempfile::tempdir().unwrap();
        put(dir.path(), "file");
        assert!(walk(&dir.path().join("file")).is_err());
        assert!(walk(&dir.path().join("nothing")).unwrap_err().path.ends_with("nothing"));
    }
}
