//! Seeding what is not as it should be: each bad file is named, with its line where it has one, and the rest are loaded.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::os::unix::process::CommandExt;
use std::path::Path;

use serde_json::json;

use crate::support::{Cli, SLATEBASE, command, place, put, run};

#[test]
fn names_and_links_that_cannot_be_loaded() {
    let cli = Cli::new();
    let (dir, outside) = (place(), place());
    put(outside.path(), "secret", "s");
    put(dir.path(), "good.md", "---\na: 1\n---\ngood");
    put(dir.path(), OsStr::from_bytes(b"bad\xff.md"), "x");
    put(dir.path(), "e\u{301}.md", "first");
    put(dir.path(), "\u{e9}.md", "second");
    put(dir.path(), "back\\slash.md", "x");
    put(dir.path(), "new\nline.md", "x");
    symlink(outside.path().join("secret"), dir.path().join("out")).unwrap();
    symlink(outside.path(), dir.path().join("out folder")).unwrap();
    symlink("nowhere", dir.path().join("dangling")).unwrap();
    symlink("good.md", dir.path().join("inside")).unwrap();
    let told = cli.seed(dir.path(), &[]).expect(1);
    assert!(told.out.contains("4 files loaded") && told.out.contains("6 problems"), "{told:#?}");
    assert!(told.problem("bad\u{fffd}.md").contains("UTF-8"));
    assert!(told.problem("\u{e9}.md").contains("NFC"));
    assert!(told.problem("back\\slash.md").contains("backslash"));
    assert!(told.problem("out:").contains("out of the directory"));
    assert!(told.problem("out folder:").contains("out of the directory"));
    assert!(told.problem("dangling").contains("nowhere"));
    assert_eq!(cli.paths(), ["e\u{301}.md", "good.md", "inside", "new\nline.md"]);
    assert_eq!(cli.file("e\u{301}.md").0, b"first");
    assert_eq!(cli.file("inside").0, b"---\na: 1\n---\ngood");
    let again = cli.seed(dir.path(), &[]).expect(1);
    assert!(again.out.contains("4 unchanged"), "{again:#?}");
}

#[test]
fn front_matter_that_cannot_be_read_is_named_by_its_line_and_the_contents_stay() {
    let cli = Cli::new();
    let dir = place();
    // Seven levels of nine: five million from a few hundred bytes.
    let mut bomb = String::from("---\na0: &a0 [x]\n");
    for level in 1..8 {
        let below = vec![format!("*a{}", level - 1); 9].join(", ");
        bomb += &format!("a{level}: &a{level} [{below}]\n");
    }
    bomb += "---\nbody";
    let broken = [
        ("bomb.md", bomb.as_str(), ""),
        ("twice.md", "---\na: 1\nb: 2\na: 3\n---\nbody", ":4: "),
        ("tab.md", "---\na: 1\nb:\n\t- x\n---\nbody", ":4: "),
        ("open.md", "---\na: [1, 2\nb: 3\n---\nbody", ""),
        ("toml.md", "+++\na = 1\nb = \n+++\nbody", ":3: "),
        ("huge.md", "---\na: 1e400\n---\nbody", ":2: "),
        ("long.md", "---\na: 123456789012345678901234567890\n---\nbody", ":2: "),
        ("latin.md", "---\na: 1\n---\nfine", ""),
    ];
    for (path, contents, _) in broken {
        put(dir.path(), path, contents);
    }
    put(dir.path(), "latin.md", b"---\na: caf\xe9\n---\nbody");
    put(dir.path(), "good.md", "---\na: 1\n---\ngood");
    let told = cli.seed(dir.path(), &[]).expect(1);
    assert!(told.out.contains("9 files loaded") && told.out.contains("8 problems"), "{told:#?}");
    for (path, contents, line) in broken {
        let problem = told.problem(path);
        assert!(problem.starts_with(&format!("{path}{line}")), "{problem}");
        let at = problem[path.len() + 1..].split(':').next().unwrap();
        assert!(at.parse().is_ok_and(|line: usize| line >= 1), "{problem}");
        let (bytes, _, tags) = cli.file(path);
        if path != "latin.md" {
            assert_eq!(bytes, contents.as_bytes(), "{path}");
        }
        assert_eq!(tags, json!({}), "{path}");
    }
    assert_eq!(cli.file("latin.md").0, b"---\na: caf\xe9\n---\nbody");
    assert_eq!(cli.tags("good.md"), json!({"a": 1}));

    // Once mended, its metatags come; broken again, they stay as they were.
    put(dir.path(), "twice.md", "---\na: 1\n---\nbody");
    cli.seed(dir.path(), &[]).expect(1);
    assert_eq!(cli.tags("twice.md"), json!({"a": 1}));
    put(dir.path(), "twice.md", "---\na: 1\na: 2\n---\nbody");
    cli.seed(dir.path(), &[]).expect(1);
    assert_eq!(cli.tags("twice.md"), json!({"a": 1}));
}

