//! Tools that write, for keys with the scope `write`.

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{Definition, Effect, Gives, folder_at, give, read, slate, takes};
use crate::app::App;
use crate::ctx::{Ctx, Scope};
use crate::error::{Error, Result};
use crate::files::head::FileView;
use crate::files::ops::{self, Change, MAX_CONTENTS, Write as WriteFile, tagging};
use crate::folders;
use crate::metatags::Tags;
use crate::path::FilePath;
use crate::precondition::Preconditions;

const WRITE: &[Scope] = &[Scope::Write];

pub(super) const TOOLS: &[Definition] = &[
    Definition {
        name: "put_file",
        title: "Write a file",
        description: "Write a file's contents, and its metatags where they are given. What was there before stays as an earlier \
                      version; the same contents again make no new one. Folders above come into being.",
        rights: WRITE,
        effect: Effect::Writes,
        input: || {
            let members = json!({
                "slate": slate(),
                "path": path(),
                "content": {"type": "string", "description": "The contents as text; or else `content_base64`."},
                "content_base64": {"type": "string", "description": "The contents as bytes in base64; or else `content`."},
                "media_type": {"type": "string", "description": "The media type; left out, told by the name."},
                "metatags": {"type": "object", "description": "All metatags, name to value; left out, those it has are kept."},
            });
            takes(members, &["slate", "path"])
        },
        gives: Gives::Operation("put_file"),
        work: |app, ctx, arguments| Box::pin(put_file(app, ctx, arguments)),
    },
    Definition {
        name: "set_metatags",
        title: "Set metatags",
        description: "Change some of a file's metatags: null removes one, an object merges member by member, everything else \
                      replaces. What is not named stays.",
        rights: WRITE,
        effect: Effect::Writes,
        input: || {
            let members = json!({
                "slate": slate(),
                "path": path(),
                "metatags": {"type": "object", "description": "Name to value: a string, an array of strings, a number, a boolean, an object, or null."},
            });
            takes(members, &["slate", "path", "metatags"])
        },
        gives: Gives::Schema(|| {
            gives(
                json!({"metatags": {"type": "object", "description": "The metatags as they are now."}}),
                &["metatags"],
            )
        }),
        work: |app, ctx, arguments| Box::pin(set_metatags(app, ctx, arguments)),
    },
    Definition {
        name: "move",
        title: "Move a file or a folder",
        description: "Move a file, or a folder with all below it, within its slate. It keeps its identity and history. The \
                      path of a folder ends in `/`.",
        rights: WRITE,
        effect: Effect::Writes,
        input: || {
            let members = json!({
                "slate": slate(),
                "from": {"type": "string", "description": "Its path from the slate's root; of a folder with a `/` at its end."},
                "to": {"type": "string", "description": "Its new path from the slate's root; folders above come into being."},
            });
            takes(members, &["slate", "from", "to"])
        },
        gives: Gives::Schema(|| {
            gives(json!({"path": {"type": "string", "description": "Where it is now."}}), &["path"])
        }),
        work: |app, ctx, arguments| Box::pin(relocate(app, ctx, arguments)),
    },
    Definition {
        name: "delete",
        title: "Delete a file or a folder",
        description: "Delete a file, or a folder. Versions can still be retrieved by citation for the slate's retention. The \
                      path of a folder ends in `/`; one that is not empty needs `recursive`.",
        rights: WRITE,
        effect: Effect::Destroys,
        input: || {
            let members = json!({
                "slate": slate(),
                "path": {"type": "string", "description": "Its path from the slate's root; of a folder with a `/` at its end."},
                "recursive": {"type": "boolean", "description": "Of a folder: delete all below it too; false where it is left out."},
            });
            takes(members, &["slate", "path"])
        },
        gives: Gives::Schema(|| {
            gives(json!({"deleted": {"type": "string", "description": "What is gone."}}), &["deleted"])
        }),
        work: |app, ctx, arguments| Box::pin(delete(app, ctx, arguments)),
    },
];

