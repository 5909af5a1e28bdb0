//! `slatebase session`: sessions of a server, run and watched over its API.

use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use indicatif::ProgressBar;
use reqwest::{Client, Method, Response, StatusCode};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::config::Secret;
use crate::http::page;

/// How long to wait before connecting again to a server that was cut off.
const PAUSE: Duration = Duration::from_secs(1);
/// How often to connect again, in a row, before giving up.
const ATTEMPTS: u32 = 30;
/// How much of a text fits on a line.
const WIDTH: usize = 100;

/// Run, watch and show sessions of a server.
#[derive(Debug, clap::Subcommand)]
pub enum Action {
    /// Let the service run a session against a model, and watch it until it has ended
    #[command(after_help = "\
Examples:
  slatebase session run 01890000-0000-7000-8000-000000000000 --model-url https://llm.example.com/v1 --model gpt-5 \\
    --model-secret llm-key")]
    Run(Run),
    /// Watch a session until it has ended: rounds are drawn as they happen
    #[command(after_help = "Example:\n  slatebase session watch 01890000-0000-7000-8000-000000000000")]
    Watch(Watch),
    /// Show a session as it is now, with its rounds
    #[command(after_help = "Example:\n  slatebase session show 01890000-0000-7000-8000-000000000000")]
    Show(Watch),
}

/// Which server, and as whom.
#[derive(Debug, clap::Args)]
struct Server {
    /// Where the server is
    #[arg(
        long,
        env = "SLATEBASE_URL",
        hide_env_values = true,
        default_value = "http://127.0.0.1:8080",
        value_name = "URL"
    )]
    url: String,
    /// An API key of the tenant
    #[arg(long, env = "SLATEBASE_TOKEN", hide_env_values = true, value_name = "TOKEN")]
    token: Secret,
}

/// Arguments of `run`.
#[derive(Debug, clap::Args)]
pub struct Run {
    /// The session's id
    session: Uuid,
    /// The chat endpoint; /chat/completions is appended to it
    #[arg(long, env = "SLATEBASE_MODEL_URL", hide_env_values = true, value_name = "URL")]
    model_url: String,
    /// The model's name there
    #[arg(long, env = "SLATEBASE_MODEL", value_name = "NAME")]
    model: String,
    /// The name of the tenant's secret that is sent as a bearer token. Unset: none is
    #[arg(long, env = "SLATEBASE_MODEL_SECRET", value_name = "NAME")]
    model_secret: Option<String>,
    /// Further members of the requests, as a JSON object
    #[arg(long, env = "SLATEBASE_MODEL_PARAMETERS", value_name = "JSON")]
    model_parameters: Option<String>,
    #[command(flatten)]
    server: Server,
}

/// Arguments of `watch` and `show`.
#[derive(Debug, clap::Args)]
pub struct Watch {
    /// The session's id
    session: Uuid,
    #[command(flatten)]
    server: Server,
}

/// Runs it. A session that ends without an answer is a failure.
///
/// # Errors
/// When the server cannot be reached, or refuses.
pub fn run(action: Action) -> anyhow::Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        match action {
            Action::Run(args) => {
                let mut model = json!({"base_url": args.model_url, "name": args.model});
                if let Some(secret) = args.model_secret {
                    model["secret"] = secret.into();
                }
                if let Some(parameters) = args.model_parameters {
                    model["parameters"] =
                        serde_json::from_str(&parameters).context("--model-parameters is no JSON")?;
                }
                let api = Api::new(&args.server, args.session)?;
                api.call(Method::POST, "/run", Some(json!({"model": model}))).await?;
                api.watch().await
            }
            Action::Watch(args) => Api::new(&args.server, args.session)?.watch().await,
            Action::Show(args) => Api::new(&args.server, args.session)?.show().await,
        }
    })
}

struct Api {
    client: Client,
    /// The URL of the session.
    base: String,
    token: Secret,
}

impl Api {
    fn new(server: &Server, session: Uuid) -> anyhow::Result<Api> {
        crate::outbound::install_tls();
        let client = Client::builder().no_proxy().build()?;
        let base = format!("{}/v1/sessions/{session}", server.url.trim_end_matches('/'));
        Ok(Api { client, base, token: server.token.clone() })
    }