#[test]
fn a_metatag_that_is_refused_leaves_the_others() {
    let cli = Cli::new();
    let dir = place();
    put(dir.path(), "slate.yaml", "metatag_types: {priority: number}\n");
    let long = "v".repeat(64 * 1024 + 1);
    let contents = format!(
        "---\ngood: 1\nnul: \"a\\0b\"\nlong: {long}\npriority: high\n\"\": empty\n\"{}\": name\nlast: [x]\n---\nbody \0 \u{1}",
        "n".repeat(129)
    );
    put(dir.path(), "a.md", &contents);
    let told = cli.seed(dir.path(), &[]).expect(1);
    assert!(told.out.contains("1 files loaded") && told.out.contains("5 problems"), "{told:#?}");
    for (line, word) in [(3, "\"nul\""), (4, "\"long\""), (5, "\"priority\""), (6, "\"\""), (7, "\"nnn")] {
        let problem = told.problem(&format!("a.md:{line}: "));
        assert!(problem.contains(word), "{problem}");
    }
    let (bytes, _, tags) = cli.file("a.md");
    assert_eq!(bytes, contents.as_bytes());
    assert_eq!(tags, json!({"good": 1, "last": ["x"]}));

    let many: String = (0..6).map(|n| format!("t{n}: {}\n", "x".repeat(60_000))).collect();
    put(dir.path(), "many.md", format!("---\n{many}---\n"));
    let told = cli.seed(dir.path(), &[]).expect(1);
    assert!(told.problem("many.md").contains("none of the metatags"), "{told:#?}");
    assert_eq!(cli.tags("many.md"), json!({}));
}

#[test]
fn manifests_name_files_that_no_slate_can_hold() {
    let cli = Cli::new();
    let dir = place();
    let long = "n".repeat(300);
    put(
        dir.path(),
        "manifest.yaml",
        format!(
            "files:\n- {{path: good, content: a}}\n- {{path: {long}, content: a}}\n- {{path: \"nul\\0\", content: a}}\n\
             - {{path: ../up, content: a}}\n- {{path: good, content: b}}\n- {{path: good/below, content: b}}\n\
             - {{path: out, from: ../../etc/hostname}}\n- {{path: none}}\n- {{path: last, content: a}}\n"
        ),
    );
    let told = cli.seed(&dir.path().join("manifest.yaml"), &[]).expect(1);
    for (line, word) in [(3, "255 bytes"), (4, "U+0000"), (5, ".."), (6, "line 2"), (8, "out"), (9, "none")] {
        let problem = told.problem(&format!("manifest.yaml:{line}: "));
        assert!(problem.contains(word), "{problem}");
    }
    assert!(told.problem("good/below: ").contains("file"), "{told:#?}");
    assert!(told.out.contains("7 problems"), "{told:#?}");
    assert_eq!(cli.paths(), ["good", "last"]);
}

