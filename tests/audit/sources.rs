//! The SQL in the sources, held against the statements that were executed.
//!
//! A statement is often put together of pieces, so pieces are what is looked for: string literals that hold SQL, cut where
//! a value is put in. Statements that the query builder makes are known by their kind and their table.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use diesel::prelude::*;
use diesel::sql_types::Text;
use proc_macro2::{Delimiter, TokenStream, TokenTree};
use regex::Regex;

use crate::log::in_one_line;

/// Shorter pieces stand in many statements.
const SHORTEST: usize = 12;

/// Sources whose statements are none of an operation's, and why.
const LEFT_OUT: &[(&str, &str)] = &[
    ("cli/bench/", "the benchmark's own, on a server of its own"),
    ("db/embedded/", "of the superuser, when the server starts"),
    ("db/measure.rs", "of the superuser, for the benchmark"),
    ("db/migrate.rs", "of the owner, when the schema changes"),
    ("db/remote.rs", "sent to databases of others"),
    ("db/roles.rs", "when a connection pool is made, over the catalogue of roles"),
    ("db/schema.rs", "generated, and no statement"),
];

/// Pieces of statements that no scenario brings about, and why.
const RARE: &[(&str, &str)] = &[
    (
        "raise exception 'statement timeout of the transaction'",
        "of a transaction that is stopped: there is no plan",
    ),
    (
        "where tenant_id = $1 and root_id = $2 order by path, position limit",
        "of a corpus of more than 40,000 passages",
    ),
    ("where v.tenant_id = $1 and v.blob = $2 order by s.name", "of contents that were altered"),
    ("select count(*) as files, 0::bigint as bytes from files where", "the benchmark's floor"),
];

/// A literal that holds SQL, cut where something is put in.
#[derive(Debug, Clone)]
struct Literal {
    place: String,
    pieces: Vec<String>,
}

/// A statement that the query builder makes.
#[derive(Debug, Clone)]
struct Built {
    place: String,
    /// How it begins in SQL, up to the table.
    start: Regex,
    words: String,
    /// It is surely sent as it is; else it may be the beginning of another one.
    sure: bool,
}

pub struct Sources {
    literals: Vec<Literal>,
    built: Vec<Built>,
    /// Functions of the database and their bodies.
    pub functions: BTreeMap<String, String>,
}

impl Sources {
    pub fn read() -> Sources {
        let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
        let mut sources = Sources { literals: Vec::new(), built: Vec::new(), functions: BTreeMap::new() };
        for file in rust_files(&src) {
            let name = file.strip_prefix(&src).unwrap().to_str().unwrap().to_owned();
            if LEFT_OUT.iter().any(|(out, _)| name.starts_with(out)) || name.ends_with("tests.rs") {
                continue;
            }
            let text = fs::read_to_string(&file).unwrap();
            let mut reader = Reader { name: &name, literals: Vec::new() };
            reader.walk(text.parse().unwrap(), false, false);
            sources.literals.extend(reader.literals);
            sources.built.extend(built(&name, &text));
        }
        sources
    }

    /// Where a statement is written, as well as can be told.
    pub fn of(&self, text: &str) -> String {
        if text.starts_with("SELECT 1 FROM ONLY") || text.starts_with("DELETE FROM ONLY") {
            return "a foreign key's own check".to_owned();
        }
        let length = |literal: &&Literal| -> usize {
            let all = literal.pieces.iter().all(|piece| text.contains(&piece[..]));
            if all { literal.pieces.iter().map(String::len).sum() } else { 0 }
        };
        let mut best: Vec<&Literal> = self.literals.iter().filter(|literal| length(literal) >= 20).collect();
        best.sort_by_key(|literal| std::cmp::Reverse(length(literal)));
        if let Some((name, _)) =
            self.functions.iter().find(|(_, body)| body.contains(text.trim_end_matches(';')))
        {
            return format!("the function {name}, in migrations/");
        }
        // Of one that is put together of pieces, several places are told.
        if let Some(first) = best.first() {
            let whole = length(first) * 2 > text.len();
            let mut places: Vec<&str> = Vec::new();
            for literal in best.iter().take(if whole { 1 } else { 12 }) {
                let file = literal.place.split(':').next();
                if places.len() < 4 && !places.iter().any(|place| place.split(':').next() == file) {
                    places.push(&literal.place);
                }
            }
            return places.join(", ");
        }
        let built = self.built.iter().filter(|built| built.start.is_match(text));
        let places: Vec<&str> = built.map(|built| &built.place[..]).take(6).collect();
        if places.is_empty() { "nowhere that is known".to_owned() } else { places.join(" or ") }
    }

    /// Whether a statement does nothing but call functions of the database.
    pub fn calls_function(&self, text: &str) -> bool {
        self.functions.keys().any(|name| text.contains(&format!("select {name}(")))
    }

