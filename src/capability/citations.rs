//! Citations that are given back: what became of them, and what stands in them (provenance, "The record and
//! re-retrieval").

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use uuid::Uuid;

use super::extract::lines::{self, Part};
use super::quote;
use crate::provenance::lines::{LineIndex, LineRange};

/// The body of `POST /v1/citations/resolve`.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = ResolveRequest)]
#[serde(deny_unknown_fields)]
pub struct ToResolve {
    /// A `citation.reference`.
    #[schema(example = "slate://Knowledge/docs/core.md@3#L1-50")]
    pub reference: String,
    /// The `citation.hash` that was given with it; needed for references other than `slate://`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(example = "sha256:0d45f5fd462b8c70bffb10021ac1bcff3f58f29b1faf7568595095427d42812c")]
    pub hash: Option<String>,
}

/// What became of a citation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ResolveStatus {
    /// These are the very bytes.
    Verified,
    /// The source has other bytes now.
    Changed,
    /// The bytes are no longer there.
    Gone,
    /// The bytes are not those of the hash.
    IntegrityMismatch,
}

/// A citation, resolved.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct Resolution {
    /// What became of it.
    pub status: ResolveStatus,
    /// The citation.
    #[schema(example = "slate://Knowledge/docs/core.md@3#L1-50")]
    pub reference: String,
    /// What is cited: the text as it is, or base64; null unless the status is `verified` or `changed`.
    pub data: Option<String>,
    /// `base64` for what is no text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub encoding: Option<&'static str>,
    /// Of the whole original bytes, as they are on record; of a source that changed, as they are now.
    #[schema(example = "sha256:0d45f5fd462b8c70bffb10021ac1bcff3f58f29b1faf7568595095427d42812c")]
    pub hash: Option<String>,
    /// The source's version.
    #[schema(example = "3")]
    pub version: Option<String>,
    /// A sentence, where it is not `verified`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// Names the record of this answer.
    #[schema(example = "01937b2e-7c1a-7d3f-9a51-0c4f4d1e2a3b.1")]
    pub provenance_id: String,
}

/// The body of `POST /v1/citations/check`.
#[derive(Debug, Clone, Deserialize, ToSchema)]
#[schema(as = CheckRequest)]
#[serde(deny_unknown_fields)]
pub struct ToCheck {
    /// A `citation.reference`.
    #[schema(example = "slate://Knowledge/docs/core.md@3")]
    pub reference: String,
    /// The text that is said to stand there; runs of white space count as one space.
    #[schema(example = "the release branch is cut", max_length = 65536)]
    pub quote: String,
    /// A session whose other files are looked at too.
    #[serde(default)]
    pub session_id: Option<Uuid>,
}

/// Whether a quote stands in what is cited.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum CheckStatus {
    /// It does.
    Found,
    /// It stands elsewhere in the file, in another version of it, or in another file that the session was shown.
    FoundElsewhere,
    /// It does not.
    NotFound,
}

/// A quote, checked.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct Check {
    /// Whether it stands there.
    pub status: CheckStatus,
    /// The lines where it stands, in original numbers.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(example = "5-6")]
    pub lines: Option<String>,
    /// A citation of just those lines.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(example = "slate://Knowledge/docs/core.md@3#L5-6")]
    pub reference: Option<String>,
    /// A sentence, where something was in the way.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
}

impl Check {
    /// It stands nowhere that was looked at.
    pub fn not_found(detail: Option<String>) -> Check {
        Check { status: CheckStatus::NotFound, lines: None, reference: None, detail }
    }

    /// It stands in these lines of what this reference, without lines, names.
    pub fn at(status: CheckStatus, reference: &str, lines: LineRange) -> Check {
        let cited = format!("{reference}#L{lines}");
        Check { status, lines: Some(lines.to_string()), reference: Some(cited), detail: None }
    }
}

/// What a citation cites of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Slice {
    /// The text.
    pub text: String,
    /// The original number of each of its lines; 0 for a blank one between two parts.
    numbers: Vec<u64>,
}

impl Slice {
    /// The lines of a text that are cited; all where none are named. `None` where they lie past the end.
    pub fn of(text: &str, cited: &[LineRange]) -> Option<Slice> {
        let index = LineIndex::of(text);
        let parts: Vec<Part> = match cited {
            [] => vec![(1, index.count())],
            cited => lines::take(cited, index.count()).ok()?.parts,
        };
        let mut numbers = Vec::new();
        for (i, (first, last)) in parts.iter().enumerate() {
            numbers.extend((i > 0).then_some(0).into_iter().chain(*first..=*last));
        }
        let text = if index.count() == 0 { text.to_owned() } else { lines::join(text, &index, &parts) };
        Some(Slice { text, numbers })
    }

    /// The original lines in which a quote stands.
    pub fn find(&self, quote: &str) -> Option<LineRange> {
        let found = quote::find(&self.text, quote)?;
        // Neither end of a quote is white space, and so neither line is a blank one between parts.
        let number = |line: u64| self.numbers.get(usize::try_from(line - 1).ok()?).copied();
        Some(LineRange::new(number(found.first)?, number(found.last.unwrap_or(found.first))?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_are_told_in_original_lines() {
        let text = "one\ntwo\nthree\nfour\nfive\n";
        let slice = Slice::of(text, &["2".parse().unwrap(), "4-5".parse().unwrap()]).unwrap();
        assert_eq!(slice.text, "two\n\nfour\nfive\n");
        for (quote, lines) in
            [("two", Some("2")), ("four five", Some("4-5")), ("two four", Some("2-4")), ("one", None)]
        {
            assert_eq!(slice.find(quote).map(|l| l.to_string()).as_deref(), lines, "{quote}");
        }
        assert_eq!(Slice::of(text, &["6".parse().unwrap()]), None);
        assert_eq!(Slice::of("", &[]).unwrap().find("x"), None);
    }
}
