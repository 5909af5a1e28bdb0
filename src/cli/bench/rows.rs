//! What is measured: a row is one entry of [`ROWS`].

use serde_json::{Value, json};

use super::data::{BIG, Data, FEW, FIXED};
use super::load::{ROUTE, SLATE};

/// A query.
#[derive(Debug, Clone, Copy)]
pub struct Query {
    /// The declared folder.
    pub folder: &'static str,
    /// Whether it looks at the folders below as well.
    pub recursive: bool,
    /// Files on the page.
    pub limit: i64,
    /// The request.
    pub request: fn(Data) -> Value,
}

/// How a row asks.
#[derive(Debug, Clone, Copy)]
pub enum Ask {
    /// GET this path, below the slate.
    Get(fn(Data) -> String),
    /// POST of this body to this path.
    Post(&'static str, fn(Data) -> Value),
    /// POST of a query.
    Query(Query),
    /// A round of a session over [`BIG`] with this output; what an earlier round of it gave is not given again.
    Round(fn(Data) -> Value),
}

/// A row.
#[derive(Debug, Clone, Copy)]
pub struct Row {
    /// Its name.
    pub name: &'static str,
    /// How it asks.
    pub ask: Ask,
    /// A point read or a small query: it is held against `pgbench` with the same statements.
    pub small: bool,
}

const fn query(name: &'static str, folder: &'static str, limit: i64, request: fn(Data) -> Value) -> Row {
    Row { name, ask: Ask::Query(Query { folder, recursive: false, limit, request }), small: false }
}

const fn root(name: &'static str, limit: i64, request: fn(Data) -> Value) -> Row {
    Row { name, ask: Ask::Query(Query { folder: "", recursive: true, limit, request }), small: false }
}

const fn small(row: Row) -> Row {
    Row { small: true, ..row }
}

fn tag(name: &str, contains: &str) -> Value {
    json!({"metatag": {"name": name, "contains": contains}})
}

/// A number of a name in the middle of the large folder, as a glob of few matches.
fn infix(data: Data) -> String {
    let name = data.big_name(data.big() / 2);
    let digits: String = name.chars().filter(char::is_ascii_digit).collect();
    format!("*-{digits}*")
}

/// The rows, in the order in which they are measured.
pub const ROWS: &[Row] = &[
    Row {
        name: "read file",
        ask: Ask::Get(|data| format!("files/{BIG}/{}", data.big_name(11))),
        small: true,
    },
    small(query("exact name", BIG, 20, |data| json!({"files": [data.big_name(11)]}))),
    // At most twice the row before: the same file, through a query.
    Row {
        name: "retrieve, lines of that file",
        ask: Ask::Post("/v1/retrieve", |data| {
            json!({"target": {"slate": SLATE, "path": format!("{BIG}/{}", data.big_name(11))},
                   "constraints": {"lines": "1-3"}})
        }),
        small: true,
    },
    Row { name: "listing page of 100", ask: Ask::Get(|_| format!("folders/{BIG}?limit=100")), small: true },
    query("metatag miss", BIG, 20, |_| tag("label", "nowhere")),
    small(query("metatag rare", BIG, 20, |_| tag("label", "quetzal"))),
    query("metatag medium, page of 100", BIG, 100, |_| tag("label", "medium")),
    small(query("metatag common", BIG, 20, |_| tag("category", "general"))),
    query("metatag, two characters", BIG, 20, |_| tag("category", "ge")),
    small(query("string[]", BIG, 20, |_| tag("topics", "kerberos"))),
    small(query("metatag in a folder of 50", FEW, 50, |_| tag("category", "general"))),
    root("metatag rare, from the root", 20, |_| tag("label", "quetzal")),
    root("metatag medium, from the root", 100, |_| tag("label", "medium")),
    small(query("glob prefix", BIG, 20, |_| json!({"glob": "report-001*"}))),
    query("glob suffix", BIG, 20, |_| json!({"glob": "*.csv"})),
    query("glob infix", BIG, 20, |data| json!({"glob": infix(data)})),
    query("glob class", BIG, 20, |_| json!({"glob": "report-0[0-4]1*"})),
    query(
        "union",
        BIG,
        20,
        |data| json!({"metatag": {"name": "label", "contains": "quetzal"}, "glob": infix(data)}),
    ),
    query("where and, not", BIG, 20, |_| {
        json!({"where": {"all": [{"tag": "category", "eq": "security"}, {"not": {"tag": "archived"}},
            {"tag": "year", "gte": 2020}]}})
    }),
    query(
        "where or",
        BIG,
        20,
        |_| json!({"where": {"any": [{"tag": "label", "contains": "quetzal"}, {"tag": "topics", "has": "upgrade-4"}]}}),
    ),
    query(
        "where rare and glob",
        BIG,
        20,
        |_| json!({"where": {"all": [{"tag": "label", "eq": "quetzal crossing"}, {"name": {"glob": "doc-*"}}]}}),
    ),
    Row {
        name: "session round",
        ask: Ask::Round(
            |_| json!({"glob": "report-001*", "metatag": {"name": "label", "contains": "quetzal"}}),
        ),
        small: false,
    },
    Row {
        name: "gateway search, selective",
        ask: Ask::Post("/v1/search", |data| json!({"collection": BIG, "goal": (data.big() / 8).to_string()})),
        small: false,
    },
    Row {
        name: "gateway search, common, 2,500 files",
        ask: Ask::Post(
            "/v1/search",
            |_| json!({"collection": FIXED, "goal": "Which policy has the next release?"}),
        ),
        small: false,
    },
    Row {
        name: "prefetch over three corpora",
        ask: Ask::Post("/v1/sessions", |data| {
            let properties = json!({"files": {"type": "array"}});
            json!({"retrieve": {"to": {"slate": SLATE, "folder": FIXED}, "as": "Files", "maxRounds": 1,
                    "requestMatch": {"type": "object", "properties": properties}},
                "goal": (data.big() / 8).to_string(), "route": {"route_id": ROUTE, "route_version": "1"}})
        }),
        small: false,
    },
];

/// The rows of which growth is measured: the same folder and matches, whatever else the tenant has.
pub const GROWTH: &[Row] = &[
    query("exact name", FIXED, 20, |data| json!({"files": [data.big_name(11)]})),
    Row {
        name: "listing page of 100",
        ask: Ask::Get(|_| format!("folders/{FIXED}?limit=100")),
        small: false,
    },
    query("metatag rare", FIXED, 20, |_| tag("label", "quetzal")),
    query("metatag medium", FIXED, 50, |_| tag("label", "medium")),
    query("metatag common", FIXED, 20, |_| tag("category", "general")),
    query("string[]", FIXED, 20, |_| tag("topics", "kerberos")),
    query("glob prefix", FIXED, 20, |_| json!({"glob": "report-00*"})),
    query("glob infix", FIXED, 20, |data| {
        let digits: String = data.big_name(1000).chars().filter(char::is_ascii_digit).collect();
        json!({"glob": format!("*-{digits}*")})
    }),
    query(
        "where and, not",
        FIXED,
        20,
        |_| json!({"where": {"all": [{"tag": "category", "eq": "security"}, {"not": {"tag": "archived"}}]}}),
    ),
];

/// An HTTP request.
#[derive(Debug, Clone, PartialEq)]
pub enum Call {
    /// GET a path.
    Get(String),
    /// POST a body to a path.
    Post(String, Value),
    /// Rounds of a session: the body that opens it, and the body of each round.
    Rounds(Value, Value),
}

impl Row {
    /// What a client sends.
    pub fn call(&self, data: Data) -> Call {
        let slate = format!("/v1/slates/{SLATE}");
        match self.ask {
            Ask::Get(path) => Call::Get(format!("{slate}/{}", path(data))),
            Ask::Post(path, body) => Call::Post(path.into(), body(data)),
            Ask::Query(Query { folder, recursive, limit, request }) => Call::Post(
                format!("{slate}/query"),
                json!({"folder": folder, "recursive": recursive, "limit": limit, "request": request(data)}),
            ),
            Ask::Round(output) => {
                let properties = json!({"glob": {"type": "string"}, "metatag": {"type": "object"}});
                let opening = json!({"retrieve": {"to": {"slate": SLATE, "folder": BIG}, "as": "Files", "maxRounds": 100,
                    "limits": {"maxFilesPerRound": 20}, "requestMatch": {"type": "object", "properties": properties}}});
                Call::Rounds(opening, json!({"output": output(data)}))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::item::Mode;
    use crate::retrieval::request::parse;

    #[test]
    fn names_are_distinct_and_requests_sound() {
        let data = Data { files: 1000, seed: 1 };
        for rows in [ROWS, GROWTH] {
            let names: std::collections::BTreeSet<&str> = rows.iter().map(|row| row.name).collect();
            assert_eq!(names.len(), rows.len());
            for row in rows {
                let request = match row.ask {
                    Ask::Query(query) => (query.request)(data),
                    Ask::Round(output) => output(data),
                    Ask::Get(_) | Ask::Post(..) => continue,
                };
                let parsed = parse(request.as_object().unwrap(), Mode::ALL, "");
                assert!(parsed.errors.is_empty() && parsed.shape.is_empty(), "{}: {parsed:?}", row.name);
                assert!(parsed.ignored.is_empty() && !parsed.request.is_empty(), "{}", row.name);
            }
        }
    }
}
