//! A session of four calls, played over HTTP by a model that follows a script.

use std::io::Write;

use anyhow::{Context, ensure};
use reqwest::{Client, Method};
use serde_json::{Value, json};

use super::show;

/// The question that the model is given.
const QUESTION: &str =
    "A harbour was invoiced twice. Who may credit it 8,000 euros, and why is it that strict?";

/// Opens the session, lets the model speak until it is done, and shows what its record tells.
///
/// # Errors
/// When the server does not answer as it should.
pub async fn play(base: &str, token: &str, out: &mut impl Write) -> anyhow::Result<()> {
    crate::outbound::install_tls();
    let api = Api { client: Client::builder().no_proxy().build()?, base, token };
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
    async fn call(&self, method: Method, path: &str, body: Option<Value>) -> anyhow::Result<Value> {
        let what = format!("{method} {path}");
        let mut request = self.client.request(method, format!("{}{path}", self.base)).bearer_auth(self.token);
        if let Some(body) = body {
            request = request.json(&body);
        }
        let response = request.send().await.context(what.clone())?;
        let status = response.status();
        let answer: Value = response.json().await.context(what.clone())?;
        ensure!(status.is_success(), "{what}: {status}: {}", answer["detail"]);
        Ok(answer)
    }
}

fn text<'a>(answer: &'a Value, member: &str) -> anyhow::Result<&'a str> {
    answer[member].as_str().with_context(|| format!("no {member} in {answer}"))
}
