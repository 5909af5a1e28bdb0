//! The import rules of the code map, and the size of its files. Reads sources; needs no database.
//!
//! Every path in every file is resolved (`use` trees, `super::`, names that a `use` or a `mod` brought in, re-exports,
//! paths within macros) and held against two tables: which features lie below which, and what each kind of file in a
//! feature's folder may import. Test modules may import what they like.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use proc_macro2::{TokenStream, TokenTree};
use syn::spanned::Spanned;
use syn::visit::{self, Visit};

/// The most lines of a source file.
const MAX_LINES: usize = 600;

/// The features, lowest first: each may import those before it.
const CHAIN: &[&[&str]] = &[
    &["provenance", "secrets"],
    &["metatags", "passages"],
    &["slates"],
    &["folders"],
    &["files"],
    &["archives"],
    &["retrieval"],
    &["corpora"],
    &["routes"],
    &["sessions"],
    &["tools"],
    &["runs"],
    &["capability"],
    &["maintenance"],
    &["mcp"],
];

/// Features apart from the chain: who calls, and what a call is answered with again. They may use any in the chain that
/// they need, and only the front doors use them.
const APART: &[&str] = &["tenants", "idempotency"];

/// Single files of plain types and functions, which anything may import.
const PURE_ROOTS: &[&str] =
    &["authority", "ctx", "error", "given", "hex", "item", "path", "precondition", "schema", "yaml"];

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    /// A file of plain types and functions.
    Pure,
    /// A feature's `mod.rs`.
    Mod,
    Api,
    Ops,
    Store,
    Runner,
    /// Everything under `db/`.
    Db,
    /// Everything under `http/`.
    Http,
    /// Everything under `outbound/`: the client that requests to other hosts go through.
    Outbound,
    /// `app.rs`, `config.rs`: what front doors are put together from.
    Root,
    /// `main.rs`, `lib.rs` and everything under `cli/`: they may import anything but a store.
    Top,
}

use Kind::{Api, Db, Http, Mod, Ops, Outbound, Pure, Root, Runner, Store, Top};

/// Which kinds a kind of file may import from its own feature, and which from elsewhere (of features, from those below).
fn allowed(kind: Kind) -> (&'static [Kind], &'static [Kind]) {
    match kind {
        Pure => (&[Pure], &[Pure]),
        // Its own files are its own.
        Mod => (&[Pure, Mod, Api, Ops, Store, Runner], &[]),
        Api => (&[Api, Ops, Runner, Pure], &[Ops, Runner, Pure, Http, Root]),
        Ops => (&[Ops, Store, Pure], &[Ops, Pure, Db]),
        // Inputs that ops made are what a store inserts, so it may name their types.
        Store => (&[Store, Pure], &[Pure, Db]),
        // What takes more than a transaction: requests to other hosts between transactions, and work in the background.
        Runner => (&[Runner, Ops, Store, Pure], &[Runner, Ops, Pure, Db, Outbound, Root]),
        Outbound => (&[Outbound], &[Pure]),
        Db => (&[Db], &[Pure]),
        Http => (&[Http], &[Api, Ops, Runner, Pure, Db, Root]),
        Root => (&[Root], &[Pure, Root, Db, Outbound]),
        Top => (&[Top], &[Pure, Mod, Api, Ops, Runner, Db, Http, Outbound, Root, Top]),
    }
}

/// Crates and functions that a kind of file keeps away from.
fn forbidden(kind: Kind) -> &'static [&'static str] {
    match kind {
        Pure => &[
            "diesel",
            "diesel_migrations",
            "r2d2",
            "actix_web",
            "utoipa_actix_web",
            "tokio",
            "reqwest",
            "rand",
            "nix",
            "walkdir",
            "std::fs",
            "std::net",
            "std::process",
            "std::env",
            "std::thread",
            "std::time::Instant",
            "std::time::SystemTime",
            "std::io::stdin",
            "chrono::Utc::now",
            "chrono::Local",
            "uuid::Uuid::new_v4",
            "uuid::Uuid::now_v7",
        ],
        Api => &["diesel", "r2d2"],
        Ops => &["diesel", "r2d2", "actix_web", "utoipa_actix_web", "reqwest"],
        Store => &["r2d2", "actix_web", "utoipa_actix_web", "tokio", "reqwest", "rand", "chrono::Utc::now"],
        Runner => &["diesel", "r2d2", "actix_web"],
        Mod => &["diesel", "r2d2", "actix_web", "tokio"],
        Db => &["actix_web", "utoipa_actix_web", "reqwest"],
        Http | Outbound | Root | Top => &["diesel", "r2d2"],
    }
}

