//! Retrieving files of slates, recording what was retrieved, and taking citations back.

pub mod registry;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use chrono::{DateTime, Days, Utc};
use serde_json::Value;
use sha2::{Digest, Sha256};
use uuid::Uuid;

use super::citations::{Check, CheckStatus, Resolution, ResolveStatus, Slice, ToResolve};
use super::format;
use super::outcome::{Fetched, Missed, Origin, Outcome, Reason};
use super::quote;
use super::store::{self, QuotedRow, VersionRow, Which};
use super::target::{FileTarget, SourceType};
use crate::authority::Authority;
use crate::ctx::Ctx;
use crate::db::Tx;
use crate::error::{Error, Result};
use crate::hex::hex;
use crate::item::ItemStatus;
use crate::path::{FilePath, FolderPath, has_spellings};
use crate::provenance::citation::{Citation, reference};
use crate::provenance::confidence::Freshness;
use crate::provenance::contract::{Contract, Detail};
use crate::provenance::lines::LineRange;
use crate::provenance::ops::NewRecord;
use crate::provenance::record::{FileVersion, Item, Kind, REFUSED, provenance_id};
use crate::slates::Slate;
use crate::{files, folders, provenance, retrieval, slates};

/// How many paths near to a missing one are offered.
const MAX_ALTERNATIVES: usize = 5;

/// Reads a file of the tenant's slates, and checks its bytes against the hash that is on record.
///
/// # Errors
/// [`Code::Invalid`](crate::error::Code::Invalid) for a path alone where the tenant has no default slate.
pub fn read_file(tx: &mut Tx, ctx: &Ctx, target: &FileTarget) -> Result<Outcome> {
    let name = match &target.slate {
        Some(name) => name.clone(),
        None => store::default_slate(tx)?.ok_or_else(|| {
            Error::invalid_at("/constraints/slate", "must name a slate: the tenant has no default_slate")
        })?,
    };
    let origin = Origin {
        kind: SourceType::File,
        source: format!("file:{}", target.path),
        reference: None,
        anchor: target.path.clone(),
        authority: Authority::default(),
    };
    let missed = |reason, detail: &str| Missed::new(origin.clone(), reason, detail, ctx.now);
    let slate = if ctx.sees(&name) { slates::ops::find(tx, ctx, &name)? } else { None };
    let Some(slate) = slate else {
        return Ok(Err(missed(Reason::NotFound, "there is no such slate, or the key may not see it")).into());
    };
    let there = |result| Outcome { result, file: None, slate: Some(slate.name.clone()) };
    let Ok(path) = FilePath::parse(&target.path) else {
        let detail =
            "a path has no empty segment, `.`, `..`, leading `/`, backslash or NUL, and is not too long";
        return Ok(there(Err(missed(Reason::NotFound, detail))));
    };
    let Some(row) = find(tx, ctx, &slate, &path, target.version.as_deref())? else {
        return Ok(there(Err(missing(tx, &slate, &path, target, missed(Reason::NotFound, ""))?)));
    };
    if row.hidden {
        return Ok(there(Err(missed(Reason::Refused, "what is at this path is kept from every reader"))));
    }
    let origin = Origin {
        source: format!("file:{}", row.path),
        reference: Some(reference(&slate.name, &row.path, row.version)),
        anchor: row.path.clone(),
        authority: authority(&row, &slate),
        ..origin
    };
    let file = Some(file_version(&row));
    let slate_name = Some(slate.name.clone());
    let bytes =
        if row.gone { None } else { Some(files::ops::read::bytes(tx, row.file_id, row.version, None)?) };
    let result = match bytes {
        None => {
            let detail = "the bytes of this version are no longer kept; their hash and its records are";
            Err(Missed::new(origin, Reason::Gone, detail, ctx.now))
        }
        Some(bytes) if Sha256::digest(&bytes)[..] != row.sha256[..] => {
            let detail = "the bytes that are stored are not those whose hash is on record";
            Err(Missed::new(origin, Reason::IntegrityMismatch, detail, ctx.now))
        }
        Some(bytes) => Ok(fetched(&slate, row, origin, bytes, ctx.now)),
    };
    Ok(Outcome { result, file, slate: slate_name })
}

