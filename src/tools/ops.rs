//! What is done with tools, but for sending to another host.

use serde_json::{Map, Value, json};
use url::Url;
use uuid::Uuid;

use super::call::{Called, Granted, NewCall};
use super::capability::{BUILT_IN, BUILT_IN_VERSION, Capability, Method};
use super::payload::{corpora as named_corpora, payload, projected};
use crate::corpora::corpus::{Corpus, Place};
use crate::corpora::entry::{Id, Status, http_url, secret};
use crate::corpora::ops as corpora;
use crate::ctx::Ctx;
use crate::db::Tx;
use crate::error::{Code, Error, FieldError, Result};
use crate::given::without_nulls;
use crate::item::Mode;
use crate::provenance::ops::NewRecord;
use crate::provenance::received::Received;
use crate::provenance::record::{Item, Kind as Recorded};
use crate::retrieval;
use crate::retrieval::budget::Budget;
use crate::retrieval::found::After;
use crate::retrieval::limits::AskedLimits;
use crate::retrieval::ops::query::{Part, Start, gather};
use crate::retrieval::request;
use crate::routes::ops as versions;
use crate::routes::route::{Mode as RouteMode, Route};
use crate::routes::version::{Kind, Version, Versioned};
use crate::schema::Schema;
use crate::sessions::ops::slots::{self, Memory};

/// Items that the built-in capability gives of a corpus.
const MAX_ITEMS: usize = 200;
/// Bytes of contents that it gives, so that they fit into a slot.
const MAX_BYTES: i64 = 160 << 10;

/// A call that is ready to be made at another host.
#[derive(Debug, Clone)]
pub struct Ready {
    capability_id: String,
    version: String,
    stage: String,
    arguments: Map<String, Value>,
    output_schema: Value,
    /// How to call it.
    pub method: Method,
    /// Where.
    pub url: Url,
    /// The stored secret that is sent as a bearer token.
    pub secret: Option<Id>,
    /// What is sent.
    pub payload: Map<String, Value>,
}

/// What was begun.
#[derive(Debug)]
pub enum Begun {
    /// It is done.
    Done(Called),
    /// It is to be sent; then [`finish`] stores the answer.
    Send(Box<Ready>),
}

/// Finds the capability, makes the payload and checks it. What needs no other host is done at once.
///
/// # Errors
/// [`Code::NotFound`] for the session or the capability; [`Code::SessionFinished`]; [`Code::Invalid`] by pointer, before
/// anything is sent.
pub fn begin(tx: &mut Tx, ctx: &Ctx, session: Uuid, id: &str, call: &NewCall) -> Result<Begun> {
    let memory = slots::memory(tx, ctx, session)?;
    let route = route(tx, &memory)?;
    let (version, capability) = capability(tx, route.as_ref(), id, call.version.as_ref())?;
    let stage = call.stage(id)?;
    let called = |called| Called {
        capability_id: id.to_owned(),
        version: version.clone(),
        stage: stage.clone(),
        called,
        output: Value::Null,
        record_ids: Vec::new(),
    };
    if id != BUILT_IN && capability.reached().is_none() {
        return Ok(Begun::Done(called(false)));
    }
    let payload = payload(memory.goal.as_ref(), &memory.working, &capability.input_schema, &call.arguments);
    let schema = Schema::compile(&capability.input_schema, "").map_err(stored)?;
    let payload = satisfying(payload, &schema);
    let mut errors: Vec<FieldError> = (schema.failures(&Value::Object(payload.clone())).into_iter())
        .map(|error| FieldError::new(format!("/arguments{}", error.pointer), error.detail))
        .collect();
    if let Some(route) = &route {
        let retrieval = route.retrieval.as_ref().filter(|retrieval| retrieval.mode != RouteMode::None);
        let scope = retrieval.map_or(&[][..], |retrieval| &retrieval.scope);
        for (at, id) in named_corpora(&payload, "/arguments") {
            if scope.iter().all(|known| known.as_str() != id) {
                errors.push(FieldError::new(at, "is no corpus of the route's scope"));
            }
        }
    }
    if !errors.is_empty() {
        return Err(Error::invalid(errors));
    }
    let Some((invoke, url)) = capability.reached() else {
        let scope = slate_scope(tx, ctx, route.as_ref(), &payload)?;
        return retrieve(tx, ctx, session, &scope, &payload, called(true)).map(Begun::Done);
    };
    Ok(Begun::Send(Box::new(Ready {
        capability_id: id.to_owned(),
        version: version.clone(),
        stage: stage.clone(),
        arguments: call.arguments.clone(),
        method: invoke.method,
        url: http_url(url).map_err(|error| Error::internal(anyhow::anyhow!(error)))?,
        secret: secret(invoke.auth.as_deref()).map_err(|error| Error::internal(anyhow::anyhow!(error)))?,
        output_schema: capability.output_schema.clone(),
        payload,
    })))
}

/// A payload that does not satisfy the schema as it came is judged without its members that are null.
fn satisfying(payload: Map<String, Value>, schema: &Schema) -> Map<String, Value> {
    let payload = Value::Object(payload);
    match if schema.is_valid(&payload) { payload } else { without_nulls(&payload) } {
        Value::Object(members) => members,
        _ => Map::new(),
    }
}

