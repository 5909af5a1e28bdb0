//! `slatebase session`: runs as they are drawn on a terminal, against a real server and a model that follows a script.

use std::time::Duration;

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::model::{Model, Says, call, text};
use crate::served::Served;
use crate::support::{SLATEBASE, Told, command, place, run};

const OPERATOR: &str = "an-operator-token-for-tests";

struct World {
    served: Served,
    token: String,
    _dir: tempfile::TempDir,
}

impl World {
    fn start() -> World {
        let dir = place();
        let mut serve = command(SLATEBASE.as_ref());
        serve
            .args(["serve", "--listen", "127.0.0.1:0", "--operator-token", OPERATOR])
            .args(["--outbound-allow", "127.0.0.0/8", "--model-attempts", "1"])
            .env("SLATEBASE_DATA_DIR", dir.path().join("data"));
        let (served, _) = Served::start(&mut serve, |line| line.contains("http://"));
        let operator = served.client(OPERATOR);
        operator.post("/v1/tenants", json!({"name": "acme"}));
        let key = operator
            .post("/v1/tenants/acme/keys", json!({"label": "t", "scopes": ["read", "write", "retrieve"]}));
        let token = key["token"].as_str().unwrap().to_owned();
        let acme = served.client(&token);
        acme.put("/v1/slates/K", json!({}));
        acme.post("/v1/slates/K/files", json!({"path": "d/a.md", "content": "alpha"}));
        World { served, token, _dir: dir }
    }

    fn open(&self) -> String {
        let retrieve = json!({"to": {"slate": "K", "folder": "d"}, "as": "Docs", "maxRounds": 2,
            "requestMatch": {"type": "object", "properties": {"files": {"type": "array"}}}});
        let opened = self.served.client(&self.token).post("/v1/sessions", json!({"retrieve": retrieve}));
        opened["session_id"].as_str().unwrap().to_owned()
    }

    fn session(&self, arguments: &[&str]) -> Told {
        let mut session = command(SLATEBASE.as_ref());
        session.arg("session").args(arguments);
        session.env("SLATEBASE_URL", &self.served.base).env("SLATEBASE_TOKEN", &self.token);
        run(&mut session)
    }

    fn run(&self, session: &str, model: &Model) -> Told {
        let run: Value = model.run();
        let url = run["model"]["base_url"].as_str().unwrap().to_owned();
        self.session(&["run", session, "--model-url", &url, "--model", "scripted"])
    }
}

#[test]
fn sessions_are_run_watched_and_shown() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let world = World::start();
    let script = |prompted: &crate::model::Prompted| match prompted.documents() {
        0 => call(json!({"files": ["a.md", "b.md"]})),
        _ => text("It is\nalpha."),
    };
    let model = runtime.block_on(Model::slow(Duration::from_millis(50), script));
    let id = world.open();
    let ran = world.run(&id, &model).expect(0);
    let round = "round 1    asks {\"files\":[\"a.md\",\"b.md\"]}\n           fetched a.md, 5 bytes\n           not_found b.md\n";
    let answer = "answer     It is\n           alpha.\n";
    assert_eq!(
        ran.out,
        format!("run        the service asks scripted\n{round}{answer}finished   answered\n")
    );

    // Whoever comes later sees the same from its beginning.
    assert_eq!(world.session(&["watch", &id]).expect(0).out, ran.out);
    let shown = world.session(&["show", &id]).expect(0).out;
    assert_eq!(
        shown,
        format!(
            "session    {id}, answered, over K/d\n{round}{answer}\
             run        ended, model scripted, 2 calls, 20 prompt and 6 completion tokens\n"
        )
    );

    let again = world.run(&id, &model).expect(1);
    assert!(again.err.contains("the server answers 409 Conflict: the session is finished"), "{again:#?}");

    let model = runtime.block_on(Model::start(|_| Says::Status(401, "", Vec::new())));
    let id = world.open();
    let failed = world.run(&id, &model).expect(1);
    let reason = "failure    model_rejected: 127.0.0.1 answered with status 401\n";
    assert!(failed.out.ends_with(&format!("finished   failed\n{reason}")), "{failed:#?}");
    assert!(world.session(&["show", &id]).expect(0).out.ends_with(reason));
    world.session(&["watch", &id]).expect(1);

    let nobody = "01890000-0000-7000-8000-000000000000";
    let missing = world.session(&["watch", nobody]).expect(1);
    assert!(missing.err.contains("the server answers 404"), "{missing:#?}");
    let url = world.served.base.clone();
    let World { served, _dir, .. } = world;
    assert_eq!(served.stop(Signal::SIGTERM).0.code(), Some(0));
    let mut show = command(SLATEBASE.as_ref());
    show.args(["session", "show", nobody, "--url", &url, "--token", "x"]);
    let gone = run(&mut show).expect(1);
    assert!(gone.err.contains("cannot reach the server"), "{gone:#?}");
}

/// A terminal that is opened while the model thinks draws what follows.
#[test]
fn a_run_that_others_watch_is_drawn_for_each() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let world = World::start();
    let script = |prompted: &crate::model::Prompted| match prompted.documents() {
        0 => call(json!({"files": ["a.md"]})),
        _ => text("alpha"),
    };
    let model = runtime.block_on(Model::slow(Duration::from_millis(700), script));
    let id = world.open();
    let watched = std::thread::scope(|scope| {
        let watcher = scope.spawn(|| world.session(&["watch", &id]));
        let ran = world.run(&id, &model).expect(0);
        (ran.out, watcher.join().unwrap().expect(0).out)
    });
    assert_eq!(watched.0, watched.1);
}
