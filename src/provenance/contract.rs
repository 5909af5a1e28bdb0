//! The output contract of an item, put together from what is on record (provenance, "Output" and "Failures").

use chrono::{DateTime, SecondsFormat, Utc};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use utoipa::ToSchema;

use super::citation::reference;
use super::confidence::{Facts, Freshness, score};
use super::record::{Item, Kind, REFUSED, Record, provenance_id};
use crate::authority::Authority;
use crate::error::{Error, Result};
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
    /// What kind of response gave it: `query`, `round`, `retrieve`, `citation`, `search`, `prefetch` or `tool`.
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
    /// The hash of the pack that it was packed in, for what was packed before a session's first prompt.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(example = json!(null))]
    pub pack: Option<String>,
    /// The output contract. Its data is by reference: `{"reference": …}`, a citation that retrieves it.
    #[serde(flatten)]
    pub contract: Contract,
}

/// The output contract (provenance, "Output").
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = OutputContract)]
pub struct Contract {
    /// What was retrieved.
    pub retrieved: Retrieved,
    /// How to cite it.
    pub citation: CitationView,
    /// Where it comes from.
    pub provenance: Source,
    /// What was left out.
    pub extraction: Extraction,
    /// From 0 to 1; the same record always scores the same.
    #[schema(minimum = 0, maximum = 1, example = 1.0)]
    pub confidence: f64,
    /// One for each part returned, in original line numbers; for people.
    #[schema(example = json!(["docs/core.md:1-15"]))]
    pub evidence_anchors: Vec<String>,
    /// What the answer rests on, each a sentence.
    #[schema(example = json!([]))]
    pub assumptions: Vec<String>,
    /// Why nothing was retrieved, where nothing was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<Failure>,
}

/// What was retrieved.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Retrieved {
    /// The target as it was asked for, a text or an object; of a file that a search found, its path from the slate's root.
    #[schema(example = "docs/core.md")]
    pub target: Value,
    /// `file:<path>`, `web:<host>`, `api:<name>` or `database:<name>`.
    #[schema(example = "file:docs/core.md")]
    pub source: String,
    /// When the bytes were read.
    pub timestamp: DateTime<Utc>,
    /// An object or an array for `json`, `yaml` and `csv`, a text for `text`, a base64 text for `binary`. Records hold
    /// none themselves: theirs is `{"reference": …}`. Null where there is none.
    #[schema(example = "# Core")]
    pub data: Value,
    /// What the data is: `json`, `yaml`, `csv`, `text` or `binary`.
    #[schema(example = "text")]
    pub format: Option<String>,
    /// Whether everything that was asked for was returned, unfiltered and uncut.
    pub complete: bool,
}

/// How to cite an item.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = Citation)]
pub struct CitationView {
    /// Retrieves exactly the same bytes; null where no version is named.
    #[schema(example = "slate://Knowledge/docs/core.md@3")]
    pub reference: Option<String>,
    /// The source's own version if it has one, else our number.
    #[schema(example = "3")]
    pub version: Option<String>,
    /// `sha256:` and 64 hexadecimal digits, of the whole original bytes; null where they were not all read.
    #[schema(example = "sha256:0d45f5fd462b8c70bffb10021ac1bcff3f58f29b1faf7568595095427d42812c")]
    pub hash: Option<String>,
    /// As its owner says.
    pub authority: Authority,
}

/// Where an item comes from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = SourceFacts)]
pub struct Source {
    /// `file`, `web`, `api` or `database`.
    #[schema(example = "file")]
    pub source_type: String,
    /// Of the source.
    pub last_modified: Option<DateTime<Utc>>,
    /// When it was retrieved.
    pub freshness: Freshness,
    /// A sentence built from facts on record.
    pub reliability: String,
}

/// What was left out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Extraction {
    /// The constraints that were applied, as they were given; null where none were.
    #[schema(example = json!({"lines": "1-50"}))]
    pub applied_filters: Option<Value>,
    /// Bytes of the whole.
    pub original_size: i64,
    /// Bytes that were returned.
    pub returned_size: i64,
    /// Whether a limit or a constraint left anything out.
    pub truncated: bool,
}

/// Why nothing was retrieved.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = RetrievalFailure)]
pub struct Failure {
    /// `not_found`, `refused`, `unreachable`, `timeout`, `too_large`, `format_mismatch`, `schema_mismatch`,
    /// `rate_limited`, `gone`, `integrity_mismatch`, `stale` or `constraint_unmet`.
    #[schema(example = "gone")]
    pub reason: String,
    /// A sentence.
    pub detail: String,
    /// Paths of files that are near to a missing one, at most five.
    pub alternatives: Vec<String>,
    /// What was got all the same.
    pub partial: Option<String>,
}

