//! The measurements.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use futures_util::StreamExt;
use serde_json::{Value, json};

use super::client::{Client, drive, latencies, note};
use super::data::{BIG, Data, FIXED, name};
use super::load::{self, SLATE, Tenant};
use super::report::{Growth, Load, Loading, Measured, Memory, Overhead, Reads, Times};
use super::rows::{Ask, Query, Row};
use super::served::Served;
use super::trace::{self, Trace};
use crate::cli::model::{Model, retrieve};
use crate::cli::told;
use crate::db::Db;
use crate::db::measure::Admin;
use crate::item::Mode;
use crate::path::FolderPath;
use crate::retrieval::ops::{measure, scope};
use crate::retrieval::request;

/// The numbers of clients.
pub const CLIENTS: [usize; 3] = [1, 8, 64];
/// Requests before one is looked at: a prepared statement may change its plan after five.
const WARM: usize = 8;
/// Rounds of a session that the service runs, before its model answers.
const RUN_ROUNDS: usize = 20;

/// What the measurements need.
pub struct Bench<'a> {
    /// The pool of this process, which works as the application role.
    pub db: &'a Db,
    /// The URL of the service's login.
    pub url: &'a str,
    /// The superuser, where the server is the embedded one.
    pub admin: Option<Admin>,
    /// The data directory, where the server is the embedded one.
    pub directory: &'a Path,
    /// The tenant that is measured.
    pub tenant: &'a Tenant,
    /// Its files.
    pub data: Data,
    /// How long each time is measured.
    pub time: Duration,
}

/// A row with the trace of a request of it, if there is one.
pub type Traced = (Row, Option<Trace>);

