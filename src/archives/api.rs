//! `/v1/slates/{slate}/import` and `/v1/slates/{slate}/export`.

use std::fs::File;
use std::io::{self, Read, Seek};
use std::thread;

use actix_web::http::header::{
    CONTENT_DISPOSITION, CONTENT_ENCODING, Charset, ContentDisposition, DispositionParam, DispositionType,
    ExtendedValue,
};
use actix_web::web::{self, Bytes};
use actix_web::{HttpRequest, HttpResponse, get, post};
use serde::{Deserialize, Serialize};
use tokio::sync::OwnedSemaphorePermit;
use tokio::sync::mpsc::{Sender, channel};
use utoipa::{IntoParams, ToSchema};
use utoipa_actix_web::service_config::ServiceConfig;

use super::answer::{EndLine, EntryLine};
use super::ops;
use super::read::{Bounds, Format};
use super::runner::{self, Import};
use crate::app::App;
use crate::ctx::{self, Ctx};
use crate::error::{Code, Error, Result};
use crate::files::ops::MAX_CONTENTS;
use crate::http::auth::{Read as MayRead, Write};
use crate::http::query::Query;
use crate::http::{body, json};
use crate::path::FolderPath;

/// Media types that an archive may be sent as. Which it is, its bytes tell.
const ARCHIVES: &[&str] = &[
    "application/gzip",
    "application/octet-stream",
    "application/x-compressed-tar",
    "application/x-gtar",
    "application/x-gzip",
    "application/x-tar",
    "application/x-tar+gzip",
    "application/x-zip-compressed",
    "application/zip",
];

/// Bytes of an export that are handed to the connection at once.
const PIECE: usize = 64 << 10;

/// Registers the operations.
pub fn configure(config: &mut ServiceConfig) {
    config.service(import_slate).service(export_slate);
}

/// How an archive is loaded.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
struct HowToImport {
    /// The folder that the archive's paths are from.
    #[param(value_type = String, example = "docs")]
    folder: FolderPath,
    /// Read the front matter of Markdown as metatags, where the archive is no export.
    #[param(value_type = bool, default = false)]
    front_matter: bool,
}

/// A line of the answer.
#[derive(ToSchema)]
#[serde(untagged)]
#[allow(dead_code, reason = "it describes JSON")]
enum ImportLine {
    /// The answer to an entry.
    Entry(EntryLine),
    /// The last line.
    End(EndLine),
}

/// Load an archive
///
/// The body is a `.tar.gz`, a `.tar` or a `.zip`. What `export` made is restored with metatags, settings and empty folders.
/// The answer has a line for each entry as it is loaded, `{entry, path, status, version}` or `{entry, path, error}`, and a
/// last one, `{"end": {…}}`. A bad entry is reported and the rest go on. Refused are names that leave the root or are not
/// UTF-8, links, devices, pipes, sparse files, encrypted entries, and a path that an entry before had. An archive that
/// unpacks to more than it may, or ends early, is loaded up to there. The same bytes write nothing, so a load that was
/// interrupted is resumed by sending the archive again.
#[utoipa::path(operation_id = "import_slate", tag = "slates",
    params(("slate" = String, Path, description = "The slate's name", example = "Knowledge"), HowToImport),
    request_body(description = "The archive", content(
        (Vec<u8> = "application/gzip", example = json!("(bytes)")),
        (Vec<u8> = "application/x-tar", example = json!("(bytes)")),
        (Vec<u8> = "application/zip", example = json!("(bytes)")))),
    responses((status = 200, description = "A line for each entry, and one at the end", content(
        (ImportLine = "application/x-ndjson")))))]
#[post("/slates/{slate}/import")]
async fn import_slate(
    Write(ctx): Write,
    app: web::Data<App>,
    slate: web::Path<String>,
    req: HttpRequest,
    Query(how): Query<HowToImport>,
    payload: web::Payload,
) -> Result<HttpResponse> {
    let slate = slate.into_inner();
    // What concerns the whole is refused before the body is read.
    let (caller, name) = (ctx.clone(), slate.clone());
    app.db.tenant(ctx.tenant, move |tx| ops::check(tx, &caller, &name)).await?;
    if json::media_type(&req).is_some_and(|kind| !ARCHIVES.contains(&kind.as_str())) {
        return Err(no_archive());
    }
    let permit = admit(&app)?;
    let (mut file, size) =
        body::spool(&req, &mut payload.into_inner(), app.archives.max_import_bytes).await?;
    let format = format(&mut file)?;
    let bounds = Bounds {
        unpacked: app.archives.max_import_unpacked_bytes,
        entries: app.archives.max_import_entries,
        file: MAX_CONTENTS as u64,
    };
    let import = Import { slate, folder: how.folder, front_matter: how.front_matter, bounds };
    let (answers, receiver) = channel(1);
    on_a_thread(permit, move || {
        // A client that has gone reads no answers; what it sent is loaded all the same.
        let mut answer = |lines: Vec<EntryLine>| drop(answers.blocking_send(ndjson(&lines)));
        let loaded = runner::import(&app.db, &ctx, &import, file, size, format, &mut answer);
        let last = match loaded {
            Ok(end) => ndjson(&[EndLine { end }]),
            Err(error) => ndjson(&[EntryLine::new(0, None).failed(&error)]),
        };
        let _ = answers.blocking_send(last);
    })?;
    let mut response = HttpResponse::Ok();
    // Compressed, lines would wait for others to fill a block.
    response.insert_header((CONTENT_ENCODING, "identity"));
    Ok(response.content_type("application/x-ndjson").streaming(body::stream(receiver)))
}

