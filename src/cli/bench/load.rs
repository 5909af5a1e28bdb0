//! Loads the generated files: those that are measured by the path that all loading takes, within this process; and a
//! further tenant over HTTP, which is what the speed of loading is measured by.

use std::io::{self, IsTerminal};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::{Value, json};
use uuid::Uuid;

use super::data::{BIG, Data, FEW, FIXED, Generated};
use crate::cli::{now, told};
use crate::corpora::corpus::NewCorpus;
use crate::corpora::entry::{Id, Status};
use crate::ctx::{Ctx, Scope, TenantId};
use crate::db::Db;
use crate::error::Code;
use crate::files::ops::{Tagging, Write};
use crate::metatags::Tags;
use crate::path::FilePath;
use crate::precondition::Preconditions;
use crate::routes::version::{Kind, Version};
use crate::slates::NewSlate;
use crate::tenants::tenant::{NewKey, TenantName};
use crate::{corpora, files, routes, slates, tenants};

/// The slate of the files.
pub const SLATE: &str = "bench";
/// The route that packs [`CORPORA`].
pub const ROUTE: &str = "bench";
/// Corpora, by the folders that they are of.
const CORPORA: [(&str, &str); 3] = [(BIG, BIG), (FIXED, FIXED), ("few", FEW)];
/// A slate that is made when all files are there.
const LOADED: &str = "loaded";
/// Files written in one transaction.
const BATCH: u64 = 1000;
/// Transactions at once: one connection of the command's pool each.
const WRITERS: u64 = 2;

/// A tenant of the benchmark, and a key to all of it.
#[derive(Debug, Clone)]
pub struct Tenant {
    /// Its number.
    pub id: TenantId,
    /// A token.
    pub token: String,
}

/// The tenant of this name, made where it is missing, and a new key of it.
///
/// # Errors
/// Those of the database.
pub fn tenant(db: &Db, name: &str) -> anyhow::Result<Tenant> {
    let name = TenantName::parse(name).map_err(told)?;
    let now = now();
    db.operator_blocking(|tx| match tenants::ops::get_tenant(tx, name.as_str()) {
        Err(error) if error.code == Code::NotFound => {
            tenants::ops::create_tenant(tx, &name, now)?;
            tenants::ops::get_tenant(tx, name.as_str())
        }
        found => found,
    })
    .and_then(|tenant| {
        let new = NewKey::parse("bench".into(), &Scope::ALL, None, None, now)?;
        let secret = rand::random();
        let (_, token) =
            db.operator_blocking(|tx| tenants::ops::create_key(tx, name.as_str(), &new, secret, now))?;
        Ok(Tenant { id: tenant.id, token: token.expose() })
    })
    .map_err(told)
}

/// A caller within this process.
pub fn local(tenant: TenantId) -> Ctx {
    Ctx::local(tenant, now(), Uuid::now_v7())
}

/// Whether all files of the tenant are there.
///
/// # Errors
/// Those of the database.
pub fn is_loaded(db: &Db, tenant: TenantId) -> anyhow::Result<bool> {
    let ctx = local(tenant);
    Ok(db.tenant_blocking(tenant, |tx| slates::ops::find(tx, &ctx, LOADED)).map_err(told)?.is_some())
}

/// A bar over so many files; hidden where nobody looks.
pub fn bar(total: u64) -> ProgressBar {
    if !io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("{msg} {wide_bar} {pos} of {len} files, {per_sec}, {eta} left");
    ProgressBar::new(total).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}

/// Loads files into a tenant, unless they are there. Run again after it was interrupted, it goes on.
///
/// # Errors
/// Those of the database.
pub fn fill(db: &Db, tenant: TenantId, data: Data, bar: &ProgressBar) -> anyhow::Result<()> {
    if is_loaded(db, tenant)? {
        bar.inc(data.files);
        return Ok(());
    }
    let slate = |name: &str| -> anyhow::Result<()> {
        let ctx = local(tenant);
        db.tenant_blocking(tenant, |tx| slates::ops::put(tx, &ctx, name, &NewSlate::default()))
            .map_err(told)?;
        Ok(())
    };
    slate(SLATE)?;
    let next = AtomicU64::new(0);
    let write = || -> anyhow::Result<()> {
        loop {
            let first = next.fetch_add(1, Ordering::Relaxed) * BATCH;
            if first >= data.files {
                return Ok(());
            }
            let batch = first..data.files.min(first + BATCH);
            let writes = batch.clone().map(|i| to_write(data.file(i))).collect::<anyhow::Result<Vec<_>>>()?;
            let ctx = local(tenant);
            let written = db
                .tenant_blocking(tenant, |tx| files::ops::write_many(tx, &ctx, SLATE, writes.clone()))
                .map_err(told)?;
            for one in written {
                one.map_err(told)?;
            }
            bar.inc(batch.end - batch.start);
        }
    };
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..WRITERS).map(|_| scope.spawn(write)).collect();
        writers
            .into_iter()
            .try_for_each(|writer| writer.join().unwrap_or_else(|_| anyhow::bail!("a writer panicked")))
    })?;
    slate(LOADED)
}

