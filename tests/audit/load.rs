//! A large tenant, made fast: some hundreds of files are written through the API, and then SQL makes the others of them.
//!
//! No column is named here that is not changed: the columns of a table are asked of the catalogue, and what a copied row
//! says otherwise is what its original says. So a column more does not matter.

use diesel::connection::SimpleConnection;
use diesel::prelude::*;
use diesel::sql_types::{Array, Text};
use serde_json::{Map, Value, json};

use crate::support::{Caller, Server};

/// Files of the large tenant.
pub const FILES: usize = 50_000;
/// Files of the small one.
const FEW: usize = 300;
/// Sessions, keys, tenants and entries of each kind: more than a page has, and more than may be thrown away.
const MANY: usize = 1_200;

/// How the files lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tree {
    /// In 400 folders of 20.
    Wide,
    /// In 14 chains of 60 folders.
    Deep,
    /// In one folder.
    Flat,
    /// As the small tenant's do.
    Few,
}

impl Tree {
    /// How many files are written through the API, of which the others are copies. The file `n` lies where the file
    /// `n % originals` lies.
    fn originals(self) -> usize {
        match self {
            Tree::Wide => 400,
            Tree::Deep => 840,
            Tree::Flat => 250,
            Tree::Few => FEW,
        }
    }

    fn folder(self, n: usize) -> String {
        match self {
            Tree::Wide => format!("d{}/s{}", n % 20, n / 20 % 20),
            Tree::Deep => {
                let chain = (1..=n / 14 % 60).map(|level| format!("/l{level}")).collect::<String>();
                format!("c{}{chain}", n % 14)
            }
            Tree::Flat => "all".to_owned(),
            Tree::Few => format!("d{}/s{}", n % 2, n / 2 % 3),
        }
    }

    pub fn path(self, n: usize) -> String {
        format!("{}/f{n:06}.md", self.folder(n))
    }
}

/// Contents and metatags of a file. `rank` and `serial` are its own; the others repeat.
fn file(n: usize) -> Value {
    let label = if n % 200 == 7 { json!("quetzal") } else { Value::Null };
    let mut tags = json!({"category": format!("c{}", n % 50), "topics": [format!("t{}", n % 125), format!("u{}", n % 7)],
        "ok": n.is_multiple_of(2), "rank": n, "serial": format!("serial {n}")});
    if !label.is_null() {
        tags["label"] = label;
    }
    json!({"content": format!("# Title {n}\n\nSome words of number {n}, and what is common.\n\n").repeat(1 + n % 20),
           "metatags": tags})
}

/// A database with the tenants `big` and `small`, both with a slate `Docs`, and keys of theirs.
pub struct Loaded {
    pub server: Server,
    pub big: Caller,
    pub small: Caller,
}

pub async fn load(tree: Tree) -> Loaded {
    let server = Server::start().await;
    let big = server.tenant("big").await;
    let small = server.tenant("small").await;
    let originals = tree.originals();
    fill(&server, &big, (0..originals).map(|n| (tree.path(n), file(n)))).await;
    fill(&server, &small, (0..FEW).map(|n| (Tree::Few.path(n), file(n)))).await;
    if tree == Tree::Flat {
        let few =
            ["side", "other"].map(|folder| (0..200).map(move |n| (format!("{folder}/f9{n:05}.md"), file(n))));
        fill(&server, &big, few.into_iter().flatten()).await;
    }
    entries(&big).await;
    session(&big).await;
    let mut superuser = server.superuser();
    tokio::task::spawn_blocking(move || multiply(&mut superuser, originals)).await.unwrap();
    Loaded { server, big, small }
}

async fn fill(server: &Server, caller: &Caller, files: impl Iterator<Item = (String, Value)>) {
    server.fill(caller, "Docs", Value::Object(files.collect::<Map<_, _>>())).await;
}

/// One of each that a tenant has by name.
async fn entries(caller: &Caller) {
    let api = json!({"base_url": "https://api.example"});
    let database = json!({"connection": {"host": "db.example", "dbname": "d", "user": "u"}});
    for (path, body) in [
        ("/v1/secrets/x", json!({"value": "hush"})),
        ("/v1/sources/apis/x", api),
        ("/v1/sources/databases/x", database),
        ("/v1/catalog/corpora/x", json!({"url": "slate:Elsewhere/x"})),
        ("/v1/catalog/routes/x/1", json!({})),
        ("/v1/catalog/capabilities/x/1", json!({})),
    ] {
        caller.put(path).json(body).await.expect(201);
    }
    let key = [("idempotency-key", "x")];
    let request = caller.post("/v1/slates/Docs/files").json(json!({"path": "x.md", "content": "x"}));
    request.header(key[0].0, key[0].1).await.expect(201);
}

