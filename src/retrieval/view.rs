//! An item as it goes on the wire (REST contract, "Sessions"), the same in a query and in a round.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde::Serialize;
use utoipa::ToSchema;
use uuid::Uuid;

use super::found::{FoundItem, Scope};
use crate::hex::hex;
use crate::item::Mode;
use crate::item::{Hint, IndexEntry, ItemStatus, OMITTED};
use crate::provenance::citation::reference;
use crate::provenance::record::provenance_id;

/// One item of a result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = Item, example = json!({"path": "core.md", "status": "fetched", "content": "# Core\n", "size": 7, "version": 3,
    "sha256": "8dfae329d7876cd15a2c5573cd01bd6d1023eacf6e214166d05744c38762ccad", "media_type": "text/markdown",
    "encoding": null, "matched_by": ["files", "metatag"], "citation": "slate://Knowledge/docs/core.md@3",
    "provenance_id": "01937b2e-7c1a-7d3f-9a51-0c4f4d1e2a3b.1"}))]
pub struct ItemView {
    /// From the declared folder; of what is no file, the text that was asked for.
    #[schema(example = "research/2024-report.md")]
    pub path: String,
    /// What became of it.
    #[schema(example = "fetched")]
    pub status: ItemStatus,
    /// The file's contents, a folder's index, or the words that stand for contents that are not here.
    #[schema(value_type = Content)]
    pub content: Content,
    /// Bytes of the file.
    #[schema(example = 15)]
    pub size: Option<i64>,
    /// The file's version.
    #[schema(example = 3)]
    pub version: Option<i64>,
    /// SHA-256 of the file's contents, 64 hexadecimal digits.
    #[schema(example = "0d45f5fd462b8c70bffb10021ac1bcff3f58f29b1faf7568595095427d42812c")]
    pub sha256: Option<String>,
    /// Media type of the file's contents.
    #[schema(example = "text/markdown")]
    pub media_type: Option<String>,
    /// `base64` where `content` is that, of a file that is not text.
    pub encoding: Option<&'static str>,
    /// The modes that matched it.
    #[schema(example = json!(["files", "glob"]))]
    pub matched_by: Vec<Mode>,
    /// Whether the file has other bytes by now than those in context.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub changed: Option<bool>,
    /// The version that the file has by now, where it is not the one in context.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub head_version: Option<i64>,
    /// Of a listing: whether entries were left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub truncated: Option<bool>,
    /// Why nothing was found.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<Hint>,
    /// Retrieves exactly these bytes again.
    #[schema(example = "slate://Knowledge/docs/research/2024-report.md@3")]
    pub citation: Option<String>,
    /// `<record>.<n>`: `/v1/provenance/{id}` tells all about the item.
    #[schema(example = "01937b2e-7c1a-7d3f-9a51-0c4f4d1e2a3b.1")]
    pub provenance_id: String,
}

/// What an item holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = ItemContent)]
#[serde(untagged)]
pub enum Content {
    /// Contents, or words that stand for them.
    Text(String),
    /// A folder's index.
    Index(Vec<IndexEntry>),
}

impl ItemView {
    /// Item `n`, from 1, of a record. `contents` are those of a file that is given, as they are given; `status` is what
    /// became of a file, and counts for nothing else.
    pub fn new(
        scope: &Scope,
        found: FoundItem,
        status: ItemStatus,
        contents: Option<(String, Option<&'static str>)>,
        (record, n): (Uuid, usize),
    ) -> ItemView {
        let path = found.path(scope).to_owned();
        let matched_by = Mode::from_bits(found.matched_by());
        let mut view = ItemView {
            path,
            status,
            content: Content::Text(String::new()),
            size: None,
            version: None,
            sha256: None,
            media_type: None,
            encoding: None,
            matched_by,
            changed: None,
            head_version: None,
            truncated: None,
            hint: None,
            citation: None,
            provenance_id: provenance_id(record, n),
        };
        match found {
            FoundItem::File(file) => {
                let (text, encoding) =
                    contents.unwrap_or_else(|| (status.note().unwrap_or(OMITTED).to_owned(), None));
                (view.content, view.encoding) = (Content::Text(text), encoding);
                view.citation = Some(reference(&scope.slate, &file.path, file.version));
                (view.size, view.version) = (Some(file.size), Some(file.version));
                (view.sha256, view.media_type) = (Some(hex(&file.sha256)), Some(file.media_type));
            }
            FoundItem::Listing(listing) => {
                view.status = ItemStatus::Listing;
                view.content = Content::Index(listing.entries);
                view.truncated = listing.truncated.then_some(true);
            }
            FoundItem::Missing(missing) => {
                view.status = ItemStatus::NotFound;
                view.content = Content::Text(crate::item::NOT_FOUND.to_owned());
                view.hint = missing.hint;
            }
        }
        view
    }
}

/// Contents as a query gives them: text as it is, anything else in base64.
pub fn encoded(contents: Vec<u8>, is_text: bool) -> (String, Option<&'static str>) {
    let base64 = |bytes: &[u8]| (BASE64_STANDARD.encode(bytes), Some("base64"));
    match is_text {
        true => {
            String::from_utf8(contents).map_or_else(|error| base64(error.as_bytes()), |text| (text, None))
        }
        false => base64(&contents),
    }
}
