//! Sessions over HTTP (REST contract, "Sessions").

use actix_web::http::header::{ContentType, ETAG, LOCATION};
use actix_web::middleware::from_fn;
use actix_web::{HttpRequest, HttpResponse, delete, get, post, web};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::{IntoParams, ToSchema};
use utoipa_actix_web::service_config::ServiceConfig;
use uuid::Uuid;

use super::instructions::{self, ToolFormat};
use super::machine::Status;
use super::ops::rounds::{self, NewRound};
use super::ops::{self, NewSession, tools};
use super::runner;
use super::view::{ForgetView, PastRound, PromptView, RoundView, SessionSummary, SessionView};
use crate::app::App;
use crate::corpora::entry::Goal;
use crate::ctx::Ctx;
use crate::error::{Error, Result};
use crate::http::auth::{ReadOrRetrieve, Retrieve};
use crate::http::body::{self, DEFAULT_LIMIT, LARGE};
use crate::http::conditional::{self, ConditionHeaders, Conditions};
use crate::http::idempotency::{IdempotencyKey, SentKey, once};
use crate::http::json::{Body, JsonOrYaml, OptionalBody};
use crate::http::page::{self, Limit, Page, PageQuery};
use crate::http::query::Query;
use crate::retrieval::limits::AskedLimits;
use crate::routes::route::RouteRef;

/// Bytes that a body may have that opens a session: its fields may have a megabyte, and escapes make that more.
const OPEN_LIMIT: usize = 4 << 20;

/// Adds the routes.
pub fn configure(config: &mut ServiceConfig) {
    config
        .service(create_session)
        .service(list_sessions)
        .service(get_session)
        .service(get_prompt)
        .service(get_tool)
        .service(submit_round)
        .service(list_rounds)
        .service(cancel_session)
        .service(forget_context)
        .service(delete_session);
}

/// A session to be opened.
#[derive(Deserialize, ToSchema)]
#[schema(as = NewSession, example = json!({"retrieve": {"to": {"slate": "Knowledge", "folder": "docs"}, "as": "Docs",
    "maxRounds": 5, "requestMatch": {"type": "object", "properties": {
        "files": {"type": "array", "items": {"type": "string"}}, "glob": {"type": "string"}}}},
    "fields": {"Question": "What is core?"}}))]
#[serde(deny_unknown_fields)]
struct NewSessionBody {
    /// The declaration, as its author writes it.
    #[schema(value_type = DeclarationSchema)]
    retrieve: Value,
    /// Named texts that open the prompt, in this order. A value that is no text is shown as JSON. A mebibyte at most.
    #[serde(default)]
    #[schema(value_type = Option<Object>)]
    fields: Option<Value>,
    /// What the session is for: a text or an object. It never changes.
    #[serde(default)]
    #[schema(value_type = Option<Goal>)]
    goal: Option<Value>,
    /// A published version of a route: what it packs is in the session before its first prompt.
    #[serde(default)]
    route: Option<RouteRef>,
}

/// What a declaration may hold, for the OpenAPI document: the use case checks it, and points at all that is wrong.
#[derive(ToSchema)]
#[schema(as = Declaration)]
#[allow(dead_code, non_snake_case, reason = "it describes JSON")]
struct DeclarationSchema {
    /// Where to look.
    to: TargetSchema,
    /// The heading under which the prompt holds what was retrieved: one line of 1 to 128 characters.
    #[schema(example = "Docs", min_length = 1, max_length = 128)]
    r#as: String,
    /// How many rounds may retrieve.
    #[schema(example = 5, minimum = 1, maximum = 100)]
    maxRounds: u32,
    /// The JSON Schema (draft 2020-12 unless `$schema` says otherwise) that tells a request from an answer. The modes
    /// that it names under `properties` are granted; at least one of `files`, `subfolders`, `metatag` and `glob`.
    #[schema(value_type = Object)]
    requestMatch: Value,
    /// Whether `metatag` and `glob` look at the folders below as well.
    #[schema(default = false)]
    recursive: Option<bool>,
    /// Whether a file that changed since it was given is given again, once for each version.
    #[schema(default = false)]
    refetchChanged: Option<bool>,
    /// The budgets.
    limits: Option<AskedLimits>,
    /// Whether the prompt begins with what `GET /v1/sessions/{id}/tool?format=text` tells a model, under `## Instructions`, as
    /// it is when the session is opened.
    #[schema(default = false)]
    instructions: Option<bool>,
}

