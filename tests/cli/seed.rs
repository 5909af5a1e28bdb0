//! Seeding what is as it should be.

use std::fs;
use std::process::Command;

use serde_json::json;

use crate::support::{Cli, files_of, place, put, seeds};

#[test]
fn our_own_seeds_load_byte_for_byte_and_again_write_nothing() {
    let cli = Cli::new();
    for name in ["handbook", "cookbook", "telescopes"] {
        let mut sources = files_of(&seeds(name));
        sources.remove("slate.yaml").unwrap();
        let source = seeds(name);
        let into = ["seed", source.to_str().unwrap(), "--tenant", "acme", "--slate", name];
        let count = sources.len();
        let first = cli.run(&into).expect(0);
        let line = |new: usize, same: usize| {
            format!(
                "{count} files loaded into slate {name} of tenant acme: {new} new, 0 with a new version, 0 with other \
                 metatags or settings, {same} unchanged; 0 pruned; 0 problems"
            )
        };
        assert!(first.out.contains(&line(count, 0)), "{first:#?}");
        assert_eq!(first.problems(), [""; 0]);
        let second = cli.run(&into).expect(0);
        assert!(second.out.contains(&line(0, count)), "{second:#?}");
    }
    assert_eq!(cli.slate("handbook").metatag_types["priority"], "number");

    let cli = Cli::new();
    cli.seed(&seeds("handbook"), &[]).expect(0);
    let mut sources = files_of(&seeds("handbook"));
    sources.remove("slate.yaml");
    assert_eq!(cli.paths(), sources.keys().cloned().collect::<Vec<_>>());
    for (path, contents) in &sources {
        let (bytes, head, _) = cli.file(path);
        assert_eq!(&bytes, contents, "{path}");
        assert_eq!(head.version, 1);
    }
    assert_eq!(cli.tags("engineering/reviews.md")["contact"]["channel"], "#reviews");
}

#[test]
fn what_changed_is_told_apart() {
    let cli = Cli::new();
    let dir = place();
    put(dir.path(), "same.md", "---\na: 1\n---\nsame");
    put(dir.path(), "new contents.md", "---\na: 1\n---\nbefore");
    put(dir.path(), "sub/notes.txt", "---\nnot: front matter\n---\n");
    put(dir.path(), "nulls.md", "---\nx: null\ny: ~\nz: 1\n---\n");
    let first = cli.seed(dir.path(), &[]).expect(0);
    assert!(first.out.contains("null metatags, which are not set: \"x\" in 1, \"y\" in 1\n"), "{first:#?}");
    assert_eq!(cli.tags("nulls.md"), json!({"z": 1}));
    assert_eq!(cli.tags("sub/notes.txt"), json!({}));
    let modified = cli.file("same.md").1.source_modified_at.unwrap();
    let of_disk = fs::metadata(dir.path().join("same.md")).unwrap().modified().unwrap();
    assert_eq!(modified.timestamp(), chrono::DateTime::<chrono::Utc>::from(of_disk).timestamp());

    put(dir.path(), "new contents.md", "---\na: 1\n---\nafter");
    put(dir.path(), "another.md", "x");
    // Another time alone is no other file.
    fs::File::open(dir.path().join("same.md")).unwrap().set_modified(std::time::SystemTime::now()).unwrap();
    let second = cli.seed(dir.path(), &[]).expect(0);
    assert!(
        second.out.contains(
            "5 files loaded into slate S of tenant acme: 1 new, 1 with a new version, 0 with other"
        ),
        "{second:#?}"
    );
    assert_eq!((cli.file("same.md").1.version, cli.file("new contents.md").1.version), (1, 2));

    // The same bytes of which a manifest says something else.
    let manifest = dir.path().join("manifest.yaml");
    fs::write(&manifest, "files: [{path: same.md, from: same.md, metatags: {b: true}, authority: high}]")
        .unwrap();
    let third = cli.seed(&manifest, &[]).expect(0);
    assert!(third.out.contains("0 with a new version, 1 with other metatags or settings"), "{third:#?}");
    assert_eq!(cli.tags("same.md"), json!({"a": 1, "b": true}));
    let third = cli.seed(&manifest, &[]).expect(0);
    assert!(third.out.contains("1 unchanged"), "{third:#?}");
}

