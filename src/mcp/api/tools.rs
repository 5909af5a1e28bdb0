//! The tools of `/mcp`: a line each in [`ALL`]; what they do is in `reading` and `writing`.

mod reading;
mod writing;

use std::sync::{Arc, LazyLock};

use futures_util::future::BoxFuture;
use rmcp::model::{CallToolResult, JsonObject, Tool, ToolAnnotations};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::{answer, schemas};
use crate::app::App;
use crate::ctx::{Ctx, Scope};
use crate::error::{Error, Result};
use crate::http::json;
use crate::path::FolderPath;

/// What a tool does: given the arguments of a call, its structured content.
type Work = fn(App, Ctx, Value) -> BoxFuture<'static, Result<Value>>;

/// Whether a tool changes anything, and how.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Effect {
    /// It reads.
    Reads,
    /// It reads, possibly at other hosts.
    ReadsAnywhere,
    /// It writes; what was there before stays as a version.
    Writes,
    /// It takes away.
    Destroys,
}

/// What a tool gives.
enum Gives {
    /// What this operation of the API gives.
    Operation(&'static str),
    /// This.
    Schema(fn() -> Value),
}

/// A tool, as it is written down.
struct Definition {
    name: &'static str,
    title: &'static str,
    description: &'static str,
    /// The scopes of which a key needs one.
    rights: &'static [Scope],
    effect: Effect,
    input: fn() -> Value,
    gives: Gives,
    work: Work,
}

/// A tool that is served.
pub(super) struct Served {
    rights: &'static [Scope],
    work: Work,
    tool: Tool,
}

static ALL: LazyLock<Vec<Served>> =
    LazyLock::new(|| reading::TOOLS.iter().chain(writing::TOOLS).map(Served::new).collect());

impl Served {
    fn new(definition: &Definition) -> Served {
        let Definition { name, title, description, rights, effect, input, gives, work } = definition;
        let reads = matches!(effect, Effect::Reads | Effect::ReadsAnywhere);
        let annotations = ToolAnnotations::with_title(*title)
            .read_only(reads)
            .destructive(*effect == Effect::Destroys)
            .idempotent(true)
            .open_world(*effect == Effect::ReadsAnywhere);
        let mut tool =
            Tool::new(*name, *description, object(input())).with_title(*title).with_annotations(annotations);
        let output = match gives {
            Gives::Operation(id) => schemas::output(id),
            Gives::Schema(schema) => Some(schemas::whole(schema())),
        };
        if let Some(output) = output {
            tool = tool.with_raw_output_schema(Arc::new(output));
        }
        Served { rights, work: *work, tool }
    }

    fn open_to(&self, ctx: &Ctx) -> bool {
        self.rights.iter().any(|scope| ctx.scopes.contains(scope))
    }
}

/// The tools that a key may call.
pub(super) fn of(ctx: &Ctx) -> Vec<Tool> {
    ALL.iter().filter(|served| served.open_to(ctx)).map(|served| served.tool.clone()).collect()
}

/// The tool of this name, where the key may call it.
pub(super) fn find(ctx: &Ctx, name: &str) -> Option<&'static Served> {
    ALL.iter().find(|served| served.tool.name == name && served.open_to(ctx))
}

impl Served {
    /// Calls it.
    pub async fn call(&self, app: &App, ctx: &Ctx, arguments: JsonObject) -> CallToolResult {
        let done = (self.work)(app.clone(), ctx.clone(), Value::Object(arguments)).await;
        answer::result(ctx, done, &self.tool.input_schema)
    }
}

/// The arguments of a call.
fn read<T: DeserializeOwned>(arguments: Value) -> Result<T> {
    json::from_value(arguments)
}

/// The folder at a path, written as an index prints it or without its last `/`; `at` is the argument's pointer.
pub(super) fn folder_at(path: &str, at: impl Into<String>) -> Result<FolderPath> {
    FolderPath::parse_entry(path).map_err(|error| Error::invalid_at(at, error.to_string()))
}

fn give<T: serde::Serialize>(value: T) -> Result<Value> {
    serde_json::to_value(value).map_err(Error::internal)
}

fn object(value: Value) -> JsonObject {
    match value {
        Value::Object(members) => members,
        _ => JsonObject::default(),
    }
}

/// The schema of an input: its members, and which of them are needed.
fn takes(properties: Value, required: &[&str]) -> Value {
    json!({"type": "object", "properties": properties, "required": required, "additionalProperties": false})
}

fn slate() -> Value {
    json!({"type": "string", "description": "The slate's name, as `list_slates` tells it; case-sensitive."})
}

fn folder() -> Value {
    json!({"type": "string", "description": "The folder's path from the slate's root; left out, the root."})
}

fn recursive() -> Value {
    json!({"type": "boolean", "description": "Whether the folders below are looked at as well; false where it is left out."})
}

fn limit() -> Value {
    json!({"type": "integer", "minimum": 1, "maximum": 1000, "description": "Items on the page; 100 where it is left out."})
}

fn cursor() -> Value {
    json!({"type": "string", "description": "The `next_cursor` of the page before; left out, the first page."})
}
