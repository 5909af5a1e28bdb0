//! Tools that read.

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{
    Definition, Effect, Gives, cursor, folder, folder_at, give, limit, read, recursive, slate, takes,
};
use crate::app::App;
use crate::capability::citations::{ToCheck, ToResolve};
use crate::capability::request::Asked;
use crate::capability::{descriptor, runner};
use crate::corpora::ops::gateway;
use crate::ctx::{Ctx, Scope};
use crate::error::{Error, FieldError, Result};
use crate::http::page::{self, Limit, Page};
use crate::item::Mode;
use crate::retrieval::budget::Budget;
use crate::retrieval::facets::MAX_VALUES;
use crate::retrieval::found::After;
use crate::retrieval::ops::facets::{self, facets};
use crate::retrieval::ops::query::{self, Part, Query, Start};
use crate::retrieval::request;
use crate::{folders, slates};

/// Bytes of contents past which a page ends early: common clients take no more than 1 MiB at once, and contents are in it twice.
const PAGE_BYTES: i64 = 256 << 10;
/// Bytes that `read` gives at most, where the call does not say.
const READ_BYTES: u64 = 256 << 10;

const LOOK: &[Scope] = &[Scope::Read, Scope::Retrieve];
const RETRIEVE: &[Scope] = &[Scope::Retrieve];

