//! The output contract of an item, put together from what is on record (provenance, "Output" and "Failures").

use chrono::{DateTime, SecondsFormat, Utc};
use serde::Serialize;
use utoipa::ToSchema;

use super::citation::reference;
use super::confidence::{Facts, Freshness, score};
use super::record::{Item, REFUSED, Record, provenance_id};
use crate::authority::Authority;
use crate::hex::hex;
use crate::item::ItemStatus;
use crate::item::Mode;

/// What the store holds of an item's version now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Held {
    /// Media type of the contents.
    pub media_type: String,
    /// UTF-8 without U+0000.
    pub is_text: bool,
    /// When the source was last modified, or else when the version was written.
    pub last_modified: Option<DateTime<Utc>>,
    /// The source's own version.
    pub source_version: Option<String>,
    /// The bytes are no longer kept.
    pub gone: bool,
    /// Lines of the contents, where they were given and are text.
    pub lines: Option<i64>,
}

/// One item with everything that is needed to trust it and to fetch it again.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct ItemRecord {
    /// `<record>.<n>`.
    #[schema(example = "01937b2e-7c1a-7d3f-9a51-0c4f4d1e2a3b.1")]
    pub provenance_id: String,
    /// What kind of response gave it: `query` or `round`.
    #[schema(example = "query")]
    pub kind: String,
    /// The session, if there is one.
    pub session_id: Option<uuid::Uuid>,
    /// The session's round.
    pub round: Option<i32>,
    /// What became of it: the status of the item as it was given, or `refused` to a key with the scope `admin`.
    #[schema(example = "fetched")]
    pub status: &'static str,
    /// The modes that matched it.
    pub matched_by: Vec<Mode>,
    /// What was retrieved.
    pub retrieved: Retrieved,
    /// How to cite it.
    pub citation: CitationView,
    /// Where it comes from.
    pub provenance: Source,
    /// What was left out.
    pub extraction: Extraction,
    /// From 0 to 1; the same record always scores the same.
    #[schema(example = 1.0)]
    pub confidence: f64,
    /// One for each part returned, in original line numbers; for people.
    #[schema(example = json!(["docs/core.md:1-15"]))]
    pub evidence_anchors: Vec<String>,
    /// What the answer rests on.
    pub assumptions: Vec<&'static str>,
    /// Why nothing was retrieved, where nothing was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure: Option<Failure>,
}

/// What was retrieved.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct Retrieved {
    /// The target as it was asked for; of a file that a search found, its path from the slate's root.
    #[schema(example = "docs/core.md")]
    pub target: String,
    /// `file:<path>`.
    #[schema(example = "file:docs/core.md")]
    pub source: String,
    /// When the bytes were read.
    pub timestamp: DateTime<Utc>,
    /// Where the data is to be had: records hold none themselves. Null where there is none.
    pub data: Option<DataReference>,
    /// What the data is: `json`, `yaml`, `csv`, `text` or `binary`.
    #[schema(example = "text")]
    pub format: Option<&'static str>,
    /// Whether everything that was asked for was returned, unfiltered and uncut.
    pub complete: bool,
}

/// Data by reference.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct DataReference {
    /// A citation that retrieves it.
    #[schema(example = "slate://Knowledge/docs/core.md@3")]
    pub reference: String,
}

/// How to cite an item.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct CitationView {
    /// Retrieves exactly the same bytes; null where no version is named.
    #[schema(example = "slate://Knowledge/docs/core.md@3")]
    pub reference: Option<String>,
    /// The source's own version if it has one, else our number.
    #[schema(example = "3")]
    pub version: Option<String>,
    /// `sha256:` and 64 hexadecimal digits, of the whole original bytes.
    #[schema(example = "sha256:0d45f5fd462b8c70bffb10021ac1bcff3f58f29b1faf7568595095427d42812c")]
    pub hash: Option<String>,
    /// As its owner says.
    pub authority: Authority,
}

/// Where an item comes from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct Source {
    /// `file`.
    #[schema(example = "file")]
    pub source_type: &'static str,
    /// Of the source.
    pub last_modified: Option<DateTime<Utc>>,
    /// When it was retrieved.
    pub freshness: Freshness,
    /// A sentence built from facts on record.
    pub reliability: String,
}

/// What was left out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct Extraction {
    /// The constraints that were applied; rounds and queries have none.
    pub applied_filters: Option<serde_json::Value>,
    /// Bytes of the whole.
    pub original_size: i64,
    /// Bytes that were returned.
    pub returned_size: i64,
    /// Whether a limit left anything out.
    pub truncated: bool,
}

/// Why nothing was retrieved.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct Failure {
    /// `not_found`, `refused` or `gone`.
    #[schema(example = "gone")]
    pub reason: &'static str,
    /// A sentence.
    pub detail: &'static str,
    /// Paths of files that are near to a missing one.
    pub alternatives: Vec<String>,
    /// What was got all the same.
    pub partial: Option<String>,
}

