//! `/v1/slates/{slate}/files`, one file at a time; many at once are in `bulk`, metatags in `tags`.

mod bulk;
mod tags;

use std::ops::Range;

use actix_web::body::SizedStream;
use actix_web::http::header::{
    ACCEPT_RANGES, CONTENT_RANGE, CONTENT_TYPE, ETAG, Header, HeaderName, HeaderValue, IF_RANGE,
    LAST_MODIFIED, RANGE,
};
use actix_web::middleware::from_fn;
use actix_web::web::{self, Bytes};
use actix_web::{HttpRequest, HttpResponse, HttpResponseBuilder, delete, get, head, http, patch, post, put};
use chrono::{DateTime, Datelike, SubsecRound, Utc};
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};
use utoipa::{IntoParams, ToSchema};
use utoipa_actix_web::service_config::ServiceConfig;

use super::head::{FileView, Head};
use super::ops::read;
use super::ops::{self, Change, MAX_CONTENTS, Tagging, Write as WriteFile, Written};
use super::version::Version;
use crate::app::App;
use crate::authority::Authority;
use crate::ctx::Ctx;
use crate::error::{Code, Error, Result};
use crate::http::auth::{Read, ReadOrRetrieve, Write};
use crate::http::body::{self, LARGE, Raw};
use crate::http::conditional::{ConditionHeaders, Conditions};
use crate::http::idempotency::{IdempotencyKey, once};
use crate::http::json::{self, Body};
use crate::http::page::{self, Page, PageQuery};
use crate::http::query::Query;
use crate::metatags::Tags;
use crate::path::FilePath;
use crate::precondition::Preconditions;

/// Bytes of a JSON body that may hold a whole file in base64.
pub const JSON_LIMIT: usize = 96 * 1024 * 1024;

/// Registers the operations.
pub fn configure(config: &mut ServiceConfig) {
    config
        .service(put_file)
        .service(post_files)
        .service(get_file)
        .service(head_file)
        .service(patch_file)
        .service(delete_file)
        .service(list_versions)
        .configure(tags::configure);
}

/// A file with its metatags. Exactly one of `content` and `content_base64` is given.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(example = json!({"path": "docs/core.md", "content": "# Core\n", "media_type": "text/markdown",
    "metatags": {"category": "security", "topics": ["auth"], "priority": 3}, "source_version": "git:1a2b3c4"}))]
#[serde(deny_unknown_fields)]
pub(super) struct NewFile {
    /// Path from the slate's root; folders above come into being.
    #[schema(example = "docs/core.md")]
    path: String,
    /// The contents as text.
    #[schema(example = "# Core\n")]
    content: Option<String>,
    /// The contents as bytes in base64.
    content_base64: Option<String>,
    /// Told by the name where it is not given.
    #[schema(example = "text/markdown")]
    media_type: Option<String>,
    /// All metatags; those the file has are kept where this is not given.
    #[schema(value_type = Option<Object>, example = json!({"category": "security", "topics": ["auth"], "priority": 3}))]
    metatags: Option<Map<String, Value>>,
    /// The file's own authority.
    authority: Option<Authority>,
    /// Whether readers are kept from it.
    sensitive: Option<bool>,
    /// When the source last changed.
    source_modified_at: Option<DateTime<Utc>>,
    /// The source's own version, such as `git:1a2b3c4`.
    source_version: Option<String>,
}

impl NewFile {
    /// The path as it was given.
    pub(super) fn path(&self) -> &str {
        &self.path
    }

    /// What to write, and the metatags that were given as null.
    pub(super) fn into_write(self) -> Result<(WriteFile, Vec<String>)> {
        let path =
            FilePath::parse(&self.path).map_err(|error| Error::invalid_at("/path", error.to_string()))?;
        let contents = ops::contents_of(self.content, self.content_base64)?;
        if contents.len() > MAX_CONTENTS {
            return Err(Error::new(Code::BodyTooLarge, format!("a file may have {MAX_CONTENTS} bytes")));
        }
        let tags =
            self.metatags.map(|tags| Tags::parse(tags, "/metatags")).transpose().map_err(Error::invalid)?;
        let (tags, nulls) = tags.unzip();
        if self.source_modified_at.is_some_and(|time| !(0..=9999).contains(&time.year())) {
            return Err(Error::invalid_at("/source_modified_at", "has a year of four digits"));
        }
        let write = WriteFile {
            path,
            contents,
            media_type: self.media_type,
            tags,
            tagging: Tagging::Whole,
            authority: self.authority,
            sensitive: self.sensitive,
            // Postgres keeps microseconds.
            source_modified_at: self.source_modified_at.map(|time| time.trunc_subsecs(6)),
            source_version: self.source_version,
        };
        Ok((write, nulls.unwrap_or_default()))
    }
}

