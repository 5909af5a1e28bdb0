//! Statements that may do more than others, each with its reason and a bound of its own.

use crate::plans::{Excess, Kind};

/// What may exceed the usual bounds.
pub struct Exception {
    /// The operations, by how their names begin.
    pub operation: &'static str,
    /// What the statement holds, with one space for all white space.
    pub fragment: &'static str,
    /// Rows that a node may throw away.
    pub removed: f64,
    /// Buffers that it may read, or a node of it.
    pub buffers: f64,
    /// Why there is no better way.
    #[allow(dead_code, reason = "it is for whoever reads the table")]
    pub why: &'static str,
}

impl Exception {
    pub fn covers(&self, operation: &str, text: &str) -> bool {
        operation.starts_with(self.operation) && text.contains(self.fragment)
    }

    pub fn allows(&self, excess: &Excess) -> bool {
        match excess.kind {
            Kind::Removed => excess.number <= self.removed,
            Kind::Buffers => excess.number <= self.buffers,
        }
    }
}

pub const EXCEPTIONS: &[Exception] = &[];