struct Source {
    file: PathBuf,
    /// `crate::a::b` as `a::b`.
    module: String,
    feature: String,
    kind: Kind,
    ast: syn::File,
}

/// All files under `src`, by module path.
fn sources() -> BTreeMap<String, Source> {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut sources = BTreeMap::new();
    for file in rust_files(&src) {
        let relative = file.strip_prefix(&src).unwrap().with_extension("");
        let mut names: Vec<&str> = relative.iter().map(|name| name.to_str().unwrap()).collect();
        if names.last() == Some(&"mod") || names == ["lib"] {
            names.pop();
        }
        let is_mod = file.ends_with("mod.rs");
        // A file of tests, which its parent has under `cfg(test)`.
        if names.last() == Some(&"tests") {
            continue;
        }
        let (feature, kind) = classify(&names, is_mod);
        let module = names.join("::");
        let text = fs::read_to_string(&file).unwrap();
        let mut ast = syn::parse_file(&text).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        ast.items.retain(|item| !is_test(item));
        sources.insert(module.clone(), Source { file, module, feature, kind, ast });
    }
    sources
}

fn rust_files(folder: &Path) -> Vec<PathBuf> {
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

/// The feature of a file and its kind. Within a feature `ops.rs` and all files under `ops/` are of a kind, and so are the
/// others.
fn classify(names: &[&str], is_mod: bool) -> (String, Kind) {
    let Some(&top) = names.first() else { return (String::new(), Top) };
    let feature = CHAIN.iter().any(|level| level.contains(&top)) || APART.contains(&top);
    let kind = match (top, names.get(1).copied()) {
        ("db", _) => Db,
        ("http", _) => Http,
        ("outbound", _) => Outbound,
        ("cli" | "main", _) => Top,
        ("app" | "config", _) => Root,
        (top, _) if PURE_ROOTS.contains(&top) => Pure,
        _ if !feature => panic!("src/{} has no place in the code map", names.join("/")),
        (_, None) => Mod,
        (_, Some("api")) => Api,
        (_, Some("ops")) => Ops,
        (_, Some("store")) => Store,
        // The sources of `capability` are read by a runner, a file each.
        (_, Some("runner" | "sources")) => Runner,
        // A folder of pure files, such as the modes, has a mod.rs of its own, which is as pure.
        _ => Pure,
    };
    assert!(kind != Mod || is_mod, "src/{top}.rs is a feature, which is a folder");
    (top.to_owned(), kind)
}

fn is_test(item: &syn::Item) -> bool {
    let attributes = match item {
        syn::Item::Mod(item) => &item.attrs,
        syn::Item::Fn(item) => &item.attrs,
        syn::Item::Use(item) => &item.attrs,
        _ => return false,
    };
    attributes.iter().any(|attribute| {
        let list = attribute.meta.require_list();
        attribute.path().is_ident("cfg") && list.is_ok_and(|list| list.tokens.to_string() == "test")
    })
}

/// A path as it is written, with its line.
type Written = (Vec<String>, usize);

/// Every path of a file, as it is written; `use` trees apart, with the names that they bring in.
#[derive(Default)]
struct Paths {
    used: Vec<(String, Written)>,
    plain: Vec<Written>,
}

impl Paths {
    fn of(ast: &syn::File) -> Paths {
        let mut paths = Paths::default();
        paths.visit_file(ast);
        paths
    }

    fn tree(&mut self, mut prefix: Vec<String>, tree: &syn::UseTree) {
        let line = tree.span().start().line;
        match tree {
            syn::UseTree::Path(path) => {
                prefix.push(path.ident.to_string());
                self.tree(prefix, &path.tree);
            }
            syn::UseTree::Name(name) => {
                let name = name.ident.to_string();
                if name != "self" {
                    prefix.push(name);
                }
                self.used.push((prefix.last().unwrap().clone(), (prefix, line)));
            }
            syn::UseTree::Rename(rename) => {
                if rename.ident != "self" {
                    prefix.push(rename.ident.to_string());
                }
                self.used.push((rename.rename.to_string(), (prefix, line)));
            }
            syn::UseTree::Glob(_) => self.used.push(("*".into(), (prefix, line))),
            syn::UseTree::Group(group) => {
                group.items.iter().for_each(|tree| self.tree(prefix.clone(), tree));
            }
        }
    }

    /// `a::b::c` among tokens that no grammar is known for.
    fn tokens(&mut self, tokens: TokenStream) {
        let mut path: Vec<String> = Vec::new();
        let (mut colons, mut line) = (0, 0);
        for token in tokens {
            match token {
                TokenTree::Ident(ident) => {
                    if colons != 2 {
                        self.flush(&mut path, line);
                    }
                    line = ident.span().start().line;
                    path.push(ident.to_string());
                    colons = 0;
                }
                TokenTree::Punct(punct) if punct.as_char() == ':' => colons += 1,
                other => {
                    self.flush(&mut path, line);
                    colons = 0;
                    if let TokenTree::Group(group) = other {
                        self.tokens(group.stream());
                    }
                }
            }
        }
        self.flush(&mut path, line);
    }

    fn flush(&mut self, path: &mut Vec<String>, line: usize) {
        if !path.is_empty() {
            self.plain.push((std::mem::take(path), line));
        }
    }
}

impl<'ast> Visit<'ast> for Paths {
    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        self.tree(Vec::new(), &item.tree);
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let names = path.segments.iter().map(|segment| segment.ident.to_string()).collect();
        self.plain.push((names, path.span().start().line));
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, found: &'ast syn::Macro) {
        self.tokens(found.tokens.clone());
        visit::visit_macro(self, found);
    }

    fn visit_meta_list(&mut self, found: &'ast syn::MetaList) {
        self.tokens(found.tokens.clone());
        visit::visit_meta_list(self, found);
    }
}

