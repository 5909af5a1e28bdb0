//! Queries over HTTP.

use std::rc::Rc;

use actix_web::http::header::ACCEPT;
use actix_web::rt::{self, task::JoinHandle};
use actix_web::web::Bytes;
use actix_web::{HttpRequest, HttpResponse, post, web};
use futures_util::StreamExt;
use futures_util::future::ready;
use futures_util::stream::{self, LocalBoxStream};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use tokio::sync::mpsc::{self, Sender};
use utoipa::ToSchema;
use utoipa_actix_web::service_config::ServiceConfig;

use super::budget::Budget;
use super::found::After;
use super::limits::AskedLimits;
use super::ops::query::{self, Chosen, Page, Part, Query, Start};
use super::request::{self, ModeError};
use super::view::ItemView;
use crate::app::App;
use crate::ctx::Ctx;
use crate::error::{Code, Error, Result};
use crate::http::auth::Retrieve;
use crate::http::json::Body;
use crate::http::page::{self, Limit};
use crate::item::Mode;
use crate::path::FolderPath;

pub mod facets;

/// Bytes of contents past which a page ends early (retrieval semantics §6).
const PAGE_BYTES: i64 = 16 << 20;
/// The same for a page of a stream, which is in memory as a whole.
const STREAM_BYTES: i64 = 4 << 20;
/// Items of a page of a stream.
const STREAM_ITEMS: usize = 400;
/// How many files a page of a stream finds on the way for those after it.
const STREAM_AHEAD: usize = 10_000;
/// The most bytes of a body: a thousand paths, escaped.
const MAX_BODY: usize = 4 << 20;
/// The media type of a stream.
const NDJSON: &str = "application/x-ndjson";

/// Adds the routes.
pub fn configure(config: &mut ServiceConfig) {
    config.service(query_slate).service(facets::get_facets);
}

/// A query of a slate.
#[derive(Deserialize, ToSchema)]
#[schema(as = QueryRequest, example = json!({"folder": "docs", "recursive": true, "limit": 100, "request": {
    "files": ["core.md"], "metatag": {"name": "category", "contains": "security"},
    "where": {"all": [{"tag": "priority", "gte": 3}, {"not": {"tag": "archived"}}]}}}))]
#[serde(deny_unknown_fields)]
struct QueryBody {
    /// The declared folder; left out, the slate's root.
    #[serde(default)]
    #[schema(value_type = Option<String>, example = "docs")]
    folder: Option<FolderPath>,
    /// Whether `metatag`, `glob` and `where` look at the folders below as well.
    #[serde(default)]
    #[schema(example = false)]
    recursive: bool,
    /// What is asked for; at least one mode. Other members are ignored, and named in the answer.
    #[schema(value_type = RetrievalRequest)]
    request: Map<String, Value>,
    /// Items on the page.
    #[serde(default)]
    #[schema(value_type = Option<u32>, minimum = 1, maximum = 1000, default = 100)]
    limit: Limit,
    /// The `next_cursor` of the page before, of this very query.
    #[serde(default)]
    cursor: Option<String>,
    /// Limits on what this answer gives; left out, none.
    #[serde(default)]
    #[schema(value_type = Option<AskedLimits>)]
    limits: Option<Value>,
}