#[test]
fn the_source_owns_the_metatags_that_it_names_and_no_others() {
    let cli = Cli::new();
    let dir = place();
    put(dir.path(), "told.md", "---\nowner: ada\ntopics: [a]\n---\nx");
    put(dir.path(), "bare.md", "x");
    put(dir.path(), "notes.txt", "x");
    let first = cli.seed(dir.path(), &[]).expect(0);
    assert!(first.out.contains("Markdown without front matter: 1\n"), "{first:#?}");
    for path in ["told.md", "bare.md", "notes.txt"] {
        cli.patch_tags(path, json!({"reviewed": true}));
    }
    // What was set over the API stays, and nothing is written.
    let again = cli.seed(dir.path(), &[]).expect(0);
    assert!(again.out.contains("3 unchanged"), "{again:#?}");
    assert_eq!(cli.tags("told.md"), json!({"owner": "ada", "topics": ["a"], "reviewed": true}));
    assert_eq!(cli.tags("bare.md"), json!({"reviewed": true}));
    assert_eq!(cli.tags("notes.txt"), json!({"reviewed": true}));

    // What the source names is the source's: it is set again, and goes when it is named no more.
    cli.patch_tags("told.md", json!({"owner": "bob", "topics": null}));
    let back = cli.seed(dir.path(), &[]).expect(0);
    assert!(back.out.contains("1 with other metatags or settings, 2 unchanged"), "{back:#?}");
    assert_eq!(cli.tags("told.md"), json!({"owner": "ada", "topics": ["a"], "reviewed": true}));
    put(dir.path(), "told.md", "---\nowner: eve\n---\nx");
    cli.seed(dir.path(), &[]).expect(0);
    assert_eq!(cli.tags("told.md"), json!({"owner": "eve", "reviewed": true}));
    put(dir.path(), "told.md", "---\nowner: [\n---\nx");
    cli.seed(dir.path(), &[]).expect(1);
    assert_eq!(cli.tags("told.md"), json!({"owner": "eve", "reviewed": true}));
    put(dir.path(), "told.md", "x");
    cli.seed(dir.path(), &[]).expect(0);
    assert_eq!(cli.tags("told.md"), json!({"reviewed": true}));
    // A name that was set over the API first is the source's from when it names it.
    put(dir.path(), "bare.md", "---\nreviewed: false\n---\nx");
    cli.seed(dir.path(), &[]).expect(0);
    assert_eq!(cli.tags("bare.md"), json!({"reviewed": false}));
    put(dir.path(), "bare.md", "x");
    cli.seed(dir.path(), &[]).expect(0);
    assert_eq!(cli.tags("bare.md"), json!({}));
}

#[test]
fn a_manifest_owns_what_it_gives() {
    let cli = Cli::new();
    let dir = place();
    let manifest = dir.path().join("manifest.yaml");
    let write = |metatags: &str| {
        fs::write(&manifest, format!("files: [{{path: logo.svg, content: x{metatags}}}]")).unwrap();
        cli.seed(&manifest, &[]).expect(0)
    };
    write(", metatags: {kind: logo, size: 3}");
    cli.patch_tags("logo.svg", json!({"reviewed": true}));
    assert!(write(", metatags: {kind: logo, size: 3}").out.contains("1 unchanged"));
    write(", metatags: {kind: mark}");
    assert_eq!(cli.tags("logo.svg"), json!({"kind": "mark", "reviewed": true}));
    write("");
    assert_eq!(cli.tags("logo.svg"), json!({"reviewed": true}));
}

#[test]
fn on_request_no_metatags_stay_but_those_of_the_source() {
    let cli = Cli::new();
    let dir = place();
    put(dir.path(), "told.md", "---\nowner: ada\n---\nx");
    put(dir.path(), "bare.md", "x");
    put(dir.path(), "notes.txt", "x");
    cli.seed(dir.path(), &[]).expect(0);
    for path in ["told.md", "bare.md", "notes.txt"] {
        cli.patch_tags(path, json!({"reviewed": true}));
    }
    cli.seed(dir.path(), &["--replace-metatags"]).expect(0);
    assert_eq!(cli.tags("told.md"), json!({"owner": "ada"}));
    assert_eq!(cli.tags("bare.md"), json!({}));
    assert_eq!(cli.tags("notes.txt"), json!({"reviewed": true}));
    // They are the source's as ever.
    put(dir.path(), "told.md", "---\n---\nx");
    cli.seed(dir.path(), &[]).expect(0);
    assert_eq!(cli.tags("told.md"), json!({}));
}