/// The output contract of item `n` of a record. `reveal` is whether the reader may learn that a miss was a refusal.
pub fn contract(record: &Record, n: i64, item: &Item, held: Option<&Held>, reveal: bool) -> ItemRecord {
    let status = ItemStatus::from_code(item.status);
    let failure = failure(item, held, reveal);
    let authority = Authority::from_code(item.authority).unwrap_or_default();
    let freshness = Freshness::from_code(item.freshness).unwrap_or(Freshness::Unknown);
    let slate = record.slate.as_deref().unwrap_or_default();
    let cited = item.file.as_ref().map(|file| reference(slate, &file.path, file.version));
    let path = item.file.as_ref().map(|file| file.path.as_str());
    let target = item.asked.as_deref().or(path).unwrap_or_default().to_owned();
    let listing = status == Some(ItemStatus::Listing);
    let truncated = status == Some(ItemStatus::Omitted);
    let returned = failure.is_none() && status == Some(ItemStatus::Fetched);
    let size = item.file.as_ref().map_or(0, |file| file.size);
    let facts = Facts {
        remote: false,
        truncated,
        freshness,
        hashed: item.file.is_some(),
        authority,
        encoding_guessed: false,
        failed: failure.is_some(),
    };
    ItemRecord {
        provenance_id: provenance_id(record.id, usize::try_from(n).unwrap_or_default()),
        kind: record.kind.clone(),
        session_id: record.session_id,
        round: record.round,
        status: match status {
            None if reveal => "refused",
            None => ItemStatus::NotFound.as_str(),
            Some(status) => status.as_str(),
        },
        matched_by: Mode::from_bits(item.matched_by),
        retrieved: Retrieved {
            source: format!("file:{}", path.unwrap_or(&target)),
            target,
            timestamp: record.created_at,
            data: cited.clone().filter(|_| failure.is_none()).map(|reference| DataReference { reference }),
            format: if listing { Some("json") } else { held.map(format_of) },
            complete: returned || listing,
        },
        citation: CitationView {
            reference: cited,
            version: held
                .and_then(|held| held.source_version.clone())
                .or(item.file.as_ref().map(|f| f.version.to_string())),
            hash: item.file.as_ref().map(|file| format!("sha256:{}", hex(&file.sha256))),
            authority,
        },
        provenance: Source {
            source_type: "file",
            last_modified: held.and_then(|held| held.last_modified),
            freshness,
            reliability: reliability(item, held, listing),
        },
        extraction: Extraction {
            applied_filters: None,
            original_size: size,
            returned_size: if returned { size } else { 0 },
            truncated,
        },
        confidence: score(facts),
        evidence_anchors: path.filter(|_| returned).map(|path| anchor(path, held)).into_iter().collect(),
        assumptions: assumptions(status),
        failure,
    }
}

fn failure(item: &Item, held: Option<&Held>, reveal: bool) -> Option<Failure> {
    let (reason, detail) = match ItemStatus::from_code(item.status) {
        None if item.status == REFUSED && reveal => {
            ("refused", "What was asked for is kept from every reader.")
        }
        None | Some(ItemStatus::NotFound) => ("not_found", "Nothing of this name was there to be read."),
        Some(ItemStatus::Listing) => return None,
        Some(_) if held.is_none_or(|held| held.gone) => {
            ("gone", "The bytes of this version are no longer kept; their hash and this record are.")
        }
        Some(_) => return None,
    };
    Some(Failure { reason, detail, alternatives: Vec::new(), partial: None })
}

fn format_of(held: &Held) -> &'static str {
    let kind = held.media_type.as_str();
    match () {
        _ if !held.is_text => "binary",
        _ if kind.ends_with("json") => "json",
        _ if kind.ends_with("yaml") => "yaml",
        _ if kind == "text/csv" => "csv",
        _ => "text",
    }
}

fn reliability(item: &Item, held: Option<&Held>, listing: bool) -> String {
    match (&item.file, held) {
        (Some(file), Some(held)) => {
            let at = held.last_modified.map(|at| at.to_rfc3339_opts(SecondsFormat::Secs, true));
            let at = at.map_or_else(String::new, |at| format!(", last modified {at}"));
            let kept = if held.gone { "are no longer kept" } else { "are kept" };
            format!(
                "Immutable version {} of a file in a slate{at}; its SHA-256 is on record, its bytes {kept}.",
                file.version
            )
        }
        (Some(_), None) => "The version that this record names is not in the store.".into(),
        (None, _) if listing => {
            "The index of a folder in a slate, as it was then; it has no version and no hash.".into()
        }
        (None, _) => "Nothing was retrieved.".into(),
    }
}

fn anchor(path: &str, held: Option<&Held>) -> String {
    match held.and_then(|held| held.lines) {
        None | Some(0) => path.to_owned(),
        Some(lines) => format!("{path}:1-{lines}"),
    }
}

