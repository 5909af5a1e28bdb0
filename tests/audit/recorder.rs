//! What was seen: statements by the operation that sent them, and plans that do too much.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use crate::exceptions::EXCEPTIONS;
use crate::log::{Log, Plan};
use crate::plans::{Excess, Kind, excesses};
use crate::sources::Sources;

/// A statement that did too much, at its worst.
struct Offence {
    excess: Excess,
    shape: String,
    operation: String,
    source: String,
    text: String,
    /// Where it was seen.
    seen: BTreeSet<String>,
}

/// All of a run.
pub struct Recorder {
    log: Log,
    pub sources: Sources,
    /// The shape that is played.
    pub shape: String,
    /// Every statement that was executed.
    pub statements: BTreeSet<String>,
    /// The operations that were played.
    pub operations: BTreeSet<String>,
    used: BTreeSet<usize>,
    offences: BTreeMap<String, Offence>,
    /// What went wrong with the operations themselves.
    pub failures: Vec<String>,
    plans: usize,
}

impl Recorder {
    pub fn new(log: Log, sources: Sources) -> Recorder {
        Recorder {
            log,
            sources,
            shape: String::new(),
            statements: BTreeSet::new(),
            operations: BTreeSet::new(),
            used: BTreeSet::new(),
            offences: BTreeMap::new(),
            failures: Vec::new(),
            plans: 0,
        }
    }

    /// Passes over what was logged since the last look: it was preparation.
    pub fn skip(&mut self) {
        self.log.read();
    }

    /// Looks at what was logged since the last look. `detail` tells which call of the operation it was.
    pub fn look(&mut self, operation: &str, detail: &str) {
        self.operations.insert(operation.to_owned());
        let written = self.log.read();
        self.statements.extend(written.statements);
        self.plans += written.plans.len();
        for plan in &written.plans {
            self.judge(operation, detail, plan);
        }
    }

    fn judge(&mut self, operation: &str, detail: &str, plan: &Plan) {
        let call = format!("{operation}, {detail}");
        let covering =
            EXCEPTIONS.iter().enumerate().filter(|(_, exception)| exception.covers(&call, &plan.text));
        let covering: Vec<_> = covering.collect();
        self.used.extend(covering.iter().map(|(n, _)| n));
        let mut found = excesses(&plan.root);
        found.retain(|excess| !covering.iter().any(|(_, exception)| exception.allows(excess)));
        // What a function of the database reads is told of its own statements.
        if self.sources.calls_function(&plan.text) {
            found.retain(|excess| excess.kind != Kind::Buffers);
        }
        // A node says more than the whole.
        let most = found.into_iter().max_by(|a, b| {
            (!a.node.is_empty()).cmp(&!b.node.is_empty()).then(a.times().total_cmp(&b.times()))
        });
        let Some(excess) = most else { return };
        let source = self.sources.of(&plan.text);
        let key = format!("{source} {}", plan.text.chars().take(100).collect::<String>());
        let seen = format!("{}: {operation}", self.shape);
        let worst = self.offences.get(&key).is_none_or(|known| known.excess.times() < excess.times());
        if worst {
            let mut offence = Offence {
                excess,
                shape: self.shape.clone(),
                operation: call,
                source,
                text: plan.text.clone(),
                seen: BTreeSet::new(),
            };
            if let Some(known) = self.offences.remove(&key) {
                offence.seen = known.seen;
            }
            self.offences.insert(key.clone(), offence);
        }
        if let Some(offence) = self.offences.get_mut(&key) {
            offence.seen.insert(seen);
        }
    }

    /// Exceptions that no statement needed in a run of all shapes.
    pub fn unused(&self) -> Vec<String> {
        let unused = EXCEPTIONS.iter().enumerate().filter(|(n, _)| !self.used.contains(n));
        unused.map(|(_, exception)| format!("{:?} {:?}", exception.operation, exception.fragment)).collect()
    }

    /// All offences in words, the worst first.
    pub fn report(&self) -> String {
        let mut offences: Vec<&Offence> = self.offences.values().collect();
        offences.sort_by(|a, b| b.excess.times().total_cmp(&a.excess.times()));
        let mut text =
            format!("{} plans, {} statements read or throw away too much\n", self.plans, offences.len());
        for offence in offences {
            let Offence { excess, shape, operation, source, text: statement, seen } = offence;
            let what = match excess.kind {
                Kind::Removed => "rows thrown away",
                Kind::Buffers => "buffers",
            };
            let node = if excess.node.is_empty() { "the statement as a whole" } else { &excess.node };
            let seen: Vec<&str> = seen.iter().map(String::as_str).collect();
            let statement: String = statement.chars().take(1500).collect();
            writeln!(
                text,
                "\n{:.0} {what}, where {:.0} are fine ({:.0} rows given, {} loops): {source}\n  {shape}: {operation}\n  \
                 node: {node}\n  statement: {statement}\n  seen in: {}",
                excess.number,
                excess.bound,
                excess.rows,
                excess.loops,
                seen.join("; ")
            )
            .unwrap();
        }
        text
    }

    pub fn offences(&self) -> usize {
        self.offences.len()
    }
}