/// What of a file to change; what is left out stays.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(example = json!({"path": "docs/kernel.md", "authority": "high"}))]
#[serde(deny_unknown_fields)]
struct ChangeFile {
    /// Where to move it, from the slate's root; folders above come into being.
    #[schema(example = "docs/kernel.md")]
    path: Option<String>,
    /// Another media type of the same bytes.
    #[schema(example = "text/markdown")]
    media_type: Option<String>,
    /// Its own authority; null takes it away.
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = Option<Authority>)]
    authority: Option<Option<Authority>>,
    /// Whether readers are kept from it.
    sensitive: Option<bool>,
}

/// Tells a member that is null from one that is not there.
fn given<'de, D: Deserializer<'de>, T: Deserialize<'de>>(deserializer: D) -> Result<Option<T>, D::Error> {
    T::deserialize(deserializer).map(Some)
}

/// Which version of a file.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct WhichVersion {
    /// The version that this path had; the newest where it is not given.
    #[param(minimum = 1)]
    version: Option<i64>,
}

/// What goes with a file.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
struct DeleteFile {
    /// Scrub the bytes of all its versions at once, where no other version has them.
    #[param(value_type = bool, default = false)]
    purge: bool,
}

/// Put a file's contents
///
/// The body is the exact bytes, at most 64 MiB. The same bytes again make no new version. Folders above come into being.
/// Without a `Content-Type` (or with the one that form posts have by default) the name tells the media type.
#[utoipa::path(operation_id = "put_file", tag = "slates",
    params(("slate" = String, Path, description = "The slate's name", example = "Knowledge"),
           ("path" = String, Path, description = "The file's path", example = "docs/core.md"), ConditionHeaders),
    request_body(content = Vec<u8>, content_type = "application/octet-stream", description = "The contents",
        example = json!("# Core\n")),
    responses((status = 200, description = "The path was there", body = FileView),
              (status = 201, description = "The path was new", body = FileView)))]
#[put("/slates/{slate}/files/{path:.*}")]
async fn put_file(
    Write(ctx): Write,
    app: web::Data<App>,
    at: web::Path<(String, String)>,
    req: HttpRequest,
    Conditions(conditions): Conditions,
    Raw(contents): Raw<MAX_CONTENTS>,
) -> Result<HttpResponse> {
    let (slate, path) = at.into_inner();
    let path =
        FilePath::parse(&path).map_err(|error| Error::invalid_at("", format!("the file's path {error}")))?;
    let media_type = content_type(&req)?.filter(|given| given != "application/x-www-form-urlencoded");
    let write = WriteFile { media_type, ..WriteFile::new(path, contents) };
    put(&app, ctx, slate, write, conditions, Vec::new()).await
}

/// The request's `Content-Type` as it was given, parameters included.
fn content_type(req: &HttpRequest) -> Result<Option<String>> {
    let Some(value) = req.headers().get(CONTENT_TYPE) else { return Ok(None) };
    let text = value.to_str().map_err(|_| Error::new(Code::BadRequest, "the Content-Type is no text"))?;
    Ok(Some(text.to_owned()).filter(|text| !text.is_empty()))
}

async fn put(
    app: &App,
    ctx: Ctx,
    slate: String,
    write: WriteFile,
    conditions: Preconditions,
    null_metatags: Vec<String>,
) -> Result<HttpResponse> {
    let Written { head, created, .. } = app
        .db
        .tenant(ctx.tenant, move |tx| {
            if conditions == Preconditions::default() {
                return ops::write_one(tx, &ctx, &slate, write.clone());
            }
            let (_, head) = ops::get_to_write(tx, &ctx, &slate, &write.path)?;
            conditions.check_write(head.as_ref().map(Head::etag).as_deref())?;
            let written = ops::write_one(tx, &ctx, &slate, write.clone())?;
            // What is not there cannot be held: the conditions are checked again where another made it meanwhile.
            if head.is_none() && !written.created {
                return Err(Error::new(Code::Conflict, "another write came between; try again"));
            }
            Ok(written)
        })
        .await?;
    let mut response = if created { HttpResponse::Created() } else { HttpResponse::Ok() };
    response.insert_header((ETAG, head.etag()));
    Ok(response.json(FileView { null_metatags, ..FileView::from(head) }))
}