/// Publishes the corpora of a tenant and the route over them, unless they are. Their passages are cut by it.
///
/// # Errors
/// Those of the database.
pub fn publish(db: &Db, tenant: TenantId) -> anyhow::Result<()> {
    let always = Preconditions::default();
    for (id, folder) in CORPORA {
        let row = json!({"url": format!("slate:{SLATE}/{folder}"), "status": "published"});
        let row = row.as_object().cloned().unwrap_or_default();
        let new = NewCorpus::parse(Id::parse(id)?, row).map_err(told)?;
        let ctx = local(tenant);
        db.tenant_blocking(tenant, |tx| corpora::ops::put(tx, &ctx, &new, &always)).map_err(told)?;
    }
    let scope: Vec<&str> = CORPORA.iter().map(|(id, _)| *id).collect();
    let route = json!({"retrieval": {"mode": "deterministic_prefetch", "scope": scope}, "tools": []});
    let (id, version) = (Id::parse(ROUTE)?, Version::parse("1")?);
    let ctx = local(tenant);
    db.tenant_blocking(tenant, |tx| match routes::ops::find(tx, Kind::Route, ROUTE, "1")? {
        Some(_) => Ok(()),
        None => routes::ops::put(tx, &ctx, Kind::Route, (&id, &version), &route, Status::Published, &always)
            .map(drop),
    })
    .map_err(told)
}

fn to_write(file: Generated) -> anyhow::Result<Write> {
    let (tags, _) = Tags::parse(file.tags, "")
        .map_err(|errors| anyhow::anyhow!("a generated metatag is refused: {errors:?}"))?;
    Ok(Write {
        path: FilePath::parse(&file.path)?,
        contents: file.contents.into(),
        media_type: None,
        tags: Some(tags),
        tagging: Tagging::Whole,
        authority: None,
        sensitive: None,
        source_modified_at: None,
        source_version: None,
    })
}

/// Loads files over HTTP as NDJSON, by `clients` requests at once, each into a slate of its own, and tells how long that
/// took.
///
/// # Errors
/// When a line is refused.
pub async fn over_http(base: &str, token: &str, data: Data, clients: u64) -> anyhow::Result<Duration> {
    crate::outbound::install_tls();
    let client = reqwest::Client::builder().no_proxy().build()?;
    let share = data.files / clients;
    let mut bodies = Vec::new();
    for n in 0..clients {
        let slate = format!("load-{clients}-{n}");
        let url = format!("{base}/v1/slates/{slate}");
        client.put(&url).bearer_auth(token).json(&json!({})).send().await?.error_for_status()?;
        let mut body = String::new();
        for i in n * share..(n + 1) * share {
            let Generated { path, contents, tags } = data.file(i);
            body.push_str(&json!({"path": path, "content": contents, "metatags": tags}).to_string());
            body.push('\n');
        }
        bodies.push((format!("{url}/files"), bytes::Bytes::from(body)));
    }
    let start = Instant::now();
    let loads = bodies.into_iter().map(|(url, body)| {
        let request =
            client.post(url).bearer_auth(token).header("Content-Type", "application/x-ndjson").body(body);
        tokio::spawn(async move {
            let answer = request.send().await?.error_for_status()?.text().await?;
            anyhow::Ok(answer)
        })
    });
    for load in loads.collect::<Vec<_>>() {
        let answer = load.await??;
        let mut lines = 0;
        for line in answer.lines() {
            let line: Value = serde_json::from_str(line).context("an answer is no JSON")?;
            ensure!(line["status"] == 201, "a generated file is refused: {line}");
            lines += 1;
        }
        ensure!(lines == share, "{share} files were sent, and {lines} answered");
    }
    Ok(start.elapsed())
}
