//! What is done with records: write one, read one, verify a chain of them.

use serde::Serialize;
use utoipa::ToSchema;
use uuid::Uuid;

use super::citation::reference;
use super::contract::{ItemRecord, contract};
use super::record::{self, Item, Kind, Record, Recorded};
pub use super::store::Contents;
use super::store::{self, End, Stored};
use crate::ctx::{Ctx, Scope};
use crate::db::Tx;
use crate::error::{Error, Result};

/// Records that are verified at a time.
const BATCH: i64 = 20;
/// How many problems a verification names.
const MAX_PROBLEMS: usize = 100;

/// Where a record stands in a session's chain.
#[derive(Debug, Clone)]
pub struct Link {
    /// The session.
    pub session_id: Uuid,
    /// Its round.
    pub round: i32,
    /// From 1: one more than the length of the chain so far.
    pub position: i64,
    /// The hash at the end of the chain so far.
    pub previous: Option<Vec<u8>>,
}

/// What is to be recorded of one response.
#[derive(Debug, Clone)]
pub struct NewRecord<'a> {
    /// What kind of response.
    pub kind: Kind,
    /// Its place in a session's chain; without one it is a chain of its own.
    pub link: Option<Link>,
    /// The slate's name; none where there is no one slate.
    pub slate: Option<&'a str>,
    /// The declared folder, from the slate's root.
    pub folder: Option<&'a str>,
    /// Whether the folders below were looked at.
    pub recursive: bool,
    /// The request as it was sent.
    pub request: Option<&'a serde_json::Value>,
    /// What was given, in order.
    pub items: Vec<Item>,
}

/// Writes the record of one response, in the transaction that gives the response.
///
/// # Errors
/// [`Code::Conflict`](crate::error::Code::Conflict) when another record has taken its place in the chain.
pub fn record(tx: &mut Tx, ctx: &Ctx, new: NewRecord<'_>) -> Result<Recorded> {
    let recorded = recorded(tx.tenant(), ctx, new)?;
    store::insert(tx, std::slice::from_ref(&recorded))?;
    Ok(recorded)
}

/// Writes several records of one response, the first of which stands at `link` in a session's chain, and each other after the
/// one before it, whatever their links say. Gives the last.
///
/// # Errors
/// As [`record()`].
pub fn record_chain<'a>(
    tx: &mut Tx,
    ctx: &Ctx,
    mut link: Link,
    all: impl Iterator<Item = NewRecord<'a>>,
) -> Result<Option<Recorded>> {
    let mut written = Vec::new();
    for new in all {
        let recorded = recorded(tx.tenant(), ctx, NewRecord { link: Some(link.clone()), ..new })?;
        (link.position, link.previous) = (link.position + 1, Some(recorded.hash.clone()));
        written.push(recorded);
    }
    written.chunks(MOST_AT_ONCE).try_for_each(|some| store::insert(tx, some))?;
    Ok(written.pop())
}

/// Records that one statement writes at most.
const MOST_AT_ONCE: usize = 500;

fn recorded(tenant: i64, ctx: &Ctx, new: NewRecord<'_>) -> Result<Recorded> {
    let request = new.request.map(serde_json::to_string).transpose().map_err(Error::internal)?;
    let link = new.link.as_ref();
    let record = Record {
        tenant,
        id: Uuid::now_v7(),
        kind: new.kind.as_str().into(),
        key_id: (ctx.key_id != 0).then_some(ctx.key_id),
        session_id: link.map(|link| link.session_id),
        round: link.map(|link| link.round),
        position: link.map_or(1, |link| link.position),
        previous: link.and_then(|link| link.previous.clone()),
        created_at: ctx.now,
        slate: new.slate.map(str::to_owned),
        folder: new.folder.map(str::to_owned),
        recursive: new.recursive,
        request,
        items: new.items,
    };
    let hash = record::hash(&record)?;
    Ok(Recorded { record, hash })
}

/// A record with all its items, for the feature that wrote it and has checked who asks.
///
/// # Errors
/// [`Code::NotFound`](crate::error::Code::NotFound).
pub fn load(tx: &mut Tx, id: Uuid) -> Result<Record> {
    let mut stored = store::find(tx, id)?.ok_or_else(Error::not_found)?;
    stored.record.items = store::items(tx, &stored)?;
    Ok(stored.record)
}

/// The record of this id, if the key may read of its slate.
fn visible(tx: &mut Tx, ctx: &Ctx, id: Uuid) -> Result<Stored> {
    let stored = store::find(tx, id)?.ok_or_else(Error::not_found)?;
    // Whoever asked for it may see it again.
    if stored.record.slate.is_some() || stored.record.key_id != Some(ctx.key_id) {
        check_slate(ctx, stored.record.slate.as_deref())?;
    }
    Ok(stored)
}

