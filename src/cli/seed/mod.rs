//! What `slatebase seed` loads (REST contract, "Running it"): a directory, or a manifest.
//!
//! [`plan::plan`] looks at either and tells the files to load, the slate's settings, and what cannot be loaded;
//! [`plan::SeedFile::load`] then reads one file, its bytes as they are and the metatags of its front matter. Nothing
//! here knows of the database. A bad file is a [`Problem`], never the end of the rest.

use std::fmt;

pub mod manifest;
pub mod plan;
pub mod walk;

/// One thing that was not loaded as it stands, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The path of the file in the slate, or the name of the manifest or settings file. What is not UTF-8 in it is
    /// replaced by U+FFFD.
    pub path: String,
    /// The line of that file, from 1, where one is to blame.
    pub line: Option<u32>,
    /// What is wrong, for a person to read.
    pub detail: String,
}

impl Problem {
    fn new(path: impl Into<String>, line: Option<u32>, detail: impl Into<String>) -> Self {
        Self { path: path.into(), line, detail: detail.into() }
    }
}

/// One line: `path:line: detail`. A name may hold anything, so control characters are escaped.
impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let escaped = |f: &mut fmt::Formatter<'_>, text: &str| {
            text.chars().try_for_each(|character| match character.is_control() {
                true => write!(f, "{}", character.escape_default()),
                false => write!(f, "{character}"),
            })
        };
        escaped(f, &self.path)?;
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
        }
        f.write_str(": ")?;
        escaped(f, &self.detail)
    }
}

impl std::error::Error for Problem {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_is_one_harmless_line() {
        let problem = Problem::new("a/\u{1b}[2Jé\n.md", Some(3), "no\tgood");
        assert_eq!(problem.to_string(), "a/\\u{1b}[2Jé\\n.md:3: no\\tgood");
        assert_eq!(Problem::new("a.md", None, "bad").to_string(), "a.md: bad");
    }
}