/// The slate, and the folder in it, that a session is bound to.
#[derive(ToSchema)]
#[schema(as = DeclaredFolder)]
#[allow(dead_code, reason = "it describes JSON")]
struct TargetSchema {
    /// The slate's name.
    #[schema(example = "Knowledge")]
    slate: String,
    /// The declared folder; left out, the root.
    #[schema(example = "docs")]
    folder: Option<String>,
}

/// The output of one call of the model.
#[derive(Deserialize, ToSchema)]
#[schema(as = NewRound, example = json!({"output": {"files": ["core.md"]}, "round": 1}))]
#[serde(deny_unknown_fields)]
struct NewRoundBody {
    /// What the model put out: any JSON value, or its text.
    output: Value,
    /// The round that this is, counted from 1; left out, the next one. With it, a retry is safe.
    #[serde(default)]
    #[schema(example = 1, minimum = 1)]
    round: Option<u32>,
}

/// What is no longer in the context of the model.
#[derive(Default, Deserialize, ToSchema)]
#[schema(as = Forget)]
#[serde(deny_unknown_fields)]
struct ForgetBody {
    /// Current paths, relative to the declared folder, of the files that are no longer in context; left out, all are.
    #[serde(default)]
    #[schema(example = json!(["core.md"]), max_items = 1000)]
    paths: Option<Vec<String>>,
}

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct ListQuery {
    /// Only those of this status.
    status: Option<Status>,
    /// Items on the page.
    #[serde(default)]
    #[param(value_type = Option<u32>, minimum = 1, maximum = 1000, default = 100)]
    limit: Limit,
    /// The `next_cursor` of the page before.
    #[param(min_length = 1)]
    cursor: Option<String>,
}

/// Open a session
///
/// It is bound to a slate and a folder in it, and takes rounds until it has an answer. The body may be YAML. Where its route
/// packs corpora (`deterministic_prefetch`), they are searched for the goal first: the pack is in `working.slots.prefetch`, and
/// in the prompt under `packed chunks:`. Where nothing can be packed, the session is opened as `failed`, and `failure` says why.
#[utoipa::path(operation_id = "create_session", tag = "sessions", params(IdempotencyKey),
    request_body(content(
        (NewSessionBody = "application/json"),
        (NewSessionBody = "application/yaml"))),
    responses((status = 201, description = "Opened", body = SessionView,
     headers(("ETag" = String, description = "Changes with the session"),
             ("Location" = String, description = "Where the session is"))),
    (status = 404, description = "There is no such slate")))]
#[post("/sessions", wrap = "from_fn(once::<Retrieve, OPEN_LIMIT>)")]
async fn create_session(
    Retrieve(ctx): Retrieve,
    app: web::Data<App>,
    JsonOrYaml(new): JsonOrYaml<NewSessionBody, OPEN_LIMIT>,
) -> Result<HttpResponse> {
    let new = NewSession { retrieve: new.retrieve, fields: new.fields, goal: new.goal, route: new.route };
    let view = runner::open(&app, ctx, new).await?;
    Ok(HttpResponse::Created()
        .insert_header((ETAG, view.etag()))
        .insert_header((LOCATION, format!("/v1/sessions/{}", view.session_id)))
        .json(view))
}

/// List the sessions
///
/// Newest first, those of the slates that the key may touch.
#[utoipa::path(operation_id = "list_sessions", tag = "sessions", params(ListQuery), responses(
    (status = 200, description = "A page of them", body = Page<SessionSummary>)))]