fn file_version(row: &VersionRow) -> FileVersion {
    FileVersion {
        file_id: row.file_id,
        version: row.version,
        path: row.path.clone(),
        size: row.size,
        sha256: row.sha256.clone(),
    }
}

fn fetched(slate: &Slate, row: VersionRow, origin: Origin, bytes: Vec<u8>, now: DateTime<Utc>) -> Fetched {
    let said = if row.source_modified_at.is_some() { "the source was last modified" } else { "written" };
    let at = row.source_modified_at.unwrap_or(row.created_at);
    Fetched {
        origin,
        cut: None,
        original_size: None,
        name: row.path,
        utf8: row.is_text,
        reliability: format!(
            "Immutable version {} of a file in a slate, {said} {}; its bytes were verified against the SHA-256 on record.",
            row.version,
            at.format("%Y-%m-%dT%H:%M:%SZ"),
        ),
        version: Some(row.source_version.unwrap_or_else(|| row.version.to_string())),
        media_type: Some(row.media_type),
        last_modified: Some(at),
        volatile: slate.volatile,
        max_age_seconds: slate.max_age_seconds,
        read_at: now,
        assumptions: Vec::new(),
        bytes,
    }
}

fn horizon(ctx: &Ctx, slate: &Slate) -> DateTime<Utc> {
    let days = Days::new(u64::try_from(slate.retention_days).unwrap_or_default());
    ctx.now.checked_sub_days(days).unwrap_or(DateTime::<Utc>::MIN_UTC)
}

/// The head, or the version: of our number, else the newest that the source calls so.
fn find(
    tx: &mut Tx,
    ctx: &Ctx,
    slate: &Slate,
    path: &FilePath,
    version: Option<&str>,
) -> Result<Option<VersionRow>> {
    let horizon = horizon(ctx, slate);
    let mut look = |which| store::version(tx, slate.id, path.as_str(), which, horizon);
    let Some(version) = version else {
        let head = look(Which::Head)?;
        return if head.is_none() && has_spellings(path.as_str()) {
            look(Which::HeadByNfc)
        } else {
            Ok(head)
        };
    };
    let number = version.parse().ok().filter(|number: &i64| number.to_string() == version);
    if let Some(row) = number.map(|number| look(Which::Number(number))).transpose()?.flatten() {
        return Ok(Some(row));
    }
    if version.contains('\0') { Ok(None) } else { look(Which::Named(version)) }
}

/// Why nothing is at a path, and what is near.
fn missing(
    tx: &mut Tx,
    slate: &Slate,
    path: &FilePath,
    target: &FileTarget,
    mut missed: Box<Missed>,
) -> Result<Box<Missed>> {
    let above: Vec<String> = path.ancestors().map(|folder| folder.as_str().to_owned()).collect();
    if store::is_denied(tx, slate.id, path.as_str(), &above)? {
        let detail = "what is at this path is kept from every reader".into();
        (missed.reason, missed.detail) = (Reason::Refused, detail);
        return Ok(missed);
    }
    if let Some(version) = &target.version {
        missed.detail = format!("there is no version {version:?} of this path");
        return Ok(missed);
    }
    let name = path.name();
    let folder = match folders::ops::find(tx, slate, &path.parent())? {
        None => folders::ops::find(tx, slate, &FolderPath::root())?,
        folder => folder,
    };
    let mut near = match folder {
        Some(folder) => retrieval::ops::near(tx, folder.id, &name, MAX_ALTERNATIVES)?,
        None => Vec::new(),
    };
    for path in store::of_name(tx, slate.id, name.as_str(), MAX_ALTERNATIVES as i64)? {
        if !near.contains(&path) {
            near.push(path);
        }
    }
    near.truncate(MAX_ALTERNATIVES);
    (missed.detail, missed.alternatives) = ("there is no such file in the slate".into(), near);
    Ok(missed)
}

/// What a record is of.
#[derive(Debug)]
pub struct Recording<'a> {
    /// What kind of call.
    pub kind: Kind,
    /// The call as it was sent.
    pub sent: &'a Value,
    /// The slate that was looked at.
    pub slate: Option<&'a str>,
    /// The version that was read.
    pub file: Option<FileVersion>,
}

