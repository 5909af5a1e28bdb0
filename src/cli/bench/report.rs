//! What was measured, as a table for people and as JSON for machines, and how two reports differ.

use std::fmt::Write;

use serde::{Deserialize, Serialize};

use super::client::Latencies;

/// A whole run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// The version of this program.
    pub version: String,
    /// The version of Postgres; none where another database was named.
    pub postgres: Option<String>,
    /// Cores of the machine.
    pub cores: usize,
    /// Files of the tenant.
    pub files: u64,
    /// The seed.
    pub seed: u64,
    /// Seconds that each time was measured for.
    pub seconds: f64,
    /// The rows.
    pub rows: Vec<Measured>,
    /// Buffers of the same search in a small and in the large tenant.
    pub growth: Vec<Growth>,
    /// Loading.
    pub loading: Option<Loading>,
    /// Memory of the server.
    pub memory: Option<Memory>,
    /// Rounds that the service runs itself.
    #[serde(default)]
    pub run: Option<Overhead>,
}

/// A row.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// Its name.
    pub row: String,
    /// Files that the search finds; none where it is no search.
    pub found: Option<usize>,
    /// Buffers of the search statements, and of all statements of the request, and how many these are.
    pub reads: Option<Reads>,
    /// The search alone, on one connection.
    pub search: Option<Times>,
    /// Its p50 over that of the floor.
    pub floors: Option<f64>,
    /// Over HTTP with one client.
    pub http: Times,
    /// Over HTTP with more and more clients.
    pub loads: Vec<Load>,
}

/// What a request reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reads {
    /// Buffers of the statements over the search views.
    pub search: i64,
    /// Buffers of all.
    pub all: i64,
    /// Statements, `begin` and `commit` included.
    pub statements: usize,
}

/// Quantiles, in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Times {
    /// Half took no longer.
    pub p50: f64,
    /// 95 of 100 took no longer.
    pub p95: f64,
    /// 99 of 100 took no longer.
    pub p99: f64,
}

impl Times {
    /// Those of a histogram.
    pub fn of(latencies: &Latencies) -> Times {
        let at = |quantile| latencies.value_at_quantile(quantile) as f64 / 1e6;
        Times { p50: at(0.50), p95: at(0.95), p99: at(0.99) }
    }
}

/// A row under clients.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Load {
    /// How many.
    pub clients: usize,
    /// Requests a second.
    pub per_second: f64,
    /// Half took no longer, in milliseconds.
    pub p50: f64,
    /// 99 of 100 took no longer, in milliseconds.
    pub p99: f64,
    /// Transactions a second that `pgbench` reaches with the same statements and clients.
    pub pgbench: Option<f64>,
    /// Requests that were refused as overload; they do not count otherwise.
    pub refused: u64,
}

/// A search in two tenants.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Growth {
    /// The row.
    pub row: String,
    /// Buffers in the small tenant.
    pub small: i64,
    /// Buffers in the large one.
    pub large: i64,
}

/// Loading, in files a second.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Loading {
    /// By one request.
    pub one_client: f64,
    /// By two requests at once.
    pub two_clients: f64,
    /// The same rows by bare `COPY` into the same tables.
    pub copy: Option<f64>,
}

/// What a round that the service runs itself takes beside the call of its model, in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Overhead {
    /// Rounds.
    pub rounds: usize,
    /// How long each took.
    pub times: Times,
}

/// Memory, in MiB.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Memory {
    /// Once it serves.
    pub idle: f64,
    /// The most while a result was streamed.
    pub stream: f64,
    /// Files of that result.
    pub streamed: u64,
    /// The most of the whole run.
    pub peak: f64,
}

/// Lays out rows of cells: the first column to the left, the others to the right.
fn table(out: &mut String, cells: &[Vec<String>]) {
    let columns = cells.iter().map(Vec::len).max().unwrap_or_default();
    let width = |i: usize| cells.iter().filter_map(|row| row.get(i)).map(|cell| cell.chars().count()).max();
    let widths: Vec<usize> = (0..columns).map(|i| width(i).unwrap_or_default()).collect();
    for row in cells {
        let mut line = String::new();
        for (i, cell) in row.iter().enumerate() {
            let width = widths[i];
            let padded = if i == 0 { format!("{cell:<width$}") } else { format!("  {cell:>width$}") };
            line.push_str(&padded);
        }
        out.push_str(line.trim_end());
        out.push('\n');
    }
}