/// What is asked for: the union of all modes that are present (retrieval semantics §3).
#[derive(ToSchema)]
#[allow(dead_code, reason = "it documents what `request::parse` takes")]
struct RetrievalRequest {
    /// Paths of files, from the declared folder. Of more than 1000 the mode is not run, and named in `errors`.
    #[schema(example = json!(["core.md", "research/2024-report.md"]))]
    files: Option<Vec<String>>,
    /// Paths of folders whose index is wanted; `"."` is the declared one. Of more than 1000 the mode is not run, and named
    /// in `errors`.
    #[schema(example = json!(["research"]))]
    subfolders: Option<Vec<String>>,
    /// Files that have a metatag.
    metatag: Option<MetatagRequest>,
    /// Files whose name matches: `*` any sequence, `?` one character, `[abc]`, `[a-z]`, `[!abc]` one of a class. One
    /// of more than 1024 bytes is not run, and named in `errors`.
    #[schema(example = "faq-*")]
    glob: Option<String>,
    /// Files that a filter tree holds for. A node is one of `{"all": […]}`, `{"any": […]}`, `{"not": …}`,
    /// `{"tag": name}` with any of the tests `eq`, `ne`, `in`, `contains`, `starts_with`, `gt`, `gte`, `lt`, `lte`,
    /// `has` and `matches`, `{"name": {"glob": …}}`, `{"modified": {"since": …, "before": …}}` and
    /// `{"size": {"gt": …}}`; at most 64 tests, 8 deep. A test of a metatag of another type, or that a file lacks, is
    /// false, and the `not` of it true.
    #[schema(value_type = Option<Object>,
        example = json!({"all": [{"tag": "category", "eq": "security"}, {"not": {"tag": "archived"}}]}))]
    r#where: Option<Value>,
}

/// A test on a metatag.
#[derive(ToSchema)]
#[allow(dead_code, reason = "it documents what `request::parse` takes")]
struct MetatagRequest {
    /// The metatag's name.
    #[schema(example = "category")]
    name: String,
    /// Literal text that its value, or an element of it, contains.
    #[schema(example = "security")]
    contains: Option<String>,
}

/// A page of what a query found.
#[derive(Serialize, ToSchema)]
struct QueryResult {
    /// In order: the files as asked, the listings as asked, then all other files by path.
    items: Vec<ItemView>,
    /// Whether a limit left something out of this page.
    truncated: bool,
    /// Members of the request that are no modes.
    #[schema(example = json!([]))]
    ignored: Vec<String>,
    /// Modes that could not be run; the others were.
    #[schema(example = json!([]))]
    errors: Vec<ModeError>,
    /// Gives the next page; null on the last one.
    next_cursor: Option<String>,
}

/// A line of a stream.
#[derive(ToSchema)]
#[serde(untagged)]
#[allow(dead_code, reason = "it describes JSON")]
enum QueryLine {
    /// An item.
    Item(Box<ItemView>),
    /// The last line.
    End(QueryEnd),
}

/// The last line of a stream.
#[derive(ToSchema)]
#[allow(dead_code, reason = "it describes JSON")]
struct QueryEnd {
    /// What holds for the whole.
    end: QuerySummary,
}

/// What holds for a stream as a whole.
#[derive(ToSchema)]
#[allow(dead_code, reason = "it describes JSON")]
struct QuerySummary {
    /// How many items there were.
    #[schema(example = 1)]
    items: u64,
    /// Whether a limit left something out.
    truncated: bool,
    /// Members of the request that are no modes.
    #[schema(example = json!([]))]
    ignored: Vec<String>,
    /// Modes that could not be run; the others were.
    #[schema(example = json!([]))]
    errors: Vec<ModeError>,
    /// Why the stream had to end early; absent where it did not.
    error: Option<StreamError>,
}

/// Why a stream had to end early.
#[derive(ToSchema)]
#[allow(dead_code, reason = "it describes JSON")]
struct StreamError {
    /// The code that a problem's `type` would end with.
    #[schema(example = "query_timeout")]
    r#type: String,
    /// The kind in words.
    #[schema(example = "The query took too long")]
    title: String,
    /// What went wrong this time.
    #[schema(example = "the query took too long")]
    detail: String,
}

/// Query a slate
///
/// Runs the modes of a request over a folder of the slate, outside of any session. Every item is recorded; its
/// `provenance_id` names the record. With `Accept: application/x-ndjson` all items are streamed, one a line, whatever
/// `limit` is, and the last line is `{"end": {items, truncated, ignored, errors}}`, with an `error` beside them when the
/// stream had to end early. A file that is neither renamed, made nor deleted meanwhile appears exactly once.
#[utoipa::path(operation_id = "query_slate", tag = "queries", request_body = QueryBody,
    params(("slate" = String, Path, description = "The slate's name", example = "Knowledge")),
    responses((status = 200, description = "A page of items, or all of them as a stream",
        content((QueryResult = "application/json"), (QueryLine = "application/x-ndjson")))))]
