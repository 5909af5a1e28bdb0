//! A server that is killed in the middle of an import: the same import again takes it to its end, and doubles nothing.

use std::time::Duration;

use flate2::Compression;
use flate2::write::GzEncoder;
use reqwest::Method;
use serde_json::{Value, json};

use super::{Caller, OPERATOR, Server, fresh_dir};

const FILES: usize = 12_000;

#[test]
fn an_import_that_was_cut_off_is_taken_to_its_end_by_the_same_import() {
    tokio::runtime::Runtime::new().unwrap().block_on(kill_and_import_again());
}

fn archive() -> Vec<u8> {
    let mut tar = tar::Builder::new(GzEncoder::new(Vec::new(), Compression::fast()));
    for n in 0..FILES {
        let contents = format!("contents of {n}\n");
        let mut head = tar::Header::new_gnu();
        head.set_size(contents.len() as u64);
        head.set_mode(0o644);
        tar.append_data(&mut head, format!("d{}/f{n:05}.md", n % 7), contents.as_bytes()).unwrap();
    }
    tar.into_inner().unwrap().finish().unwrap()
}

/// The lines of the answer, as far as they came.
async fn import(caller: &Caller, archive: Vec<u8>) -> Vec<Value> {
    let request =
        caller.client.post(format!("{}/v1/slates/K/import", caller.base)).bearer_auth(&caller.token);
    let Ok(mut response) = request.header("content-type", "application/gzip").body(archive).send().await
    else {
        return Vec::new();
    };
    let mut body = Vec::new();
    while let Ok(Some(part)) = response.chunk().await {
        body.extend_from_slice(&part);
    }
    let lines = String::from_utf8(body).unwrap();
    lines.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

/// How many files the slate has, as its facets count them.
async fn count(caller: &Caller) -> u64 {
    caller.get("/v1/slates/K/facets?recursive=true").await["files"].as_u64().unwrap()
}

async fn kill_and_import_again() {
    let data_dir = fresh_dir();
    let server = Server::start(&data_dir).await;
    let operator = server.caller(OPERATOR);
    operator.post("/v1/tenants", json!({"name": "acme"})).await;
    let key = json!({"label": "test", "scopes": ["read", "write", "retrieve"]});
    let token = operator.post("/v1/tenants/acme/keys", key).await["token"].as_str().unwrap().to_owned();
    let caller = server.caller(&token);
    caller.call(Method::PUT, "/v1/slates/K", json!({})).await;
    let archive = archive();
    let importing = tokio::spawn({
        let (caller, archive) = (caller.clone(), archive.clone());
        async move { import(&caller, archive).await }
    });
    while count(&caller).await == 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    server.kill();
    let told = importing.await.unwrap();
    assert!(told.iter().all(|line| line.get("end").is_none()), "it was killed too late");

    let server = Server::start(&data_dir).await;
    let caller = server.caller(&token);
    let there = count(&caller).await;
    assert!(0 < there && there < FILES as u64, "{there}");
    // Whoever was told that a file is there has it there.
    let written = told.iter().filter(|line| line["version"] == 1).count() as u64;
    assert!(written <= there, "{written} were told, {there} are there");
    let told = import(&caller, archive).await;
    let end = &told.last().unwrap()["end"];
    assert_eq!((&end["new"], &end["unchanged"]), (&json!(FILES as u64 - there), &json!(there)), "{end}");
    assert_eq!((&end["failed"], &end["complete"]), (&json!(0), &json!(true)), "{end}");
    assert!(told.iter().filter(|line| line.get("version").is_some()).all(|line| line["version"] == 1));
    assert_eq!(count(&caller).await, FILES as u64);
    server.stop();
}
