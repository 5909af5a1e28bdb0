//! The SQL against plain Rust: thousands of requests over names and texts that are made to be misread.

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use serde_json::{Map, Value, json};
use slatebase::ctx::Ctx;
use slatebase::db::Tx;
use slatebase::error::Result;
use slatebase::item::Mode;
use slatebase::path::FolderPath;
use slatebase::retrieval::found::{After, FoundItem, Window};
use slatebase::retrieval::glob::Glob;
use slatebase::retrieval::ops::{scope, search};
use slatebase::retrieval::request::{MetatagTest, Request};

use crate::support::Server;

/// What means something to SQL, to a regular expression, to JSON or to a glob, and some letters for it to hide between.
const PIECES: &[&str] = &[
    "%", "_", "[", "]", "!", "^", "*", "?", "'", "\"", "$1", ".", "-", "(", ")", "{2}", "|", "+", "\n", " ",
    "a", "b", "c", "A", "0", "abc", "abcd", "bca", "é", "e\u{301}", "\u{301}", "日", "𝄞", "ß", "$$", ":",
    ",",
];
/// Texts may hold a backslash as well; names may not.
const BACKSLASHES: &[&str] = &["\\", "\\%", "\\_", "\\\\"];
const CLASSES: &[&str] = &[
    "*", "*", "**", "?", "[a-c]", "[!a-c]", "[]a]", "[!%]", "[*?]", "[é-日]", "[𝄞]", "[z-a]", "[^a]", "[a-]",
    "[\n]",
];
const TAGS: &[&str] = &["k", "k'\"%", "ключ"];

fn text(more: &'static [&'static str], length: std::ops::Range<usize>) -> impl Strategy<Value = String> {
    let pieces: Vec<&str> = PIECES.iter().chain(more).copied().collect();
    prop::collection::vec(prop::sample::select(pieces), length).prop_map(|pieces| pieces.concat())
}

fn pattern() -> impl Strategy<Value = Vec<&'static str>> {
    let pieces: Vec<&str> = PIECES.iter().chain(CLASSES).chain(CLASSES).chain(BACKSLASHES).copied().collect();
    prop::collection::vec(prop::sample::select(pieces), 0..6)
}

fn value() -> impl Strategy<Value = Value> {
    let text = || text(BACKSLASHES, 0..4);
    prop_oneof![
        4 => text().prop_map(Value::from),
        3 => prop::collection::vec(text(), 0..3).prop_map(Value::from),
        1 => prop::sample::select(vec![json!(0), json!(false), json!({}), json!({"a": "abc"}), json!(["abc", 1]), json!([[]])]),
    ]
}

fn tags() -> impl Strategy<Value = Map<String, Value>> {
    let tag = (prop::sample::select(TAGS), value()).prop_map(|(name, value)| (name.to_owned(), value));
    prop::collection::vec(tag, 0..3).prop_map(|tags| tags.into_iter().collect())
}

struct File {
    path: String,
    tags: Map<String, Value>,
}

impl File {
    fn parent(&self) -> &str {
        self.path.rsplit_once('/').map_or("", |(folder, _)| folder)
    }

    fn name(&self) -> &str {
        self.path.rsplit_once('/').map_or(&self.path, |(_, name)| name)
    }

    fn within(&self, folder: &str, recursive: bool) -> bool {
        self.parent() == folder
            || recursive && (folder.is_empty() || self.path.starts_with(&format!("{folder}/")))
    }

    fn has(&self, test: &MetatagTest) -> bool {
        let (Some(value), contains) = (self.tags.get(&test.name), test.contains.as_deref()) else {
            return false;
        };
        let Some(contains) = contains else { return true };
        match value {
            Value::String(text) => text.contains(contains),
            Value::Array(elements) => match elements.iter().map(Value::as_str).collect::<Option<Vec<_>>>() {
                Some(texts) => texts.iter().any(|text| text.contains(contains)),
                None => true,
            },
            _ => true,
        }
    }
}