/// What a manifest's columns do not tell of an item.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Detail {
    /// Only these lines of the file were given: `12-20`, or several ranges with commas, as in a citation's fragment.
    Slice {
        /// The lines.
        lines: String,
        /// Bytes that were given.
        returned_size: i64,
    },
    /// The whole contract as it was given, but for its data.
    Contract(Box<Contract>),
}

impl Detail {
    /// The text that an [`Item`] holds.
    ///
    /// # Errors
    /// None that can be met: every member serializes.
    pub fn text(&self) -> Result<String> {
        serde_json::to_string(self).map_err(Error::internal)
    }
}

/// The output contract of item `n` of a record. `reveal` is whether the reader may learn that a miss was a refusal.
///
/// # Errors
/// [`Code::Internal`](crate::error::Code::Internal) for a detail that nothing here wrote.
pub fn contract(
    record: &Record,
    n: i64,
    item: &Item,
    held: Option<&Held>,
    reveal: bool,
) -> Result<ItemRecord> {
    let status = ItemStatus::from_code(item.status);
    let detail = item.detail.as_deref().map(serde_json::from_str).transpose().map_err(Error::internal)?;
    let contract = match detail {
        Some(Detail::Contract(given)) => as_given(*given, held),
        Some(Detail::Slice { lines, returned_size }) => {
            of_columns(record, item, held, reveal, Some((&lines, returned_size)))
        }
        None => of_columns(record, item, held, reveal, None),
    };
    Ok(ItemRecord {
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
        pack: pack(record),
        contract,
    })
}

/// The hash that the record of a packed chunk holds in its request.
fn pack(record: &Record) -> Option<String> {
    let request = record.request.as_deref().filter(|_| record.kind == Kind::Prefetch.as_str())?;
    let request: Value = serde_json::from_str(request).ok()?;
    Some(request.get("pack")?.as_str()?.to_owned())
}

/// A contract that is on record, with its data by reference.
fn as_given(mut given: Contract, held: Option<&Held>) -> Contract {
    if given.failure.is_none() && held.is_some_and(|held| held.gone) {
        given.failure = Some(gone());
        (given.confidence, given.retrieved.complete) = (0.0, false);
    }
    let cited = given.citation.reference.as_ref().filter(|_| given.failure.is_none());
    given.retrieved.data = by_reference(cited);
    given
}

fn by_reference(reference: Option<&String>) -> Value {
    reference.map_or(Value::Null, |reference| json!({"reference": reference}))
}

/// `slice` is the lines of the file that were given, and their bytes.
fn of_columns(
    record: &Record,
    item: &Item,
    held: Option<&Held>,
    reveal: bool,
    slice: Option<(&str, i64)>,
) -> Contract {
    let status = ItemStatus::from_code(item.status);
    let failure = failure(item, held, reveal);
    let authority = Authority::from_code(item.authority).unwrap_or_default();
    let freshness = Freshness::from_code(item.freshness).unwrap_or(Freshness::Unknown);
    let slate = record.slate.as_deref().unwrap_or_default();
    let cited = item.file.as_ref().map(|file| match slice {
        None => reference(slate, &file.path, file.version),
        Some((lines, _)) => format!("{}#L{lines}", reference(slate, &file.path, file.version)),
    });
    let path = item.file.as_ref().map(|file| file.path.as_str());
    let target = item.asked.as_deref().or(path).unwrap_or_default();
    let listing = status == Some(ItemStatus::Listing);
    let truncated = status == Some(ItemStatus::Omitted) || slice.is_some();
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
    let anchor = path.filter(|_| returned).map(|path| match slice {
        None => anchor(path, held),
        Some((lines, _)) => format!("{path}:{lines}"),
    });
    Contract {
        retrieved: Retrieved {
            source: format!("file:{}", path.unwrap_or(target)),
            target: target.into(),
            timestamp: record.created_at,
            data: by_reference(cited.as_ref().filter(|_| failure.is_none())),
            format: if listing { Some("json".into()) } else { held.map(|held| format_of(held).into()) },
            complete: returned && slice.is_none() || listing,
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
            source_type: "file".into(),
            last_modified: held.and_then(|held| held.last_modified),
            freshness,
            reliability: reliability(item, held, listing),
        },
        extraction: Extraction {
            applied_filters: slice.map(|(lines, _)| json!({"lines": lines})),
            original_size: size,
            returned_size: if returned { slice.map_or(size, |(_, bytes)| bytes) } else { 0 },
            truncated,
        },
        confidence: score(facts),
        evidence_anchors: anchor.into_iter().collect(),
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
        Some(_) if held.is_none_or(|held| held.gone) => return Some(gone()),
        Some(_) => return None,
    };
    Some(failed(reason, detail))
}