/// Write one file with its metatags, or many
///
/// As `application/json`: one file in one transaction; 201, or 200 where the path existed. As `application/x-ndjson`: one
/// such object a line, answered by a line each in order, `{line, path, status, version}` or `{line, path, error}`; a bad
/// line is reported and the rest go on.
#[utoipa::path(operation_id = "post_files", tag = "slates",
    params(("slate" = String, Path, description = "The slate's name", example = "Knowledge"), IdempotencyKey, ConditionHeaders),
    request_body(description = "One file, or one a line", content(
        (NewFile = "application/json"),
        (NewFile = "application/x-ndjson"))),
    responses((status = 200, description = "The path existed; or the answers to many files, a line each", content(
                  (FileView = "application/json"),
                  (bulk::LineView = "application/x-ndjson"))),
              (status = 201, description = "The path was new", body = FileView)))]
#[post("/slates/{slate}/files", wrap = "from_fn(once::<Write, JSON_LIMIT>)")]
async fn post_files(
    Write(ctx): Write,
    app: web::Data<App>,
    slate: web::Path<String>,
    req: HttpRequest,
    Conditions(conditions): Conditions,
    payload: web::Payload,
) -> Result<HttpResponse> {
    let mut payload = payload.into_inner();
    match json::media_type(&req).as_deref() {
        Some("application/x-ndjson") => bulk::post(app, ctx, slate.into_inner(), req, payload).await,
        Some("application/json") => {
            let body = body::read(&req, &mut payload, JSON_LIMIT).await?;
            let (write, nulls) = json::parse::<NewFile>(&body)?.into_write()?;
            drop(body);
            put(&app, ctx, slate.into_inner(), write, conditions, nulls).await
        }
        _ => Err(Error::new(
            Code::UnsupportedMediaType,
            "send one file as Content-Type: application/json, or one a line as application/x-ndjson",
        )),
    }
}

/// What is to be sent of a file: what it is, and which of its bytes.
struct Reading {
    etag: String,
    file: i64,
    version: i64,
    size: u64,
    media_type: String,
    modified: DateTime<Utc>,
    /// The whole contents, where they have been read already.
    contents: Option<Vec<u8>>,
}

impl From<(Head, Option<Vec<u8>>)> for Reading {
    fn from((head, contents): (Head, Option<Vec<u8>>)) -> Reading {
        Reading {
            etag: head.etag(),
            file: head.id,
            contents,
            version: head.version,
            size: head.size as u64,
            media_type: head.media_type,
            modified: head.updated_at,
        }
    }
}

impl From<Version> for Reading {
    fn from(version: Version) -> Reading {
        Reading {
            etag: version.etag(),
            file: version.file_id,
            contents: None,
            version: version.version,
            size: version.size as u64,
            media_type: version.media_type,
            modified: version.created_at,
        }
    }
}

/// Get a file's contents
///
/// The exact bytes, of the newest version or of the one that `version` names. Takes `Range` (one range of bytes) and
/// `If-Range`.
#[utoipa::path(operation_id = "get_file", tag = "slates",
    params(("slate" = String, Path, description = "The slate's name", example = "Knowledge"),
           ("path" = String, Path, description = "The file's path", example = "docs/core.md"), WhichVersion, ConditionHeaders),
    responses((status = 200, description = "The contents, of the file's own media type", content(
                  (Vec<u8> = "application/octet-stream", example = json!("# Core\n")),
                  (Vec<u8> = "*/*", example = json!("# Core\n"))),
               headers(("Accept-Ranges" = String, description = "`bytes`"),
                       ("Last-Modified" = String, description = "When the file last changed"),
                       ("Slatebase-Version" = i64, description = "The version's number"))),
              (status = 206, description = "A range of the contents", content(
                  (Vec<u8> = "application/octet-stream", example = json!("# Core\n")),
                  (Vec<u8> = "*/*", example = json!("# Core\n"))),
               headers(("Accept-Ranges" = String, description = "`bytes`"),
                       ("Content-Range" = String, description = "Which bytes, of how many"),
                       ("Last-Modified" = String, description = "When the file last changed"),
                       ("Slatebase-Version" = i64, description = "The version's number"))),
              (status = 410, description = "The version's bytes are no longer kept"),
              (status = 416, description = "The range lies outside of the contents",
               headers(("Content-Range" = String, description = "How many bytes there are, after `bytes */`")))))]