    async fn send(&self, method: Method, path: &str, body: Option<Value>) -> reqwest::Result<Response> {
        let mut request =
            self.client.request(method, format!("{}{path}", self.base)).bearer_auth(self.token.expose());
        if let Some(body) = body {
            request = request.json(&body);
        }
        request.send().await
    }

    async fn call(&self, method: Method, path: &str, body: Option<Value>) -> anyhow::Result<Value> {
        let response = self.send(method, path, body).await.context("cannot reach the server")?;
        refuse(response).await?.json().await.context("the server's answer is no JSON")
    }

    /// Draws what happens until nothing follows. A stream that is cut off goes on where it was.
    async fn watch(&self) -> anyhow::Result<ExitCode> {
        let spinner = match io::stdout().is_terminal() {
            true => ProgressBar::new_spinner().with_message("waiting for the model"),
            false => ProgressBar::hidden(),
        };
        spinner.enable_steady_tick(Duration::from_millis(120));
        let (mut last, mut failed) = (0_u64, 0);
        loop {
            let path = format!("/events?after={last}");
            match self.send(Method::GET, &path, None).await {
                Ok(response) => {
                    let mut stream = Events { response: refuse(response).await?, buffer: Vec::new() };
                    while let Some((id, event)) = stream.next().await {
                        (last, failed) = (id, 0);
                        let text = self.tell(&event).await?;
                        spinner.suspend(|| writeln!(io::stdout(), "{text}"))?;
                        if event["kind"] == "finished" {
                            spinner.finish_and_clear();
                            return Ok(status(&event["status"]));
                        }
                    }
                }
                Err(error) if failed == ATTEMPTS => return Err(error).context("cannot reach the server"),
                Err(_) => {}
            }
            failed += 1;
            // A session whose last event was told before has ended; another was cut off.
            if let Ok(session) = self.call(Method::GET, "", None).await
                && session["next"] == "done"
                && failed > 1
            {
                spinner.finish_and_clear();
                return Ok(status(&session["status"]));
            }
            ensure!(failed <= ATTEMPTS, "the stream of events ends again and again");
            tokio::time::sleep(PAUSE).await;
        }
    }

    async fn show(&self) -> anyhow::Result<ExitCode> {
        let session = self.call(Method::GET, "", None).await?;
        let mut out = io::stdout();
        writeln!(
            out,
            "session    {}, {}, over {}/{}",
            word(&session["session_id"]),
            word(&session["status"]),
            word(&session["slate"]),
            word(&session["folder"])
        )?;
        for round in 1..=session["round"].as_u64().unwrap_or_default() {
            writeln!(out, "{}", self.round(round).await?)?;
        }
        if session["is_run"] == true {
            let run = self.call(Method::GET, "/run", None).await?;
            writeln!(
                out,
                "run        {}, model {}, {} calls, {} prompt and {} completion tokens",
                word(&run["status"]),
                word(&run["model"]["name"]),
                run["calls"].as_array().map_or(0, Vec::len),
                run["usage"]["prompt_tokens"].as_u64().unwrap_or_default(),
                run["usage"]["completion_tokens"].as_u64().unwrap_or_default()
            )?;
        }
        if !session["failure"].is_null() {
            writeln!(out, "{}", failure(&session["failure"]))?;
        }
        Ok(ExitCode::SUCCESS)
    }

    /// An event in words.
    async fn tell(&self, event: &Value) -> anyhow::Result<String> {
        Ok(match word(&event["kind"]) {
            "round" => self.round(event["round"].as_u64().unwrap_or_default()).await?,
            "run" => format!("run        the service asks {}", word(&event["model"])),
            "retry" => {
                format!("retry      at {}: {}", word(&event["next_at"]), one_line(word(&event["detail"])))
            }
            "forgotten" => {
                format!("forgotten  {} files; epoch {} begins", event["forgotten"], event["epoch"])
            }
            "finished" if event["failure"].is_null() => format!("finished   {}", word(&event["status"])),
            "finished" => format!("finished   {}\n{}", word(&event["status"]), failure(&event["failure"])),
            other => other.to_owned(),
        })
    }

