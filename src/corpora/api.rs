//! The corpora of the catalogue over HTTP (corpora, "Corpus").

use actix_web::http::header::ETAG;
use actix_web::{HttpResponse, delete, get, post, put, web};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use utoipa::ToSchema;
use utoipa_actix_web::service_config::ServiceConfig;
use uuid::Uuid;

use super::chunk::Chunk;
use super::corpus::{Corpus, NewCorpus};
use super::entry::{Goal, Id, Status};
use super::ops::{self, gateway};
use crate::app::App;
use crate::ctx::Ctx;
use crate::error::{Error, Result};
use crate::http::auth::{Admin, ReadOrRetrieve, Retrieve};
use crate::http::conditional::{self, ConditionHeaders, Conditions};
use crate::http::json::{Body, OptionalBody};
use crate::http::page::{self, Page, PageQuery};
use crate::http::query::Query;

/// Registers the operations.
pub fn configure(config: &mut ServiceConfig) {
    config.service(search).service(search_gateway);
    config.service(list_corpora).service(get_corpus).service(put_corpus).service(delete_corpus);
}

/// Registers the search of one corpus, whose path is not below `/v1`.
pub fn configure_search(config: &mut ServiceConfig) {
    config.service(search_corpus);
}

/// A corpus, for the OpenAPI document: the use case checks it, and keeps what else a row has.
#[derive(ToSchema)]
#[schema(as = NewCorpus)]
#[allow(dead_code, reason = "it describes JSON")]
struct CorpusSchema {
    /// For people.
    #[schema(example = "Policies")]
    display_name: Option<String>,
    /// For people.
    #[schema(example = "legal")]
    owner: Option<String>,
    /// The gateway: an `http` or `https` URL, or `slate:<slate>/<folder>` for one that this service serves itself.
    #[schema(example = "slate:Knowledge/policies")]
    url: String,
    /// The name of the index at a gateway that serves several; by default the corpus id.
    #[schema(example = "policy-engine")]
    collection: Option<String>,
    /// The name of a stored secret, which is sent as a bearer token; null or `none` for none.
    #[schema(example = json!(null))]
    auth: Option<String>,
    /// Whether it is used.
    #[schema(default = "draft", example = "published")]
    status: Option<Status>,
    /// For how many seconds the gateway may take: at most 60.
    #[schema(default = 5, example = 5)]
    timeout_seconds: Option<f64>,
    /// How many passages a search of a slate gives at most: 1 to 100.
    #[schema(default = 20, example = 20, minimum = 1, maximum = 100)]
    max_chunks: Option<u32>,
}

/// A corpus of the catalogue.
#[derive(ToSchema)]
#[schema(as = Corpus)]
#[allow(dead_code, reason = "it describes JSON")]
struct CorpusView {
    /// What a route's `scope` points at.
    corpus_id: Id,
    /// All members as they were given.
    #[serde(flatten)]
    row: CorpusSchema,
    /// When it was made.
    created_at: chrono::DateTime<chrono::Utc>,
    /// When it last changed.
    updated_at: chrono::DateTime<chrono::Utc>,
}

/// List the corpora
///
/// By id; of those in slates, the ones that the key may touch.
#[utoipa::path(operation_id = "list_corpora", tag = "corpora", params(PageQuery),
    responses((status = 200, description = "A page of corpora", body = Page<CorpusView>)))]
#[get("/catalog/corpora")]
async fn list_corpora(
    ReadOrRetrieve(ctx): ReadOrRetrieve,
    app: web::Data<App>,
    Query(page): Query<PageQuery>,
) -> Result<HttpResponse> {
    let after: Option<String> = page::open(page.cursor.as_deref())?;
    let limit = page.limit;
    let rows =
        app.db.tenant(ctx.tenant, move |tx| ops::list(tx, &ctx, after.as_deref(), limit.rows())).await?;
    let page = Page::cut(rows, limit, |last| last.row.id.as_str().to_owned());
    Ok(HttpResponse::Ok().json(page.map(|corpus: Corpus| corpus.view())))
}

/// Get a corpus
///
/// The row as it was given, members that the service does not know included.
#[utoipa::path(operation_id = "get_corpus", tag = "corpora",
    params(("corpus_id" = String, Path, description = "The corpus's id", example = "policy-engine"), ConditionHeaders),
    responses((status = 200, description = "The corpus", body = CorpusView,
        headers(("ETag" = String, description = "Changes with the corpus")))))]
#[get("/catalog/corpora/{corpus_id}")]
async fn get_corpus(
    ReadOrRetrieve(ctx): ReadOrRetrieve,
    app: web::Data<App>,
    id: web::Path<String>,
    Conditions(conditions): Conditions,
) -> Result<HttpResponse> {
    let corpus = app.db.tenant(ctx.tenant, move |tx| ops::get(tx, &ctx, &id)).await?;
    conditional::json(&conditions, &corpus.etag(), &corpus.view())
}

/// Make a corpus, or set it
///
/// The body gives the whole row. Members that the service does not know are kept and given back. A published corpus in a
/// slate has its passages indexed before this answers, and kept in step with its files from then on.
#[utoipa::path(operation_id = "put_corpus", tag = "corpora",
    params(("corpus_id" = String, Path, description = "The corpus's id", example = "policy-engine"), ConditionHeaders),
    request_body = CorpusSchema,
    responses((status = 200, description = "It was there", body = CorpusView),
              (status = 201, description = "It was made", body = CorpusView)))]