    /// What stands in the sources and was not executed.
    pub fn missing(&self, statements: &BTreeSet<String>) -> Vec<String> {
        let mut missing = Vec::new();
        for literal in &self.literals {
            for piece in literal.pieces.iter().filter(|piece| piece.len() >= SHORTEST) {
                let rare = RARE.iter().any(|(rare, _)| piece.contains(rare));
                if !rare && !statements.iter().any(|text| text.contains(&piece[..])) {
                    missing.push(format!("{}: {piece}", literal.place));
                    break;
                }
            }
        }
        for built in self.built.iter().filter(|built| built.sure) {
            if !statements.iter().any(|text| built.start.is_match(text)) {
                missing.push(format!("{}: {}", built.place, built.words));
            }
        }
        for name in self.functions.keys() {
            let call = format!("{name}(");
            if !statements.iter().any(|text| text.contains(&call)) {
                missing.push(format!("migrations/: the function {name}"));
            }
        }
        missing.sort();
        missing.dedup();
        missing
    }
}

pub fn rust_files(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files.extend(rust_files(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    files.sort();
    files
}

struct Reader<'a> {
    name: &'a str,
    literals: Vec<Literal>,
}

impl Reader<'_> {
    /// `format` tells that the first literal is a format, `sql` that all of them are pieces of SQL.
    fn walk(&mut self, tokens: TokenStream, format: bool, sql: bool) {
        let tokens: Vec<TokenTree> = tokens.into_iter().collect();
        let mut first = format;
        let mut at = 0;
        while at < tokens.len() {
            match &tokens[at] {
                // An attribute; what is for tests only is left out.
                TokenTree::Punct(punct) if punct.as_char() == '#' => {
                    if let Some(TokenTree::Group(group)) = tokens.get(at + 1)
                        && group.delimiter() == Delimiter::Bracket
                    {
                        let text = group.stream().to_string().replace(' ', "");
                        at += 1;
                        if text == "cfg(test)" || text == "test" {
                            while at < tokens.len()
                                && !matches!(&tokens[at], TokenTree::Group(g) if g.delimiter() == Delimiter::Brace)
                            {
                                at += 1;
                            }
                        }
                    }
                }
                TokenTree::Group(group) => {
                    let before = |back: usize| at.checked_sub(back).map(|at| tokens[at].to_string());
                    let is_macro = before(1).as_deref() == Some("!");
                    let callee = if is_macro { before(2) } else { before(1) }.unwrap_or_default();
                    let formats = is_macro && ["format", "write", "writeln"].contains(&&callee[..]);
                    // `sql.push(…)`, and what is pushed after that.
                    let on = if callee == "push" { before(3) } else { None };
                    let pushes = on.is_some_and(|on| on == "sql" || on.starts_with('('))
                        && self.name.starts_with("retrieval/");
                    self.walk(group.stream(), formats, sql || pushes);
                }
                TokenTree::Literal(literal) => {
                    if let syn::Lit::Str(text) = syn::Lit::new(literal.clone()) {
                        self.take(&text.value(), literal.span().start().line, first, sql);
                        first = false;
                    }
                }
                _ => {}
            }
            at += 1;
        }
    }

    fn take(&mut self, text: &str, line: usize, format: bool, sql: bool) {
        if !(is_statement(text) || sql || self.name.contains("store") && is_piece(text)) {
            return;
        }
        let pieces = if format { cut(text) } else { vec![text.to_owned()] };
        let pieces: Vec<String> =
            pieces.iter().map(|piece| in_one_line(piece)).filter(|piece| piece.len() >= SHORTEST).collect();
        if !pieces.is_empty() {
            self.literals.push(Literal { place: format!("src/{}:{line}", self.name), pieces });
        }
    }
}

/// Whether a text begins as a statement does.
fn is_statement(text: &str) -> bool {
    let text = text.trim_start();
    let (word, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    match word {
        "select" | "insert" | "delete" | "begin;" => true,
        "update" => rest.contains(" set "),
        "with" => rest.contains(" as (") || rest.contains(" as materialized"),
        "set" => rest.starts_with("local "),
        "lock" => rest.starts_with("table "),
        "do" => rest.starts_with("$$"),
        _ => false,
    }
}

/// Whether a text in a store is a piece of a statement, and no message.
fn is_piece(text: &str) -> bool {
    let words =
        ["select ", " from ", " where ", " join ", " = $", "order by ", " limit ", "for update", "for share"];
    words.iter().any(|word| text.contains(word))
}

/// A format without what is put in.
fn cut(format: &str) -> Vec<String> {
    let mut pieces = vec![String::new()];
    let mut rest = format.chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            '{' if rest.next_if_eq(&'{').is_some() => pieces.last_mut().unwrap().push('{'),
            '}' if rest.next_if_eq(&'}').is_some() => pieces.last_mut().unwrap().push('}'),
            '{' => {
                while rest.next().is_some_and(|c| c != '}') {}
                pieces.push(String::new());
            }
            other => pieces.last_mut().unwrap().push(other),
        }
    }
    pieces
}

