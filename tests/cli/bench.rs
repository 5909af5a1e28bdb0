//! The benchmark, over few files. That it measures, not what.

use std::fs;

use serde_json::Value;

use crate::support::{SLATEBASE, command, place, run};

#[test]
fn a_small_run_measures_what_it_is_told_to() {
    let place = place();
    let data = place.path().join("data");
    let bench = |more: &[&str]| {
        let mut command = command(SLATEBASE.as_ref());
        command.args(["bench", "--files", "400", "--seconds", "0.01", "--data-dir"]).arg(&data).args(more);
        run(&mut command)
    };
    let only = [
        "exact name",
        "metatag rare",
        "session",
        "loading",
        "memory",
        "growth",
        "gateway",
        "prefetch",
        "run",
    ];
    let told = bench(&["--json", "--only", &only.join(",")]).expect(0);
    let report: Value = serde_json::from_str(&told.out).unwrap();
    let rows = report["rows"].as_array().unwrap();
    let names: Vec<&str> = rows.iter().map(|row| row["row"].as_str().unwrap()).collect();
    assert_eq!(
        names,
        [
            "exact name",
            "metatag rare",
            "metatag rare, from the root",
            "session round",
            "gateway search, selective",
            "gateway search, common, 2,500 files",
            "prefetch over three corpora"
        ]
    );
    assert!(
        report["run"]["rounds"].as_i64() >= Some(20) && report["run"]["times"]["p50"].as_f64() > Some(0.0)
    );
    assert_eq!((&rows[0]["found"], &rows[1]["found"]), (&1.into(), &1.into()), "{}", told.out);
    assert!(rows[2]["loads"].as_array().unwrap().iter().all(|load| load["per_second"].as_f64() > Some(0.0)));
    assert!(rows[0]["reads"]["all"].as_i64() > Some(0), "{}", told.out);
    assert!(report["loading"]["copy"].as_f64() > Some(0.0) && report["growth"].as_array().unwrap().len() > 5);

    // Round trips to the database, looking up the key, beginning and committing among them.
    let most = [
        ("read file", 4),
        ("exact name", 5),
        ("listing page of 100", 4),
        ("metatag common", 6),
        ("session round", 10),
        ("prefetch over three corpora", 20),
    ];
    let only = most.map(|(name, _)| name).join(",");
    let told = bench(&["--json", "--only", &only]).expect(0);
    let measured: Value = serde_json::from_str(&told.out).unwrap();
    for ((name, most), row) in most.iter().zip(measured["rows"].as_array().unwrap()) {
        let trips = row["reads"]["statements"].as_i64().unwrap();
        assert!(row["row"] == *name && trips <= *most, "{name}: {trips} round trips; at most {most}: {row}");
    }

    // What is there already is not loaded again, and what is better than it was is no regression.
    let old = place.path().join("old.json");
    let mut slow = report.clone();
    slow["rows"][0]["floors"] = 1e9.into();
    for load in slow["rows"][0]["loads"].as_array_mut().unwrap() {
        load["per_second"] = 0.1.into();
    }
    fs::write(&old, slow.to_string()).unwrap();
    let told = bench(&["--only", "exact name", "--compare", old.to_str().unwrap()]).expect(0);
    assert!(
        told.out.contains("SEARCH, on one connection") && told.out.contains("exact name"),
        "{}",
        told.out
    );

    let mut quick = report.clone();
    quick["rows"][0]["reads"]["statements"] = 1.into();
    fs::write(&old, quick.to_string()).unwrap();
    let told = bench(&["--only", "exact name", "--compare", old.to_str().unwrap()]).expect(1);
    assert!(told.err.contains("worse: exact name: statements"), "{}", told.err);
}