fn no_archive() -> Error {
    Error::new(
        Code::UnsupportedMediaType,
        "send a .tar.gz as Content-Type: application/gzip, or a .zip as application/zip",
    )
}

fn format(file: &mut File) -> Result<Format> {
    let mut start = Vec::new();
    file.take(512).read_to_end(&mut start).map_err(Error::internal)?;
    file.rewind().map_err(Error::internal)?;
    Format::detect(&start).ok_or_else(no_archive)
}

fn admit(app: &App) -> Result<OwnedSemaphorePermit> {
    let busy = |_| Error::new(Code::Overloaded, "too many archives are being imported and exported");
    app.archive_permits.clone().try_acquire_owned().map_err(busy)
}

/// Works apart from the threads that take requests and those that wait for the database.
fn on_a_thread(permit: OwnedSemaphorePermit, work: impl FnOnce() + Send + 'static) -> Result<()> {
    let span = tracing::Span::current();
    let work = move || {
        let _permit = permit;
        span.in_scope(work);
    };
    thread::Builder::new().name("archive".into()).spawn(work).map(drop).map_err(Error::internal)
}

fn ndjson<T: Serialize>(lines: &[T]) -> Bytes {
    let mut text = Vec::new();
    for line in lines {
        // Lines are plain structures, which always serialize.
        if serde_json::to_writer(&mut text, line).is_ok() {
            text.push(b'\n');
        }
    }
    text.into()
}

/// What is exported.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
struct WhatToExport {
    /// The folder; paths in the archive are from there. The whole slate where it is not given.
    #[param(value_type = String, example = "docs")]
    folder: FolderPath,
    /// What is sensitive or denied too. Needs a key with the scope `admin` beside `read`.
    #[param(value_type = bool, default = false)]
    hidden: bool,
}

/// Export a slate
///
/// A `.tar.gz` that any program unpacks, and that `import` restores exactly into an empty slate: bytes, metatags with their
/// types, authority, sensitive marks, media types, what the source says of itself, folders, and the slate's settings. These
/// stand in extended headers, under keys that begin with `SLATEBASE.`. Former versions are not in it. Sensitive and denied
/// files are left out, and counted in the record `SLATEBASE.end` of the last entry, unless `hidden` takes them in. A file
/// that is neither renamed, made nor deleted meanwhile is in it exactly once.
#[utoipa::path(operation_id = "export_slate", tag = "slates",
    params(("slate" = String, Path, description = "The slate's name", example = "Knowledge"), WhatToExport),
    responses((status = 200, description = "The archive", content_type = "application/gzip", body = Vec<u8>,
               example = json!("(bytes)"))))]
#[get("/slates/{slate}/export")]
async fn export_slate(
    MayRead(ctx): MayRead,
    app: web::Data<App>,
    slate: web::Path<String>,
    Query(what): Query<WhatToExport>,
) -> Result<HttpResponse> {
    if what.hidden {
        ctx.require(ctx::Scope::Admin)?;
    }
    let scope = ops::Scope { slate: slate.into_inner(), folder: what.folder, hidden: what.hidden };
    let (caller, asked) = (ctx.clone(), scope.clone());
    app.db.tenant(ctx.tenant, move |tx| ops::settings(tx, &caller, &asked).map(drop)).await?;
    let permit = admit(&app)?;
    let name = format!("{}.tar.gz", scope.folder.name().map_or(scope.slate.clone(), String::from));
    let (pieces, receiver) = channel(1);
    on_a_thread(permit, move || export(&app, &ctx, &scope, pieces))?;
    let disposition = ContentDisposition {
        disposition: DispositionType::Attachment,
        parameters: vec![DispositionParam::FilenameExt(ExtendedValue {
            charset: Charset::Ext("UTF-8".into()),
            language_tag: None,
            value: name.into_bytes(),
        })],
    };
    let mut response = HttpResponse::Ok();
    response.insert_header((CONTENT_DISPOSITION, disposition)).insert_header((CONTENT_ENCODING, "identity"));
    Ok(response.content_type("application/gzip").streaming(body::stream(receiver)))
}

/// An export that fails ends in the middle, which no program takes for the whole.
fn export(app: &App, ctx: &Ctx, scope: &ops::Scope, pieces: Sender<Bytes>) {
    let out = io::BufWriter::with_capacity(PIECE, Pieces(pieces));
    if let Err(error) = runner::export(&app.db, ctx, scope, out) {
        tracing::warn!(%error, source = ?error.source, "an export ended early");
    }
}

/// Writes to the connection, piece by piece.
struct Pieces(Sender<Bytes>);

impl io::Write for Pieces {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self.0.blocking_send(Bytes::copy_from_slice(bytes)) {
            Ok(()) => Ok(bytes.len()),
            Err(_) => Err(io::ErrorKind::BrokenPipe.into()),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
