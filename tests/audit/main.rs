//! The plan audit: every operation of the API document and of the command line over large data of several shapes, and no
//! statement may read or throw away much more than it gives.
//!
//! The plans are those that `auto_explain` logs on a Postgres of the audit's own, as the service's own login; so they are
//! the very ones of the service. What may do more stands in `exceptions`. An operation without a scenario and a statement
//! in the sources that was not executed fail too: each statement's plan is looked at, a new one's as well.
//!
//! `cargo test --test audit` plays two shapes; `SLATEBASE_AUDIT=full` all of them, and a name, such as
//! `SLATEBASE_AUDIT=deep`, that one. `SLATEBASE_PG_BIN` chooses the Postgres, and `.ci/postgres` fetches several.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

mod catalogue;
mod command_line;
mod exceptions;
mod load;
mod log;
mod mcp;
mod plans;
mod player;
mod recorder;
mod scenario;
mod shapes;
mod sources;
#[path = "../api/support/mod.rs"]
#[allow(dead_code, reason = "this needs a part of it")]
mod support;

use load::{Loaded, Tree};
use log::Log;
use player::Player;
use recorder::Recorder;
use shapes::Shape;
use sources::Sources;
use support::cluster::{Database, PLACE};
use support::{Caller, Server};

/// Nothing is stopped for taking long: of what is stopped there is no plan.
const PATIENCE_MS: u32 = 600_000;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_statement_reads_or_throws_away_much_more_than_it_gives() {
    let chosen = std::env::var("SLATEBASE_AUDIT").unwrap_or_default();
    let shapes: Vec<Shape> = match &chosen[..] {
        "" => Shape::SHORT.into(),
        "full" => Shape::ALL.into(),
        name => Shape::ALL.into_iter().filter(|shape| format!("{shape:?}").to_lowercase() == name).collect(),
    };
    assert!(!shapes.is_empty(), "SLATEBASE_AUDIT={chosen} is no shape of data");
    let place = tempfile::Builder::new().prefix("slatebase-audit-").tempdir().unwrap();
    // As root, Postgres runs as another account, which has to pass through.
    fs::set_permissions(place.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let cluster = place.path().join("cluster");
    PLACE.set(cluster.clone()).unwrap();
    let mut recorder = Recorder::new(Log::new(cluster.join("server.log")), Sources::read());

    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("audit.txt");
    let mut loaded: Option<(Tree, Arc<Database>, Caller, Caller)> = None;
    for (n, shape) in shapes.iter().enumerate() {
        if loaded.as_ref().is_none_or(|(tree, ..)| *tree != shape.tree()) {
            let started = Instant::now();
            let Loaded { server, big, small } = load::load(shape.tree()).await;
            loaded = Some((shape.tree(), server.database(), big, small));
            eprintln!("loaded {:?} in {:.1} s", shape.tree(), started.elapsed().as_secs_f64());
        }
        let (_, database, big, small) = loaded.as_ref().unwrap();
        let started = Instant::now();
        play(*shape, database, big, small, &mut recorder, n == 0).await;
        eprintln!("played {shape:?} in {:.1} s", started.elapsed().as_secs_f64());
        fs::write(&file, recorder.report()).unwrap();
    }

    let mut problems = recorder.failures.clone();
    let without = player::operations().into_keys().filter(|id| !recorder.operations.contains(id));
    problems
        .extend(without.map(|id| format!("no scenario plays the operation {id}: add one to tests/audit/")));
    let missing = recorder.sources.missing(&recorder.statements);
    problems.extend(missing.into_iter().map(|piece| format!("not executed by any scenario: {piece}")));
    if chosen == "full" {
        problems
            .extend(recorder.unused().into_iter().map(|of| format!("an exception that nothing needs: {of}")));
    }
    let report = format!("{}\n{}\n", problems.join("\n"), recorder.report());
    fs::write(&file, &report).unwrap();
    assert!(problems.is_empty() && recorder.offences() == 0, "{report}\nThis is also in {}", file.display());
}

/// Plays all operations over a copy of the data.
async fn play(
    shape: Shape,
    database: &Arc<Database>,
    big: &Caller,
    small: &Caller,
    recorder: &mut Recorder,
    first: bool,
) {
    let database = database.clone();
    let copy = tokio::task::spawn_blocking(move || {
        let copy = database.copy();
        let mut superuser = copy.superuser();
        log::enable(&mut superuser);
        shape.prepare(&mut superuser);
        copy
    })
    .await
    .unwrap();
    let server = Server::start_over(copy, |config| {
        config.database.statement_timeout_ms = PATIENCE_MS;
        config.outbound.outbound_allow = vec!["127.0.0.0/8".parse().unwrap()];
        config.outbound.outbound_rate = 1000;
        config.runs.max_runs = 2;
        config.fixed_tokens = true;
        config.runs.model_attempts = 2;
    })
    .await;
    recorder.shape = format!("{shape:?}");
    recorder.skip();
    if first {
        let functions = tokio::task::block_in_place(|| sources::functions(&mut server.superuser()));
        recorder.sources.functions = functions;
    }
    let (tenant, token) = if shape == Shape::Small { ("small", small) } else { ("big", big) };
    let caller = server.operator.with_token(token.token.clone().unwrap());
    let mut player = Player::new(&server, &caller, tenant, shape.places(), recorder);
    scenario::service(&mut player).await;
    scenario::tenants(&mut player).await;
    scenario::settings(&mut player).await;
    scenario::reads(&mut player).await;
    scenario::queries(&mut player).await;
    catalogue::sessions(&mut player).await;
    catalogue::citations(&mut player).await;
    scenario::writes(&mut player).await;
    scenario::spellings(&mut player).await;
    scenario::slates(&mut player).await;
    catalogue::corpora(&mut player).await;
    catalogue::routes(&mut player).await;
    catalogue::runs(&mut player).await;
    catalogue::sources(&mut player).await;
    mcp::all(&mut player).await;
    scenario::archives(&mut player, shape == Shape::Flat).await;
    command_line::all(&mut player).await;
    command_line::verify(&mut player, if tenant == "small" { "big" } else { "small" }).await;
    // The small one beside the large one.
    player.get("delete_tenant", &["small"]).await;
    if shape == Shape::Flat {
        log::only_slow(&mut server.superuser());
        command_line::erase(&mut player, "big").await;
    }
    drop(player);
    server.stop().await;
    recorder.look("slatebase serve", "stops");
}