/// The statements of a file that the query builder makes.
fn built(name: &str, text: &str) -> Vec<Built> {
    let text = text.split("#[cfg(test)]").next().unwrap_or_default();
    let pattern = Regex::new(
        r"(?:(insert_into|update|delete)\(\s*(\w+)(::table)?|let (?:mut )?(\w+)(?::[^=]*)? =\s*(\w+)::table|(\w+)::table\s*\.)",
    )
    .unwrap();
    let renamed = Regex::new(r"(\w+) as (\w+)").unwrap();
    let renamed: BTreeMap<&str, &str> = renamed
        .captures_iter(text)
        .map(|captures| captures.extract().1)
        .map(|[table, name]| (name, table))
        .collect();
    let mut found = Vec::new();
    let mut named: BTreeMap<&str, &str> = BTreeMap::new();
    for captures in pattern.captures_iter(text) {
        let line = text[..captures.get(0).unwrap().start()].matches('\n').count() + 1;
        let group = |n: usize| captures.get(n).map(|found| found.as_str());
        let (kind, table, sure) = match (group(1), group(2)) {
            (Some(kind), Some(table)) if group(3).is_some() => (kind, table, true),
            (Some(kind), Some(variable)) => match named.get(variable) {
                Some(table) => (kind, *table, true),
                None => continue,
            },
            _ => match (group(4), group(5), group(6)) {
                (Some(variable), Some(table), _) => {
                    named.insert(variable, table);
                    ("select", table, false)
                }
                (_, _, Some(table)) => ("select", table, true),
                _ => continue,
            },
        };
        // A macro's.
        if text[..captures.get(0).unwrap().end()].ends_with(&format!("${table}::table")) || table == "table" {
            continue;
        }
        let table = renamed.get(table).copied().unwrap_or(table);
        let start = match kind {
            "insert_into" => format!("^INSERT INTO \"{table}\""),
            "update" => format!("^UPDATE \"{table}\""),
            "delete" => format!("^DELETE +FROM \"{table}\""),
            _ => format!("^SELECT .*FROM \"{table}\""),
        };
        found.push(Built {
            place: format!("src/{name}:{line}"),
            start: Regex::new(&start).unwrap(),
            words: format!("{kind} {table}"),
            sure,
        });
    }
    found
}

#[test]
fn pieces_are_cut_where_something_is_put_in() {
    assert_eq!(cut("select {a} from {{x}} where {}"), ["select ", " from {x} where ", ""]);
    let mut reader = Reader { name: "files/store.rs", literals: Vec::new() };
    let source = r#"
        /// select of a comment
        fn f() { sql_query(format!("select {COLUMNS} from files where id = $1", x("no SQL at all here"))); }
        #[cfg(test)] mod tests { fn g() { q("select nothing from tests") } }
        const LOCK: &str = "lock table x in share mode";
    "#;
    reader.walk(source.parse().unwrap(), false, false);
    let places: Vec<&str> = reader.literals.iter().map(|literal| &literal.place[..]).collect();
    assert_eq!(places, ["src/files/store.rs:3", "src/files/store.rs:5"], "{:?}", reader.literals);
    assert_eq!(reader.literals[0].pieces, ["from files where id = $1"]);
}

#[test]
fn built_statements_are_known_by_kind_and_table() {
    let found = built(
        "x.rs",
        "let this = runs::table\n.filter(a); diesel::update(this); insert_into(slates::table); keys::table .filter()",
    );
    let words: Vec<&str> = found.iter().map(|built| &built.words[..]).collect();
    assert_eq!(words, ["select runs", "update runs", "insert_into slates", "select keys"]);
    assert!(!found[0].sure && found[3].start.is_match("SELECT \"keys\".\"id\" FROM \"keys\" WHERE x"));
}

/// The functions that the migrations made, with their bodies; those apart that only migrations call, and those of the
/// policies, which are in every plan.
pub fn functions(superuser: &mut PgConnection) -> BTreeMap<String, String> {
    #[derive(QueryableByName)]
    struct Function {
        #[diesel(sql_type = Text)]
        name: String,
        #[diesel(sql_type = Text)]
        body: String,
    }
    let functions: Vec<Function> = diesel::sql_query(
        "select p.proname::text as name, p.prosrc as body from pg_proc p
         where p.pronamespace = 'public'::regnamespace and p.proname not in ('grant_to_app', 'isolate', 'app_tenant', 'app_operator')
           and not exists (select from pg_depend d where d.objid = p.oid and d.deptype = 'e')
           and p.proname not like 'diesel\\_%'",
    )
    .load(superuser)
    .unwrap();
    functions.into_iter().map(|function| (function.name, in_one_line(&function.body))).collect()
}
