//! Archives in and out, from the command line.

use std::fs;

use crate::support::{Cli, place, put, seeds};

#[test]
fn what_is_exported_is_imported_and_again_writes_nothing() {
    let cli = Cli::new();
    cli.seed(&seeds("handbook"), &[]).expect(0);
    let (dir, tags) = (place(), cli.tags("engineering/reviews.md"));
    let archive = dir.path().join("all.tar.gz");
    let archive = archive.to_str().unwrap();
    let count = cli.paths().len();
    let exported = cli.run(&["export", "--tenant", "acme", "--slate", "S", "--output", archive]).expect(0);
    assert!(exported.err.contains(&format!("{count} files and ")), "{exported:#?}");
    assert!(!dir.path().join("all.tar.gz.part").exists());
    let into = ["import", archive, "--tenant", "other", "--slate", "Restored"];
    let first = cli.run(&into).expect(0);
    assert!(first.out.contains(&format!("{count} new, 0 changed, 0 unchanged")), "{first:#?}");
    assert!(first.out.contains("settings restored"), "{first:#?}");
    let again = cli.run(&into).expect(0);
    assert!(again.out.contains(&format!("0 new, 0 changed, {count} unchanged")), "{again:#?}");
    let back = ["export", "--tenant", "other", "--slate", "Restored", "--folder", "engineering"];
    assert_eq!(cli.run(&[&back[..], &["--output", archive]].concat()).expect(0).out, "");
    let over = ["import", archive, "--tenant", "acme", "--slate", "S", "--folder", "engineering"];
    let same = cli.run(&over).expect(0);
    assert!(same.out.contains("0 new, 0 changed"), "{same:#?}");
    assert_eq!(cli.tags("engineering/reviews.md"), tags);
}

#[test]
fn what_is_no_archive_and_what_is_bad_in_one_is_told() {
    let cli = Cli::new();
    let dir = place();
    put(dir.path(), "text.tar.gz", "text");
    let file = dir.path().join("text.tar.gz");
    let into = ["import", file.to_str().unwrap(), "--tenant", "acme", "--slate", "K"];
    assert!(cli.run(&into).expect(1).err.contains("is no .tar.gz, .tar or .zip"));
    let mut zip = zip::ZipWriter::new(fs::File::create(&file).unwrap());
    for name in ["../up", "good"] {
        zip.start_file(name, zip::write::SimpleFileOptions::default()).unwrap();
    }
    zip.finish().unwrap();
    let told = cli.run(&into).expect(1);
    assert!(told.problem("../up").contains("segment `.` or `..`"), "{told:#?}");
    assert!(told.out.contains("1 new, 0 changed, 0 unchanged; 0 folders; 1 entries not loaded"), "{told:#?}");
    assert!(
        cli.run(&["export", "--tenant", "acme", "--slate", "Nope"]).expect(1).err.contains("no such thing")
    );
}