/// A session that has ended.
async fn session(caller: &Caller) {
    let properties = json!({"files": {"type": "array"}, "glob": {"type": "string"}});
    let retrieve = json!({"to": {"slate": "Docs", "folder": ""}, "as": "Docs", "maxRounds": 3, "recursive": true,
        "requestMatch": {"type": "object", "properties": properties}});
    let opened = caller.post("/v1/sessions").json(json!({"retrieve": retrieve})).await.ok(201);
    let path = format!("/v1/sessions/{}/rounds", opened["session_id"].as_str().unwrap());
    for output in [json!({"glob": "f00000*"}), json!("It is 42.")] {
        caller.post(&path).json(json!({"output": output})).await.expect(200);
    }
}

#[derive(QueryableByName)]
struct Table {
    #[diesel(sql_type = Text)]
    name: String,
    /// Those that are neither generated nor numbered by the table itself.
    #[diesel(sql_type = Array<Text>)]
    columns: Vec<String>,
}

fn tables(superuser: &mut PgConnection) -> Vec<Table> {
    diesel::sql_query(
        "select c.relname::text as name, array_agg(a.attname::text order by a.attnum) filter
                    (where a.attgenerated = '' and (a.attidentity = '' or c.relname = 'file_ids')) as columns
         from pg_class c join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
         where c.relkind = 'r' and c.relnamespace = 'public'::regnamespace and c.relname not like '\\_\\_%'
         group by c.relname order by c.relname",
    )
    .load(superuser)
    .unwrap()
}

