//! Tenants and keys, the schema, the document, and the help.

use std::fs;

use diesel::connection::SimpleConnection;
use slatebase::http::openapi;

use crate::support::{Cli, SLATEBASE, command, place, run, seeds};

#[test]
fn tenants_are_made_listed_and_deleted() {
    let cli = Cli::new();
    assert!(cli.run(&["tenant", "create", "acme"]).expect(0).out.starts_with("created tenant acme (number "));
    assert!(cli.run(&["tenant", "create", "acme"]).expect(1).err.contains("exists"));
    assert!(cli.run(&["tenant", "create", "Acme!"]).expect(1).err.contains("a-z"));
    cli.run(&["tenant", "create", "zeta"]).expect(0);
    let list = cli.run(&["tenant", "list"]).expect(0).out;
    let names: Vec<_> = list.lines().map(|line| line.split('\t').next().unwrap()).collect();
    assert_eq!(names, ["acme", "zeta"]);
    cli.seed(&seeds("handbook"), &[]).expect(0);
    // Nobody is there to be asked.
    assert!(cli.run(&["tenant", "delete", "acme"]).expect(1).err.contains("--yes"));
    assert!(cli.run(&["tenant", "delete", "other", "--yes"]).expect(1).err.contains("no tenant \"other\""));
    cli.run(&["tenant", "delete", "acme", "--yes"]).expect(0);
    assert!(!cli.run(&["tenant", "list"]).expect(0).out.contains("acme"));
    // The name is free again, and nothing is left behind it.
    cli.seed(&seeds("handbook"), &["--dry-run"]).expect(0);
}

#[test]
fn keys_are_shown_once_listed_and_revoked() {
    let cli = Cli::new();
    assert!(cli.run(&["key", "create", "acme"]).expect(1).err.contains("no such thing"));
    cli.run(&["tenant", "create", "acme"]).expect(0);
    let all = cli.run(&["key", "create", "acme"]).expect(0).out;
    let narrow = ["--label", "reader", "--scope", "read", "--scope", "retrieve", "--slate", "S"];
    let narrow =
        [&["key", "create", "acme"][..], &narrow, &["--expires-at", "2999-01-01T00:00:00Z"]].concat();
    let token = cli.run(&narrow).expect(0).out;
    assert!(token.starts_with("slb_") && token.ends_with('\n') && token.lines().count() == 1, "{token}");
    let list = cli.run(&["key", "list", "acme"]).expect(0).out;
    let lines: Vec<_> = list.lines().collect();
    assert!(lines[0].contains("read,write,retrieve,admin\tall slates") && lines[0].ends_with("live"));
    assert!(
        lines[1].contains("reader\tread,retrieve\tonly S")
            && lines[1].ends_with("until 2999-01-01T00:00:00Z")
    );
    for token in [&all, &token] {
        assert!(!list.contains(token.trim().rsplit('_').next().unwrap()));
    }
    let number = token.split('_').nth(2).unwrap();
    let alias = |more: &[&str]| cli.run(&[&["key", "alias", "acme", number][..], more].concat());
    assert!(alias(&["short"]).expect(1).err.contains("8 to 512"));
    alias(&["--remove"]).expect(1);
    assert!(alias(&["fabric-internal"]).expect(0).out.contains("SLATEBASE_FIXED_TOKENS=on"));
    let first = all.split('_').nth(2).unwrap();
    assert!(
        cli.run(&["key", "alias", "acme", first, "fabric-internal"]).expect(1).err.contains("another key's")
    );
    alias(&["--remove"]).expect(0);
    cli.run(&["key", "revoke", "acme", number]).expect(0);
    let list = cli.run(&["key", "list", "acme"]).expect(0).out;
    assert!(list.lines().nth(1).unwrap().contains("revoked 20"), "{list}");
    cli.run(&["key", "revoke", "acme", "999"]).expect(1);
    assert!(cli.run(&["key", "create", "acme", "--scope", "all"]).expect(2).err.contains("possible values"));
    let past = ["key", "create", "acme", "--expires-at", "2000-01-01T00:00:00Z"];
    assert!(cli.run(&past).expect(1).err.contains("future"));
}

