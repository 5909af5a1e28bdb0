//! The answer to a retrieve: the output contract, put together from what a source gave (provenance, "Output").

use std::borrow::Cow;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use chrono::{DateTime, Duration, Utc};
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::extract::{code, data, lines, markdown};
use super::format::{self, Decoded, Format};
use super::outcome::{Fetched, Missed, Reason};
use super::request::{Request, Wanted};
use super::target::SourceType;
use crate::hex::hex;
use crate::provenance::citation::lines_text;
use crate::provenance::confidence::{Facts, Freshness, score};
use crate::provenance::contract::{CitationView, Contract, Extraction, Failure, Retrieved, Source};
use crate::provenance::lines::LineIndex;

/// The longest version that a document is believed to have, in bytes.
const MAX_VERSION: usize = 255;
/// The most parts of a text that are given, and cited.
const MAX_CITED: usize = 1000;

/// The contract of what was fetched.
pub fn answer(request: &Request, fetched: Fetched, now: DateTime<Utc>) -> Contract {
    let hash = fetched.cut.is_none().then(|| format!("sha256:{}", hex(&Sha256::digest(&fetched.bytes))));
    match given(request, &fetched, now) {
        Ok(given) => success(request, fetched, hash, given, now),
        Err((reason, detail)) => {
            let Fetched { origin, read_at, bytes, original_size, version, last_modified, cut, .. } = fetched;
            let read = bytes.len();
            let size = original_size.unwrap_or(read as i64);
            let missed = Missed::new(origin, reason, detail, read_at);
            let mut contract = failure(request, *missed);
            contract.citation.version = version;
            contract.citation.hash = hash;
            let cut = cut.is_some() && size > 0;
            contract
                .failure
                .iter_mut()
                .for_each(|failure| failure.partial = cut.then(|| format!("{read} bytes were read.")));
            contract.provenance.last_modified = last_modified;
            contract.extraction.original_size = size;
            contract
        }
    }
}

/// What is given of what was fetched.
struct Given {
    data: Value,
    format: Format,
    size: i64,
    /// The lines that are given, where not all are.
    cited: Option<String>,
    /// The version that the document says it has.
    version: Option<String>,
    anchors: Vec<String>,
    truncated: bool,
    guessed: bool,
    assumptions: Vec<String>,
}

type Refusal = (Reason, String);

fn given(request: &Request, fetched: &Fetched, now: DateTime<Utc>) -> Result<Given, Refusal> {
    let wanted = &request.wanted;
    if let Some(max_age) = wanted.max_age {
        fresh_enough(max_age, fetched.last_modified, now)?;
    }
    let charset = fetched.media_type.as_deref().and_then(format::charset);
    let decoded = format::decode(&fetched.bytes, charset, fetched.cut.is_none());
    let text = decoded.as_ref().map(|decoded| decoded.text.as_str());
    let detected = format::detect(fetched.media_type.as_deref(), &fetched.name, text);
    let mut assumptions = fetched.assumptions.clone();
    let format = agree(request, detected, text, &mut assumptions)?;
    if text.is_none() && is_said_to_be_text(fetched) {
        assumptions.push(
            "It is said to be text, but its bytes are none in its encoding; they are given as they are."
                .into(),
        );
    }
    let Some(Decoded { text, assumed, other }) = decoded.filter(|_| format != Format::Binary) else {
        return binary(wanted, fetched, assumptions);
    };
    let guessed = assumed && !fetched.utf8 && detected.format != Format::Json;
    if guessed {
        assumptions.push("The encoding is assumed to be UTF-8; nothing tells it.".into());
    }
    if let Some(name) = other {
        assumptions.push(format!("The text was decoded from {name}."));
    }
    let mut given = if format.is_data() && !wanted.text() {
        from_data(wanted, fetched, format, &text)?
    } else {
        from_text(request, fetched, format, &text)?
    };
    assumptions.append(&mut given.assumptions);
    // What a document says of itself goes before what its server says of the bytes.
    let remote = matches!(fetched.origin.kind, SourceType::Web | SourceType::Api);
    given.version = given.version.filter(|_| remote).or_else(|| fetched.version.clone());
    as_wanted(wanted, given.version.as_deref())?;
    Ok(Given { guessed, assumptions, truncated: given.truncated || fetched.cut.is_some(), ..given })
}

