//! Statements that may do more than others, each with its reason and a bound of its own.

use crate::plans::{Excess, Kind};

/// What may exceed the usual bounds.
pub struct Exception {
    /// The operations, by how their names and the details of the call begin; whole, where it ends in `$`.
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
        let fits = match self.operation.strip_suffix('$') {
            Some(whole) => operation == whole,
            None => operation.starts_with(self.operation),
        };
        fits && text.contains(self.fragment)
    }

    pub fn allows(&self, excess: &Excess) -> bool {
        match excess.kind {
            Kind::Removed => excess.number <= self.removed,
            Kind::Buffers => excess.number <= self.buffers,
        }
    }
}

/// As many rows as the large tenant has files, and those that a scenario adds.
const ALL: f64 = 60_000.0;

pub const EXCEPTIONS: &[Exception] = &[
    Exception {
        operation: "get_facets",
        fragment: "from search_file_tags where tenant_id = $1 and not hidden",
        removed: 0.0,
        buffers: 8_000.0,
        why: "it counts the metatags of up to 100,000 files",
    },
    Exception {
        operation: "export_slate, /v1/slates/Docs/export$",
        fragment: "select count(*) as count from files",
        removed: ALL,
        buffers: 3_000.0,
        why: "of a whole slate, all of which was exported, it tells how many files were left out",
    },
    Exception {
        operation: "put_settings",
        fragment: "set hidden",
        removed: ALL,
        buffers: 5.0 * ALL,
        why: "globs are regular expressions, and each path of the tenant is tried: five buffers for each",
    },
    Exception {
        operation: "move_folder",
        fragment: "select count(*) = 0 as empty",
        removed: 0.0,
        buffers: 2_000.0,
        why: "it measures all that is moved, up to some hundreds of files here",
    },
    Exception {
        operation: "submit_round",
        fragment: "select count(*) as files, coalesce(sum(f.size)",
        removed: 0.0,
        buffers: 5_000.0,
        why: "it counts the files that a round leaves out, up to a limit",
    },
    Exception {
        operation: "slatebase maintain",
        fragment: "with used as materialized (select distinct unnest(term_ids)",
        removed: 0.0,
        buffers: 8_000.0,
        why: "terms that nothing uses are told by looking at all tags of the tenant, once a round",
    },
    Exception {
        operation: "delete_tenant",
        fragment: "SELECT 1 FROM ONLY \"public\".\"passages\"",
        removed: 0.0,
        buffers: 5_000.0,
        why: "what the same transaction has deleted is still in the index that the check walks through",
    },
    Exception {
        operation: "query_slate",
        fragment: "(name || '') like",
        removed: ALL,
        buffers: 5_500.0,
        why: "a pattern without three letters in a row has no trigram, and names are tried in their order until a page is full",
    },
    Exception {
        operation: "query_slate",
        fragment: "case jsonb_typeof(tags -> ",
        removed: ALL,
        buffers: 5_500.0,
        why: "where more than 2,000 values hold a text, files are tried in their order until a page is full",
    },
    Exception {
        operation: "query_slate",
        fragment: "coalesce(array_agg(id)",
        removed: 0.0,
        buffers: 3_000.0,
        why: "it gathers up to 2,000 terms into one row",
    },
    Exception {
        operation: "check_citation",
        fragment: "unnest(p.file_ids, p.versions, p.statuses)",
        removed: 0.0,
        buffers: 3_000.0,
        why: "a quote is looked for in all that the session was shown",
    },
    Exception {
        operation: "slatebase verify",
        fragment: "sha256(b.data) <> v.sha256",
        removed: 0.0,
        buffers: 5_000.0,
        why: "it reads all contents that a record names",
    },
    Exception {
        operation: "",
        fragment: "ts_rank_cd",
        removed: 0.0,
        buffers: 5_000.0,
        why: "every passage that holds one of the words is ranked",
    },
];