#[test]
fn a_schema_that_is_not_current_is_refused_with_what_to_do() {
    let cli = Cli::new();
    cli.database.superuser().batch_execute("delete from __diesel_schema_migrations").unwrap();
    for arguments in [&["tenant", "list"][..], &["serve", "--listen", "127.0.0.1:0"]] {
        let told = cli.run(arguments).expect(1);
        assert!(told.err.contains("SLATEBASE_MIGRATE_DATABASE_URL"), "{told:#?}");
    }
    let told = cli.run(&["migrate"]).expect(1);
    assert!(told.err.contains("SLATEBASE_MIGRATE_DATABASE_URL"), "{told:#?}");
    let mut only = command(SLATEBASE.as_ref());
    only.args(["tenant", "list"]).env("SLATEBASE_MIGRATE_DATABASE_URL", cli.database.url());
    assert!(run(&mut only).expect(1).err.contains("set both"));
}

#[test]
fn the_powerful_login_migrates_and_does_not_serve() {
    let cli = Cli::new();
    let admin = cli.database.superuser_url();
    let migrate = || {
        let mut migrate = cli.command(&["migrate"]);
        run(migrate.env("SLATEBASE_MIGRATE_DATABASE_URL", &admin)).expect(0).out
    };
    assert!(migrate().starts_with("the schema is current: "));
    let mut serve = command(SLATEBASE.as_ref());
    serve.args(["serve", "--listen", "127.0.0.1:0"]).env("SLATEBASE_DATABASE_URL", &admin);
    let told = run(&mut serve).expect(1);
    assert!(told.err.contains("superuser") && told.err.contains("row-level security"), "{told:#?}");
}

/// As docker-compose and the manual make it: no superuser, but the owner of the database, who may make roles.
#[test]
fn a_login_that_owns_the_database_and_makes_roles_suffices_to_migrate() {
    let cli = Cli::new();
    let mut admin = cli.database.superuser();
    let name = format!("cli_{}", std::process::id());
    let url = |user: &str| {
        let of_test = url::Url::parse(&cli.database.superuser_url().replace("@/", "@unix/")).unwrap();
        format!("postgres://{user}@/{name}?{}", of_test.query().unwrap())
    };
    let make = ["create role {}_migrate login createrole", "create database {} owner {}_migrate"];
    make.iter().for_each(|statement| admin.batch_execute(&statement.replace("{}", &name)).unwrap());
    let told_by = |login: &str, arguments: &[&str]| {
        let mut command = cli.command(arguments);
        command.env("SLATEBASE_DATABASE_URL", url(&format!("{name}_service")));
        run(command.env("SLATEBASE_MIGRATE_DATABASE_URL", url(&format!("{name}_{login}"))))
    };
    let told = |arguments: &[&str]| told_by("migrate", arguments);
    let (first, second, made) = (told(&["migrate"]), told(&["migrate"]), told(&["tenant", "create", "acme"]));
    // A restored dump has the schema, and lacks what was revoked on the database; only the database's owner mends that.
    let restored = [
        "grant temporary on database {} to public",
        "create role {}_other login createrole in role slatebase_owner_{}",
    ];
    restored.iter().for_each(|statement| admin.batch_execute(&statement.replace("{}", &name)).unwrap());
    let (open, other) = (told(&["tenant", "list"]), told_by("other", &["migrate"]));
    let (mended, closed) = (told(&["migrate"]), told(&["tenant", "list"]));
    // Roles are the cluster's, and would stay.
    for statement in [
        "drop database {} with (force)",
        "drop role {}_service, {}_migrate, {}_other, slatebase_owner_{}, slatebase_app_{}",
    ] {
        admin.batch_execute(&statement.replace("{}", &name)).unwrap();
    }
    assert!(first.expect(0).out.starts_with("ran "));
    assert!(second.expect(0).out.starts_with("the schema is current"));
    made.expect(0);
    let revoke = format!("revoke temporary on database {name} from public");
    assert!(open.err.contains("slatebase migrate") && open.err.contains(&revoke), "{open:#?}");
    assert!(
        other.err.contains("must own the database") && other.err.contains("revoke temporary"),
        "{other:#?}"
    );
    open.expect(1);
    other.expect(1);
    mended.expect(0);
    closed.expect(0);
}