/// The `glob` crate, with runs of `*` collapsed, since it has another opinion on them.
fn oracle(pieces: &[&str]) -> Option<glob::Pattern> {
    let mut collapsed = pieces.concat();
    while collapsed.contains("**") {
        collapsed = collapsed.replace("**", "*");
    }
    glob::Pattern::new(&collapsed).ok()
}

/// A case: a request, and the pattern that answers for its glob.
struct Case {
    folder: &'static str,
    recursive: bool,
    request: Request,
    pattern: Option<glob::Pattern>,
    page: usize,
}

fn case(runner: &mut TestRunner, files: &[File]) -> Option<Case> {
    let mut pick = |options: usize| (0..options).new_tree(runner).unwrap().current();
    let (which, folder, page) = (pick(14) + 1, pick(FOLDERS.len()), pick(40) + 1);
    let asked: Vec<usize> = (0..pick(4)).map(|_| pick(files.len() + 20)).collect();
    let (folder, recursive) = FOLDERS[folder];
    let mut request = Request::default();
    if which & 1 != 0 {
        let inside =
            files.iter().map(|file| file.path.strip_prefix(folder).map(|path| path.trim_start_matches('/')));
        let inside: Vec<_> = inside.collect();
        request.files = Some(
            asked.iter().map(|i| inside.get(*i).copied().flatten().unwrap_or("none").to_owned()).collect(),
        );
    }
    if which & 2 != 0 {
        let contains =
            prop::option::weighted(0.9, text(BACKSLASHES, 0..3)).new_tree(runner).unwrap().current();
        let name = prop::sample::select(TAGS).new_tree(runner).unwrap().current();
        request.metatag = Some(MetatagTest { name: name.to_owned(), contains });
    }
    let mut matcher = None;
    if which & 12 != 0 {
        let pieces = pattern().new_tree(runner).unwrap().current();
        let (ours, theirs) = (Glob::parse(&pieces.concat()), oracle(&pieces));
        assert_eq!(ours.is_ok(), theirs.is_some(), "{pieces:?}: {ours:?}");
        request.glob = Some(pieces.concat());
        matcher = Some(theirs?);
    }
    Some(Case { folder, recursive, request, pattern: matcher, page })
}

/// Folders that are looked in: one of more files than are read through, one of fewer, and subtrees.
const FOLDERS: &[(&str, bool)] =
    &[("d", false), ("d", true), ("d/s", false), ("d/s", true), ("", true), ("", false)];

/// What the case finds, in order: path, bits, and whether it is a file.
fn expected(case: &Case, files: &[File]) -> Vec<(String, i16, bool)> {
    let bits = |file: &File| {
        if !file.within(case.folder, case.recursive) {
            return 0;
        }
        let tagged = case.request.metatag.as_ref().is_some_and(|test| file.has(test));
        let named = case.pattern.as_ref().is_some_and(|pattern| pattern.matches(file.name()));
        i16::from(tagged) * Mode::Metatag.bit() + i16::from(named) * Mode::Glob.bit()
    };
    let absolute =
        |path: &str| if case.folder.is_empty() { path.to_owned() } else { format!("{}/{path}", case.folder) };
    let mut out: Vec<(String, i16, bool)> = Vec::new();
    for path in case.request.files.iter().flatten() {
        let item = match files.iter().find(|file| file.path == absolute(path)) {
            Some(file) => (file.path.clone(), Mode::Files.bit() | bits(file), true),
            None => (path.clone(), Mode::Files.bit(), false),
        };
        if !out.contains(&item) {
            out.push(item);
        }
    }
    let others = files
        .iter()
        .filter(|file| bits(file) != 0 && !out.iter().any(|(path, _, is)| *is && *path == file.path));
    let mut others: Vec<_> = others.map(|file| (file.path.clone(), bits(file), true)).collect();
    others.sort();
    out.extend(others);
    out
}