/// Whether it has the version that is wanted.
fn as_wanted(wanted: &Wanted, version: Option<&str>) -> Result<(), Refusal> {
    match (&wanted.version, version) {
        (None, _) => Ok(()),
        (Some(wanted), Some(version)) if wanted == version => Ok(()),
        (Some(wanted), Some(version)) => Err((
            Reason::ConstraintUnmet,
            format!("version {wanted:?} was asked, and the source has {version:?}"),
        )),
        (Some(wanted), None) => Err((
            Reason::ConstraintUnmet,
            format!("version {wanted:?} was asked, and the source does not say which it has"),
        )),
    }
}

fn is_said_to_be_text(fetched: &Fetched) -> bool {
    let said = format::detect(fetched.media_type.as_deref(), &fetched.name, Some(""));
    said.told && said.format != Format::Binary
}

fn fresh_enough(
    max_age: i64,
    last_modified: Option<DateTime<Utc>>,
    now: DateTime<Utc>,
) -> Result<(), Refusal> {
    let limit = Duration::try_seconds(max_age).unwrap_or(Duration::MAX);
    match last_modified {
        Some(at) if now.signed_duration_since(at) <= limit => Ok(()),
        Some(at) => {
            let age = now.signed_duration_since(at).num_seconds();
            Err((Reason::Stale, format!("it was last modified {age} seconds ago, and max_age is {max_age}")))
        }
        None => Err((
            Reason::Stale,
            "the source does not say when it was last modified, and max_age is demanded".into(),
        )),
    }
}

/// The format in which it is given, or why that is not the one that was asked.
fn agree(
    request: &Request,
    detected: format::Detected,
    text: Option<&str>,
    assumptions: &mut Vec<String>,
) -> Result<Format, Refusal> {
    let mismatch = |detail: String| Err((Reason::FormatMismatch, detail));
    let found = detected.format;
    if request.exact {
        return Ok(if text.is_some() { Format::Text } else { Format::Binary });
    }
    match request.format {
        None => Ok(found),
        Some(asked) if asked == found => Ok(found),
        // Every text is one, and all is bytes.
        Some(Format::Text) if text.is_some() => Ok(Format::Text),
        Some(Format::Binary) => Ok(Format::Binary),
        Some(asked)
            if asked.is_data()
                && !detected.told
                && text.is_some_and(|t| {
                    t.len() <= format::MAX_DATA && format::parse_as_asked(asked, t).is_some()
                }) =>
        {
            assumptions.push(format!(
                "The contents are read as {}, as asked; nothing tells their format.",
                asked.as_str()
            ));
            Ok(asked)
        }
        Some(asked) => mismatch(format!("{} was asked, and this is {}", asked.as_str(), found.as_str())),
    }
}

fn binary(wanted: &Wanted, fetched: &Fetched, assumptions: Vec<String>) -> Result<Given, Refusal> {
    if wanted.text() || wanted.data() {
        let detail = "lines, sections, filters, fields and schemas are for text, and this is binary";
        return Err((Reason::ConstraintUnmet, detail.into()));
    }
    let size = fetched.bytes.len();
    within(wanted, size)?;
    as_wanted(wanted, fetched.version.as_deref())?;
    Ok(Given {
        data: BASE64_STANDARD.encode(&fetched.bytes).into(),
        format: Format::Binary,
        size: size as i64,
        cited: None,
        version: fetched.version.clone(),
        anchors: vec![fetched.origin.anchor.clone()],
        truncated: fetched.cut.is_some(),
        guessed: false,
        assumptions,
    })
}