#[put("/catalog/corpora/{corpus_id}")]
async fn put_corpus(
    Admin(ctx): Admin,
    app: web::Data<App>,
    id: web::Path<String>,
    Conditions(conditions): Conditions,
    Body(document): Body<Map<String, Value>>,
) -> Result<HttpResponse> {
    let id = Id::parse(&id).map_err(|error| Error::invalid_at("", format!("the corpus's id {error}")))?;
    let new = NewCorpus::parse(id, document)?;
    let (corpus, made) = app.db.tenant(ctx.tenant, move |tx| ops::put(tx, &ctx, &new, &conditions)).await?;
    let mut response = if made { HttpResponse::Created() } else { HttpResponse::Ok() };
    Ok(response.insert_header((ETAG, corpus.etag())).json(corpus.view()))
}

/// Delete a corpus
///
/// Its files stay. Routes that name it fail closed from then on.
#[utoipa::path(operation_id = "delete_corpus", tag = "corpora",
    params(("corpus_id" = String, Path, description = "The corpus's id", example = "policy-engine"), ConditionHeaders),
    responses((status = 204, description = "Deleted")))]
#[delete("/catalog/corpora/{corpus_id}")]
async fn delete_corpus(
    Admin(ctx): Admin,
    app: web::Data<App>,
    id: web::Path<String>,
    Conditions(conditions): Conditions,
) -> Result<HttpResponse> {
    app.db.tenant(ctx.tenant, move |tx| ops::delete(tx, &ctx, &id, &conditions)).await?;
    Ok(HttpResponse::NoContent().finish())
}

/// A search of a corpus.
#[derive(Default, Deserialize, ToSchema)]
#[schema(as = SearchRequest, example = json!({"collection": "policy-engine", "goal": {"question": "Why was I charged $42?"}}))]
#[serde(deny_unknown_fields)]
struct SearchBody {
    /// A published corpus in a slate, by its id or its index name; left out, the one that the path names.
    #[serde(default)]
    #[schema(example = "policy-engine")]
    collection: Option<String>,
    /// What is sought: a text, or an object of which all texts count, at any depth. Left out, the corpus's first passages
    /// are given, in order.
    #[serde(default)]
    #[schema(value_type = Option<Goal>)]
    goal: Option<Value>,
}

/// What a search gave.
#[derive(Serialize, ToSchema)]
#[schema(as = SearchResult)]
struct Found {
    /// The best first; of as good ones, by path and place.
    chunks: Vec<Chunk>,
    /// The record, whose item n is chunk n; absent where there are no chunks.
    #[serde(skip_serializing_if = "Option::is_none")]
    record_id: Option<Uuid>,
}

async fn find(ctx: Ctx, app: &App, body: SearchBody, named: Option<String>) -> Result<HttpResponse> {
    let named = body.collection.or(named);
    let collection = named.ok_or_else(|| Error::invalid_at("/collection", "must name a corpus"))?;
    let goal = body.goal.unwrap_or_else(|| json!({}));
    if !goal.is_string() && !goal.is_object() {
        return Err(Error::invalid_at("/goal", "must be a text or an object"));
    }
    let sent = json!({"collection": collection, "goal": goal});
    let answer =
        app.db.recording(ctx.tenant, move |tx| gateway::search(tx, &ctx, &collection, &goal, &sent)).await?;
    Ok(HttpResponse::Ok().json(Found { chunks: answer.chunks, record_id: answer.record }))
}

/// Search a corpus
///
/// Any of the goal's words may match; the rarer a word is in the corpus, the more it counts. A goal that ranks nothing gives
/// the first passages, in order.
#[utoipa::path(operation_id = "search_collection", tag = "corpora", request_body = SearchBody,
    responses((status = 200, description = "Its best passages", body = Found),
              (status = 404, description = "There is no such corpus, or it is not published, or lies in no slate")))]
#[post("/search")]
async fn search(
    Retrieve(ctx): Retrieve,
    app: web::Data<App>,
    OptionalBody(body): OptionalBody<SearchBody>,
) -> Result<HttpResponse> {
    find(ctx, &app, body.unwrap_or_default(), None).await
}

/// Search a corpus, at a gateway of a name
///
/// The name stands for the corpus where the body names none.
#[utoipa::path(operation_id = "search_gateway", tag = "corpora", request_body = Option<SearchBody>,
    params(("gateway" = String, Path, description = "Any name, or a corpus", example = "assistant")),
    responses((status = 200, description = "Its best passages", body = Found)))]
#[post("/search/{gateway}")]
async fn search_gateway(
    Retrieve(ctx): Retrieve,
    app: web::Data<App>,
    gateway: web::Path<String>,
    OptionalBody(body): OptionalBody<SearchBody>,
) -> Result<HttpResponse> {
    find(ctx, &app, body.unwrap_or_default(), Some(gateway.into_inner())).await
}

/// Search the corpus of a path
///
/// As the other two, for runtimes that have a gateway for each corpus.
#[utoipa::path(operation_id = "search_corpus", tag = "corpora", request_body = Option<SearchBody>,
    params(("corpus_id" = String, Path, description = "The corpus's id", example = "policy-engine")),
    responses((status = 200, description = "Its best passages", body = Found)))]
#[post("/{corpus_id}/search")]
async fn search_corpus(
    Retrieve(ctx): Retrieve,
    app: web::Data<App>,
    id: web::Path<String>,
    OptionalBody(body): OptionalBody<SearchBody>,
) -> Result<HttpResponse> {
    find(ctx, &app, body.unwrap_or_default(), Some(id.into_inner())).await
}