fn found(tx: &mut Tx, ctx: &Ctx, case: &Case, limit: usize) -> Result<Vec<(String, i16, bool)>> {
    let scope = scope(tx, ctx, "K", &FolderPath::parse(case.folder).unwrap(), case.recursive)?.unwrap();
    let mut window = Window { after: After::Asked(0), limit, count: true, ahead: 0, contents: true };
    let mut all = Vec::new();
    loop {
        let part = search(tx, scope.clone().into(), &case.request, &window)?;
        let before = all.iter().filter(|(_, _, is_file)| *is_file).count() as i64;
        let after = part.items.last().map(|placed| placed.after.clone());
        all.extend(part.items.into_iter().map(|placed| match placed.item {
            FoundItem::File(file) => (file.path, file.matched_by, true),
            other => (other.path(&scope).to_owned(), other.matched_by(), false),
        }));
        let here = all.iter().filter(|(_, _, is_file)| *is_file).count() as i64;
        assert_eq!(part.total, Some(here - before + part.beyond.files));
        if part.next.is_none() {
            assert_eq!(part.beyond.files, 0);
            return Ok(all);
        }
        window.after = after.unwrap();
    }
}

async fn compare(cases: usize, plans: &'static str) {
    let server = Server::start().await;
    let caller = server.tenant("acme").await;
    let mut runner = TestRunner::deterministic();
    let mut files: Vec<File> = Vec::new();
    let mut spelt = std::collections::HashSet::new();
    let name = text(&[], 1..6);
    for (folder, count) in [("d/", 560), ("d/s/", 90), ("", 40), ("d/s/t/", 20)] {
        let upto = files.len() + count;
        while files.len() < upto {
            use unicode_normalization::UnicodeNormalization;
            let name = name.new_tree(&mut runner).unwrap().current();
            let path = format!("{folder}{name}");
            let taken = ["d", "d/s", "d/s/t"].contains(&path.as_str())
                || !spelt.insert(path.nfc().collect::<String>());
            if !taken && !matches!(name.as_str(), "." | "..") {
                files.push(File { path, tags: tags().new_tree(&mut runner).unwrap().current() });
            }
        }
    }
    let given: Map<String, Value> =
        files.iter().map(|file| (file.path.clone(), json!({"content": "", "metatags": file.tags}))).collect();
    server.fill(&caller, "K", given.into()).await;
    let ctx = server.local(&caller);
    tokio::task::spawn_blocking(move || {
        let cases: Vec<Case> =
            std::iter::repeat_with(|| case(&mut runner, &files)).flatten().take(cases).collect();
        let matched = std::cell::Cell::new(0);
        let run = |tx: &mut Tx| {
            tx.without_timeout()?;
            for (i, case) in cases.iter().enumerate() {
                // A search may reset it.
                diesel::connection::SimpleConnection::batch_execute(tx.conn(), plans)?;
                let limit = if i % 8 == 0 { case.page } else { 1000 };
                let (found, expected) = (found(tx, &ctx, case, limit)?, expected(case, &files));
                matched.set(matched.get() + usize::from(found.iter().any(|(_, bits, _)| *bits > 1)));
                assert_eq!(
                    found, expected,
                    "{:?} in {:?}, recursive: {}",
                    case.request, case.folder, case.recursive
                );
            }
            Ok(())
        };
        server.app.db.tenant_blocking(ctx.tenant, run).unwrap();
        assert!(matched.get() * 3 > cases.len(), "only {} cases find anything", matched.get());
    })
    .await
    .unwrap();
}

#[tokio::test]
async fn requests_find_what_a_plain_model_finds() {
    compare(2000, "set local enable_seqscan = on").await;
}

#[tokio::test]
async fn requests_find_the_same_by_indexes() {
    compare(2000, "set local enable_seqscan = off").await;
}

#[tokio::test]
async fn requests_find_the_same_by_bitmaps_alone() {
    compare(1000, "set local enable_indexscan = off; set local enable_indexonlyscan = off").await;
}