#[get("/sessions")]
async fn list_sessions(
    ReadOrRetrieve(ctx): ReadOrRetrieve,
    app: web::Data<App>,
    Query(query): Query<ListQuery>,
) -> Result<HttpResponse> {
    let before: Option<Uuid> = page::open(query.cursor.as_deref())?;
    let (status, rows) = (query.status, query.limit.rows());
    let rows = app.db.tenant(ctx.tenant, move |tx| ops::list(tx, &ctx, status, before, rows)).await?;
    Ok(HttpResponse::Ok().json(Page::cut(rows, query.limit, |last| last.session_id)))
}

/// Get a session
///
/// With all that is needed to resume it.
#[utoipa::path(operation_id = "get_session", tag = "sessions", params(("id" = Uuid, Path, description = "The session's id"), ConditionHeaders), responses(
    (status = 200, description = "The session", body = SessionView,
     headers(("ETag" = String, description = "Changes with the session")))))]
#[get("/sessions/{id}")]
async fn get_session(
    ReadOrRetrieve(ctx): ReadOrRetrieve,
    app: web::Data<App>,
    id: web::Path<Uuid>,
    Conditions(conditions): Conditions,
) -> Result<HttpResponse> {
    let view = app.db.tenant(ctx.tenant, move |tx| ops::get(tx, &ctx, *id)).await?;
    conditional::json(&conditions, &view.etag(), &view)
}

/// Get the prompt
///
/// Of the next call: the fields, then all items of this context epoch. Of a session that was answered or cancelled, the
/// prompt that its last call was given, or would have been. A version whose bytes are no longer kept, or may no longer
/// be read, is shown as `(gone)`.
#[utoipa::path(operation_id = "get_prompt", tag = "sessions", params(("id" = Uuid, Path, description = "The session's id")), responses(
    (status = 200, description = "The prompt", body = PromptView),
    (status = 409, description = "The session failed")))]
#[get("/sessions/{id}/prompt")]
async fn get_prompt(
    ReadOrRetrieve(ctx): ReadOrRetrieve,
    app: web::Data<App>,
    req: HttpRequest,
    id: web::Path<Uuid>,
) -> Result<HttpResponse> {
    admit(&req, &app, &ctx, *id).await?;
    let view = app.db.tenant(ctx.tenant, move |tx| ops::prompt(tx, &ctx, *id)).await?;
    large(&req, view).await
}

#[derive(Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct ToolQuery {
    /// What it is written for; left out, `openai`.
    #[serde(default)]
    #[param(inline)]
    format: ToolFormat,
}

/// A tool definition, for the OpenAPI document: the parameters are the session's `requestMatch`.
#[derive(ToSchema)]
#[schema(as = ToolDefinition)]
#[serde(untagged)]
#[allow(dead_code, reason = "it describes JSON")]
enum ToolSchema {
    /// `format=openai`.
    #[schema(title = "OpenaiTool")]
    Openai {
        /// `function`.
        #[schema(example = "function")]
        r#type: String,
        /// The function.
        function: FunctionSchema,
    },
    /// `format=anthropic`.
    #[schema(title = "AnthropicTool")]
    Anthropic {
        /// `retrieve`.
        #[schema(example = "retrieve")]
        name: String,
        /// What can be asked, in 2048 bytes at most.
        #[schema(example = "Retrieves documents from the slate \"Knowledge\".")]
        description: String,
        /// The session's `requestMatch`.
        #[schema(value_type = Object)]
        input_schema: Value,
    },
    /// `format=mcp`.
    #[schema(title = "McpTool")]
    #[allow(non_snake_case, reason = "as the protocol writes it")]
    Mcp {
        /// `retrieve`.
        #[schema(example = "retrieve")]
        name: String,
        /// What can be asked, in 2048 bytes at most.
        #[schema(example = "Retrieves documents from the slate \"Knowledge\".")]
        description: String,
        /// The session's `requestMatch`.
        #[schema(value_type = Object)]
        inputSchema: Value,
        /// That it only reads.
        #[schema(value_type = Object)]
        annotations: Value,
    },
}