fn within(wanted: &Wanted, size: usize) -> Result<(), Refusal> {
    match wanted.max_bytes {
        Some(max) if size as u64 > max => Err((
            Reason::TooLarge,
            format!("there are {size} bytes to return, which cannot be cut to max_bytes, {max}"),
        )),
        _ => Ok(()),
    }
}

fn from_data(wanted: &Wanted, fetched: &Fetched, format: Format, text: &str) -> Result<Given, Refusal> {
    let unmet = |detail| (Reason::ConstraintUnmet, detail);
    if text.len() > format::MAX_DATA {
        let detail = format!(
            "it has {} bytes, and data may have {}; ask for text, and lines of it",
            text.len(),
            format::MAX_DATA
        );
        return Err((Reason::TooLarge, detail));
    }
    let whole = format::parse(format, text).map_err(|error| match &fetched.cut {
        Some((reason, cut)) => (*reason, format!("{cut}, and what was read is no {}", format.as_str())),
        None => (Reason::FormatMismatch, format!("it cannot be read as {}: {error}", format.as_str())),
    })?;
    if let Some(schema) = &wanted.schema {
        let failures: Vec<_> =
            schema.failures(&whole).iter().map(|f| format!("{:?}: {}", f.pointer, f.detail)).collect();
        if !failures.is_empty() {
            return Err((Reason::SchemaMismatch, failures.join("; ")));
        }
    }
    let version = own_version(&whole);
    let (mut data, mut truncated) = (Cow::Borrowed(&whole), false);
    if !wanted.filters.is_empty() {
        data = Cow::Owned(data::filter(&data, &wanted.filters).map_err(unmet)?);
        truncated = !matches!(&*data, Value::Array(nodes) if nodes.contains(&whole));
    }
    if !wanted.fields.is_empty() {
        let kept = data::project(&data, &wanted.fields).map_err(unmet)?;
        truncated |= kept != *data;
        data = Cow::Owned(kept);
    }
    let owned = matches!(data, Cow::Owned(_)).then(|| data.into_owned());
    let data = owned.unwrap_or(whole);
    let size = match truncated {
        true => data.to_string().len(),
        false => fetched.bytes.len(),
    };
    within(wanted, size)?;
    let lines = LineIndex::of(text).count();
    Ok(Given {
        version,
        data,
        format,
        size: size as i64,
        cited: None,
        anchors: vec![anchor(fetched, (1, lines))],
        truncated,
        guessed: false,
        assumptions: Vec::new(),
    })
}

/// The version that a document says it has.
fn own_version(data: &Value) -> Option<String> {
    let version = match data.pointer("/info/version").or_else(|| data.get("version"))? {
        Value::String(text) => text.clone(),
        Value::Number(number) => number.to_string(),
        _ => return None,
    };
    (1..=MAX_VERSION).contains(&version.len()).then_some(version)
}

fn anchor(fetched: &Fetched, (first, last): lines::Part) -> String {
    match fetched.origin.kind {
        SourceType::File if last > 0 => format!("{}:{first}-{last}", fetched.origin.anchor),
        _ => fetched.origin.anchor.clone(),
    }
}