fn header(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

fn ms(value: f64) -> String {
    if value < 10.0 { format!("{value:.2}") } else { format!("{value:.0}") }
}

fn or_dash(value: Option<String>) -> String {
    value.unwrap_or_else(|| "–".into())
}

impl Report {
    /// The tables, for people.
    pub fn render(&self) -> String {
        let mut out = String::new();
        // Writing to a string cannot fail.
        let _ = writeln!(
            out,
            "{} files, seed {}, {} cores, slatebase {}, Postgres {}",
            self.files,
            self.seed,
            self.cores,
            self.version,
            self.postgres.as_deref().unwrap_or("–")
        );
        if !self.rows.is_empty() {
            self.render_searches(&mut out);
            self.render_http(&mut out);
        }
        if !self.growth.is_empty() {
            out.push_str("\nGROWTH\n");
            let mut cells = vec![header(&["row", "buffers small", "large", "ratio"])];
            cells.extend(self.growth.iter().map(|row| {
                let ratio = format!("{:.2}", row.large as f64 / row.small.max(1) as f64);
                vec![row.row.clone(), row.small.to_string(), row.large.to_string(), ratio]
            }));
            table(&mut out, &cells);
        }
        if let Some(loading) = &self.loading {
            out.push_str("\nLOADING\n");
            let ratio =
                loading.copy.map(|copy| format!("{:.2}", loading.two_clients.max(loading.one_client) / copy));
            let copy = loading.copy.map(|copy| format!("{copy:.0}"));
            table(
                &mut out,
                &[
                    header(&["files/s", "1 client", "2 clients", "COPY", "ratio"]),
                    vec![
                        String::new(),
                        format!("{:.0}", loading.one_client),
                        format!("{:.0}", loading.two_clients),
                        or_dash(copy),
                        or_dash(ratio),
                    ],
                ],
            );
        }
        if let Some(memory) = &self.memory {
            let _ = writeln!(
                out,
                "\nMEMORY of the server, MiB: idle {:.0}, streaming {} files {:.0}, peak {:.0}",
                memory.idle, memory.streamed, memory.stream, memory.peak
            );
        }
        if let Some(Overhead { rounds, times }) = &self.run {
            let _ = writeln!(
                out,
                "\nRUN, above the calls of the model, {rounds} rounds, ms: p50 {}, p95 {}, p99 {}",
                ms(times.p50),
                ms(times.p95),
                ms(times.p99)
            );
        }
        out
    }

    fn render_searches(&self, out: &mut String) {
        out.push_str("\nSEARCH, on one connection\n");
        let mut cells =
            vec![header(&["row", "found", "buffers", "of all", "stmts", "p50 ms", "p95", "p99", "× floor"])];
        for row in &self.rows {
            let time = |of: fn(&Times) -> f64| or_dash(row.search.as_ref().map(|times| ms(of(times))));
            let reads =
                |of: fn(&Reads) -> i64| or_dash(row.reads.as_ref().map(|reads| of(reads).to_string()));
            cells.push(vec![
                row.row.clone(),
                or_dash(row.found.map(|found| found.to_string())),
                reads(|reads| reads.search),
                reads(|reads| reads.all),
                reads(|reads| reads.statements as i64),
                time(|times| times.p50),
                time(|times| times.p95),
                time(|times| times.p99),
                or_dash(row.floors.map(|floors| format!("{floors:.1}"))),
            ]);
        }
        table(out, &cells);
    }

    fn render_http(&self, out: &mut String) {
        out.push_str("\nHTTP\n");
        let mut names = header(&["row", "p50 ms", "p95", "p99"]);
        for load in self.rows.iter().flat_map(|row| &row.loads).take(self.rows[0].loads.len()) {
            names.extend([format!("req/s {}", load.clients), "× pgbench".into()]);
        }
        names.extend(["p50".into(), "p99".into(), "p99/p50".into()]);
        let mut cells = vec![names];
        for row in &self.rows {
            let mut line = vec![row.row.clone(), ms(row.http.p50), ms(row.http.p95), ms(row.http.p99)];
            for load in &row.loads {
                let refused = if load.refused > 0 { "!" } else { "" };
                line.push(format!("{:.0}{refused}", load.per_second));
                line.push(or_dash(load.pgbench.map(|floor| format!("{:.2}", load.per_second / floor))));
            }
            if let Some(most) = row.loads.last() {
                line.extend([ms(most.p50), ms(most.p99), format!("{:.1}", most.p99 / most.p50)]);
            }
            cells.push(line);
        }
        table(out, &cells);
    }
}

/// A number that is worse than it was.
#[derive(Debug, Clone, PartialEq)]
pub struct Regression {
    /// Which number of which row.
    pub what: String,
    /// What it was.
    pub old: f64,
    /// What it is.
    pub new: f64,
}

/// How much more buffers may be read; they hardly vary from run to run.
const BUFFERS: f64 = 1.10;
/// Buffers that do not matter.
const FEW_BUFFERS: f64 = 8.0;
/// How much longer a search may take, in floors of its own run.
const FLOORS: f64 = 1.5;
/// What part of the requests a second must be left, on a machine that does other things too.
const PER_SECOND: f64 = 0.7;

/// What is worse in `new` than in `old`, of the rows that both have.
pub fn compare(old: &Report, new: &Report) -> Vec<Regression> {
    let mut worse = Vec::new();
    let mut check = |what: String, old: f64, new: f64, is_worse: bool| {
        if is_worse {
            worse.push(Regression { what, old, new });
        }
    };
    for now in &new.rows {
        let Some(before) = old.rows.iter().find(|row| row.row == now.row) else { continue };
        let name = &now.row;
        if let (Some(a), Some(b)) = (before.reads, now.reads) {
            for (what, a, b) in [("buffers of the search", a.search, b.search), ("buffers", a.all, b.all)] {
                let (a, b) = (a as f64, b as f64);
                check(format!("{name}: {what}"), a, b, b > a * BUFFERS && b - a > FEW_BUFFERS);
            }
            let (a, b) = (a.statements as f64, b.statements as f64);
            check(format!("{name}: statements"), a, b, b > a);
        }
        if let (Some(a), Some(b)) = (before.floors, now.floors) {
            check(format!("{name}: × floor"), a, b, b > a * FLOORS);
        }
        for b in &now.loads {
            let Some(a) = before.loads.iter().find(|load| load.clients == b.clients) else { continue };
            let what = format!("{name}: requests/s with {} clients", b.clients);
            check(what, a.per_second, b.per_second, b.per_second < a.per_second * PER_SECOND);
        }
    }
    if let (Some(a), Some(b)) = (&old.loading, &new.loading) {
        let (a, b) = (a.two_clients, b.two_clients);
        check("loading: files/s".into(), a, b, b < a * PER_SECOND);
    }
    worse
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report() -> Report {
        let times = Times { p50: 0.5, p95: 1.25, p99: 20.0 };
        let load = |clients, per_second| Load {
            clients,
            per_second,
            p50: 2.0,
            p99: 5.0,
            pgbench: Some(200.0),
            refused: 0,
        };
        Report {
            version: "1".into(),
            postgres: None,
            cores: 2,
            files: 100,
            seed: 7,
            seconds: 1.0,
            rows: vec![
                Measured {
                    row: "exact name".into(),
                    found: Some(1),
                    reads: Some(Reads { search: 8, all: 30, statements: 9 }),
                    search: Some(times),
                    floors: Some(1.5),
                    http: times,
                    loads: vec![load(1, 100.0), load(64, 300.0)],
                },
                Measured {
                    row: "a round".into(),
                    found: None,
                    reads: None,
                    search: None,
                    floors: None,
                    http: times,
                    loads: vec![
                        Load { pgbench: None, ..load(1, 50.0) },
                        Load { pgbench: None, ..load(64, 60.0) },
                    ],
                },
            ],
            growth: vec![Growth { row: "exact name".into(), small: 4, large: 5 }],
            loading: Some(Loading { one_client: 3000.0, two_clients: 5000.0, copy: Some(10_000.0) }),
            memory: Some(Memory { idle: 20.0, stream: 50.4, streamed: 1000, peak: 80.0 }),
            run: Some(Overhead { rounds: 40, times }),
        }
    }

    #[test]
    fn the_tables_line_up() {
        insta::assert_snapshot!(report().render(), @r"
        100 files, seed 7, 2 cores, slatebase 1, Postgres –

        SEARCH, on one connection
        row         found  buffers  of all  stmts  p50 ms   p95  p99  × floor
        exact name      1        8      30      9    0.50  1.25   20      1.5
        a round         –        –       –      –       –     –    –        –

        HTTP
        row         p50 ms   p95  p99  req/s 1  × pgbench  req/s 64  × pgbench   p50   p99  p99/p50
        exact name    0.50  1.25   20      100       0.50       300       1.50  2.00  5.00      2.5
        a round       0.50  1.25   20       50          –        60          –  2.00  5.00      2.5

        GROWTH
        row         buffers small  large  ratio
        exact name              4      5   1.25

        LOADING
        files/s  1 client  2 clients   COPY  ratio
                     3000       5000  10000   0.50

        MEMORY of the server, MiB: idle 20, streaming 1000 files 50, peak 80

        RUN, above the calls of the model, 40 rounds, ms: p50 0.50, p95 1.25, p99 20
        ");
    }

    #[test]
    fn what_is_worse_is_told_and_noise_is_not() {
        let (old, mut new) = (report(), report());
        assert_eq!(compare(&old, &new), []);
        new.rows[0].reads = Some(Reads { search: 14, all: 60, statements: 10 });
        new.rows[0].floors = Some(3.0);
        new.rows[0].loads[0].per_second = 80.0;
        new.rows[0].loads[1].per_second = 100.0;
        new.loading = Some(Loading { one_client: 3000.0, two_clients: 2000.0, copy: None });
        let what: Vec<String> = compare(&old, &new).into_iter().map(|worse| worse.what).collect();
        assert_eq!(
            what,
            [
                "exact name: buffers",
                "exact name: statements",
                "exact name: × floor",
                "exact name: requests/s with 64 clients",
                "loading: files/s"
            ]
        );
    }

    #[test]
    fn a_report_goes_round() {
        let text = serde_json::to_string(&report()).unwrap();
        assert_eq!(serde_json::from_str::<Report>(&text).unwrap(), report());
    }
}