/// A function as OpenAI's endpoints take it.
#[derive(ToSchema)]
#[schema(as = ToolFunction)]
#[allow(dead_code, reason = "it describes JSON")]
struct FunctionSchema {
    /// `retrieve`.
    #[schema(example = "retrieve")]
    name: String,
    /// What can be asked, in 2048 bytes at most.
    #[schema(example = "Retrieves documents from the slate \"Knowledge\".")]
    description: String,
    /// The session's `requestMatch`.
    #[schema(value_type = Object)]
    parameters: Value,
}

/// Get the session's tool
///
/// Its `retrieve` as a tool definition for a model. The description, 2 KiB at most, is written from the declaration and the
/// folder's files: what can be asked, by which tags and values, and what costs a round. `format=text` gives it alone.
#[utoipa::path(operation_id = "get_session_tool", tag = "sessions",
    params(("id" = Uuid, Path, description = "The session's id"), ToolQuery), responses(
    (status = 200, description = "The tool", content(
        (ToolSchema = "application/json"),
        (String = "text/plain", example = json!("Retrieves documents from the slate \"Knowledge\"."))))))]
#[get("/sessions/{id}/tool")]
async fn get_tool(
    ReadOrRetrieve(ctx): ReadOrRetrieve,
    app: web::Data<App>,
    id: web::Path<Uuid>,
    Query(query): Query<ToolQuery>,
) -> Result<HttpResponse> {
    let (text, schema) = app.db.tenant(ctx.tenant, move |tx| tools::tool(tx, &ctx, *id)).await?;
    Ok(match instructions::definition(query.format, &text, &schema) {
        Some(definition) => HttpResponse::Ok().json(definition),
        None => HttpResponse::Ok().content_type(ContentType::plaintext()).body(text),
    })
}

/// Waits for a permit to hold what a session was shown in memory, where that is much.
async fn admit(req: &HttpRequest, app: &App, ctx: &Ctx, id: Uuid) -> Result<()> {
    let asks = ctx.clone();
    let weight = app.db.tenant(ctx.tenant, move |tx| ops::weight(tx, &asks, id)).await?;
    if weight > LARGE as u64 { body::admit_large(req).await } else { Ok(()) }
}

/// The answer to a request that was admitted; it keeps its permit until the last byte is taken.
async fn large<T: Serialize + Send + 'static>(req: &HttpRequest, view: T) -> Result<HttpResponse> {
    let written = web::block(move || serde_json::to_vec(&view)).await.map_err(Error::internal)?;
    let written = written.map_err(Error::internal)?;
    let mut answer = HttpResponse::Ok();
    answer.content_type(ContentType::json());
    Ok(if written.len() > LARGE {
        answer.body(body::send(req, written.into()))
    } else {
        answer.body(written)
    })
}

/// Submit a round
///
/// The output of one call of the model. A retrieval request is answered with what it asks for; anything else is the
/// session's answer. The same round again, by its number or its `Idempotency-Key`, is answered as the first time, also
/// when the session has finished since; a version whose bytes are no longer kept, or may no longer be read, then shows
/// `(gone)`. An output may have a mebibyte; one that is too large to be tested against the schema is an answer.
#[utoipa::path(operation_id = "submit_round", tag = "sessions", params(("id" = Uuid, Path, description = "The session's id"), IdempotencyKey),
    request_body = NewRoundBody, responses(
    (status = 200, description = "What came of it", body = RoundView),
    (status = 409, description = "The session is finished, the round was taken with another output or is not the next, or the service runs the session")))]
#[post("/sessions/{id}/rounds")]
async fn submit_round(
    Retrieve(ctx): Retrieve,
    app: web::Data<App>,
    id: web::Path<Uuid>,
    SentKey(key): SentKey,
    Body(new): Body<NewRoundBody>,
) -> Result<HttpResponse> {
    let new = NewRound { output: new.output, round: new.round, key: key.map(|key| key.as_str().to_owned()) };
    let view = app.db.tenant(ctx.tenant, move |tx| rounds::submit(tx, &ctx, *id, &new)).await?;
    Ok(HttpResponse::Ok().json(view))
}