/// What the code imports: absolute paths, `crate::…` and of other crates, with the line.
struct Imports {
    all: BTreeMap<String, Vec<(String, usize)>>,
}

impl Imports {
    fn of(sources: &BTreeMap<String, Source>) -> Imports {
        let paths: BTreeMap<&str, Paths> =
            sources.iter().map(|(module, source)| (&module[..], Paths::of(&source.ast))).collect();
        // What each module's `use`s make of a name.
        let names: BTreeMap<&str, BTreeMap<String, String>> = paths
            .iter()
            .map(|(module, paths)| {
                let named = paths
                    .used
                    .iter()
                    .map(|(name, (path, _))| (name.clone(), absolute(module, path, sources)));
                (*module, named.collect())
            })
            .collect();
        let re_exports: BTreeMap<&str, &BTreeMap<String, String>> =
            names.iter().filter(|(module, _)| sources[**module].kind == Mod).map(|(m, n)| (*m, n)).collect();
        let all = paths
            .iter()
            .map(|(module, paths)| {
                let mut found: Vec<(String, usize)> = paths
                    .used
                    .iter()
                    .map(|(_, (path, line))| (absolute(module, path, sources), *line))
                    .collect();
                for (path, line) in &paths.plain {
                    let brought = names[module].get(&path[0]);
                    // A name on its own was looked at where it was brought in.
                    match brought {
                        Some(_) if path.len() == 1 => {}
                        Some(to) => found.push((format!("{to}::{}", path[1..].join("::")), *line)),
                        None => found.push((absolute(module, path, sources), *line)),
                    }
                }
                let found = found.into_iter().map(|(path, line)| (follow(path, &re_exports), line)).collect();
                (module.to_string(), found)
            })
            .collect();
        Imports { all }
    }
}