fn check_slate(ctx: &Ctx, slate: Option<&str>) -> Result<()> {
    match slate {
        Some(slate) => ctx.slate(slate),
        None if ctx.slates.is_some() => Err(Error::not_found()),
        None => Ok(()),
    }
}

fn expand_some(tx: &mut Tx, ctx: &Ctx, stored: &Stored, after: i64, limit: i64) -> Result<Vec<ItemRecord>> {
    let reveal = ctx.scopes.contains(&Scope::Admin);
    let items = store::held(tx, stored, after, limit, ctx.now)?;
    items.iter().map(|(n, item, held)| contract(&stored.record, *n, item, held.as_ref(), reveal)).collect()
}

/// The whole output contract of item `n` (from 1) of a record.
///
/// # Errors
/// [`Code::NotFound`](crate::error::Code::NotFound), also when the key is not bound to the record's slate.
pub fn expand(tx: &mut Tx, ctx: &Ctx, id: Uuid, n: i64) -> Result<ItemRecord> {
    let stored = visible(tx, ctx, id)?;
    if n < 1 || n > stored.count {
        return Err(Error::not_found());
    }
    expand_some(tx, ctx, &stored, n - 1, 1)?.pop().ok_or_else(Error::not_found)
}

/// The items of a record after number `after`, in order, at most `limit`.
///
/// # Errors
/// As [`expand`].
pub fn items(tx: &mut Tx, ctx: &Ctx, id: Uuid, after: i64, limit: i64) -> Result<Vec<ItemRecord>> {
    let stored = visible(tx, ctx, id)?;
    expand_some(tx, ctx, &stored, after, limit)
}

/// Where an item of a session stands: the position of its record in the chain, and its number there, both from 1.
pub type Place = (i64, i64);

/// The items of all of a session's records after `after`, in order, at most `limit`. They stay when the session goes.
///
/// # Errors
/// [`Code::NotFound`](crate::error::Code::NotFound) when there is no such session, or its slate is not the key's.
pub fn session_items(
    tx: &mut Tx,
    ctx: &Ctx,
    session: Uuid,
    after: Option<Place>,
    limit: i64,
) -> Result<Vec<(Place, ItemRecord)>> {
    visible_session(tx, ctx, session)?;
    let (mut position, mut n) = after.unwrap_or((1, 0));
    let mut items = Vec::new();
    while let Some(stored) = store::chain(tx, session, position - 1, 1)?.pop() {
        let room = limit - items.len() as i64;
        let found = expand_some(tx, ctx, &stored, n, room)?;
        items.extend((n.saturating_add(1)..).zip(found).map(|(n, item)| ((stored.record.position, n), item)));
        if items.len() as i64 >= limit {
            break;
        }
        (position, n) = (stored.record.position.saturating_add(1), 0);
    }
    Ok(items)
}

/// The tenant's sessions after `after` that can be verified, those that were deleted too, in order, at most `limit`.
///
/// # Errors
/// Those of the database.
pub fn chains(tx: &mut Tx, after: Option<Uuid>, limit: i64) -> Result<Vec<Uuid>> {
    store::chains(tx, after.unwrap_or_default(), limit)
}

/// Where the chain of a session ends: by the session's own row while that is kept, and by its seal.
struct Ends {
    session: Option<End>,
    seal: Option<End>,
}

fn visible_session(tx: &mut Tx, ctx: &Ctx, session: Uuid) -> Result<Ends> {
    let seal = store::seal(tx, session)?;
    if let Some((slate, end)) = store::session(tx, session)? {
        ctx.slate(&slate)?;
        return Ok(Ends { session: Some(end), seal });
    }
    match store::chain(tx, session, 0, 1)?.first() {
        Some(first) => check_slate(ctx, first.record.slate.as_deref())?,
        // Nothing tells whose slate a session without records was about.
        None if seal.is_none() || ctx.slates.is_some() => return Err(Error::not_found()),
        None => {}
    }
    Ok(Ends { session: None, seal })
}

/// What verifying a session's records found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = ChainVerification)]
pub struct Verification {
    /// Whether every record is as it was written, and none is missing or added.
    pub valid: bool,
    /// The number of records.
    pub records: i64,
    /// Whether the session is finished, and its chain sealed.
    pub sealed: bool,
    /// What is wrong, the first hundred.
    pub problems: Vec<Problem>,
}