#[get("/slates/{slate}/files/{path:.*}")]
async fn get_file(
    Read(ctx): Read,
    app: web::Data<App>,
    at: web::Path<(String, FilePath)>,
    req: HttpRequest,
    Query(which): Query<WhichVersion>,
    Conditions(conditions): Conditions,
) -> Result<HttpResponse> {
    let tenant = ctx.tenant;
    let mut reading = look(&app, ctx, at.into_inner(), which, LARGE as i64).await?;
    if conditions.not_modified(&reading.etag)? {
        return Ok(HttpResponse::NotModified().insert_header((ETAG, reading.etag)).finish());
    }
    let range = match range(&req, &reading) {
        Ok(range) => range,
        Err(error) => return Ok(unsatisfiable(error, reading.size)),
    };
    let length = range.as_ref().map_or(reading.size, |range| range.end - range.start);
    if length > LARGE as u64 {
        body::admit_large(&req).await?;
    }
    let bytes = match (reading.contents.take(), range.clone()) {
        (Some(bytes), None) => bytes,
        (Some(bytes), Some(range)) => {
            bytes.get(range.start as usize..range.end as usize).unwrap_or_default().to_vec()
        }
        (None, range) => {
            let (file, version) = (reading.file, reading.version);
            app.db.tenant(tenant, move |tx| read::bytes(tx, file, version, range.clone())).await?
        }
    };
    let mut response = match &range {
        None => HttpResponse::Ok(),
        Some(range) => {
            let mut response = HttpResponse::PartialContent();
            let last = range.end - 1;
            response.insert_header((CONTENT_RANGE, format!("bytes {}-{last}/{}", range.start, reading.size)));
            response
        }
    };
    describe(&mut response, &reading);
    Ok(if bytes.len() > LARGE { response.body(body::send(&req, bytes.into())) } else { response.body(bytes) })
}

/// Get what a file is, without its contents
///
/// The headers that a GET would have.
#[utoipa::path(operation_id = "head_file", tag = "slates",
    params(("slate" = String, Path, description = "The slate's name", example = "Knowledge"),
           ("path" = String, Path, description = "The file's path", example = "docs/core.md"), WhichVersion, ConditionHeaders),
    responses((status = 200, description = "The headers of a GET",
               headers(("Accept-Ranges" = String, description = "`bytes`"),
                       ("Last-Modified" = String, description = "When the file last changed"),
                       ("Slatebase-Version" = i64, description = "The version's number"))),
              (status = 410, description = "The version's bytes are no longer kept")))]
#[head("/slates/{slate}/files/{path:.*}")]
async fn head_file(
    ReadOrRetrieve(ctx): ReadOrRetrieve,
    app: web::Data<App>,
    at: web::Path<(String, FilePath)>,
    Query(which): Query<WhichVersion>,
    Conditions(conditions): Conditions,
) -> Result<HttpResponse> {
    let reading = look(&app, ctx, at.into_inner(), which, 0).await?;
    if conditions.not_modified(&reading.etag)? {
        return Ok(HttpResponse::NotModified().insert_header((ETAG, reading.etag)).finish());
    }
    let mut response = HttpResponse::Ok();
    describe(&mut response, &reading);
    let nothing = futures_util::stream::empty::<Result<Bytes>>();
    Ok(response.body(SizedStream::new(reading.size, nothing)))
}

/// What a file is, with its contents where these are `most` bytes at most and are those of the head.
async fn look(
    app: &App,
    ctx: Ctx,
    at: (String, FilePath),
    which: WhichVersion,
    most: i64,
) -> Result<Reading> {
    let (slate, path) = at;
    app.db
        .tenant(ctx.tenant, move |tx| match which.version {
            None => Ok(read::open(tx, &ctx, &slate, &path, most)?.into()),
            Some(number) => Ok(read::version(tx, &ctx, &slate, &path, number)?.into()),
        })
        .await
}

/// What every answer about a file's bytes says of them. Stored documents are never run as part of this origin.
fn describe(response: &mut HttpResponseBuilder, reading: &Reading) {
    response
        .insert_header((CONTENT_TYPE, reading.media_type.as_str()))
        .insert_header((ETAG, reading.etag.as_str()))
        .insert_header((ACCEPT_RANGES, "bytes"))
        .insert_header((
            LAST_MODIFIED,
            http::header::HttpDate::from(std::time::SystemTime::from(reading.modified)),
        ))
        .insert_header((HeaderName::from_static("slatebase-version"), reading.version.to_string()))
        .insert_header((HeaderName::from_static("x-content-type-options"), "nosniff"))
        .insert_header((HeaderName::from_static("content-security-policy"), "sandbox"));
}