impl Bench<'_> {
    /// The statements of each row, and what they read, in the tenant that the token is of.
    ///
    /// # Errors
    /// When a request fails.
    pub fn trace(&mut self, rows: &[Row], token: &str) -> anyhow::Result<Vec<Traced>> {
        let Some(admin) = &mut self.admin else { return Ok(rows.iter().map(|row| (*row, None)).collect()) };
        if !admin.trace(crate::cli::database::LOGIN, true)? {
            eprintln!("auto_explain is not installed beside Postgres, so buffers are not told");
            return Ok(rows.iter().map(|row| (*row, None)).collect());
        }
        let served = Served::start(self.url, true);
        let log = self.directory.join("server.log");
        let traced = served.and_then(|served| {
            let traced = rows.iter().map(|row| {
                let mut client = Client::connect(served.address, token, &row.call(self.data))?;
                (0..WARM).try_for_each(|_| client.step().map(|_| ()))?;
                let mut log = File::open(&log).with_context(|| format!("cannot read {}", log.display()))?;
                log.seek(SeekFrom::End(0))?;
                client.step()?;
                let mut written = Vec::new();
                log.read_to_end(&mut written)?;
                anyhow::Ok((*row, Some(trace::parse(&String::from_utf8_lossy(&written)))))
            });
            let traced = traced.collect::<anyhow::Result<Vec<_>>>()?;
            served.stop()?;
            Ok(traced)
        });
        admin.trace(crate::cli::database::LOGIN, false)?;
        traced
    }

    /// Measures a row, against a running server.
    ///
    /// # Errors
    /// When a request fails.
    pub fn row(&mut self, (row, trace): &Traced, served: &Served) -> anyhow::Result<Measured> {
        let search = match row.ask {
            Ask::Query(query) => Some(self.search(&query)?),
            _ => None,
        };
        let call = row.call(self.data);
        let mut http = None;
        let mut loads = Vec::new();
        for clients in CLIENTS {
            let seen = drive(served.address, &self.tenant.token, &call, clients, self.time)?;
            let times = Times::of(&seen.latencies);
            http.get_or_insert(times);
            let pgbench = match trace {
                Some(trace) if row.small => self.pgbench(trace, clients)?,
                _ => None,
            };
            loads.push(Load {
                clients,
                per_second: seen.per_second,
                p50: times.p50,
                p99: times.p99,
                pgbench,
                refused: seen.refused,
            });
        }
        let reads = trace.as_ref().map(|trace| Reads {
            search: trace.search,
            all: trace.all,
            statements: trace.statements.len(),
        });
        let (found, search, floors) = match search {
            Some((found, times, floors)) => (Some(found), Some(times), Some(floors)),
            None => (None, None, None),
        };
        let http = http.context("no clients")?;
        Ok(Measured { row: row.name.into(), found, reads, search, floors, http, loads })
    }

    /// The search of a query alone: files found, times, and its p50 over that of a read by primary key on the same
    /// connection.
    fn search(&self, query: &Query) -> anyhow::Result<(usize, Times, f64)> {
        let tenant = self.tenant.id;
        let ctx = load::local(tenant);
        let folder = FolderPath::parse(query.folder)?;
        let wanted = (query.request)(self.data);
        let wanted = wanted.as_object().context("a request is an object")?;
        let request = request::parse(wanted, Mode::ALL, "").request;
        self.db
            .tenant_blocking(tenant, |tx| {
                let scope = scope(tx, &ctx, SLATE, &folder, query.recursive)?
                    .ok_or_else(crate::error::Error::not_found)?;
                let found = measure::locate(tx, &scope, &request, query.limit)?;
                let any = found.first().copied().unwrap_or_default();
                let (mut times, mut floor) = (latencies(), latencies());
                let start = Instant::now();
                // In turns, so that whatever else the machine does meets both.
                while start.elapsed() < self.time || times.len() < 3 {
                    let before = Instant::now();
                    measure::floor(tx, any)?;
                    let between = Instant::now();
                    measure::locate(tx, &scope, &request, query.limit)?;
                    note(&mut times, between.elapsed());
                    note(&mut floor, between - before);
                }
                let times = Times::of(&times);
                Ok((found.len(), times, times.p50 / Times::of(&floor).p50))
            })
            .map_err(told)
    }

    /// Transactions a second of `pgbench` with the statements of a request, if it is there.
    fn pgbench(&mut self, trace: &Trace, clients: usize) -> anyhow::Result<Option<f64>> {
        let Some(admin) = &mut self.admin else { return Ok(None) };
        let program = PathBuf::from(admin.setting("BINDIR")?).join("pgbench");
        if !program.is_file() {
            return Ok(None);
        }
        let mut script = tempfile::NamedTempFile::new()?;
        script.write_all(
            trace::script(&trace.statements, |statement| admin.parameter_types(statement)).as_bytes(),
        )?;
        let output = Command::new(program)
            .args([
                "--no-vacuum",
                "--protocol",
                "extended",
                "--define",
                &format!("{}=1", trace::FIRST),
                "--file",
            ])
            .arg(script.path())
            .args(["--client", &clients.to_string(), "--jobs", &clients.min(2).to_string()])
            .args(["--time", &(self.time.as_secs_f64().ceil() as u64).max(1).to_string()])
            .arg(self.url)
            .env("PGOPTIONS", "-c random_page_cost=1.1 -c max_parallel_workers_per_gather=0 -c jit=off")
            .output()?;
        let told = String::from_utf8_lossy(&output.stdout);
        let per_second = told
            .lines()
            .find_map(|line| line.strip_prefix("tps = "))
            .and_then(|rest| rest.split(' ').next())
            .and_then(|number| number.parse().ok());
        if !output.status.success() {
            eprintln!("pgbench fails: {}", String::from_utf8_lossy(&output.stderr));
            return Ok(None);
        }
        Ok(per_second)
    }

    /// Memory of a server that has just come up, and while it streams files of the large folder.
    ///
    /// # Errors
    /// When the stream breaks off.
    pub async fn memory(&self, served: &Served) -> anyhow::Result<Option<Memory>> {
        let Some((idle, _)) = served.memory() else { return Ok(None) };
        crate::outbound::install_tls();
        let client = reqwest::Client::builder().no_proxy().build()?;
        let wanted = self.data.big().min(100_000);
        let response = client
            .post(format!("http://{}/v1/slates/{SLATE}/query", served.address))
            .bearer_auth(&self.tenant.token)
            .header("Accept", "application/x-ndjson")
            .json(&json!({"folder": BIG, "request": {"glob": "*"}}))
            .send()
            .await?
            .error_for_status()?;
        let mut lines = response.bytes_stream();
        let mut streamed = 0;
        while streamed < wanted {
            let part = lines.next().await.context("the stream ended early")??;
            streamed += part.iter().filter(|byte| **byte == b'\n').count() as u64;
        }
        let (_, stream) = served.memory().unwrap_or_default();
        Ok(Some(Memory { idle, stream, streamed, peak: stream }))
    }

    /// The speed of loading new files over HTTP, and that of `COPY` of the same rows. Each is a tenant of its own.
    ///
    /// # Errors
    /// When a file is refused.
    pub async fn loading(&mut self, served: &Served, files: u64) -> anyhow::Result<Loading> {
        let base = format!("http://{}", served.address);
        let data = Data { files, ..self.data };
        let mut speeds = Vec::new();
        let mut last = self.tenant.id;
        for clients in [1, 2] {
            let name = format!("bench-load-{}", uuid::Uuid::now_v7().simple());
            let tenant = load::tenant(self.db, &name)?;
            let took = load::over_http(&base, &tenant.token, data, clients).await?;
            speeds.push((files / clients * clients) as f64 / took.as_secs_f64());
            last = tenant.id;
        }
        let copy = match &mut self.admin {
            Some(admin) => {
                let name = format!("bench-copy-{}", uuid::Uuid::now_v7().simple());
                let to = load::tenant(self.db, &name)?.id;
                let file = self.directory.join("data/bench-copy");
                let took = admin.copy_tenant(last.0, to.0, &file.to_string_lossy())?;
                std::fs::remove_file(&file)?;
                Some(files as f64 / took.as_secs_f64())
            }
            None => None,
        };
        Ok(Loading { one_client: speeds[0], two_clients: speeds[1], copy })
    }

    /// What rounds that the service runs itself take beside the calls of their model: the time from an answer of the model
    /// to the next prompt that reaches it.
    ///
    /// # Errors
    /// When a request fails, or a run does not end.
    pub async fn run_overhead(&self, served: &Served) -> anyhow::Result<Overhead> {
        crate::outbound::install_tls();
        let client = reqwest::Client::builder().no_proxy().build()?;
        let base = format!("http://{}/v1/sessions", served.address);
        let post = |url: String, body: Value| client.post(url).bearer_auth(&self.tenant.token).json(&body);
        let mut latencies = latencies();
        let mut rounds = 0;
        let end = Instant::now() + self.time;
        while rounds == 0 || Instant::now() < end {
            let model = Model::start(|shown| match shown {
                0..RUN_ROUNDS => retrieve(&json!({"files": [name(shown as u64)]})),
                _ => json!({"role": "assistant", "content": "done"}),
            })?;
            let opening = json!({"retrieve": {"to": {"slate": SLATE, "folder": FIXED}, "as": "Files", "maxRounds": 100,
                "requestMatch": {"type": "object", "properties": {"files": {"type": "array"}}}}});
            let opened: Value = post(base.clone(), opening).send().await?.error_for_status()?.json().await?;
            let session = format!("{base}/{}", opened["session_id"].as_str().context("a session has an id")?);
            let run = json!({"model": {"base_url": model.base_url, "name": "scripted"}});
            post(format!("{session}/run"), run).send().await?.error_for_status()?;
            // The stream of its events ends with it.
            let events =
                client.get(format!("{session}/events")).bearer_auth(&self.tenant.token).send().await?;
            let told = events.error_for_status()?.text().await?;
            ensure!(told.contains("\"status\":\"answered\""), "a run did not end with an answer: {told}");
            for pair in model.calls().windows(2) {
                note(&mut latencies, pair[1].0.saturating_duration_since(pair[0].1));
                rounds += 1;
            }
            model.stop().await;
        }
        Ok(Overhead { rounds, times: Times::of(&latencies) })
    }

    /// Buffers of the same searches in two tenants.
    ///
    /// # Errors
    /// When a request fails.
    pub fn growth(&mut self, rows: &[Row], small: &Tenant) -> anyhow::Result<Vec<Growth>> {
        let token = self.tenant.token.clone();
        let (few, many) = (self.trace(rows, &small.token)?, self.trace(rows, &token)?);
        let pairs = few.into_iter().zip(many).filter_map(|((row, few), (_, many))| {
            let (few, many) = (few?, many?);
            // What is no search has no statement over the views.
            let (small, large) = if few.search > 0 { (few.search, many.search) } else { (few.all, many.all) };
            Some(Growth { row: row.name.into(), small, large })
        });
        Ok(pairs.collect())
    }
}
