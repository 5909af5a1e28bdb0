//! Retrieving and citing from the command line, and what `verify` makes of tampering.

use diesel::connection::SimpleConnection;
use serde_json::Value;

use crate::support::{Cli, seeds};

fn seeded() -> Cli {
    let cli = Cli::new();
    cli.seed(&seeds("handbook"), &[]).expect(0);
    cli
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

#[test]
fn one_thing_is_retrieved_and_cited_again() {
    let cli = seeded();
    let whole = ["retrieve", "billing/invoices.md", "--tenant", "acme", "--slate", "S"];
    let found = json(&cli.run(&[&whole[..], &["--lines", "1-3"]].concat()).expect(0).out);
    assert_eq!(found["extraction"]["applied_filters"]["lines"], "1-3");
    let section = ["--section", "How an invoice comes into being"];
    let found = json(&cli.run(&[&whole[..], &section].concat()).expect(0).out);
    let text = found["retrieved"]["data"].as_str().unwrap();
    assert!(text.starts_with("# How an invoice comes into being\n"));

    let reference = found["citation"]["reference"].as_str().unwrap();
    let hash = found["citation"]["hash"].as_str().unwrap();
    let cited = json(&cli.run(&["cite", reference, "--tenant", "acme", "--hash", hash]).expect(0).out);
    assert_eq!((cited["status"].as_str(), cited["data"].as_str()), (Some("verified"), Some(text)));
    let quote = ["cite", reference, "--tenant", "acme", "--quote"];
    let found = json(&cli.run(&[&quote[..], &["An invoice is never edited."]].concat()).expect(0).out);
    assert_eq!(found["status"], "found");
    cli.run(&[&quote[..], &["An invoice is always edited."]].concat()).expect(1);
}

#[test]
fn what_cannot_be_retrieved_says_why() {
    let cli = seeded();
    let missed = cli.run(&["retrieve", "slate://S/billing/invoice.md", "--tenant", "acme"]).expect(1);
    let missed = json(&missed.out);
    assert_eq!(missed["failure"]["reason"], "not_found");
    assert_eq!(missed["failure"]["alternatives"][0], "billing/invoices.md");
    let told = cli.run(&["retrieve", "billing/invoices.md", "--tenant", "acme"]).expect(1);
    assert!(told.err.contains("default_slate"), "{told:#?}");
    let told = cli.run(&["retrieve", "a", "--tenant", "acme", "--slate", "S", "--lines", "x"]).expect(1);
    assert!(told.err.contains("/constraints/lines"), "{told:#?}");
    cli.run(&["cite", "slate://S/README.md", "--tenant", "acme"]).expect(1);
}

#[test]
fn tampering_is_found_and_named() {
    let cli = seeded();
    cli.run(&["retrieve", "slate://S/README.md", "--tenant", "acme"]).expect(0);
    let sound = cli.run(&["verify", "acme"]).expect(0).out;
    assert!(sound.contains(" 1 records, ") && sound.ends_with("all as they were written\n"), "{sound}");
    let mut admin = cli.database.superuser();
    for (alter, restore, named) in [
        (
            "create table kept as select * from files; \
             update files set data = set_byte(data, 0, 1) where path = 'README.md'",
            "update files f set data = k.data from kept k where k.id = f.id",
            "slate://S/README.md@1",
        ),
        (
            "update provenance set details = replace(details::text, 'confidence\\\":1.0', 'confidence\\\":0.9')::json",
            "update provenance set details = replace(details::text, 'confidence\\\":0.9', 'confidence\\\":1.0')::json",
            "record ",
        ),
    ] {
        admin.batch_execute(alter).unwrap();
        let found = cli.run(&["verify", "acme"]).expect(1).out;
        assert!(found.contains(named), "{alter}: {found}");
        admin.batch_execute(restore).unwrap();
        cli.run(&["verify", "acme"]).expect(0);
    }
}