/// `super::x`, `self::x`, `crate::x` and the name of a child module as an absolute path; anything else as it is.
fn absolute(module: &str, path: &[String], sources: &BTreeMap<String, Source>) -> String {
    let mut at: Vec<&str> = if module.is_empty() { Vec::new() } else { module.split("::").collect() };
    let mut rest = path;
    match path[0].as_str() {
        "crate" | "slatebase" => {
            at.clear();
            rest = &path[1..];
        }
        "self" => rest = &path[1..],
        "super" => {
            while rest.first().is_some_and(|name| name == "super") {
                at.pop();
                rest = &rest[1..];
            }
        }
        child => {
            let own = at.iter().copied().chain([child]).collect::<Vec<_>>().join("::");
            if !sources.contains_key(&own) {
                return path.join("::");
            }
        }
    }
    let whole = ["crate"].into_iter().chain(at).chain(rest.iter().map(String::as_str));
    whole.collect::<Vec<_>>().join("::")
}

/// Sees through the re-exports of `mod.rs` files: `crate::slates::Slate` is `crate::slates::ops::Slate`.
fn follow(mut path: String, re_exports: &BTreeMap<&str, &BTreeMap<String, String>>) -> String {
    for _ in 0..8 {
        let Some(inside) = path.strip_prefix("crate::") else { return path };
        let parts: Vec<&str> = inside.split("::").collect();
        let next = (1..parts.len()).find_map(|cut| {
            let module = parts[..cut].join("::");
            let to = re_exports.get(&module[..])?.get(parts[cut])?;
            Some([&[&to[..]], &parts[cut + 1..]].concat().join("::"))
        });
        match next {
            Some(next) if next != path => path = next,
            _ => return path,
        }
    }
    path
}

/// The file that an absolute path leads into.
fn target<'a>(path: &str, sources: &'a BTreeMap<String, Source>) -> Option<&'a Source> {
    let parts: Vec<&str> = path.strip_prefix("crate::")?.split("::").collect();
    (1..=parts.len()).rev().find_map(|cut| sources.get(&parts[..cut].join("::")))
}

fn level(feature: &str) -> Option<usize> {
    CHAIN.iter().position(|level| level.contains(&feature))
}

fn complain(problems: BTreeSet<String>) {
    let list: Vec<String> = problems.into_iter().collect();
    assert!(list.is_empty(), "\n{}\n", list.join("\n"));
}

#[test]
fn each_kind_of_file_imports_what_it_may() {
    let sources = sources();
    let mut problems = BTreeSet::new();
    let mut looked_at = 0;
    for (module, imports) in &Imports::of(&sources).all {
        let source = &sources[module];
        let (own, elsewhere) = allowed(source.kind);
        for (path, line) in imports {
            let Some(target) = target(path, &sources) else { continue };
            looked_at += 1;
            let kinds = if target.feature == source.feature { own } else { elsewhere };
            // A child module is its parent's own, whatever the parent is.
            let child = target.module.starts_with(&format!("{}::", source.module));
            // A feature's name alone is no import: what is taken out of it is, and is looked at.
            let bare = target.kind == Mod && *path == format!("crate::{}", target.module);
            if !kinds.contains(&target.kind) && !child && !bare && target.module != source.module {
                problems.insert(format!(
                    "{}:{line}: a {:?} file imports {path}, which is {:?}",
                    source.file.display(),
                    source.kind,
                    target.kind
                ));
            }
        }
    }
    assert!(looked_at > 500, "only {looked_at} imports were resolved");
    complain(problems);
}

#[test]
fn features_import_downward_only() {
    let sources = sources();
    let mut problems = BTreeSet::new();
    for (module, imports) in &Imports::of(&sources).all {
        let source = &sources[module];
        for (path, line) in imports {
            let Some(target) = target(path, &sources).filter(|target| target.feature != source.feature)
            else {
                continue;
            };
            let fine = match (level(&source.feature), level(&target.feature)) {
                (Some(from), Some(to)) => to < from,
                (Some(_), None) => !APART.contains(&&target.feature[..]),
                (None, _) if APART.contains(&&source.feature[..]) => {
                    level(&target.feature).is_some() || !APART.contains(&&target.feature[..])
                }
                _ => true,
            };
            if !fine {
                problems.insert(format!(
                    "{}:{line}: {} imports {path}, which does not lie below it",
                    source.file.display(),
                    source.feature
                ));
            }
        }
    }
    complain(problems);
}