#[test]
fn settings_make_the_slate_and_keep_what_they_do_not_name() {
    let cli = Cli::new();
    let dir = place();
    put(
        dir.path(),
        "slate.yaml",
        "description: Ours\nretention_days: 7\nlanguage: english\nmetatag_types: {a: number}\n",
    );
    put(dir.path(), "a.md", "---\na: 1\n---\n");
    cli.seed(dir.path(), &[]).expect(0);
    let slate = cli.slate("S");
    assert_eq!((slate.description.as_deref(), slate.retention_days), (Some("Ours"), 7));
    put(dir.path(), "slate.yaml", "volatile: true\n");
    cli.seed(dir.path(), &[]).expect(0);
    let slate = cli.slate("S");
    assert_eq!((slate.description.as_deref(), slate.retention_days, slate.volatile), (Some("Ours"), 7, true));
    assert_eq!(slate.language, "english");
    fs::remove_file(dir.path().join("slate.yaml")).unwrap();
    cli.seed(dir.path(), &[]).expect(0);
    assert_eq!(cli.slate("S"), slate);
}

#[test]
fn pruning_deletes_what_is_gone_and_the_folders_that_it_leaves_empty() {
    let cli = Cli::new();
    let dir = place();
    for path in ["a.md", "old/deep/b.md", "old/deep/c.md", "kept/d.md", "kept/e.md"] {
        put(dir.path(), path, "x");
    }
    cli.seed(dir.path(), &[]).expect(0);
    fs::remove_dir_all(dir.path().join("old")).unwrap();
    fs::remove_file(dir.path().join("kept/e.md")).unwrap();
    let without = cli.seed(dir.path(), &[]).expect(0);
    assert!(without.out.contains("0 pruned"), "{without:#?}");
    assert_eq!(cli.paths().len(), 5);

    let dry = cli.seed(dir.path(), &["--prune", "--dry-run"]).expect(0);
    assert!(dry.out.contains("dry run, nothing is written: ") && dry.out.contains("3 pruned"), "{dry:#?}");
    assert!(dry.err.contains("old/deep/b.md: would prune"), "{dry:#?}");
    assert_eq!(cli.paths().len(), 5);

    let pruned = cli.seed(dir.path(), &["--prune"]).expect(0);
    assert!(pruned.out.contains("2 unchanged; 3 pruned"), "{pruned:#?}");
    assert_eq!(cli.paths(), ["a.md", "kept/d.md"]);
    let mut admin = cli.database.superuser();
    let folders: Vec<String> = {
        use diesel::prelude::*;
        use slatebase::db::schema::folders;
        folders::table.order(folders::path).select(folders::path).load(&mut admin).unwrap()
    };
    assert_eq!(folders, ["", "kept"]);
    let again = cli.seed(dir.path(), &["--prune"]).expect(0);
    assert!(again.out.contains("2 unchanged; 0 pruned"), "{again:#?}");
}

#[test]
fn what_could_not_be_read_is_not_pruned() {
    let cli = Cli::new();
    let dir = place();
    put(dir.path(), "a.md", "x");
    put(dir.path(), "b.md", "x");
    cli.seed(dir.path(), &[]).expect(0);
    fs::remove_file(dir.path().join("b.md")).unwrap();
    std::os::unix::fs::symlink("/etc/hostname", dir.path().join("b.md")).unwrap();
    let told = cli.seed(dir.path(), &["--prune"]).expect(1);
    assert!(told.problem("b.md").contains("out of the directory"));
    assert_eq!(cli.paths(), ["a.md", "b.md"]);
    let manifest = dir.path().join("manifest.yaml");
    fs::write(&manifest, "files: [{path: a.md, from: a.md}, {path: b.md}]").unwrap();
    let told = cli.seed(&manifest, &["--prune"]).expect(1);
    assert!(told.err.contains("nothing is pruned"), "{told:#?}");
    assert_eq!(cli.paths(), ["a.md", "b.md"]);
}