/// Records a contract. Gives the id of its one item.
///
/// # Errors
/// Those of the database.
pub fn record(tx: &mut Tx, ctx: &Ctx, of: Recording<'_>, contract: &mut Contract) -> Result<String> {
    let status = match contract.failure.as_ref().map(|failure| failure.reason.as_str()) {
        None => ItemStatus::Fetched.code(),
        Some("refused") => REFUSED,
        Some(_) => ItemStatus::NotFound.code(),
    };
    let target = &contract.retrieved.target;
    let asked = target.as_str().map_or_else(|| target.to_string(), str::to_owned);
    // Data is by reference in a record.
    let data = contract.retrieved.data.take();
    let detail = Detail::Contract(Box::new(contract.clone())).text()?;
    contract.retrieved.data = data;
    let item = Item {
        file: of.file,
        status,
        matched_by: 0,
        authority: contract.citation.authority.code(),
        freshness: contract.provenance.freshness.code(),
        asked: Some(asked),
        detail: Some(detail),
    };
    one(tx, ctx, of.kind, of.sent, of.slate, item)
}

fn one(tx: &mut Tx, ctx: &Ctx, kind: Kind, sent: &Value, slate: Option<&str>, item: Item) -> Result<String> {
    let new = NewRecord {
        kind,
        link: None,
        slate,
        folder: None,
        recursive: false,
        request: Some(sent),
        items: vec![item],
    };
    Ok(provenance_id(provenance::ops::record(tx, ctx, new)?.record.id, 1))
}

/// A cited version that may be read.
struct Cited {
    slate: Slate,
    row: VersionRow,
}

/// The version that a citation names. One that may not be read is not there.
fn cited(tx: &mut Tx, ctx: &Ctx, citation: &Citation) -> Result<Cited> {
    let slate = slates::ops::get(tx, ctx, citation.slate.as_str())?;
    let horizon = horizon(ctx, &slate);
    let row = store::version(tx, slate.id, citation.path.as_str(), Which::Number(citation.version), horizon)?;
    let row = row.filter(|row| !row.hidden).ok_or_else(Error::not_found)?;
    Ok(Cited { slate, row })
}

/// Fetches exactly what a citation of a file cites, and says whether it is what was cited.
///
/// # Errors
/// [`Code::NotFound`](crate::error::Code::NotFound) for a version that never was, or may not be read;
/// [`Code::Invalid`](crate::error::Code::Invalid) for lines that it does not have.
pub fn resolve_file(
    tx: &mut Tx,
    ctx: &Ctx,
    citation: &Citation,
    asked: &ToResolve,
    sent: &Value,
) -> Result<Resolution> {
    let Cited { slate, row } = cited(tx, ctx, citation)?;
    let on_record = format!("sha256:{}", hex(&row.sha256));
    let bytes =
        if row.gone { None } else { Some(files::ops::read::bytes(tx, row.file_id, row.version, None)?) };
    let (status, detail) = match &bytes {
        None => (
            ResolveStatus::Gone,
            Some("the bytes of this version are no longer kept; their hash is on record"),
        ),
        Some(bytes) if Sha256::digest(bytes)[..] != row.sha256[..] => (
            ResolveStatus::IntegrityMismatch,
            Some("the bytes that are stored are not those whose hash is on record"),
        ),
        Some(_) if asked.hash.as_ref().is_some_and(|hash| *hash != on_record) => (
            ResolveStatus::IntegrityMismatch,
            Some("the hash that was given is not the one that is on record"),
        ),
        Some(_) => (ResolveStatus::Verified, None),
    };
    let (mut data, mut encoding) = (None, None);
    if let Some(bytes) = bytes.filter(|_| status == ResolveStatus::Verified) {
        (data, encoding) = match decoded(&row, &bytes) {
            Some(text) => (Some(slice(&text, citation)?.text), None),
            None if citation.lines.is_empty() => (Some(BASE64_STANDARD.encode(bytes)), Some("base64")),
            None => return Err(Error::invalid_at("/reference", "cites lines of what is no text")),
        };
    }
    let item = Item {
        file: Some(file_version(&row)),
        status: if data.is_some() { ItemStatus::Fetched.code() } else { ItemStatus::NotFound.code() },
        matched_by: 0,
        authority: authority(&row, &slate).code(),
        freshness: freshness(&row, &slate, ctx.now).code(),
        asked: Some(asked.reference.clone()),
        detail: match (&data, &citation.lines[..]) {
            (Some(data), [_, ..]) => {
                let lines = provenance::citation::lines_text(&citation.lines);
                Some(Detail::Slice { lines, returned_size: data.len() as i64 }.text()?)
            }
            _ => None,
        },
    };
    let provenance_id = one(tx, ctx, Kind::Citation, sent, Some(&slate.name), item)?;
    Ok(Resolution {
        status,
        reference: asked.reference.clone(),
        data,
        encoding,
        hash: Some(on_record),
        version: Some(row.source_version.unwrap_or_else(|| row.version.to_string())),
        detail: detail.map(Into::into),
        provenance_id,
    })
}

