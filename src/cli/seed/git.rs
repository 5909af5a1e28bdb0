//! Which files of a directory are exactly as the commit that is checked out has them.
//!
//! Only such a file's version can be named by the commit. Git is asked for the names in the commit's tree alone, and the
//! bytes are compared here: asking Git to compare would run filters and hooks that the directory's own configuration
//! names, and a directory need not be trusted to be seeded.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use sha1::Digest;

use crate::hex::hex;

/// What a commit holds below a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Commit {
    version: String,
    /// Object ids in hexadecimal, by absolute path.
    blobs: HashMap<PathBuf, String>,
}

impl Commit {
    /// The commit that is checked out where `directory` lies; none outside of a repository, before its first commit,
    /// and where there is no Git.
    pub fn of(directory: &Path) -> Option<Commit> {
        let directory = std::fs::canonicalize(directory).ok()?;
        let short = git(&directory, &["rev-parse", "--short", "HEAD"])?;
        let tree = git(&directory, &["ls-tree", "-r", "-z", "HEAD"])?;
        let blobs = tree.split(|byte| *byte == 0).filter_map(|entry| {
            // `<mode> blob <id>\t<path>`
            let tab = entry.iter().position(|byte| *byte == b'\t')?;
            let mut fields = std::str::from_utf8(&entry[..tab]).ok()?.split(' ');
            let (mode, kind, id) = (fields.next()?, fields.next()?, fields.next()?);
            let file = mode.starts_with("100") && kind == "blob";
            file.then(|| (directory.join(OsStr::from_bytes(&entry[tab + 1..])), id.to_owned()))
        });
        let blobs = blobs.collect();
        Some(Commit { version: format!("git:{}", String::from_utf8(short).ok()?.trim()), blobs })
    }

    /// The version, `git:<short hash>`, of a file with these contents, if the commit has the file with these very
    /// contents.
    pub fn version_of(&self, file: &Path, contents: &[u8]) -> Option<&str> {
        let id = self.blobs.get(file)?;
        (*id == object_id(contents, id.len())).then_some(&self.version[..])
    }
}

/// The id that Git gives to contents: SHA-1 in 40 digits, or SHA-256 in 64.
fn object_id(contents: &[u8], digits: usize) -> String {
    let head = format!("blob {}\0", contents.len());
    if digits == 64 {
        hex(&sha2::Sha256::new().chain_update(head).chain_update(contents).finalize())
    } else {
        hex(&sha1::Sha1::new().chain_update(head).chain_update(contents).finalize())
    }
}

fn git(directory: &Path, arguments: &[&str]) -> Option<Vec<u8>> {
    let output = Command::new("git")
        .arg("-C")
        .arg(directory)
        .args(arguments)
        .env("GIT_NO_LAZY_FETCH", "1")
        .env("GIT_OPTIONAL_LOCKS", "0")
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output()
        .ok()?;
    output.status.success().then_some(output.stdout)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_those_of_git() {
        assert_eq!(object_id(b"hello\n", 40), "ce013625030ba8dba906f756967f9e9ca394464a");
        assert_eq!(
            object_id(b"hello\n", 64),
            "2cf8d83d9ee29543b34a87727421fdecb7e3f3a183d337639025de576db9ebb4"
        );
    }

    #[test]
    fn outside_of_a_repository_there_is_no_commit() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(Commit::of(dir.path()), None);
        assert_eq!(Commit::of(&dir.path().join("missing")), None);
    }
}