fn stored(wrong: FieldError) -> Error {
    Error::internal(anyhow::anyhow!("a stored schema: {}", wrong.detail))
}

/// The route that the session was opened on. What it says has not changed since.
fn route(tx: &mut Tx, memory: &Memory) -> Result<Option<Route>> {
    let Some(named) = &memory.route else { return Ok(None) };
    let found = versions::find_route(tx, named.route_id.as_str(), named.route_version.as_str())?;
    Ok(found.map(|(route, _)| route))
}

/// The capability that is called. A route that lists tools grants those alone, each in its version; the built-in one is
/// granted with a scope.
fn capability(
    tx: &mut Tx,
    route: Option<&Route>,
    id: &str,
    version: Option<&Version>,
) -> Result<(String, Capability)> {
    if id == BUILT_IN {
        return Ok((BUILT_IN_VERSION.into(), Capability::built_in()));
    }
    let listed = route.map_or(&[][..], |route| &route.tools);
    let granted = listed.iter().find(|tool| tool.capability_id.as_str() == id);
    if !listed.is_empty() && granted.is_none() {
        return Err(Error::new(Code::NotFound, "the route lists no such tool"));
    }
    let version = match (granted.map(|tool| &tool.capability_version), version) {
        (Some(granted), Some(asked)) if granted != asked => {
            return Err(Error::invalid_at("/version", format!("the route lists version {granted}")));
        }
        (Some(version), _) | (None, Some(version)) => version.as_str().to_owned(),
        (None, None) => only_published(tx, id)?,
    };
    let found = versions::get(tx, Kind::Capability, id, &version)?;
    if found.status != Status::Published {
        return Err(Error::not_found());
    }
    Ok((version, serde_json::from_value(found.document).map_err(Error::internal)?))
}

/// The published version of a capability, where there is one and no other.
fn only_published(tx: &mut Tx, id: &str) -> Result<String> {
    let all = versions::of(tx, Kind::Capability, id)?;
    let mut published = all.iter().filter(|version| version.status == Status::Published);
    match (published.next(), published.next()) {
        (Some(Versioned { version, .. }), None) => Ok(version.as_str().to_owned()),
        (None, _) => Err(Error::not_found()),
        (Some(_), Some(_)) => {
            Err(Error::invalid_at("/version", "must be given: several versions are published"))
        }
    }
}