/// Inserts copies of rows of a table: `from` names the rows as `x` and what they are copied by, `changed` what differs.
fn copy(superuser: &mut PgConnection, table: &Table, from: &str, changed: &[(&str, &str)]) {
    let values = table.columns.iter().map(|column| {
        let change = changed.iter().find(|(name, _)| name == column);
        change.map_or(format!("x.\"{column}\""), |(_, value)| (*value).to_owned())
    });
    let values: Vec<String> = values.collect();
    let sql = format!(
        "insert into {} (\"{}\") overriding system value select {} from {} x {from}",
        table.name,
        table.columns.join("\", \""),
        values.join(", "),
        table.name
    );
    superuser.batch_execute(&sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
}

fn multiply(superuser: &mut PgConnection, originals: usize) {
    no_autovacuum(superuser);
    let indexes = gin_indexes(superuser);
    superuser.batch_execute("set session_replication_role = replica; set work_mem = '64MB'").unwrap();
    indexes.iter().for_each(|(name, _)| superuser.batch_execute(&format!("drop index {name}")).unwrap());
    superuser
        .batch_execute(&format!(
            "create temporary table large as select id from tenants where name = 'big';
             create temporary table g as
               select f.tenant_id, f.id as file_id, 1000000 + n as id, n, 'f' || lpad(n::text, 6, '0') || '.md' as name,
                      left(f.path, -length(f.name)) || 'f' || lpad(n::text, 6, '0') || '.md' as path
               from generate_series({originals}, {FILES} - 1) n
               join files f on f.name = 'f' || lpad((n % {originals})::text, 6, '0') || '.md'
               where f.tenant_id = (select id from large);
             create index on g (file_id);
             analyze g;"
        ))
        .unwrap();
    let tables = tables(superuser);
    let named = |name: &str| tables.iter().find(|table| table.name == name).unwrap();

    // Terms of what differs from file to file.
    for (key, kind, term) in [("serial", "t", "'serial ' || g.n"), ("rank", "v", "g.n::text")] {
        let from = format!(
            "join tag_keys k on k.tenant_id = x.tenant_id and k.id = x.key_id and k.name = '{key}' cross join g \
             where x.tenant_id = (select id from large) and x.kind = '{kind}' \
               and x.term = {}",
            term.replace("g.n", "7")
        );
        let digest = format!("substr(sha256(convert_to({term}, 'UTF8')), 1, 16)");
        copy(superuser, named("tag_terms"), &from, &[("term", term), ("digest", &digest)]);
    }
    superuser
        .batch_execute(&format!(
            "analyze tag_terms;
             create temporary table own as
               select t.id, t.kind, t.term from tag_terms t
               join tag_keys k on k.tenant_id = t.tenant_id and k.id = t.key_id
               where t.tenant_id = (select id from large)
                 and (k.name = 'serial' and t.kind = 't' or k.name = 'rank' and t.kind = 'v');
             create index on own (term);
             create temporary table swaps as
               select g.id, array_agg(old.id) as old, array_agg(new.id) as new from g
               cross join lateral (values ('serial '), ('')) as w (word)
               join own old on old.term = w.word || g.n % {originals}
               join own new on new.term = w.word || g.n and new.kind = old.kind
               group by g.id;
             create index on swaps (id); analyze swaps;"
        ))
        .unwrap();

    for table in &tables {
        let columns: Vec<&str> = table.columns.iter().map(String::as_str).collect();
        let identity = match &table.name[..] {
            "files" | "file_ids" => "id",
            "passages" | "session_context" => continue,
            _ if columns.contains(&"file_id") => "file_id",
            _ => continue,
        };
        let from = format!(
            "join g on g.tenant_id = x.tenant_id and g.file_id = x.{identity} join swaps s on s.id = g.id"
        );
        let tags = "x.tags || jsonb_build_object('rank', g.n, 'serial', 'serial ' || g.n)";
        let terms = "array(select t from unnest(x.term_ids || s.new) t where t <> all(s.old) order by t)";
        let changed =
            [(identity, "g.id"), ("name", "g.name"), ("path", "g.path"), ("tags", tags), ("term_ids", terms)];
        copy(superuser, table, &from, &changed);
    }
    superuser.batch_execute("select setval(pg_get_serial_sequence('file_ids', 'id'), 2000000)").unwrap();

    // Sessions, and whatever is theirs.
    superuser
        .batch_execute(&format!(
            "create temporary table m as select s.id as old, gen_random_uuid() as id from sessions s, generate_series(1, {MANY}); \
             create index on m (old)"
        ))
        .unwrap();
    for table in tables.iter().filter(|table| table.name != "run_queue") {
        let of_sessions = table.name == "sessions";
        if of_sessions || table.columns.iter().any(|column| column == "session_id") {
            let column = if of_sessions { "id" } else { "session_id" };
            let changed: &[(&str, &str)] = if of_sessions {
                &[("id", "m.id")]
            } else {
                &[("session_id", "m.id"), ("id", "gen_random_uuid()")]
            };
            copy(superuser, table, &format!("join m on m.old = x.{column}"), changed);
        }
    }
    let series = format!(", generate_series(1, {MANY}) i where x.tenant_id = (select id from large)");
    for (table, column) in [
        ("api_keys", "label"),
        ("idempotency_keys", "key"),
        ("corpora", "id"),
        ("catalog_versions", "id"),
        ("secrets", "name"),
        ("sources", "name"),
    ] {
        copy(superuser, named(table), &series, &[(column, "'m' || i")]);
    }
    let tenants = format!(", generate_series(1, {MANY}) i where x.id = (select id from large)");
    copy(superuser, named("tenants"), &tenants, &[("name", "'m' || i")]);
    let settings = ", tenants t where x.tenant_id = (select id from large) and t.name like 'm%'";
    copy(superuser, named("tenant_settings"), settings, &[("tenant_id", "t.id")]);
    indexes.iter().for_each(|(_, definition)| superuser.batch_execute(definition).unwrap());
    superuser.batch_execute("vacuum analyze").unwrap();
}

fn gin_indexes(superuser: &mut PgConnection) -> Vec<(String, String)> {
    #[derive(QueryableByName)]
    struct Index {
        #[diesel(sql_type = Text)]
        name: String,
        #[diesel(sql_type = Text)]
        definition: String,
    }
    let indexes: Vec<Index> = diesel::sql_query(
        "select indexrelid::regclass::text as name, pg_get_indexdef(indexrelid) as definition
         from pg_index i join pg_class c on c.oid = i.indexrelid join pg_am a on a.oid = c.relam
         where a.amname = 'gin' and c.relnamespace = 'public'::regnamespace",
    )
    .load(superuser)
    .unwrap();
    indexes.into_iter().map(|index| (index.name, index.definition)).collect()
}

/// Forgets all that was learned of the tables, but for what whoever fills them has learned as it goes.
pub fn forget_statistics(superuser: &mut PgConnection) {
    superuser
        .batch_execute(
            "set allow_system_table_mods = on;
             delete from pg_statistic s using pg_class c where c.oid = s.starelid and c.relnamespace = 'public'::regnamespace;
             delete from pg_statistic_ext_data;
             update pg_class set reltuples = -1, relpages = 0, relallvisible = 0
               where relkind = 'r' and relnamespace = 'public'::regnamespace;
             update pg_class set reltuples = 0, relpages = 0
               where relkind = 'i' and relnamespace = 'public'::regnamespace;
             select pg_stat_reset();
             select freshen_statistics();",
        )
        .unwrap();
}

/// Nobody looks after the tables but the service itself.
fn no_autovacuum(superuser: &mut PgConnection) {
    let all = tables(superuser);
    for table in all {
        superuser
            .batch_execute(&format!("alter table {} set (autovacuum_enabled = off)", table.name))
            .unwrap();
    }
}