#[test]
fn verifying_finds_nothing_in_nothing() {
    let cli = Cli::new();
    cli.run(&["verify", "acme"]).expect(1);
    cli.run(&["tenant", "create", "acme"]).expect(0);
    assert_eq!(
        cli.run(&["verify", "acme"]).expect(0).out,
        "0 sessions, 0 records, 0 contents: all as they were written\n"
    );
    cli.run(&["verify", "acme", "01890a5d-ac96-774b-bcce-b302099a8057"]).expect(1);
    cli.run(&["verify", "acme", "7"]).expect(2);
}

#[test]
fn maintaining_tells_what_there_is_to_do_and_does_it() {
    let cli = Cli::new();
    cli.seed(&seeds("handbook"), &[]).expect(0);
    let dry = |cli: &Cli| cli.run(&["maintain", "--dry-run"]).expect(0).out;
    assert_eq!(dry(&cli), "acme: 0 versions to purge, 0 terms to drop\n");
    let admin = &mut cli.database.superuser();
    admin.batch_execute("update file_tags set tags = '{}', term_ids = '{}'").unwrap();
    assert!(!dry(&cli).contains(" 0 terms"));
    let done = cli.run(&["maintain"]).expect(0).out;
    assert!(done.starts_with("1 tenants: 0 versions purged, 0 sessions deleted, "), "{done}");
    assert_eq!(dry(&cli), "acme: 0 versions to purge, 0 terms to drop\n");
}

#[test]
fn the_document_is_printed_or_written() {
    let printed = run(command(SLATEBASE.as_ref()).arg("openapi")).expect(0);
    assert_eq!(printed.out, openapi::text());
    let dir = place();
    let file = dir.path().join("openapi.json");
    let written = run(command(SLATEBASE.as_ref()).args(["openapi", "--write"]).arg(&file)).expect(0);
    assert_eq!((written.out.as_str(), fs::read_to_string(&file).unwrap()), ("", printed.out));
}

#[test]
fn the_help_teaches_and_keeps_secrets() {
    let help = |arguments: &[&str]| {
        let mut command = command(SLATEBASE.as_ref());
        command.args(arguments).env("SLATEBASE_DATABASE_URL", "postgres://u:hunter2@localhost/d");
        run(command.env("SLATEBASE_OPERATOR_TOKEN", "hunter2")).expect(0).out
    };
    let top = help(&["--help"]);
    for name in [
        "serve",
        "demo",
        "seed",
        "migrate",
        "tenant",
        "key",
        "openapi",
        "verify",
        "retrieve",
        "cite",
        "Examples:",
    ] {
        assert!(top.contains(name), "{name}: {top}");
    }
    let serve = help(&["serve", "--help"]);
    for name in [
        "SLATEBASE_LISTEN",
        "SLATEBASE_DATABASE_URL",
        "SLATEBASE_MIGRATE_DATABASE_URL",
        "SLATEBASE_DATA_DIR",
        "SLATEBASE_OPERATOR_TOKEN",
    ] {
        assert!(serve.contains(name), "{name}: {serve}");
    }
    assert!(!serve.contains("hunter2"), "{serve}");
    assert!(help(&["seed", "--help"]).contains("slate.yaml"));
    assert!(help(&["--version"]).starts_with("slatebase 0."));
}