/// List the rounds
///
/// In order, each with its output and what came of it, rendered anew from the record and the versions that it names. A
/// page ends early at 16 MiB.
#[utoipa::path(operation_id = "list_rounds", tag = "sessions", params(("id" = Uuid, Path, description = "The session's id"), PageQuery), responses(
    (status = 200, description = "A page of them", body = Page<PastRound>)))]
#[get("/sessions/{id}/rounds")]
async fn list_rounds(
    ReadOrRetrieve(ctx): ReadOrRetrieve,
    app: web::Data<App>,
    req: HttpRequest,
    id: web::Path<Uuid>,
    Query(query): Query<PageQuery>,
) -> Result<HttpResponse> {
    let after: i32 = page::open(query.cursor.as_deref())?.unwrap_or(0);
    let limit = query.limit.items();
    admit(&req, &app, &ctx, *id).await?;
    let (items, more) =
        app.db.tenant(ctx.tenant, move |tx| rounds::list(tx, &ctx, *id, after, limit)).await?;
    let next_cursor = items.last().filter(|_| more).map(|last| page::seal(&last.result.round));
    large(&req, Page { items, next_cursor }).await
}

/// Cancel a session
///
/// It takes no more rounds. Cancelling it again changes nothing.
#[utoipa::path(operation_id = "cancel_session", tag = "sessions",
    params(("id" = Uuid, Path, description = "The session's id"), IdempotencyKey, ConditionHeaders), responses(
    (status = 200, description = "The session", body = SessionView,
     headers(("ETag" = String, description = "Changes with the session"))),
    (status = 409, description = "The session is finished")))]
#[post("/sessions/{id}/cancel", wrap = "from_fn(once::<Retrieve, DEFAULT_LIMIT>)")]
async fn cancel_session(
    Retrieve(ctx): Retrieve,
    app: web::Data<App>,
    id: web::Path<Uuid>,
    Conditions(conditions): Conditions,
) -> Result<HttpResponse> {
    let view = app.db.tenant(ctx.tenant, move |tx| ops::cancel(tx, &ctx, *id, &conditions)).await?;
    Ok(HttpResponse::Ok().insert_header((ETAG, view.etag())).json(view))
}

/// Forget what is in context
///
/// For a caller whose model has lost its context: a new context epoch begins, in which the files named (all, where none
/// are) are given again when they are asked for. Rounds and bytes that were spent are not given back.
#[utoipa::path(operation_id = "forget_context", tag = "sessions",
    params(("id" = Uuid, Path, description = "The session's id"), IdempotencyKey, ConditionHeaders), request_body = Option<ForgetBody>, responses(
    (status = 200, description = "Forgotten", body = ForgetView),
    (status = 409, description = "The session is finished")))]
#[post("/sessions/{id}/forget", wrap = "from_fn(once::<Retrieve, DEFAULT_LIMIT>)")]
async fn forget_context(
    Retrieve(ctx): Retrieve,
    app: web::Data<App>,
    id: web::Path<Uuid>,
    Conditions(conditions): Conditions,
    OptionalBody(body): OptionalBody<ForgetBody>,
) -> Result<HttpResponse> {
    let paths = body.unwrap_or_default().paths;
    let view = app
        .db
        .tenant(ctx.tenant, move |tx| ops::forget(tx, &ctx, *id, paths.as_deref(), &conditions))
        .await?;
    Ok(HttpResponse::Ok().json(view))
}

/// Delete a session
///
/// With its rounds and context. Its provenance records stay, sealed.
#[utoipa::path(operation_id = "delete_session", tag = "sessions", params(("id" = Uuid, Path, description = "The session's id"), ConditionHeaders), responses(
    (status = 204, description = "Deleted")))]
#[delete("/sessions/{id}")]
async fn delete_session(
    Retrieve(ctx): Retrieve,
    app: web::Data<App>,
    id: web::Path<Uuid>,
    Conditions(conditions): Conditions,
) -> Result<HttpResponse> {
    app.db.tenant(ctx.tenant, move |tx| ops::delete(tx, &ctx, *id, &conditions)).await?;
    Ok(HttpResponse::NoContent().finish())
}