/// The one range that the request asks for and `If-Range` allows. Several ranges at once are answered by the whole.
fn range(req: &HttpRequest, reading: &Reading) -> Result<Option<Range<u64>>> {
    let headers = req.headers();
    if !headers.contains_key(RANGE) || headers.get(IF_RANGE).is_some_and(|tag| tag != reading.etag.as_str()) {
        return Ok(None);
    }
    let Ok(http::header::Range::Bytes(ranges)) = http::header::Range::parse(req) else { return Ok(None) };
    let [range] = ranges.as_slice() else { return Ok(None) };
    match range.to_satisfiable_range(reading.size) {
        Some((first, last)) => Ok(Some(first..last + 1)),
        None => Err(Error::new(Code::RangeNotSatisfiable, format!("the file has {} bytes", reading.size))),
    }
}

/// A refusal that tells how long the file is.
fn unsatisfiable(error: Error, size: u64) -> HttpResponse {
    let mut response = HttpResponse::from_error(error);
    if let Ok(value) = HeaderValue::try_from(format!("bytes */{size}")) {
        response.headers_mut().insert(CONTENT_RANGE, value);
    }
    response
}

/// Change a file's settings, or move it
///
/// A moved file keeps its identity and its history, and has a new version at its new path.
#[utoipa::path(operation_id = "patch_file", tag = "slates",
    params(("slate" = String, Path, description = "The slate's name", example = "Knowledge"),
           ("path" = String, Path, description = "The file's path", example = "docs/core.md"), ConditionHeaders),
    request_body = ChangeFile,
    responses((status = 200, description = "The file as it is now", body = FileView)))]
#[patch("/slates/{slate}/files/{path:.*}")]
async fn patch_file(
    Write(ctx): Write,
    app: web::Data<App>,
    at: web::Path<(String, FilePath)>,
    Conditions(conditions): Conditions,
    Body(change): Body<ChangeFile>,
) -> Result<HttpResponse> {
    let (slate, path) = at.into_inner();
    let to = change.path.as_deref().map(FilePath::parse).transpose();
    let change = Change {
        path: to.map_err(|error| Error::invalid_at("/path", error.to_string()))?,
        media_type: change.media_type,
        authority: change.authority,
        sensitive: change.sensitive,
    };
    let head = app
        .db
        .tenant(ctx.tenant, move |tx| ops::change(tx, &ctx, &slate, &path, &change, &conditions))
        .await?;
    Ok(HttpResponse::Ok().insert_header((ETAG, head.etag())).json(FileView::from(head)))
}

/// Delete a file
///
/// It is out of every listing and query at once. Its versions can still be retrieved by citation for the slate's
/// retention, unless `purge` scrubs them now; a file that was deleted before can still be purged.
#[utoipa::path(operation_id = "delete_file", tag = "slates",
    params(("slate" = String, Path, description = "The slate's name", example = "Knowledge"),
           ("path" = String, Path, description = "The file's path", example = "docs/core.md"), DeleteFile, ConditionHeaders),
    responses((status = 204, description = "It is gone")))]
#[delete("/slates/{slate}/files/{path:.*}")]
async fn delete_file(
    Write(ctx): Write,
    app: web::Data<App>,
    at: web::Path<(String, FilePath)>,
    Query(how): Query<DeleteFile>,
    Conditions(conditions): Conditions,
) -> Result<HttpResponse> {
    let (slate, path) = at.into_inner();
    app.db.tenant(ctx.tenant, move |tx| ops::delete(tx, &ctx, &slate, &path, how.purge, &conditions)).await?;
    Ok(HttpResponse::NoContent().finish())
}

/// List the versions of a file
///
/// Newest first, those at its former paths too.
#[utoipa::path(operation_id = "list_versions", tag = "slates",
    params(("slate" = String, Path, description = "The slate's name", example = "Knowledge"),
           ("path" = String, Path, description = "The file's path", example = "docs/core.md"), PageQuery),
    responses((status = 200, description = "A page of versions", body = Page<Version>)))]
#[get("/slates/{slate}/versions/{path:.*}")]
async fn list_versions(
    ReadOrRetrieve(ctx): ReadOrRetrieve,
    app: web::Data<App>,
    at: web::Path<(String, FilePath)>,
    Query(page): Query<PageQuery>,
) -> Result<HttpResponse> {
    let (slate, path) = at.into_inner();
    let before: Option<i64> = page::open(page.cursor.as_deref())?;
    let limit = page.limit;
    let rows = app
        .db
        .tenant(ctx.tenant, move |tx| read::versions(tx, &ctx, &slate, &path, before, limit.rows()))
        .await?;
    Ok(HttpResponse::Ok().json(Page::cut(rows, limit, |last| last.version)))
}