#[test]
fn settings_that_are_wrong_do_not_stop_the_files() {
    let cli = Cli::new();
    let dir = place();
    put(dir.path(), "a", "x");
    for (settings, at, word) in [
        ("description: x\ncolour: red\n", "slate.yaml:2: ", "colour"),
        ("retention_days: 99999999\n", "slate.yaml: ", "retention_days"),
        ("a: [\n", "slate.yaml:", ""),
    ] {
        put(dir.path(), "slate.yaml", settings);
        let told = cli.seed(dir.path(), &[]).expect(1);
        assert!(told.problem(at).contains(word), "{told:#?}");
        assert_eq!(cli.paths(), ["a"]);
    }
}

#[test]
fn contents_are_bytes_up_to_a_size() {
    let cli = Cli::new();
    let dir = place();
    put(dir.path(), "nul", b"\0\0");
    put(dir.path(), "empty", b"");
    let big = fs::File::create(dir.path().join("big")).unwrap();
    big.set_len(64 * 1024 * 1024).unwrap();
    let bigger = fs::File::create(dir.path().join("bigger")).unwrap();
    bigger.set_len(64 * 1024 * 1024 + 1).unwrap();
    let told = cli.seed(dir.path(), &[]).expect(1);
    assert!(told.problem("bigger").contains("larger than 67108864 bytes"));
    assert_eq!(cli.paths(), ["big", "empty", "nul"]);
    assert_eq!((cli.file("nul").0, cli.file("empty").0), (vec![0, 0], vec![]));
    assert_eq!(cli.file("big").1.size, 64 * 1024 * 1024);
}

/// As an account that is not root, since root can read everything.
#[test]
fn unreadable_files_and_folders() {
    let cli = Cli::new();
    let (dir, bin) = (place(), place());
    put(dir.path(), "good", "x");
    put(dir.path(), "closed", "x");
    put(dir.path(), "closed folder/inside", "x");
    for closed in ["closed", "closed folder"] {
        fs::set_permissions(dir.path().join(closed), fs::Permissions::from_mode(0o000)).unwrap();
    }
    let program = bin.path().join("slatebase");
    fs::hard_link(SLATEBASE, &program).or_else(|_| fs::copy(SLATEBASE, &program).map(drop)).unwrap();
    let mut seed = command(&program);
    seed.args(["seed", "--tenant", "acme", "--slate", "S"]).arg(dir.path());
    seed.env("SLATEBASE_DATABASE_URL", cli.database.url()).current_dir("/");
    if nix::unistd::geteuid().is_root() {
        // Who runs the database can enter the directory of its socket.
        let url = url::Url::parse(&cli.database.url().replace("@/", "@unix/")).unwrap();
        let socket = url.query_pairs().find(|(name, _)| name == "host").unwrap().1.into_owned();
        let owner = fs::metadata(Path::new(&socket)).unwrap();
        seed.uid(owner.uid()).gid(owner.gid());
    }
    let told = run(&mut seed).expect(1);
    // So that it can be deleted.
    fs::set_permissions(dir.path().join("closed folder"), fs::Permissions::from_mode(0o755)).unwrap();
    assert!(told.problem("closed: ").contains("denied"));
    assert!(told.problem("closed folder: ").contains("denied"));
    assert_eq!(cli.paths(), ["good"]);
}

#[test]
fn what_makes_no_sense_is_said_before_anything_is_done() {
    let cli = Cli::new();
    let dir = place();
    put(dir.path(), "a", "x");
    let told = cli.seed(&dir.path().join("missing"), &[]).expect(1);
    assert!(told.err.contains("missing"), "{told:#?}");
    let source = dir.path().to_str().unwrap();
    let told = cli.run(&["seed", source, "--tenant", "acme"]).expect(1);
    assert!(told.err.contains("--slate"), "{told:#?}");
    let told = cli.run(&["seed", source, "--tenant", "Not A Name", "--slate", "S"]).expect(1);
    assert!(told.err.contains("a-z"), "{told:#?}");
    let told = cli.run(&["seed", source, "--tenant", "acme", "--slate", "a/b"]).expect(1);
    assert!(told.err.contains("slate's name"), "{told:#?}");
    cli.run(&["seed", source]).expect(2);
    cli.run(&["sow"]).expect(2);
}
