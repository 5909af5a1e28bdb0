//! The command line's operations, by the binary.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::json;

use crate::player::{Player, text};
use crate::scenario::bulk;

const SLATEBASE: &str = env!("CARGO_BIN_EXE_slatebase");

async fn run(player: &mut Player<'_>, arguments: &[&str]) -> String {
    let mut command = Command::new(SLATEBASE);
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("SLATEBASE_") {
            command.env_remove(name);
        }
    }
    command.args(arguments).env("SLATEBASE_DATABASE_URL", player.server.url());
    command.env("SLATEBASE_SECRETS_KEY", crate::support::SECRETS_KEY);
    let words = arguments.join(" ");
    let started = std::time::Instant::now();
    let output = tokio::task::spawn_blocking(move || command.output()).await.unwrap().unwrap();
    let took = started.elapsed().as_secs_f64();
    if took > 5.0 {
        eprintln!("{}: slatebase {words} took {took:.1} s", player.recorder.shape);
    }
    // 1 is also what tells of something that is not there.
    if !matches!(output.status.code(), Some(0 | 1)) || output.stdout.is_empty() && !output.status.success() {
        let said: String = String::from_utf8_lossy(&output.stderr).chars().take(400).collect();
        player
            .recorder
            .failures
            .push(format!("{}: slatebase {words}: {} {said}", player.recorder.shape, output.status));
    }
    let name = format!("slatebase {}", arguments[0]);
    player.recorder.look(&name, &words);
    String::from_utf8_lossy(&output.stdout).into_owned()
}

pub async fn all(player: &mut Player<'_>) {
    let place = tempfile::tempdir().unwrap();
    let docs = place.path().join("docs");
    write(&docs);
    let (docs, archive) = (docs.to_str().unwrap(), place.path().join("a.tar.gz"));
    let archive = archive.to_str().unwrap();
    let tenant = player.tenant.clone();
    let file = player.places.files(9).remove(8);
    let of = |command: &[&str]| -> Vec<String> {
        let more = ["--tenant", &tenant].map(str::to_owned);
        command.iter().map(|word| (*word).to_owned()).chain(more).collect()
    };
    let seeded = of(&["seed", docs, "--slate", "Docs"]);
    let imported = of(&["import", archive, "--slate", "Docs", "--folder", "seeded"]);
    let exported = of(&["export", "--slate", "Docs", "--folder", "sub", "--output", archive, "--hidden"]);
    let retrieved = of(&["retrieve", &file, "--slate", "Docs"]);
    let cited = of(&["cite", &format!("slate://Docs/{file}@1")]);
    let quoted = of(&["cite", &format!("slate://Docs/{file}@1"), "--quote", "what is common"]);
    for command in [&seeded, &seeded, &exported, &imported, &imported, &retrieved, &cited, &quoted] {
        let words: Vec<&str> = command.iter().map(String::as_str).collect();
        run(player, &words).await;
    }
    fs::remove_file(Path::new(docs).join("sub/f7.md")).unwrap();
    let pruned = of(&["seed", docs, "--slate", "Seeded", "--prune"]);
    for _ in 0..2 {
        run(player, &pruned.iter().map(String::as_str).collect::<Vec<_>>()).await;
    }
    run(player, &["tenant", "list"]).await;
    run(player, &["tenant", "create", "made"]).await;
    let token = run(player, &["key", "create", "made"]).await;
    run(player, &["key", "list", "made"]).await;
    run(player, &["key", "revoke", "made", token.split('_').nth(2).unwrap_or_default()]).await;
    run(player, &["tenant", "delete", "made", "--yes"]).await;
    run(player, &["secrets", "rotate"]).await;
    run(player, &["maintain", "--dry-run"]).await;
    // What is past its retention goes.
    player.recorder.skip();
    let mut superuser = player.server.superuser();
    diesel::connection::SimpleConnection::batch_execute(
        &mut superuser,
        "update file_ids set deleted_at = deleted_at - interval '40 days' where id in
           (select id from file_ids where deleted_at is not null order by id desc limit 700);
         update sessions set finished_at = finished_at - interval '100 days' where id in
           (select id from sessions where finished_at is not null order by id limit 120)",
    )
    .unwrap();
    run(player, &["maintain"]).await;
    let session = ended_session(player).await;
    run(player, &["verify", &tenant, &session]).await;
}

/// A session with a few rounds, that has ended.
async fn ended_session(player: &mut Player<'_>) -> String {
    let declaration = json!({"to": {"slate": "Docs", "folder": player.places.corpus}, "as": "Docs", "maxRounds": 2,
        "requestMatch": {"type": "object", "properties": {"glob": {"type": "string"}}}});
    let opened = player.call("create_session", &[], json!({"retrieve": declaration})).await.json();
    let id = text(&opened, "session_id");
    for output in [json!({"glob": "*"}), json!("done")] {
        player.call("submit_round", &[&id], json!({"output": output})).await;
    }
    id
}

/// A directory of documents.
fn write(root: &Path) {
    fs::create_dir_all(root.join("sub")).unwrap();
    for n in 0..60 {
        let text = format!("---\ncategory: c{}\nrank: {n}\n---\n# Title {n}\n\nSeeded.\n", n % 5);
        fs::write(root.join(format!("sub/f{n}.md")), text).unwrap();
    }
    fs::write(root.join("list.ndjson"), bulk("sub", 3)).unwrap();
}

/// Every chain, record and content of a tenant.
pub async fn verify(player: &mut Player<'_>, tenant: &str) {
    run(player, &["verify", tenant]).await;
}

/// Erases a tenant. The binary makes connections of its own.
pub async fn erase(player: &mut Player<'_>, tenant: &str) {
    run(player, &["tenant", "delete", tenant, "--yes"]).await;
}