fn assumptions(status: Option<ItemStatus>) -> Vec<&'static str> {
    match status {
        Some(ItemStatus::AlreadyInContext) => {
            vec!["The contents were returned by an earlier round of the session and were not returned again."]
        }
        Some(ItemStatus::Omitted) => vec!["The contents were left out by a limit on files or bytes."],
        Some(ItemStatus::Listing) => vec!["A folder's index is not versioned; it may have changed since."],
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;
    use crate::provenance::record::FileVersion;

    fn record() -> Record {
        Record {
            tenant: 1,
            id: Uuid::nil(),
            kind: "query".into(),
            key_id: None,
            session_id: None,
            round: None,
            position: 1,
            previous: None,
            created_at: DateTime::from_timestamp(0, 0).unwrap(),
            slate: Some("K".into()),
            folder: Some("docs".into()),
            recursive: false,
            request: None,
            items: Vec::new(),
        }
    }

    fn file(status: i16) -> Item {
        let file = FileVersion {
            file_id: 5,
            version: 3,
            path: "docs/a b.md".into(),
            size: 7,
            sha256: vec![0xab; 32],
        };
        Item {
            file: Some(file),
            status,
            matched_by: 9,
            authority: Authority::High.code(),
            freshness: 0,
            asked: None,
        }
    }

    fn miss(status: i16) -> Item {
        Item { file: None, status, matched_by: 1, authority: 1, freshness: 2, asked: Some("x.md".into()) }
    }

    fn held() -> Held {
        Held {
            media_type: "text/markdown".into(),
            is_text: true,
            last_modified: DateTime::from_timestamp(60, 0),
            source_version: None,
            gone: false,
            lines: Some(2),
        }
    }

    #[test]
    fn a_fetched_file() {
        let view = contract(&record(), 2, &file(1), Some(&held()), false);
        assert_eq!(view.provenance_id, "00000000-0000-0000-0000-000000000000.2");
        assert_eq!((view.status, view.matched_by), ("fetched", vec![Mode::Files, Mode::Glob]));
        assert_eq!(view.retrieved.data.unwrap().reference, "slate://K/docs/a%20b.md@3");
        assert_eq!(
            (view.retrieved.source.as_str(), view.retrieved.format),
            ("file:docs/a b.md", Some("text"))
        );
        assert!(view.retrieved.complete && view.failure.is_none());
        assert_eq!(view.citation.version.as_deref(), Some("3"));
        assert_eq!(view.citation.hash.unwrap(), format!("sha256:{}", "ab".repeat(32)));
        assert_eq!((view.confidence, view.extraction.returned_size), (1.0, 7));
        assert_eq!(view.evidence_anchors, ["docs/a b.md:1-2"]);
    }

    #[test]
    fn a_version_that_is_gone_says_so() {
        let view = contract(&record(), 1, &file(1), Some(&Held { gone: true, lines: None, ..held() }), false);
        assert_eq!((view.failure.unwrap().reason, view.confidence), ("gone", 0.0));
        assert!(
            view.retrieved.data.is_none() && !view.retrieved.complete && view.evidence_anchors.is_empty()
        );
        assert!(view.citation.hash.is_some());
    }

    #[test]
    fn the_sources_own_version_goes_first() {
        let held = Held { source_version: Some("git:abc".into()), ..held() };
        assert_eq!(
            contract(&record(), 1, &file(1), Some(&held), false).citation.version.as_deref(),
            Some("git:abc")
        );
    }

    #[test]
    fn what_was_not_given_again_and_what_was_left_out() {
        let again = contract(&record(), 1, &file(2), Some(&held()), false);
        assert_eq!(
            (again.retrieved.complete, again.extraction.returned_size, again.confidence),
            (false, 0, 1.0)
        );
        let omitted = contract(&record(), 1, &file(4), Some(&held()), false);
        assert_eq!(
            (omitted.extraction.truncated, omitted.confidence, omitted.evidence_anchors.len()),
            (true, 0.95, 0)
        );
    }

    #[test]
    fn a_refusal_reads_like_a_miss_to_all_but_an_admin() {
        let missed = contract(&record(), 1, &miss(3), None, false);
        let refused = contract(&record(), 1, &miss(REFUSED), None, false);
        assert_eq!(missed, refused);
        assert_eq!(
            (missed.status, missed.failure.unwrap().reason, missed.confidence),
            ("not_found", "not_found", 0.0)
        );
        let told = contract(&record(), 1, &miss(REFUSED), None, true);
        assert_eq!((told.status, told.failure.unwrap().reason), ("refused", "refused"));
    }

    #[test]
    fn a_listing() {
        let view = contract(&record(), 1, &miss(5), None, false);
        assert_eq!(
            (view.status, view.retrieved.format, view.retrieved.complete),
            ("listing", Some("json"), true)
        );
        assert_eq!((view.citation.reference, view.confidence, view.assumptions.len()), (None, 0.8, 1));
    }
}
