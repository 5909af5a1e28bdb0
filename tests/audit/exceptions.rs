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
        operation: "get_session_tool",
        fragment: "from search_file_tags where tenant_id = $1 and not hidden",
        removed: 0.0,
        buffers: 8_000.0,
        why: "it counts the metatags of up to 100,000 files",
    },
    Exception {
        operation: "mcp, prompts/get",
        fragment: "from search_file_tags where tenant_id = $1 and not hidden",
        removed: 0.0,
        buffers: 8_000.0,
        why: "it counts the metatags of up to 100,000 files, as facets do",
    },
    Exception {
        operation: "mcp, prompts/get",
        fragment: "entries as materialized",
        removed: 0.0,
        buffers: 20_000.0,
        why: "an outline tells the size of each folder, and sums up to 10,000 files below each",
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
        buffers: 6_000.0,
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
    Exception {
        operation: "query_slate",
        fragment: "(select f.modified_at from files f",
        removed: ALL,
        buffers: 6.0 * ALL,
        why: "there is no index of times: files are tried in their order until a page is full",
    },
    Exception {
        operation: "query_slate",
        fragment: "(select f.size from files f",
        removed: ALL,
        buffers: 6.0 * ALL,
        why: "there is no index of sizes: files are tried in their order until a page is full",
    },
    Exception {
        operation: "query_slate",
        fragment: "and term_ids && $3 order by",
        removed: ALL,
        buffers: 5_500.0,
        why: "of one or two terms the planner knows how many files have them, and not that these come last in order",
    },
    Exception {
        operation: "query_slate",
        fragment: "json_agg(ids order by place)",
        removed: 0.0,
        buffers: 8_000.0,
        why: "a text of less than three letters has no trigram, and up to 2,000 terms are read",
    },
    Exception {
        operation: "",
        fragment: "sized as (select e.name",
        removed: 0.0,
        buffers: 5_000.0,
        why: "the size of a folder is the sum of up to 10,000 files below it",
    },
    Exception {
        operation: "",
        fragment: "cross join lateral (select v.purged_at is not null",
        removed: 0.0,
        buffers: 1_500.0,
        why: "a version that was shown is looked up with its file, its identity and its contents: 15 buffers",
    },
    Exception {
        operation: "",
        fragment: "as gone, t.lines",
        removed: 0.0,
        buffers: 3_000.0,
        why: "an item of a record is looked up with its version, its file, its identity and its contents: 15 buffers",
    },
    Exception {
        operation: "",
        fragment: "sha256(b.data) <> v.sha256",
        removed: 0.0,
        buffers: 5_000.0,
        why: "it reads all contents that a record names",
    },
    Exception {
        operation: "",
        fragment: "from page) select p.id as file_id",
        removed: 0.0,
        buffers: 20_000.0,
        why: "a file is exported with its metatags, its version and its contents: 13 buffers",
    },
    Exception {
        operation: "",
        fragment: "update files f set hidden = not f.hidden",
        removed: ALL,
        buffers: 5_000.0,
        why: "every file below the folder is looked at",
    },
    Exception {
        operation: "put_corpus",
        fragment: "<> all(array(select p.root_id from passages p",
        removed: 2_500.0,
        buffers: 20_000.0,
        why: "every file of the corpus is asked whether it has passages",
    },
    Exception {
        operation: "retrieve_target",
        fragment: "as base from sources",
        removed: 2_500.0,
        buffers: 500.0,
        why: "an address is compared with those of all registered APIs of the tenant",
    },
    Exception {
        operation: "slatebase secrets",
        fragment: "FROM \"secrets\"",
        removed: 2_500.0,
        buffers: 500.0,
        why: "all secrets of the tenant are gone through, and most are under the new key already",
    },
    Exception {
        operation: "slatebase maintain",
        fragment: "used.id",
        removed: 0.0,
        buffers: 5_000.0,
        why: "terms that are dropped are looked for in all that may use them",
    },
    Exception {
        operation: "",
        fragment: "select count(*) as passages from (select from search_passages",
        removed: 0.0,
        buffers: 5_000.0,
        why: "passages are counted up to a ceiling",
    },
    Exception {
        operation: "",
        fragment: "update file_tags t set hidden = f.hidden",
        removed: 0.0,
        buffers: 5_000.0,
        why: "every file below the folder is looked at",
    },
    Exception {
        operation: "",
        fragment: "similarity(name,",
        removed: 0.0,
        buffers: 1_500.0,
        why: "each of up to ten misses is compared with the 200 names around it",
    },
    Exception {
        operation: "",
        fragment: "t.revision as tags_revision",
        removed: 0.0,
        buffers: 5_000.0,
        why: "a file that is written is looked up with its metatags and its version: 12 buffers",
    },
    Exception {
        operation: "slatebase maintain",
        fragment: "i.deleted_at < s.horizon offset 0",
        removed: 0.0,
        buffers: 10_000.0,
        why: "files that were deleted and purged long ago are looked at again: five buffers each",
    },
    Exception {
        operation: "slatebase maintain",
        fragment: "DELETE FROM \"session",
        removed: 15_000.0,
        buffers: 2_000.0,
        why: "the planner was last told of few rows, and reads them all",
    },
    Exception {
        operation: "slatebase maintain",
        fragment: "DELETE FROM \"rounds\"",
        removed: 15_000.0,
        buffers: 2_000.0,
        why: "the planner was last told of few rows, and reads them all",
    },
    Exception {
        operation: "slatebase maintain",
        fragment: "delete from public.tag_terms t where t.tenant_id = of_tenant",
        removed: ALL,
        buffers: 5_500.0,
        why: "up to some 50,000 files the planner would rather test each than ask the index of terms",
    },
    Exception {
        operation: "",
        fragment: "as wanted (id) cross join lateral",
        removed: 20.0 * ALL,
        buffers: 24_000.0,
        why: "a look-up of each of up to 2,000 terms; and up to some 50,000 files the planner would rather test each than ask the index of terms",
    },
    Exception {
        operation: "",
        fragment: "with recursive found as materialized (select *, row_number()",
        removed: 0.0,
        buffers: 5_500.0,
        why: "a page: its search, and five buffers for each file",
    },
];