#[post("/slates/{slate}/query")]
async fn query_slate(
    Retrieve(ctx): Retrieve,
    app: web::Data<App>,
    req: HttpRequest,
    slate: web::Path<String>,
    Body(body): Body<QueryBody, MAX_BODY>,
) -> Result<HttpResponse> {
    let mut errors = Vec::new();
    let limits = body.limits.as_ref().map(|limits| AskedLimits::parse(limits, "/limits", &mut errors));
    let parsed = request::parse(&body.request, Mode::ALL, "/request");
    if parsed.is_empty() {
        errors.push(crate::error::FieldError::new("/request", "must have at least one mode"));
    }
    errors.extend(parsed.shape.into_iter().map(|(_, error)| error));
    if !errors.is_empty() {
        return Err(Error::invalid(errors));
    }
    let query = Query {
        slate: slate.into_inner(),
        folder: body.folder.unwrap_or_default(),
        recursive: body.recursive,
        request: parsed.request,
        sent: Value::Object(body.request),
    };
    let digest = query.digest();
    let after = match page::open::<(String, After)>(body.cursor.as_deref())? {
        None => After::Asked(0),
        Some((of, after)) if of == digest => after,
        Some(_) => return Err(Error::invalid_at("/cursor", "is the cursor of another query")),
    };
    let start = Start::new(after, Budget::of_query(limits.unwrap_or_default()));
    let run = Run { app: app.into_inner().as_ref().clone(), ctx, query };
    let (ignored, errors) = (parsed.ignored, parsed.errors);
    if wants_stream(&req) {
        return run.stream(start, json!({"ignored": ignored, "errors": errors})).await;
    }
    let page = run.page(Part { start, limit: body.limit.items(), bytes: PAGE_BYTES, ahead: 0 }).await?;
    let chosen = &page.gathered.chosen;
    let (next, truncated) = (chosen.next.as_ref().map(|start| &start.after), chosen.truncated);
    let next_cursor = next.map(|after| page::seal(&(digest, after)));
    Ok(HttpResponse::Ok().json(QueryResult { items: page.items(), truncated, ignored, errors, next_cursor }))
}

fn wants_stream(req: &HttpRequest) -> bool {
    let accepted = req.headers().get_all(ACCEPT).filter_map(|value| value.to_str().ok());
    let mut types =
        accepted.flat_map(|value| value.split(',')).map(|range| range.split(';').next().unwrap_or(range));
    types.any(|kind| kind.trim_ascii().eq_ignore_ascii_case(NDJSON))
}

fn stream_part(start: Start) -> Part {
    Part { start, limit: STREAM_ITEMS, bytes: STREAM_BYTES, ahead: STREAM_AHEAD }
}

/// A query that is being answered.
struct Run {
    app: App,
    ctx: Ctx,
    query: Query,
}

impl Run {
    async fn page(&self, part: Part) -> Result<Page> {
        let (ctx, query) = (self.ctx.clone(), self.query.clone());
        let page = self.app.db.recording(self.ctx.tenant, move |tx| {
            let chosen = query::choose_page(tx, &ctx, &query, part.clone())?;
            query::give(tx, &ctx, &query, chosen)
        });
        page.await
    }

    async fn choose(&self, start: Start) -> Result<Chosen> {
        let (ctx, query) = (self.ctx.clone(), self.query.clone());
        let chosen = self.app.db.recording(self.ctx.tenant, move |tx| {
            query::choose_page(tx, &ctx, &query, stream_part(start.clone()))
        });
        chosen.await
    }

    async fn give(&self, chosen: Chosen) -> Result<Page> {
        let (ctx, query) = (self.ctx.clone(), self.query.clone());
        let mut chosen = Some(chosen);
        let page = self.app.db.recording(self.ctx.tenant, move |tx| match chosen.take() {
            Some(chosen) => query::give(tx, &ctx, &query, chosen),
            None => Err(Error::new(Code::Conflict, "a file was purged meanwhile; try again")),
        });
        page.await
    }