pub(super) const TOOLS: &[Definition] = &[
    Definition {
        name: "list_slates",
        title: "List slates",
        description: "List the slates (knowledge bases) that you may read, by name. Begin here.",
        rights: LOOK,
        effect: Effect::Reads,
        input: || takes(json!({"limit": limit(), "cursor": cursor()}), &[]),
        gives: Gives::Operation("list_slates"),
        work: |app, ctx, arguments| Box::pin(list_slates(app, ctx, arguments)),
    },
    Definition {
        name: "browse",
        title: "Browse a folder",
        description: "List the files and folders directly in a folder of a slate: names and sizes in bytes. The name of a folder \
                      ends in `/`.",
        rights: LOOK,
        effect: Effect::Reads,
        input: || {
            let folder =
                "The folder's path from the slate's root, such as `docs/research`; left out, the root.";
            let members = json!({"slate": slate(), "folder": {"type": "string", "description": folder},
                "limit": limit(), "cursor": cursor()});
            takes(members, &["slate"])
        },
        gives: Gives::Operation("get_folder"),
        work: |app, ctx, arguments| Box::pin(browse(app, ctx, arguments)),
    },
    Definition {
        name: "read",
        title: "Read a file",
        description: "Read a file of a slate, or lines of it, with the citation that proves where it is from. Of a large file \
                      the first 256 KiB are given; `extraction.truncated` then says so, and `lines` gives the rest.",
        rights: RETRIEVE,
        effect: Effect::Reads,
        input: || {
            let lines = json!({"oneOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}, "minItems": 1}],
                "description": "Lines, from 1: `\"1-50\"`, `\"7\"`, `\"40-\"`, or an array of those; left out, all of it."});
            let members = json!({
                "slate": slate(),
                "path": {"type": "string", "description": "The file's path from the slate's root, such as `docs/core.md`."},
                "version": {"type": "integer", "minimum": 1, "description": "The version; left out, the newest."},
                "lines": lines,
                "max_bytes": {"type": "integer", "minimum": 1, "description": "Bytes to give at most; 262144 where it is left out."},
            });
            takes(members, &["slate", "path"])
        },
        gives: Gives::Schema(descriptor::output_schema),
        work: |app, ctx, arguments| Box::pin(read_file(app, ctx, arguments)),
    },
    Definition {
        name: "find",
        title: "Find files",
        description: "Find files of a folder by a metatag, by their names, or by a filter, and read them: the union of the modes \
                      that are given, each file once, with its contents and citation. At least one of `metatag`, `glob`, \
                      `where` and `files` is needed. `describe` tells which metatags there are.",
        rights: RETRIEVE,
        effect: Effect::Reads,
        input: find_input,
        gives: Gives::Operation("query_slate"),
        work: |app, ctx, arguments| Box::pin(find(app, ctx, arguments)),
    },
    Definition {
        name: "describe",
        title: "Describe a folder's metatags",
        description: "Tell which metatags the files of a folder have: names, types, how many files, and the most frequent \
                      values of texts. What `find` can then ask for.",
        rights: LOOK,
        effect: Effect::Reads,
        input: || {
            let members = json!({
                "slate": slate(),
                "folder": folder(),
                "recursive": recursive(),
                "values": {"type": "integer", "minimum": 0, "maximum": 100, "description": "Values told of each metatag; 10 where it is left out."},
                "limit": limit(),
                "cursor": cursor(),
            });
            takes(members, &["slate"])
        },
        gives: Gives::Operation("get_facets"),
        work: |app, ctx, arguments| Box::pin(describe(app, ctx, arguments)),
    },
    Definition {
        name: "search",
        title: "Search a corpus",
        description: "Search a published corpus for the passages that suit a question best; any of its words may match.",
        rights: RETRIEVE,
        effect: Effect::Reads,
        input: || {
            let members = json!({
                "corpus": {"type": "string", "description": "The id of a published corpus, or its index name."},
                "goal": {"type": ["string", "object"], "description": "What is sought: a text, or an object all of whose texts count. Left out, the first passages, in order."},
            });
            takes(members, &["corpus"])
        },
        gives: Gives::Operation("search_collection"),
        work: |app, ctx, arguments| Box::pin(search(app, ctx, arguments)),
    },
    Definition {
        name: "retrieve",
        title: "Retrieve one thing",
        description: "Fetch one identified thing of a file, the web, a registered API or a registered database, or a part of it, \
                      with citation, integrity, freshness and confidence. Where nothing can be got, `failure` tells why.",
        rights: RETRIEVE,
        effect: Effect::ReadsAnywhere,
        input: retrieve_input,
        gives: Gives::Schema(descriptor::output_schema),
        work: |app, ctx, arguments| Box::pin(retrieve(app, ctx, arguments)),
    },
    Definition {
        name: "check_quote",
        title: "Check a quote",
        description: "Say whether a text stands in what a citation cites, white space apart, and in which lines; or else where \
                      it stands. Use it before you quote.",
        rights: RETRIEVE,
        effect: Effect::ReadsAnywhere,
        input: || {
            let members = json!({
                "reference": {"type": "string", "description": "A citation, such as `slate://Knowledge/docs/core.md@3`."},
                "quote": {"type": "string", "maxLength": 65536, "description": "The text that is said to stand there."},
                "session_id": {"type": "string", "format": "uuid", "description": "A session whose other files are looked at too."},
            });
            takes(members, &["reference", "quote"])
        },
        gives: Gives::Operation("check_citation"),
        work: |app, ctx, arguments| Box::pin(check_quote(app, ctx, arguments)),
    },
    Definition {
        name: "resolve_citation",
        title: "Resolve a citation",
        description: "Fetch exactly what a citation cites again, and say whether it is what was cited: `verified`, `changed`, \
                      `gone` or `integrity_mismatch`.",
        rights: RETRIEVE,
        effect: Effect::ReadsAnywhere,
        input: || {
            let hash = "The hash that was given with it; needed for references other than `slate://`.";
            let members = json!({
                "reference": {"type": "string", "description": "A citation, such as `slate://Knowledge/docs/core.md@3#L1-50`."},
                "hash": {"type": "string", "description": hash},
            });
            takes(members, &["reference"])
        },
        gives: Gives::Operation("resolve_citation"),
        work: |app, ctx, arguments| Box::pin(resolve_citation(app, ctx, arguments)),
    },
];

fn find_input() -> Value {
    let filter = "A filter tree. A node is one of {\"all\": […]}, {\"any\": […]}, {\"not\": …}, {\"tag\": name} with any of the \
                  tests eq, ne, in, contains, starts_with, gt, gte, lt, lte, has and matches, {\"name\": {\"glob\": …}}, \
                  {\"modified\": {\"since\": …, \"before\": …}} and {\"size\": {\"gt\": …}}.";
    let metatag = json!({
        "type": "object",
        "properties": {
            "name": {"type": "string", "description": "The metatag's name."},
            "contains": {"type": "string", "description": "Literal text that its value, or an element of it, contains."},
        },
        "required": ["name"],
        "description": "Files that have a metatag: {\"name\": …, \"contains\": …}; without `contains`, whatever its value.",
    });
    let members = json!({
        "slate": slate(),
        "folder": folder(),
        "recursive": recursive(),
        "files": {"type": "array", "items": {"type": "string"}, "maxItems": 1000, "description": "Paths of files, from the folder."},
        "metatag": metatag,
        "glob": {"type": "string", "maxLength": 1024, "description": "Files whose name matches: `*` any sequence, `?` one character, `[a-z]` one of a class."},
        "where": {"type": "object", "description": filter},
        "limit": limit(),
        "cursor": cursor(),
    });
    takes(members, &["slate"])
}