#[test]
fn files_keep_away_from_what_is_not_theirs() {
    let sources = sources();
    let mut problems = BTreeSet::new();
    for (module, imports) in &Imports::of(&sources).all {
        let source = &sources[module];
        for (path, line) in imports {
            for foreign in forbidden(source.kind) {
                if path.strip_prefix(foreign).is_some_and(|rest| rest.is_empty() || rest.starts_with("::")) {
                    problems.insert(format!(
                        "{}:{line}: a {:?} file uses {path}",
                        source.file.display(),
                        source.kind
                    ));
                }
            }
        }
    }
    complain(problems);
}

#[test]
fn no_file_is_too_long() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let long = ["src", "tests", "benches"]
        .iter()
        .map(|folder| root.join(folder))
        .filter(|folder| folder.is_dir())
        .flat_map(|folder| rust_files(&folder))
        .filter_map(|file| {
            let lines = fs::read_to_string(&file).unwrap().lines().count();
            (lines > MAX_LINES).then(|| format!("{}: {lines} lines", file.display()))
        });
    complain(long.collect());
}

#[test]
fn every_migration_goes_up_and_down() {
    let migrations = Path::new(env!("CARGO_MANIFEST_DIR")).join("migrations");
    let pattern = regex::Regex::new(r"^\d{4}-\d{2}-\d{2}-\d{6}_[a-z]+(_[a-z]+)+$").unwrap();
    let mut problems = BTreeSet::new();
    let mut found = 0;
    for entry in fs::read_dir(migrations).unwrap() {
        let folder = entry.unwrap().path();
        found += 1;
        let name = folder.file_name().unwrap().to_str().unwrap();
        if !pattern.is_match(name) {
            problems.insert(format!("{name} is not named YYYY-MM-DD-HHMMSS_verb_object"));
        }
        for file in ["up.sql", "down.sql"] {
            let text = fs::read_to_string(folder.join(file)).unwrap_or_default();
            if text.trim().is_empty() {
                problems.insert(format!("{name} has no {file}"));
            }
        }
    }
    assert!(found > 0);
    complain(problems);
}

#[test]
fn every_feature_says_what_it_is_for() {
    let sources = sources();
    let silent = sources.values().filter_map(|source| {
        let documented = source.ast.attrs.iter().any(|attribute| attribute.path().is_ident("doc"));
        // The schema is generated.
        (!documented && source.module != "db::schema")
            .then(|| format!("{} has no doc comment", source.file.display()))
    });
    complain(silent.collect());
}

/// The checks see what they should see.
#[test]
fn paths_are_resolved() {
    let ast = syn::parse_file(
        "use super::{store, path::{self, Name as N}}; use crate::slates; \
         fn f() { slates::ops::get(); json!({ \"a\": crate::db::x(1) }); let x: std::fs::File; N::new(); }",
    )
    .unwrap();
    let file = |module: &str, kind| {
        let ast = syn::parse_file(if module == "slates" { "pub use ops::get;" } else { "" }).unwrap();
        let feature = module.split("::").next().unwrap().to_owned();
        (module.to_owned(), Source { file: module.into(), module: module.into(), feature, kind, ast })
    };
    let mut sources: BTreeMap<String, Source> = [
        file("slates", Mod),
        file("slates::ops", Ops),
        file("files", Mod),
        file("files::store", Store),
        file("files::path", Pure),
        file("db", Db),
    ]
    .into();
    let ops =
        Source { file: "ops".into(), module: "files::ops".into(), feature: "files".into(), kind: Ops, ast };
    sources.insert("files::ops".into(), ops);
    let imports = &Imports::of(&sources).all["files::ops"];
    let paths: BTreeSet<&str> = imports.iter().map(|(path, _)| &path[..]).collect();
    for expected in [
        "crate::files::store",
        "crate::files::path",
        "crate::files::path::Name",
        "crate::files::path::Name::new",
        "crate::slates",
        "crate::slates::ops::get",
        "crate::db::x",
        "std::fs::File",
    ] {
        assert!(paths.contains(expected), "{expected} in {paths:?}");
    }
    let names = BTreeMap::from([("get".into(), "crate::slates::ops::get".into())]);
    assert_eq!(follow("crate::slates::get".into(), &[("slates", &names)].into()), "crate::slates::ops::get");
    assert_eq!(target("crate::files::store::heads", &sources).unwrap().kind, Store);
}