#[test]
fn a_dry_run_leaves_no_trace() {
    let cli = Cli::new();
    let told = cli.seed(&seeds("telescopes"), &["--dry-run"]).expect(0);
    let count = files_of(&seeds("telescopes")).len() - 1;
    assert!(told.out.contains(&format!("{count} new")), "{told:#?}");
    assert_eq!(cli.run(&["tenant", "list"]).expect(0).out, "");
    cli.seed(&seeds("telescopes"), &[]).expect(0);
    let dir = place();
    put(dir.path(), "glossary.txt", "other");
    let told = cli.seed(dir.path(), &["--dry-run"]).expect(0);
    assert!(told.out.contains("0 new, 1 with a new version"), "{told:#?}");
    assert_ne!(cli.file("glossary.txt").0, b"other");
}

#[test]
fn a_manifest_says_all_of_its_files() {
    let cli = Cli::new();
    let dir = place();
    put(dir.path(), "images/logo.bin", [0, 159, 146, 150]);
    put(
        dir.path(),
        "manifest.yaml",
        "slate: S\nsettings: {description: By hand}\nfiles:\n\
         - {path: notes/today.md, content: \"---\\nb: 1\\nc: 2\\n---\\n# Today\", metatags: {a: true, b: null}, sensitive: false}\n\
         - {path: logo.png, from: images/logo.bin, authority: low, source_version: \"7\", source_modified_at: 2026-01-01T00:00:00Z}\n",
    );
    let manifest = dir.path().join("manifest.yaml");
    let manifest = manifest.to_str().unwrap();
    let told = cli.run(&["seed", manifest, "--tenant", "acme"]).expect(0);
    assert!(told.out.contains("2 new"), "{told:#?}");
    assert_eq!(cli.slate("S").description.as_deref(), Some("By hand"));
    assert_eq!(cli.tags("notes/today.md"), json!({"a": true, "c": 2}));
    let (bytes, head, _) = cli.file("logo.png");
    assert_eq!(bytes, [0, 159, 146, 150]);
    assert_eq!((head.media_type.as_str(), head.source_version.as_deref()), ("image/png", Some("7")));
    assert_eq!(head.source_modified_at.unwrap().to_rfc3339(), "2026-01-01T00:00:00+00:00");
    let again = cli.run(&["seed", manifest, "--tenant", "acme"]).expect(0);
    assert!(again.out.contains("2 unchanged"), "{again:#?}");
}

#[test]
fn a_new_version_is_named_after_the_commit_that_has_its_contents() {
    let cli = Cli::new();
    let dir = place();
    let git = |arguments: &[&str]| {
        let settings = ["-c", "user.name=t", "-c", "user.email=t@localhost", "-c", "commit.gpgsign=false"];
        let output =
            Command::new("git").arg("-C").arg(dir.path()).args(settings).args(arguments).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        format!("git:{}", String::from_utf8(output.stdout).unwrap().trim())
    };
    git(&["init", "-q"]);
    put(dir.path(), "docs/a.md", "one");
    put(dir.path(), "docs/b.md", "one");
    put(dir.path(), "docs/dirty.md", "committed");
    git(&["add", "."]);
    git(&["commit", "-qm", "first"]);
    let first = git(&["rev-parse", "--short", "HEAD"]);
    put(dir.path(), "docs/dirty.md", "not committed");
    put(dir.path(), "docs/untracked.md", "x");
    let docs = dir.path().join("docs");
    cli.seed(&docs, &[]).expect(0);
    let named = |path: &str| cli.file(path).1.source_version;
    assert_eq!(named("a.md").as_ref(), Some(&first));
    assert_eq!((named("dirty.md"), named("untracked.md")), (None, None));

    put(dir.path(), "docs/b.md", "two");
    git(&["add", "."]);
    git(&["commit", "-qm", "second"]);
    let second = git(&["rev-parse", "--short", "HEAD"]);
    let told = cli.seed(&docs, &[]).expect(0);
    assert!(told.out.contains("1 with a new version") && told.out.contains("3 unchanged"), "{told:#?}");
    assert_eq!((named("a.md"), named("b.md")), (Some(first), Some(second)));
    assert!(cli.seed(&docs, &[]).expect(0).out.contains("4 unchanged"));
}