fn retrieve_input() -> Value {
    let constraints = "What is wanted of it: `slate` (where a plain path is looked up), `version`, `lines`, `sections`, \
                       `filters` (JSONPath), `fields` (JSON Pointers), `schema`, `max_bytes`, `max_age` (seconds). Either \
                       lines and sections, or schema, filters and fields.";
    let target = "A path, a URL, a citation, {\"slate\", \"path\", \"version\"?}, {\"api\", \"path\", \"query\"?} or {\"database\", \
                  \"table\", \"key\"} or {\"database\", \"query\", \"params\"?}.";
    let members = json!({
        "target": {"type": ["string", "object"], "description": target},
        "source": {"type": "string", "enum": ["file", "web", "api", "database"], "description": "Where to read it; left out, inferred."},
        "format": {"type": "string", "enum": ["json", "yaml", "csv", "text", "binary"], "description": "The format that is expected; left out, detected."},
        "constraints": {"type": "object", "description": constraints},
    });
    takes(members, &["target"])
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Listing {
    #[serde(default)]
    limit: Option<Limit>,
    cursor: Option<String>,
}

async fn list_slates(app: App, ctx: Ctx, arguments: Value) -> Result<Value> {
    let Listing { limit, cursor } = read(arguments)?;
    let limit = limit.unwrap_or_default();
    let after: Option<String> = page::open(cursor.as_deref())?;
    let rows = app
        .db
        .tenant(ctx.tenant, move |tx| slates::ops::list(tx, &ctx, after.as_deref(), limit.rows()))
        .await?;
    give(Page::cut(rows, limit, |last| last.name.clone()))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Browsing {
    slate: String,
    folder: Option<String>,
    limit: Option<Limit>,
    cursor: Option<String>,
}

async fn browse(app: App, ctx: Ctx, arguments: Value) -> Result<Value> {
    let Browsing { slate, folder, limit, cursor } = read(arguments)?;
    let (path, limit) = (folder_at(&folder.unwrap_or_default(), "/folder")?, limit.unwrap_or_default());
    let after: Option<String> = page::open(cursor.as_deref())?;
    let indexed = app.db.tenant(ctx.tenant, move |tx| {
        folders::ops::index_at(tx, &ctx, &slate, &path, after.as_deref(), limit.rows())
    });
    let (path, rows) = indexed.await?;
    let Page { items, next_cursor } = Page::cut(rows, limit, |last| last.name.clone());
    give(json!({"path": path, "items": items, "next_cursor": next_cursor}))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Reading {
    slate: String,
    path: String,
    version: Option<u64>,
    lines: Option<Value>,
    max_bytes: Option<u64>,
}

async fn read_file(app: App, ctx: Ctx, arguments: Value) -> Result<Value> {
    let Reading { slate, path, version, lines, max_bytes } = read(arguments)?;
    let mut target = json!({"slate": slate, "path": path});
    if let Some(version) = version {
        target["version"] = version.into();
    }
    let mut constraints = Map::new();
    constraints.extend(lines.map(|lines| ("lines".to_owned(), lines)));
    constraints.insert("max_bytes".into(), max_bytes.unwrap_or(READ_BYTES).into());
    let sent = json!({"target": target, "constraints": constraints});
    let asked = Asked { target, source: None, format: None, constraints: Some(constraints) };
    let found = runner::retrieve(&app, &ctx, asked, sent).await.map_err(flat)?;
    give(found)
}

/// Errors of a retrieve, whose members `read` has at its top.
fn flat(mut error: Error) -> Error {
    for at in &mut error.errors {
        for nested in ["/constraints", "/target"] {
            if let Some(rest) = at.pointer.strip_prefix(nested) {
                at.pointer = rest.to_owned();
            }
        }
    }
    error
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Finding {
    slate: String,
    folder: Option<String>,
    recursive: Option<bool>,
    files: Option<Value>,
    metatag: Option<Value>,
    glob: Option<Value>,
    r#where: Option<Value>,
    limit: Option<Limit>,
    cursor: Option<String>,
}

async fn find(app: App, ctx: Ctx, arguments: Value) -> Result<Value> {
    let found: Finding = read(arguments)?;
    let folder = folder_at(&found.folder.unwrap_or_default(), "/folder")?;
    let modes =
        [("files", found.files), ("metatag", found.metatag), ("glob", found.glob), ("where", found.r#where)];
    let sent: Map<String, Value> =
        modes.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect();
    let parsed = request::parse(&sent, Mode::ALL, "");
    let mut errors: Vec<FieldError> = parsed.shape.into_iter().map(|(_, error)| error).collect();
    if sent.is_empty() {
        errors.push(FieldError::new("", "at least one of `metatag`, `glob`, `where` and `files` is needed"));
    }
    if !errors.is_empty() {
        return Err(Error::invalid(errors));
    }
    let query = Query {
        slate: found.slate,
        folder,
        recursive: found.recursive.unwrap_or_default(),
        request: parsed.request,
        sent: Value::Object(sent),
    };
    let digest = query.digest();
    let after = match page::open::<(String, After)>(found.cursor.as_deref())? {
        None => After::Asked(0),
        Some((of, after)) if of == digest => after,
        Some(_) => return Err(Error::invalid_at("/cursor", "is the cursor of another query")),
    };
    let start = Start::new(after, Budget::of_query(Default::default()));
    let limit = found.limit.unwrap_or_default().items();
    let part = Part { start, limit, bytes: PAGE_BYTES, ahead: 0 };
    let made = app.db.recording(ctx.tenant, move |tx| {
        let chosen = query::choose_page(tx, &ctx, &query, part.clone())?;
        query::give(tx, &ctx, &query, chosen)
    });
    let page = made.await?;
    let chosen = &page.gathered.chosen;
    let (next, truncated) = (chosen.next.as_ref().map(|start| &start.after), chosen.truncated);
    let next_cursor = next.map(|after| page::seal(&(digest, after)));
    give(
        json!({"items": page.items(), "truncated": truncated, "ignored": parsed.ignored, "errors": parsed.errors,
        "next_cursor": next_cursor}),
    )
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Describing {
    slate: String,
    folder: Option<String>,
    recursive: Option<bool>,
    values: Option<i64>,
    limit: Option<Limit>,
    cursor: Option<String>,
}

async fn describe(app: App, ctx: Ctx, arguments: Value) -> Result<Value> {
    let Describing { slate, folder, recursive, values, limit, cursor } = read(arguments)?;
    let (folder, limit, values) =
        (folder_at(&folder.unwrap_or_default(), "/folder")?, limit.unwrap_or_default(), values.unwrap_or(10));
    let recursive = recursive.unwrap_or_default();
    if !(0..=MAX_VALUES).contains(&values) {
        return Err(Error::invalid_at("/values", format!("must be 0 to {MAX_VALUES}")));
    }
    let after: Option<String> = page::open(cursor.as_deref())?;
    let asked =
        facets::Asked { slate, folder: folder.clone(), recursive, after, limit: limit.rows(), values };
    let found = app.db.tenant(ctx.tenant, move |tx| facets(tx, &ctx, &asked)).await?;
    let Page { items, next_cursor } = Page::cut(found.items, limit, |last| last.name.clone());
    give(
        json!({"folder": folder.as_str(), "recursive": recursive, "files": found.files, "complete": found.complete,
        "items": items, "next_cursor": next_cursor}),
    )
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Searching {
    corpus: String,
    goal: Option<Value>,
}

async fn search(app: App, ctx: Ctx, arguments: Value) -> Result<Value> {
    let Searching { corpus, goal } = read(arguments)?;
    let goal = goal.unwrap_or_else(|| json!({}));
    if !goal.is_string() && !goal.is_object() {
        return Err(Error::invalid_at("/goal", "must be a text or an object"));
    }
    let sent = json!({"collection": corpus, "goal": goal});
    let found = app.db.recording(ctx.tenant, move |tx| gateway::search(tx, &ctx, &corpus, &goal, &sent));
    let answer = found.await?;
    let mut given = json!({"chunks": answer.chunks});
    if let Some(record) = answer.record {
        given["record_id"] = json!(record);
    }
    Ok(given)
}

async fn retrieve(app: App, ctx: Ctx, arguments: Value) -> Result<Value> {
    let asked: Asked = read(arguments.clone())?;
    give(runner::retrieve(&app, &ctx, asked, arguments).await?)
}

async fn check_quote(app: App, ctx: Ctx, arguments: Value) -> Result<Value> {
    let asked: ToCheck = read(arguments)?;
    give(runner::check(&app, &ctx, asked).await?)
}

async fn resolve_citation(app: App, ctx: Ctx, arguments: Value) -> Result<Value> {
    let asked: ToResolve = read(arguments)?;
    give(runner::resolve(&app, &ctx, asked).await?)
}