/// The tools that a session's route grants, in the route's order, and the built-in one where its scope has a slate. A
/// session without a route grants none.
///
/// # Errors
/// [`Code::NotFound`]; [`Code::SessionFinished`].
pub fn granted(tx: &mut Tx, ctx: &Ctx, session: Uuid) -> Result<Vec<Granted>> {
    let memory = slots::memory(tx, ctx, session)?;
    let Some(route) = route(tx, &memory)? else { return Ok(Vec::new()) };
    let mut granted = Vec::new();
    for tool in &route.tools {
        let id = tool.capability_id.as_str();
        match capability(tx, Some(&route), id, None) {
            Ok((_, capability)) => granted.push((id.to_owned(), capability)),
            Err(error) if error.code == Code::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    match slate_scope(tx, ctx, Some(&route), &Map::new()) {
        Ok(_) if granted.iter().all(|(id, _)| id != BUILT_IN) => {
            granted.push((BUILT_IN.to_owned(), Capability::built_in()));
        }
        Err(error) if error.code != Code::Invalid => return Err(error),
        _ => {}
    }
    let granted = granted.into_iter().map(|(capability_id, capability)| Granted {
        capability_id,
        display_name: capability.display_name,
        input_schema: capability.input_schema,
    });
    Ok(granted.collect())
}

/// The corpora that the built-in capability looks at: those of the scope that lie in slates, or the one that is named.
fn slate_scope(
    tx: &mut Tx,
    ctx: &Ctx,
    route: Option<&Route>,
    payload: &Map<String, Value>,
) -> Result<Vec<Corpus>> {
    let retrieval = route.and_then(|route| route.retrieval.as_ref());
    let scope = retrieval.filter(|retrieval| retrieval.mode != RouteMode::None);
    let named = payload.get("corpus").and_then(Value::as_str);
    let mut found = Vec::new();
    for id in scope.iter().flat_map(|retrieval| &retrieval.scope) {
        if named.is_some_and(|named| named != id.as_str()) {
            continue;
        }
        let corpus = corpora::find(tx, ctx, id.as_str())?;
        let corpus = corpus.filter(|corpus| corpus.row.status == Status::Published);
        let Some(corpus) = corpus else {
            return Err(Error::invalid_at(
                "",
                format!("the corpus `{id}` of the route's scope is not published"),
            ));
        };
        if matches!(corpus.row.place, Place::Slate { .. }) {
            found.push(corpus);
        }
    }
    match found.is_empty() {
        true => Err(Error::invalid_at("", "the session's route has no corpus in a slate in its scope")),
        false => Ok(found),
    }
}

/// Runs the modes over the corpora, each on record, and stores what they give.
fn retrieve(
    tx: &mut Tx,
    ctx: &Ctx,
    session: Uuid,
    scope: &[Corpus],
    payload: &Map<String, Value>,
    called: Called,
) -> Result<Called> {
    let mut members = payload.clone();
    members.shift_remove("corpus");
    let parsed = request::parse(&members, Mode::ALL, "/arguments");
    let mut errors: Vec<FieldError> = parsed.shape.into_iter().map(|(_, error)| error).collect();
    if parsed.request == request::Request::default() && errors.is_empty() && parsed.errors.is_empty() {
        errors.push(FieldError::new("/arguments", "must have at least one mode"));
    }
    if !errors.is_empty() {
        return Err(Error::invalid(errors));
    }
    let limits = AskedLimits { max_total_bytes: Some(MAX_BYTES), ..AskedLimits::default() };
    let sent = json!({"capability_id": BUILT_IN, "stage": called.stage, "arguments": members});
    let (output, record_ids) = slots::store_slot(tx, ctx, session, &called.stage, |tx, chain| {
        let mut budget = Budget::of_query(limits);
        let (mut items, mut records, mut truncated) = (Vec::new(), Vec::new(), false);
        for corpus in scope {
            let Place::Slate { slate, folder } = &corpus.row.place else { continue };
            let found = retrieval::ops::scope(tx, ctx, slate.as_str(), folder, true)?;
            let Some(found) = found else { continue };
            let start = Start::new(After::Asked(0), budget);
            let part = Part { start, limit: MAX_ITEMS, bytes: MAX_BYTES, ahead: 0 };
            let gathered = gather(tx, found, &parsed.request, part)?;
            let chosen = &gathered.chosen;
            (budget, truncated) = (chosen.budget, truncated || chosen.truncated || chosen.next.is_some());
            if chosen.is_empty() {
                continue;
            }
            let new = NewRecord {
                kind: Recorded::Tool,
                link: None,
                slate: Some(slate.as_str()),
                folder: Some(folder.as_str()),
                recursive: true,
                request: Some(&sent),
                items: gathered.record(ctx.now),
            };
            let record = chain.record(tx, ctx, new)?.record.id;
            records.push(record);
            for view in gathered.views(record) {
                let mut item = json!({"corpus_id": corpus.row.id});
                if let (Some(item), Value::Object(view)) =
                    (item.as_object_mut(), serde_json::to_value(view).map_err(Error::internal)?)
                {
                    item.extend(view);
                }
                items.push(item);
            }
        }
        Ok((json!({"items": items, "truncated": truncated, "errors": parsed.errors}), records))
    })?;
    Ok(Called { output, record_ids, ..called })
}

/// Stores what a tool answered, projected and checked.
///
/// # Errors
/// [`Code::ToolFailed`] for an answer that is not what the output schema says, or more than a slot holds;
/// [`Code::SessionFinished`] where the session has ended meanwhile.
pub fn finish(tx: &mut Tx, ctx: &Ctx, session: Uuid, ready: &Ready, answer: Value) -> Result<Called> {
    let value = projected(answer, &ready.output_schema);
    let schema = Schema::compile(&ready.output_schema, "").map_err(stored)?;
    if let Some(wrong) = schema.failures(&value).first() {
        let at = if wrong.pointer.is_empty() { "the answer" } else { &wrong.pointer };
        return Err(Error::new(Code::ToolFailed, format!("{at}: {}", wrong.detail)));
    }
    let text = value.to_string();
    let host = ready.url.host_str().unwrap_or_default();
    let item = item(&ready.capability_id, host, ready.url.scheme() == "https", &text, ctx)?;
    let sent = json!({"capability_id": ready.capability_id, "version": ready.version, "stage": ready.stage,
        "arguments": ready.arguments});
    let (output, record) = slots::store_slot(tx, ctx, session, &ready.stage, |tx, chain| {
        let new = NewRecord {
            kind: Recorded::Tool,
            link: None,
            slate: None,
            folder: None,
            recursive: false,
            request: Some(&sent),
            items: vec![item],
        };
        Ok((value, chain.record(tx, ctx, new)?.record.id))
    })?;
    Ok(Called {
        capability_id: ready.capability_id.clone(),
        version: ready.version.clone(),
        stage: ready.stage.clone(),
        called: true,
        output,
        record_ids: vec![record],
    })
}

/// What is recorded of an answer: that of the tool, as it is in the slot.
fn item(capability: &str, host: &str, secure: bool, text: &str, ctx: &Ctx) -> Result<Item> {
    use sha2::{Digest, Sha256};
    let received = Received {
        asked: capability,
        host,
        secure,
        format: "json",
        size: text.len() as i64,
        hash: format!("sha256:{}", crate::hex::hex(&Sha256::digest(text))),
        at: ctx.now,
        reliability: (
            "Answered by a registered capability",
            ", and checked against its output schema; the SHA-256 is that of what was kept of the answer.",
        ),
        assumptions: Vec::new(),
    };
    received.item()
}