    /// The first page is chosen before the answer begins, so that what is wrong with the query is still a problem, and if
    /// it is the only one, it is given in the same transaction.
    async fn stream(self, start: Start, end: Value) -> Result<HttpResponse> {
        let (ctx, query) = (self.ctx.clone(), self.query.clone());
        let first = self.app.db.recording(self.ctx.tenant, move |tx| {
            let chosen = query::choose_page(tx, &ctx, &query, stream_part(start.clone()))?;
            Ok(match chosen.next {
                Some(_) => First::OfMany(chosen),
                None => First::Only(query::give(tx, &ctx, &query, chosen)?),
            })
        });
        let pages = match first.await? {
            First::Only(page) => stream::once(ready(Ok(page))).left_stream(),
            First::OfMany(chosen) => {
                let (pages, made) = mpsc::channel(1);
                rt::spawn(Rc::new(self).make(chosen, pages));
                stream::unfold(made, |mut made| async move {
                    let making: Making = made.recv().await?;
                    Some((making.await.unwrap_or_else(|error| Err(Error::internal(error))), made))
                })
                .right_stream()
            }
        };
        let state = Streaming { pages: Some(pages.boxed_local()), items: 0, truncated: false, end };
        let lines = stream::unfold(state, |mut state| async move {
            let bytes = state.step().await?;
            Some((Ok::<Bytes, Error>(bytes), state))
        });
        Ok(HttpResponse::Ok().content_type(NDJSON).streaming(lines))
    }

    /// Makes pages one after the other. While one is read on one connection, the next is chosen, and then read, on another;
    /// it waits for the client to take the first. Once the client has gone, no further one is made.
    async fn make(self: Rc<Run>, first: Chosen, pages: Sender<Making>) {
        let mut chosen = Ok(first);
        while let Ok(room) = pages.reserve().await {
            let next = chosen.as_ref().ok().and_then(|chosen| chosen.next.clone());
            let run = self.clone();
            room.send(rt::spawn(async move { run.give(chosen?).await }));
            let (Some(start), Ok(room)) = (next, pages.reserve().await) else { return };
            drop(room);
            chosen = self.choose(start).await;
        }
    }
}

enum First {
    Only(Page),
    OfMany(Chosen),
}

/// A page in the making.
type Making = JoinHandle<Result<Page>>;

/// Where a stream is.
struct Streaming {
    /// The pages to come; none once the last line is out.
    pages: Option<LocalBoxStream<'static, Result<Page>>>,
    items: usize,
    truncated: bool,
    /// Members of the last line.
    end: Value,
}

impl Streaming {
    /// The next lines; none at the end. A page without items, whose files all went while it was made, is not the end.
    async fn step(&mut self) -> Option<Bytes> {
        loop {
            let made = match self.pages.as_mut()?.next().await {
                None => return Some(self.last_line(None)),
                Some(Ok(page)) => self.lines(page).await,
                Some(Err(error)) => Err(error),
            };
            match made {
                Ok(lines) if lines.is_empty() => {}
                Ok(lines) => return Some(lines),
                Err(error) => return Some(self.last_line(Some(error))),
            }
        }
    }

    async fn lines(&mut self, page: Page) -> Result<Bytes> {
        self.truncated |= page.gathered.chosen.truncated;
        self.items += page.gathered.chosen.len();
        web::block(move || {
            let mut lines = Vec::new();
            for item in page.items() {
                serde_json::to_writer(&mut lines, &item).map_err(Error::internal)?;
                lines.push(b'\n');
            }
            Ok(lines.into())
        })
        .await
        .map_err(Error::internal)?
    }

    fn last_line(&mut self, error: Option<Error>) -> Bytes {
        self.pages = None;
        let mut end = self.end.take();
        end["items"] = self.items.into();
        end["truncated"] = self.truncated.into();
        if let Some(error) = error {
            tracing::warn!(%error, source = ?error.source, "a stream ended early");
            end["error"] =
                json!({"type": error.code.name(), "title": error.code.title(), "detail": error.detail});
        }
        format!("{}\n", json!({"end": end})).into()
    }
}