fn from_text(request: &Request, fetched: &Fetched, format: Format, text: &str) -> Result<Given, Refusal> {
    let wanted = &request.wanted;
    if wanted.data() {
        let detail = format!("filters, fields and schemas are for data, and this is {}", format.as_str());
        return Err((Reason::ConstraintUnmet, detail));
    }
    if request.format.is_some_and(Format::is_data) {
        let detail = "lines and sections are given as text, and data was asked";
        return Err((Reason::FormatMismatch, detail.into()));
    }
    let index = LineIndex::of(text);
    let whole = [(1, index.count())];
    let mut assumptions = Vec::new();
    let mut parts = whole.to_vec();
    if !wanted.lines.is_empty() {
        let taken =
            lines::take(&wanted.lines, index.count()).map_err(|detail| (Reason::ConstraintUnmet, detail))?;
        (parts, assumptions) = (taken.parts, taken.assumptions);
    }
    if !wanted.sections.is_empty() {
        parts = sections(wanted, fetched, text, &parts, &mut assumptions)?;
    }
    if parts.len() > MAX_CITED {
        let detail = format!("{} parts were asked, and {MAX_CITED} can be cited", parts.len());
        return Err((Reason::ConstraintUnmet, detail));
    }
    let mut out = lines::join(text, &index, &parts);
    let too_large = wanted.max_bytes.filter(|max| out.len() as u64 > *max);
    if let Some(max) = too_large {
        (out, parts) = cut(fetched, text, &index, &parts, max as usize, &mut assumptions)?;
    }
    // All of it may have been asked in parts.
    let sliced = parts != whole && index.count() > 0;
    let given: u64 = parts.iter().map(|(first, last)| last + 1 - first).sum();
    let truncated = given < index.count() || too_large.is_some();
    Ok(Given {
        size: if sliced { out.len() as i64 } else { fetched.bytes.len() as i64 },
        data: out.into(),
        format: Format::Text,
        cited: sliced.then(|| lines_text(&lines::ranges(&parts))),
        version: None,
        anchors: match fetched.origin.kind {
            SourceType::File => parts.iter().map(|part| anchor(fetched, *part)).collect(),
            _ => vec![fetched.origin.anchor.clone()],
        },
        truncated,
        guessed: false,
        assumptions,
    })
}

/// The parts of the sections that were asked, within `parts`.
fn sections(
    wanted: &Wanted,
    fetched: &Fetched,
    text: &str,
    parts: &[lines::Part],
    assumptions: &mut Vec<String>,
) -> Result<Vec<lines::Part>, Refusal> {
    let extension = fetched.name.rsplit_once('.').map_or("", |(_, extension)| extension).to_ascii_lowercase();
    let kind = fetched.media_type.as_deref().unwrap_or_default();
    let is_markdown =
        kind.starts_with("text/markdown") || matches!(extension.as_str(), "md" | "markdown" | "mdx");
    let all = if is_markdown { markdown::sections(text) } else { Vec::new() };
    let constructs = if is_markdown { Vec::new() } else { code::constructs(text, &fetched.name) };
    let mut found = Vec::new();
    for asked in &wanted.sections {
        let here: Vec<lines::Part> = match is_markdown {
            true => markdown::find(&all, asked).iter().map(|section| section.lines).collect(),
            false => code::find(&constructs, asked).iter().map(|construct| construct.lines).collect(),
        };
        let here = lines::intersect(&here, parts);
        if here.is_empty() {
            let what = if is_markdown { "heading" } else { "top-level construct" };
            let within = if wanted.lines.is_empty() { "" } else { " within the lines that were asked" };
            return Err((Reason::ConstraintUnmet, format!("there is no {what} {asked:?}{within}")));
        }
        found.extend(here);
    }
    assumptions.push(match is_markdown {
        true => {
            "Sections were matched by heading; each runs to the next heading of its level or a higher one."
                .into()
        }
        false => "Sections were matched by the keyword or the name of a top-level construct.".to_owned(),
    });
    Ok(lines::merge(found))
}

