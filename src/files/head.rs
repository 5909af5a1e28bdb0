//! What a file is, apart from its bytes.

use chrono::{DateTime, Utc};
use serde::Serialize;
use utoipa::ToSchema;

use crate::authority::Authority;
use crate::hex::hex;

/// A live file: its newest version and its settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Head {
    /// The file's number: its identity, whatever its path.
    pub id: i64,
    /// The folder that it lies in.
    pub folder_id: i64,
    /// Path from the slate's root.
    pub path: String,
    /// The newest version.
    pub version: i64,
    /// Bytes of the contents.
    pub size: i64,
    /// SHA-256 of the contents, 32 bytes.
    pub sha256: Vec<u8>,
    /// As it was given, or told by the name.
    pub media_type: String,
    /// UTF-8 without U+0000.
    pub is_text: bool,
    /// Its own word, if it has one.
    pub authority: Option<Authority>,
    /// Whether it was marked so.
    pub sensitive: bool,
    /// Whether it is kept from readers.
    pub hidden: bool,
    /// Counts changes of its settings.
    pub revision: i64,
    /// Counts changes of its metatags.
    pub tags_revision: i64,
    /// When the file came into being.
    pub created_at: DateTime<Utc>,
    /// When its contents, path or settings last changed.
    pub updated_at: DateTime<Utc>,
    /// When the source of the contents last changed, as the writer says.
    pub source_modified_at: Option<DateTime<Utc>>,
    /// The source's own version, as the writer says.
    pub source_version: Option<String>,
}

impl Head {
    /// The strong entity tag: identity, version, and the revisions of settings and metatags.
    pub fn etag(&self) -> String {
        format!("\"f{}.{}.{}.{}\"", self.id, self.version, self.revision, self.tags_revision)
    }
}

/// A file as the API tells of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = FileInfo)]
pub struct FileView {
    /// Path from the slate's root.
    #[schema(example = "docs/core.md")]
    pub path: String,
    /// The newest version.
    #[schema(example = 3)]
    pub version: i64,
    /// Bytes of the contents.
    pub size: i64,
    /// SHA-256 of the contents, 64 hexadecimal digits.
    #[schema(example = "0d45f5fd462b8c70bffb10021ac1bcff3f58f29b1faf7568595095427d42812c")]
    pub sha256: String,
    /// Media type of the contents.
    #[schema(example = "text/markdown")]
    pub media_type: String,
    /// Its own authority, if it has one.
    pub authority: Option<Authority>,
    /// Whether it is marked sensitive.
    pub sensitive: bool,
    /// When the file came into being.
    pub created_at: DateTime<Utc>,
    /// When its contents, path or settings last changed.
    pub updated_at: DateTime<Utc>,
    /// When the source of the contents last changed.
    pub source_modified_at: Option<DateTime<Utc>>,
    /// The source's own version.
    pub source_version: Option<String>,
    /// The metatags that were given as null, and so were not set.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub null_metatags: Vec<String>,
}

impl From<Head> for FileView {
    fn from(head: Head) -> FileView {
        FileView {
            path: head.path,
            version: head.version,
            size: head.size,
            sha256: hex(&head.sha256),
            media_type: head.media_type,
            authority: head.authority,
            sensitive: head.sensitive,
            created_at: head.created_at,
            updated_at: head.updated_at,
            source_modified_at: head.source_modified_at,
            source_version: head.source_version,
            null_metatags: Vec::new(),
        }
    }
}

/// The media type that a file's name tells; `application/octet-stream` where it tells none.
pub fn media_type_of(name: &str) -> String {
    mime_guess::from_path(name).first_or_octet_stream().essence_str().to_owned()
}
