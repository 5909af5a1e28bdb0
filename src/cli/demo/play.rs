//! Two sessions, played over HTTP by a model that follows a script: one whose calls the demo makes, as an agent would, and
//! one on a route, which is packed before its first prompt and run by the service itself.

use std::io::Write;

use anyhow::{Context, ensure};
use reqwest::{Client, Method, Response, StatusCode};
use serde_json::{Value, json};

use super::show;
use crate::cli::model::{Model, retrieve};

/// The question that the model is given.
const QUESTION: &str =
    "A harbour was invoiced twice. Who may credit it 8,000 euros, and why is it that strict?";

/// The one that the service is left alone with.
const ERRAND: &str = "What went wrong with the invoices of March 2025?";

/// Plays both.
///
/// # Errors
/// When the server does not answer as it should.
pub async fn play(base: &str, token: &str, out: &mut impl Write) -> anyhow::Result<()> {
    crate::outbound::install_tls();
    let api = Api { client: Client::builder().no_proxy().build()?, base, token };
    asked(&api, out).await?;
    run(&api, out).await
}

/// Opens a session, lets the model speak until it is done, and shows what its record tells.
async fn asked(api: &Api<'_>, out: &mut impl Write) -> anyhow::Result<()> {
    let declaration = json!({
        "to": {"slate": "handbook", "folder": ""},
        "as": "Documents",
        "maxRounds": 3,
        "recursive": true,
        "requestMatch": {"type": "object", "properties": {
            "files": {"type": "array", "items": {"type": "string"}},
            "subfolders": {"type": "array", "items": {"type": "string"}},
            "metatag": {"type": "object"},
            "glob": {"type": "string"}
        }}
    });
    let opened = api
        .call(
            Method::POST,
            "/v1/sessions",
            Some(json!({"retrieve": declaration, "fields": {"Question": QUESTION}})),
        )
        .await?;
    let id = text(&opened, "session_id")?;
    show::opening(out, QUESTION, id)?;
    let script = [
        json!({"subfolders": ["", "billing"]}),
        json!({"files": ["billing/invoices.md"], "metatag": {"name": "topics", "contains": "refund"}}),
        json!({"files": ["billing/refunds.md", "billing/refund.md"], "glob": "*webhook*"}),
        json!(
            "Up to 5,000 euros a billing lead may; above that it takes the head of finance and a second person of\n\
             another team [1]. The second person came after 312 invoices went out twice in March 2025 [2].\n\
             [1] slate://handbook/billing/refunds.md@1\n\
             [2] slate://handbook/security/incidents/2025-03-14-duplicate-invoices.md@1"
        ),
    ];
    for output in script {
        let prompt = api.call(Method::GET, &format!("/v1/sessions/{id}/prompt"), None).await?;
        let round = api
            .call(Method::POST, &format!("/v1/sessions/{id}/rounds"), Some(json!({"output": output})))
            .await?;
        show::call(out, &prompt, &output, &round)?;
    }
    let session = api.call(Method::GET, &format!("/v1/sessions/{id}"), None).await?;
    ensure!(
        session["status"] == "answered" && session["forced"] == true,
        "the session did not end: {session}"
    );
    close(api, id, out).await
}

/// Opens a session on a route, has the service run it, and shows what was packed, the rounds and the record.
async fn run(api: &Api<'_>, out: &mut impl Write) -> anyhow::Result<()> {
    for (corpus, folder) in [("incidents", "security/incidents"), ("billing", "billing")] {
        let row =
            json!({"display_name": folder, "url": format!("slate:handbook/{folder}"), "status": "published"});
        api.publish(&format!("/v1/catalog/corpora/{corpus}"), row).await?;
    }
    let retrieval = json!({"mode": "deterministic_prefetch", "scope": ["incidents", "billing"]});
    let route = json!({"retrieval": retrieval, "status": "published"});
    api.publish("/v1/catalog/routes/help-desk/1", route).await?;
    let declaration = json!({"to": {"slate": "handbook", "folder": ""}, "as": "Documents", "maxRounds": 2,
        "requestMatch": {"type": "object", "properties": {"files": {"type": "array"}}}});
    let session = json!({"retrieve": declaration, "fields": {"Question": ERRAND}, "goal": {"question": ERRAND},
        "route": {"route_id": "help-desk", "route_version": "1"}});
    let opened = api.call(Method::POST, "/v1/sessions", Some(session)).await?;
    let id = text(&opened, "session_id")?;
    show::packed(out, ERRAND, &opened)?;
    let model = Model::start(|shown| match shown {
        0 => retrieve(&json!({"files": ["security/incidents/2025-03-14-duplicate-invoices.md"]})),
        _ => json!({"role": "assistant", "content": "312 invoices went out twice [1].\n\
            [1] slate://handbook/security/incidents/2025-03-14-duplicate-invoices.md@1"}),
    })?;
    let asked = json!({"model": {"base_url": model.base_url, "name": "scripted"}});
    api.call(Method::POST, &format!("/v1/sessions/{id}/run"), Some(asked)).await?;
    // The stream of its events ends with it.
    api.send(Method::GET, &format!("/v1/sessions/{id}/events"), None).await?.bytes().await?;
    model.stop().await;
    let session = api.call(Method::GET, &format!("/v1/sessions/{id}"), None).await?;
    ensure!(session["status"] == "answered", "the run did not end with an answer: {session}");
    let rounds = api.call(Method::GET, &format!("/v1/sessions/{id}/rounds"), None).await?;
    for round in rounds["items"].as_array().into_iter().flatten() {
        show::round(out, &round["output"], round)?;
    }
    close(api, id, out).await
}

/// Shows what is on record of a session, once that is verified.
async fn close(api: &Api<'_>, id: &str, out: &mut impl Write) -> anyhow::Result<()> {
    let items = api.call(Method::GET, &format!("/v1/sessions/{id}/provenance"), None).await?;
    let verified = api.call(Method::POST, &format!("/v1/sessions/{id}/verify"), None).await?;
    ensure!(verified["valid"] == true, "the session's records cannot be verified: {verified}");
    show::closing(out, &items, &verified)?;
    Ok(())
}

struct Api<'a> {
    client: Client,
    base: &'a str,
    token: &'a str,
}

impl Api<'_> {
    async fn send(&self, method: Method, path: &str, body: Option<Value>) -> anyhow::Result<Response> {
        let what = format!("{method} {path}");
        let mut request = self.client.request(method, format!("{}{path}", self.base)).bearer_auth(self.token);
        if let Some(body) = body {
            request = request.json(&body);
        }
        request.send().await.context(what)
    }

    async fn call(&self, method: Method, path: &str, body: Option<Value>) -> anyhow::Result<Value> {
        let what = format!("{method} {path}");
        let response = self.send(method, path, body).await?;
        let status = response.status();
        let answer: Value = response.json().await.context(what.clone())?;
        ensure!(status.is_success(), "{what}: {status}: {}", answer["detail"]);
        Ok(answer)
    }

    /// Puts what never changes once it is published, unless an earlier demo did.
    async fn publish(&self, path: &str, body: Value) -> anyhow::Result<()> {
        match self.send(Method::GET, path, None).await?.status() {
            StatusCode::NOT_FOUND => self.call(Method::PUT, path, Some(body)).await.map(drop),
            _ => Ok(()),
        }
    }
}

fn text<'a>(answer: &'a Value, member: &str) -> anyhow::Result<&'a str> {
    answer[member].as_str().with_context(|| format!("no {member} in {answer}"))
}