fn path() -> Value {
    json!({"type": "string", "description": "The file's path from the slate's root, such as `docs/core.md`."})
}

fn gives(properties: Value, required: &[&str]) -> Value {
    json!({"type": "object", "properties": properties, "required": required})
}

fn file(path: &str, at: &str) -> Result<FilePath> {
    FilePath::parse(path).map_err(|error| Error::invalid_at(at, error.to_string()))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Putting {
    slate: String,
    path: String,
    content: Option<String>,
    content_base64: Option<String>,
    media_type: Option<String>,
    metatags: Option<Map<String, Value>>,
}

async fn put_file(app: App, ctx: Ctx, arguments: Value) -> Result<Value> {
    let new: Putting = read(arguments)?;
    let contents = ops::contents_of(new.content, new.content_base64)?;
    if contents.len() > MAX_CONTENTS {
        return Err(Error::invalid_at("/content", format!("a file may have {MAX_CONTENTS} bytes")));
    }
    let tags = new.metatags.map(|tags| Tags::parse(tags, "/metatags")).transpose().map_err(Error::invalid)?;
    let (tags, nulls) = tags.unzip();
    let write =
        WriteFile { media_type: new.media_type, tags, ..WriteFile::new(file(&new.path, "/path")?, contents) };
    let slate = new.slate;
    let written =
        app.db.tenant(ctx.tenant, move |tx| ops::write_one(tx, &ctx, &slate, write.clone())).await?;
    give(FileView { null_metatags: nulls.unwrap_or_default(), ..FileView::from(written.head) })
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Tagging {
    slate: String,
    path: String,
    metatags: Map<String, Value>,
}

async fn set_metatags(app: App, ctx: Ctx, arguments: Value) -> Result<Value> {
    let Tagging { slate, path, metatags } = read(arguments)?;
    let path = file(&path, "/path")?;
    let set = app.db.tenant(ctx.tenant, move |tx| {
        tagging::set(tx, &ctx, &slate, &path, |_, before| {
            before.merge(metatags.clone(), "/metatags").map_err(Error::invalid)
        })
    });
    let (_, tags) = set.await?;
    Ok(json!({"metatags": tags}))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Moving {
    slate: String,
    from: String,
    to: String,
}

async fn relocate(app: App, ctx: Ctx, arguments: Value) -> Result<Value> {
    let Moving { slate, from, to } = read(arguments)?;
    let path = match from.ends_with('/') {
        true => {
            let (from, to) = (folder_at(&from, "/from")?, folder_at(&to, "/to")?);
            let moved =
                app.db.tenant(ctx.tenant, move |tx| folders::ops::relocate(tx, &ctx, &slate, &from, &to));
            format!("{}/", moved.await?.path)
        }
        false => {
            let (from, to) = (file(&from, "/from")?, file(&to, "/to")?);
            let change = Change { path: Some(to), ..Change::default() };
            let none = Preconditions::default();
            let moved =
                app.db.tenant(ctx.tenant, move |tx| ops::change(tx, &ctx, &slate, &from, &change, &none));
            moved.await?.path
        }
    };
    Ok(json!({"path": path}))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Deleting {
    slate: String,
    path: String,
    recursive: Option<bool>,
}

async fn delete(app: App, ctx: Ctx, arguments: Value) -> Result<Value> {
    let Deleting { slate, path, recursive } = read(arguments)?;
    let deleted = path.clone();
    if path.ends_with('/') {
        let (path, recursive) = (folder_at(&path, "/path")?, recursive.unwrap_or_default());
        let gone = app
            .db
            .tenant(ctx.tenant, move |tx| folders::ops::delete(tx, &ctx, &slate, &path, recursive, false));
        gone.await?;
    } else {
        let (path, none) = (file(&path, "/path")?, Preconditions::default());
        let gone = app.db.tenant(ctx.tenant, move |tx| ops::delete(tx, &ctx, &slate, &path, false, &none));
        gone.await?;
    }
    Ok(json!({"deleted": deleted}))
}