/// As many whole lines of the parts as fit into `max` bytes.
fn cut(
    fetched: &Fetched,
    text: &str,
    index: &LineIndex,
    parts: &[lines::Part],
    max: usize,
    assumptions: &mut Vec<String>,
) -> Result<(String, Vec<lines::Part>), Refusal> {
    let mut kept: Vec<lines::Part> = Vec::new();
    let (mut size, mut ending) = (0, 0);
    'parts: for (first, last) in parts {
        for n in *first..=*last {
            let line = index.bytes(n, n);
            let blank = if n == *first && size > 0 { ending } else { 0 };
            if size + blank + line.len() > max {
                break 'parts;
            }
            ending = if text[line.clone()].ends_with("\r\n") { 2 } else { 1 };
            size += blank + line.len();
            match kept.last_mut().filter(|_| n > *first) {
                Some(part) => part.1 = n,
                None => kept.push((n, n)),
            }
        }
    }
    if let Some((_, last)) = kept.last() {
        assumptions.push(format!("The text was cut after line {last}, to at most {max} bytes."));
        return Ok((lines::join(text, index, &kept), kept));
    }
    let (first, _) = parts[0];
    let line = index.bytes(first, first);
    if fetched.origin.kind == SourceType::File {
        let detail = format!("line {first} alone has {} bytes, and max_bytes is {max}", line.len());
        return Err((Reason::TooLarge, detail));
    }
    let end = text.floor_char_boundary(line.start + max);
    assumptions.push(format!("The text was cut within line {first}, to at most {max} bytes."));
    Ok((text[line.start..end].to_owned(), vec![(first, first)]))
}

fn success(
    request: &Request,
    fetched: Fetched,
    hash: Option<String>,
    given: Given,
    now: DateTime<Utc>,
) -> Contract {
    let Fetched { origin, bytes, original_size, last_modified, volatile, max_age_seconds, .. } = &fetched;
    let freshness = Freshness::of(*last_modified, *volatile, *max_age_seconds, now);
    let filtered = !request.wanted.filters.is_empty() || !request.wanted.fields.is_empty();
    let cited = given.cited.as_deref().filter(|_| origin.kind == SourceType::File);
    let reference = origin.reference.as_ref().map(|reference| match cited {
        Some(lines) => format!("{reference}#L{lines}"),
        None => reference.clone(),
    });
    let remote = matches!(origin.kind, SourceType::Web | SourceType::Api);
    let facts = Facts {
        remote,
        truncated: given.truncated,
        freshness,
        hashed: hash.is_some(),
        authority: origin.authority,
        encoding_guessed: given.guessed,
        failed: false,
    };
    Contract {
        retrieved: Retrieved {
            target: request.target.clone(),
            source: origin.source.clone(),
            timestamp: fetched.read_at,
            data: given.data,
            format: Some(given.format.as_str().into()),
            complete: !given.truncated && !filtered,
        },
        citation: CitationView { reference, version: given.version, hash, authority: origin.authority },
        provenance: Source {
            source_type: origin.kind.as_str().into(),
            last_modified: *last_modified,
            freshness,
            reliability: fetched.reliability.clone(),
        },
        extraction: Extraction {
            applied_filters: request.wanted.verbatim.clone(),
            original_size: original_size.unwrap_or(bytes.len() as i64),
            returned_size: given.size,
            truncated: given.truncated,
        },
        confidence: score(facts),
        evidence_anchors: given.anchors,
        assumptions: given.assumptions,
        failure: None,
    }
}

/// The contract of a miss.
pub fn failure(request: &Request, missed: Missed) -> Contract {
    let Missed { origin, reason, detail, alternatives, partial, at } = missed;
    Contract {
        retrieved: Retrieved {
            target: request.target.clone(),
            source: origin.source,
            timestamp: at,
            data: Value::Null,
            format: None,
            complete: false,
        },
        citation: CitationView {
            reference: origin.reference,
            version: None,
            hash: None,
            authority: origin.authority,
        },
        provenance: Source {
            source_type: origin.kind.as_str().into(),
            last_modified: None,
            freshness: Freshness::Unknown,
            reliability: "Nothing was retrieved.".into(),
        },
        extraction: Extraction {
            applied_filters: request.wanted.verbatim.clone(),
            original_size: 0,
            returned_size: 0,
            truncated: false,
        },
        confidence: 0.0,
        evidence_anchors: Vec::new(),
        assumptions: Vec::new(),
        failure: Some(Failure { reason: reason.as_str().into(), detail, alternatives, partial }),
    }
}
