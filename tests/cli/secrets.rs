//! The keys of secrets: made, taken from a file of the embedded Postgres's directory, and rotated.

use chrono::Utc;
use diesel::connection::SimpleConnection;
use slatebase::ctx::{Ctx, TenantId};
use slatebase::db::{Db, PoolOptions};
use slatebase::secrets::keys::Keys;
use slatebase::secrets::name::{SecretName, SecretValue};
use slatebase::secrets::ops;
use slatebase::tenants;
use uuid::Uuid;

use crate::support::{Cli, Told, run};

fn db(cli: &Cli) -> Db {
    let url = cli.database.url();
    let statement_timeout = std::time::Duration::from_secs(60);
    Db::connect(&PoolOptions { url, size: 2, statement_timeout, durable_queries: true }).unwrap()
}

fn tenant(db: &Db, name: &str) -> (TenantId, Ctx) {
    let id = db.operator_blocking(|tx| tenants::ops::get_tenant(tx, name)).unwrap().id;
    (id, Ctx::local(id, Utc::now(), Uuid::now_v7()))
}

fn put(db: &Db, of: &str, keys: &Keys, name: &str, value: &str) {
    let (id, ctx) = tenant(db, of);
    let (name, value) = (SecretName::parse(name).unwrap(), SecretValue::parse(value.into()).unwrap());
    db.tenant_blocking(id, |tx| ops::put(tx, &ctx, keys, &name, &value)).unwrap();
}

fn get(db: &Db, of: &str, keys: &Keys, name: &str) -> Option<String> {
    let (id, ctx) = tenant(db, of);
    let found = db.tenant_blocking(id, |tx| ops::reveal(tx, &ctx, keys, name)).ok()??;
    Some(found.expose().to_owned())
}

fn rotate(cli: &Cli, keys: &str) -> Told {
    run(cli.command(&["secrets", "rotate"]).env("SLATEBASE_SECRETS_KEY", keys))
}

#[test]
fn rotation_encrypts_every_tenants_secrets_under_the_first_key() {
    let cli = Cli::new();
    let key = || cli.run(&["secrets", "generate-key"]).expect(0).out.trim().to_owned();
    let (old, new) = (key(), key());
    assert!(old != new && old.len() == 64);
    for name in ["acme", "zeta", "idle"] {
        cli.run(&["tenant", "create", name]).expect(0);
    }
    let db = db(&cli);
    let of = |text: &str| Keys::parse(text).unwrap();
    // More than are encrypted in one transaction.
    let names: Vec<String> = (0..101).map(|n| format!("s{n:03}")).collect();
    names.iter().for_each(|name| put(&db, "acme", &of(&old), name, &format!("hunter2 {name}")));
    put(&db, "zeta", &of(&old), "s", "of zeta");
    put(&db, "zeta", &of(&new), "newer", "newer");

    // Without the old key nothing is lost, and nothing done.
    let told = rotate(&cli, &new).expect(1);
    assert_eq!(told.out, "3 tenants: 0 secrets encrypted anew, 102 could not be opened\n");
    assert!(told.err.contains("tenant zeta, secret s: "), "{}", told.err);
    assert_eq!(get(&db, "zeta", &of(&old), "s").as_deref(), Some("of zeta"));

    let both = format!("{new},{old}");
    let told = rotate(&cli, &both).expect(0);
    assert_eq!(told.out, "3 tenants: 102 secrets encrypted anew, 0 could not be opened\n");
    assert!(![&told.out, &told.err].iter().any(|text| text.contains("hunter2") || text.contains(&old)));
    assert_eq!(
        rotate(&cli, &both).expect(0).out,
        "3 tenants: 0 secrets encrypted anew, 0 could not be opened\n"
    );
    for name in &names {
        assert_eq!(get(&db, "acme", &of(&new), name), Some(format!("hunter2 {name}")));
    }
    assert_eq!(get(&db, "zeta", &of(&new), "s").as_deref(), Some("of zeta"));
    assert_eq!(get(&db, "zeta", &of(&old), "s"), None);

    // One that was tampered with is named, and the rest go on.
    put(&db, "acme", &of(&old), "s050", "again");
    put(&db, "acme", &of(&old), "s051", "again");
    cli.database
        .superuser()
        .batch_execute("update secrets set ciphertext = decode('00', 'hex') where name = 's050'")
        .unwrap();
    let told = rotate(&cli, &both).expect(1);
    assert_eq!(told.out, "3 tenants: 1 secrets encrypted anew, 1 could not be opened\n");
    assert!(told.err.contains("tenant acme, secret s050: "), "{}", told.err);
}

#[test]
fn wrong_keys_are_refused_and_not_printed() {
    let cli = Cli::new();
    for command in [&["secrets", "rotate"][..], &["serve", "--listen", "127.0.0.1:0"]] {
        let told = run(cli.command(command).env("SLATEBASE_SECRETS_KEY", "hunter2")).expect(1);
        assert!(told.err.contains("key 1 is not 32 bytes") && !told.err.contains("hunter2"), "{}", told.err);
    }
    let told = cli.run(&["secrets", "rotate"]).expect(1);
    assert!(told.err.contains("SLATEBASE_SECRETS_KEY"), "{}", told.err);
}