fn gone() -> Failure {
    failed("gone", "The bytes of this version are no longer kept; their hash and this record are.")
}

fn failed(reason: &str, detail: &str) -> Failure {
    Failure { reason: reason.into(), detail: detail.into(), alternatives: Vec::new(), partial: None }
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

fn assumptions(status: Option<ItemStatus>) -> Vec<String> {
    let assumption = match status {
        Some(ItemStatus::AlreadyInContext) => {
            "The contents were returned by an earlier round of the session and were not returned again."
        }
        Some(ItemStatus::Omitted) => "The contents were left out by a limit on files or bytes.",
        Some(ItemStatus::Listing) => "A folder's index is not versioned; it may have changed since.",
        _ => return Vec::new(),
    };
    vec![assumption.into()]
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
            detail: None,
        }
    }

    fn miss(status: i16) -> Item {
        Item {
            file: None,
            status,
            matched_by: 1,
            authority: 1,
            freshness: 2,
            asked: Some("x.md".into()),
            detail: None,
        }
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
        let view = contract(&record(), 2, &file(1), Some(&held()), false).unwrap();
        assert_eq!(view.provenance_id, "00000000-0000-0000-0000-000000000000.2");
        assert_eq!((view.status, view.matched_by), ("fetched", vec![Mode::Files, Mode::Glob]));
        assert_eq!(view.contract.retrieved.data, json!({"reference": "slate://K/docs/a%20b.md@3"}));
        assert_eq!(
            (view.contract.retrieved.source.as_str(), view.contract.retrieved.format.as_deref()),
            ("file:docs/a b.md", Some("text"))
        );
        assert!(view.contract.retrieved.complete && view.contract.failure.is_none());
        assert_eq!(view.contract.citation.version.as_deref(), Some("3"));
        assert_eq!(view.contract.citation.hash.unwrap(), format!("sha256:{}", "ab".repeat(32)));
        assert_eq!((view.contract.confidence, view.contract.extraction.returned_size), (1.0, 7));
        assert_eq!(view.contract.evidence_anchors, ["docs/a b.md:1-2"]);
    }

    #[test]
    fn a_version_that_is_gone_says_so() {
        let view = contract(&record(), 1, &file(1), Some(&Held { gone: true, lines: None, ..held() }), false)
            .unwrap();
        assert_eq!((&*view.contract.failure.unwrap().reason, view.contract.confidence), ("gone", 0.0));
        assert!(
            view.contract.retrieved.data.is_null()
                && !view.contract.retrieved.complete
                && view.contract.evidence_anchors.is_empty()
        );
        assert!(view.contract.citation.hash.is_some());
    }

    #[test]
    fn the_sources_own_version_goes_first() {
        let held = Held { source_version: Some("git:abc".into()), ..held() };
        assert_eq!(
            contract(&record(), 1, &file(1), Some(&held), false)
                .unwrap()
                .contract
                .citation
                .version
                .as_deref(),
            Some("git:abc")
        );
    }

    #[test]
    fn what_was_not_given_again_and_what_was_left_out() {
        let again = contract(&record(), 1, &file(2), Some(&held()), false).unwrap();
        assert_eq!(
            (
                again.contract.retrieved.complete,
                again.contract.extraction.returned_size,
                again.contract.confidence
            ),
            (false, 0, 1.0)
        );
        let omitted = contract(&record(), 1, &file(4), Some(&held()), false).unwrap();
        assert_eq!(
            (
                omitted.contract.extraction.truncated,
                omitted.contract.confidence,
                omitted.contract.evidence_anchors.len()
            ),
            (true, 0.95, 0)
        );
    }

    #[test]
    fn a_refusal_reads_like_a_miss_to_all_but_an_admin() {
        let missed = contract(&record(), 1, &miss(3), None, false).unwrap();
        let refused = contract(&record(), 1, &miss(REFUSED), None, false).unwrap();
        assert_eq!(missed, refused);
        assert_eq!(
            (missed.status, &*missed.contract.failure.unwrap().reason, missed.contract.confidence),
            ("not_found", "not_found", 0.0)
        );
        let told = contract(&record(), 1, &miss(REFUSED), None, true).unwrap();
        assert_eq!((told.status, &*told.contract.failure.unwrap().reason), ("refused", "refused"));
    }

    #[test]
    fn a_listing() {
        let view = contract(&record(), 1, &miss(5), None, false).unwrap();
        assert_eq!(
            (view.status, view.contract.retrieved.format.as_deref(), view.contract.retrieved.complete),
            ("listing", Some("json"), true)
        );
        assert_eq!(
            (view.contract.citation.reference, view.contract.confidence, view.contract.assumptions.len()),
            (None, 0.8, 1)
        );
    }
}