/// Something wrong with a chain.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = ChainProblem)]
pub struct Problem {
    /// The record; null where it is about the whole chain.
    pub record_id: Option<Uuid>,
    /// Its position.
    pub position: Option<i64>,
    /// A sentence.
    #[schema(example = "the record or a version that it names was altered")]
    pub detail: String,
}

/// Recomputes every hash of a session's chain from the records and the versions that they name, and compares its end
/// with the session's and with its seal.
///
/// # Errors
/// [`Code::NotFound`](crate::error::Code::NotFound) as for [`session_items`].
pub fn verify_session(tx: &mut Tx, ctx: &Ctx, session: Uuid) -> Result<Verification> {
    let ends = visible_session(tx, ctx, session)?;
    let mut problems = Vec::new();
    let (mut records, mut position, mut last): (i64, i64, Option<Vec<u8>>) = (0, 0, None);
    loop {
        let batch = store::chain(tx, session, position, BATCH)?;
        if batch.is_empty() {
            break;
        }
        for mut stored in batch {
            stored.record.items = store::items(tx, &stored)?;
            let of = |detail: &str| Problem {
                record_id: Some(stored.record.id),
                position: Some(stored.record.position),
                detail: detail.into(),
            };
            if stored.record.position != position + 1 {
                problems.push(of("records before this one are missing"));
            } else if stored.record.previous != last {
                problems.push(of("it does not follow on the record before it"));
            }
            problems.extend(altered(tx, &stored)?);
            (records, position, last) = (records + 1, stored.record.position, Some(stored.hash));
        }
    }
    for (end, whose) in [(&ends.session, "the session's state"), (&ends.seal, "the seal")] {
        if end.as_ref().is_some_and(|end| end.records != records || end.last_hash != last) {
            let detail = format!("the chain does not end where {whose} says");
            problems.push(Problem { record_id: None, position: None, detail });
        }
    }
    let valid = problems.is_empty();
    problems.truncate(MAX_PROBLEMS);
    Ok(Verification { valid, records, sealed: ends.seal.is_some(), problems })
}

/// What of a record is not as it was written: itself, or the bytes of a version that it names.
fn altered(tx: &mut Tx, stored: &Stored) -> Result<Vec<Problem>> {
    let of = |detail: String| Problem {
        record_id: Some(stored.record.id),
        position: Some(stored.record.position),
        detail,
    };
    let mut problems = Vec::new();
    if record::hash(&stored.record)? != stored.hash {
        problems.push(of("the record or a version that it names was altered".into()));
    }
    for row in store::altered(tx, stored.record.id)? {
        problems
            .push(of(format!("the bytes of {} were altered", reference(&row.slate, &row.path, row.version))));
    }
    Ok(problems)
}

/// What a part of a verification found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Verified<P> {
    /// Where to go on; none at the end.
    pub next: Option<P>,
    /// How many were looked at.
    pub count: i64,
    /// What is wrong.
    pub problems: Vec<Problem>,
}

/// Recomputes the hashes of the records after `after` that stand in no session's chain: of queries, retrieves and
/// searches. That such a record was removed cannot be seen.
///
/// # Errors
/// Those of the database.
pub fn verify_alone(tx: &mut Tx, after: Option<Uuid>) -> Result<Verified<Uuid>> {
    let batch = store::alone(tx, after.unwrap_or_default(), BATCH)?;
    let mut found = Verified { next: None, count: batch.len() as i64, problems: Vec::new() };
    for mut stored in batch {
        stored.record.items = store::items(tx, &stored)?;
        found.problems.extend(altered(tx, &stored)?);
        found.next = Some(stored.record.id);
    }
    Ok(found)
}

/// Hashes stored contents anew, those after a place, whoever was shown them.
///
/// # Errors
/// Those of the database.
pub fn verify_contents(tx: &mut Tx, after: Option<&Contents>) -> Result<Verified<Contents>> {
    let after = after.unwrap_or(&Contents::Row(0));
    let looked = store::check_contents(tx, after, BATCH)?;
    let mut problems = Vec::new();
    for hash in looked.altered {
        for row in store::versions_of(tx, &hash)? {
            let detail =
                format!("the bytes of {} were altered", reference(&row.slate, &row.path, row.version));
            problems.push(Problem { record_id: None, position: None, detail });
        }
    }
    let next = match (after, looked.file, looked.hash) {
        (_, Some(file), _) => Some(Contents::Row(file)),
        (Contents::Row(_), None, _) => Some(Contents::Hash(Vec::new())),
        (Contents::Hash(_), None, hash) => hash.map(Contents::Hash),
    };
    Ok(Verified { next, count: looked.count, problems })
}