    /// A round in words: what was asked and what it gave, or the answer.
    async fn round(&self, number: u64) -> anyhow::Result<String> {
        let path = format!("/rounds?limit=1&cursor={}", page::seal(&number.saturating_sub(1)));
        let found = self.call(Method::GET, &path, None).await?;
        Ok(drawn(&found["items"][0]))
    }
}

/// A stream of Server-Sent Events.
struct Events {
    response: Response,
    buffer: Vec<u8>,
}

impl Events {
    /// The next event's number and data; `None` where the stream has ended, however.
    async fn next(&mut self) -> Option<(u64, Value)> {
        loop {
            while let Some(end) = self.buffer.windows(2).position(|pair| pair == b"\n\n") {
                let block: Vec<u8> = self.buffer.drain(..end + 2).collect();
                if let Some(event) = parsed(&String::from_utf8_lossy(&block)) {
                    return Some(event);
                }
            }
            self.buffer.extend_from_slice(&self.response.chunk().await.ok()??);
        }
    }
}

/// The number and data of an event; `None` for a comment.
fn parsed(block: &str) -> Option<(u64, Value)> {
    let field = |name: &str| block.lines().find_map(|line| line.strip_prefix(name));
    Some((field("id: ")?.parse().ok()?, serde_json::from_str(field("data: ")?).ok()?))
}

async fn refuse(response: Response) -> anyhow::Result<Response> {
    if response.status() < StatusCode::BAD_REQUEST {
        return Ok(response);
    }
    let status = response.status();
    let problem: Value = response.json().await.unwrap_or_default();
    bail!("the server answers {status}: {}", one_line(word(&problem["detail"])))
}

fn status(of: &Value) -> ExitCode {
    if of == "answered" { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn failure(failure: &Value) -> String {
    format!("failure    {}: {}", word(&failure["reason"]), one_line(word(&failure["detail"])))
}

fn drawn(round: &Value) -> String {
    let output = &round["output"];
    if round["decision"] == "answer" {
        let text = output.as_str().map_or_else(|| output.to_string(), str::to_owned);
        let lines: Vec<String> = text.lines().map(plain).collect();
        let forced = if round["forced"] == true { " (forced) " } else { "" };
        return format!("answer{forced:<5}{}", lines.join("\n           "));
    }
    let asked = output.as_str().map_or_else(|| output.to_string(), str::to_owned);
    let mut text = format!("round {:<5}asks {}", round["round"].to_string(), one_line(&asked));
    for item in round["items"].as_array().into_iter().flatten() {
        let size = item["size"].as_i64().map_or_else(String::new, |size| format!(", {size} bytes"));
        text.push_str(&format!(
            "\n           {} {}{size}",
            word(&item["status"]),
            plain(word(&item["path"]))
        ));
    }
    text
}

/// A text that does nothing to a terminal.
fn plain(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}

fn one_line(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(WIDTH) {
        Some((end, _)) => format!("{}…", plain(&line[..end])),
        None => plain(&line),
    }
}

fn word(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_are_drawn_in_lines() {
        let round = json!({"round": 2, "decision": "retrieval", "output": {"glob": "*"}, "items": [
            {"status": "fetched", "path": "a\u{1b}.md", "size": 5}, {"status": "not_found", "path": "b"}]});
        assert_eq!(
            drawn(&round),
            "round 2    asks {\"glob\":\"*\"}\n           fetched a\u{fffd}.md, 5 bytes\n           not_found b"
        );
        let answer = json!({"round": 3, "decision": "answer", "output": "It is\n42.", "forced": false});
        assert_eq!(drawn(&answer), "answer     It is\n           42.");
    }

    #[test]
    fn events_are_parsed_and_comments_passed_over() {
        let event = parsed("id: 7\nevent: run\ndata: {\"kind\":\"run\"}\n\n");
        assert_eq!(event, Some((7, json!({"kind": "run"}))));
        assert_eq!(parsed(": nothing yet\n\n"), None);
        assert_eq!(parsed("retry: 1000\n\n"), None);
    }
}