fn authority(row: &VersionRow, slate: &Slate) -> Authority {
    row.authority.as_deref().and_then(Authority::from_word).or(slate.authority).unwrap_or_default()
}

fn freshness(row: &VersionRow, slate: &Slate, now: DateTime<Utc>) -> Freshness {
    let modified = row.source_modified_at.unwrap_or(row.created_at);
    Freshness::of(Some(modified), slate.volatile, slate.max_age_seconds, now)
}

fn decoded(row: &VersionRow, bytes: &[u8]) -> Option<String> {
    format::decode(bytes, format::charset(&row.media_type), true).map(|decoded| decoded.text)
}

fn slice(text: &str, citation: &Citation) -> Result<Slice> {
    Slice::of(text, &citation.lines)
        .ok_or_else(|| Error::invalid_at("/reference", "cites lines past the end of the text"))
}

/// Whether a quote stands in what a citation of a file cites, or else in the rest of the file, in another version of its
/// path, or in another file that the session was shown.
///
/// # Errors
/// As [`resolve_file`]; [`Code::NotFound`](crate::error::Code::NotFound) for a session that is not there.
pub fn check_file(
    tx: &mut Tx,
    ctx: &Ctx,
    citation: &Citation,
    quote: &str,
    session: Option<Uuid>,
) -> Result<Check> {
    let Cited { slate, row } = cited(tx, ctx, citation)?;
    let mut detail = None;
    if row.gone {
        detail = Some("the bytes of this version are no longer kept".to_owned());
    } else {
        let bytes = files::ops::read::bytes(tx, row.file_id, row.version, None)?;
        let named = reference(&slate.name, &row.path, row.version);
        match decoded(&row, &bytes) {
            None => detail = Some("what is cited is no text".into()),
            Some(text) => {
                if let Some(lines) = slice(&text, citation)?.find(quote) {
                    return Ok(Check::at(CheckStatus::Found, &named, lines));
                }
                if let Some(lines) = quote::find(&text, quote) {
                    return Ok(Check::at(CheckStatus::FoundElsewhere, &named, lines));
                }
            }
        }
    }
    let Some(quote) = quote::one_spaced(quote) else { return Ok(Check::not_found(detail)) };
    let mut found =
        store::quoted_in_versions(tx, slate.id, citation.path.as_str(), citation.version, &quote, ctx.now)?;
    if let (None, Some(session)) = (&found, session) {
        // Whoever may not see the session learns nothing of it.
        provenance::ops::session_items(tx, ctx, session, None, 1)?;
        found = store::quoted_in_session(tx, session, ctx.slates.as_deref(), &quote, ctx.now)?;
    }
    Ok(found.and_then(|row| elsewhere(&row, &quote)).unwrap_or_else(|| Check::not_found(detail)))
}

fn elsewhere(row: &QuotedRow, quote: &str) -> Option<Check> {
    let text = std::str::from_utf8(&row.data).ok()?;
    let lines: LineRange = quote::find(text, quote)?;
    Some(Check::at(CheckStatus::FoundElsewhere, &reference(&row.slate, &row.path, row.version), lines))
}
