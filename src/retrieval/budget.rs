//! What of a result is given, as far as limits and the context go (retrieval semantics §4 and §6).

use std::collections::HashMap;

use super::limits::{AskedLimits, Limits, MAX_BYTES_PER_ROUND};

/// A file that was found, in the order of the result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Candidate<'a> {
    /// Its number.
    pub file_id: i64,
    /// The head's version.
    pub version: i64,
    /// SHA-256 of the head's contents.
    pub sha256: &'a [u8],
    /// Bytes that giving it takes: those of the contents, or of what stands for them.
    pub cost: i64,
}

/// The newest version of a file that is in context.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shown {
    /// Its number.
    pub version: i64,
    /// SHA-256 of its contents.
    pub sha256: Vec<u8>,
}

/// What is in a session's context.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Context {
    /// By the file's number.
    pub shown: HashMap<i64, Shown>,
    /// Whether the new contents of a file are given instead, once for each version.
    pub refetch_changed: bool,
}

/// What becomes of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Its contents are given.
    Fetched,
    /// They were given before, as this version; `changed` when the head has other bytes.
    AlreadyInContext {
        /// The version in context.
        version: i64,
        /// Whether the head's bytes differ from it.
        changed: bool,
    },
    /// It would pass a limit.
    Omitted,
}

/// What may still be given. None is no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Budget {
    /// Files.
    pub files: Option<i64>,
    /// Bytes. The first file may pass this, up to the server's maximum.
    pub bytes: Option<i64>,
    /// Bytes that nothing may pass.
    pub total: Option<i64>,
    /// Whether no file has been given yet.
    pub first: bool,
}

impl Budget {
    /// That of a query, which has no limits but those that it asks for.
    pub fn of_query(limits: AskedLimits) -> Budget {
        Budget {
            files: limits.max_files_per_round,
            bytes: limits.max_bytes_per_round,
            total: limits.max_total_bytes,
            first: true,
        }
    }

    /// That of a round, in a session that has given `shown` bytes so far.
    pub fn of_round(limits: Limits, shown: i64) -> Budget {
        Budget {
            files: Some(limits.max_files_per_round),
            bytes: Some(limits.max_bytes_per_round),
            total: Some(limits.max_total_bytes.saturating_sub(shown)),
            first: true,
        }
    }

    /// Takes a file of this cost out of the budget, if it fits.
    fn take(&mut self, cost: i64) -> bool {
        let bytes =
            if self.first { self.bytes.map(|bytes| bytes.max(MAX_BYTES_PER_ROUND)) } else { self.bytes };
        let within = |limit: Option<i64>, cost: i64| limit.is_none_or(|limit| cost <= limit);
        if !(within(self.files, 1) && within(bytes, cost) && within(self.total, cost)) {
            return false;
        }
        let less = |limit: Option<i64>, cost: i64| limit.map(|limit| (limit - cost).max(0));
        *self = Budget {
            files: less(self.files, 1),
            bytes: less(self.bytes, cost),
            total: less(self.total, cost),
            first: false,
        };
        true
    }
}

/// Decides file by file, in order: a file that does not fit is left out, and a smaller one after it may fit. What is
/// taken is taken out of `budget`.
pub fn decide(candidates: &[Candidate<'_>], context: &Context, budget: &mut Budget) -> Vec<Verdict> {
    (candidates.iter())
        .map(|file| {
            if let Some(shown) = context.shown.get(&file.file_id) {
                let changed = shown.sha256 != file.sha256;
                if !(changed && context.refetch_changed && file.version > shown.version) {
                    return Verdict::AlreadyInContext { version: shown.version, changed };
                }
            }
            if budget.take(file.cost) { Verdict::Fetched } else { Verdict::Omitted }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(file_id: i64, cost: i64) -> Candidate<'static> {
        Candidate { file_id, version: 2, sha256: &[2], cost }
    }

    fn budget(files: Option<i64>, bytes: Option<i64>, total: Option<i64>) -> Budget {
        Budget { files, bytes, total, first: true }
    }

    const F: Verdict = Verdict::Fetched;
    const O: Verdict = Verdict::Omitted;

    macro_rules! fits {
        ($($name:ident: $budget:expr, $costs:expr => $verdicts:expr;)*) => {
            $(#[test] fn $name() {
                let files: Vec<_> = $costs.iter().enumerate().map(|(i, cost)| file(i as i64, *cost)).collect();
                assert_eq!(decide(&files, &Context::default(), &mut $budget), $verdicts);
            })*
        };
    }

    fits! {
        no_limits: budget(None, None, None), [i64::MAX / 4, 0, 1] => [F, F, F];
        files: budget(Some(2), None, None), [1, 1, 1] => [F, F, O];
        bytes: budget(None, Some(3), None), [2, 2, 1] => [F, O, F];
        the_first_may_pass_bytes: budget(None, Some(3), None), [9, 1, 0] => [F, O, F];
        up_to_the_servers_maximum: budget(None, Some(3), None), [MAX_BYTES_PER_ROUND + 1, 9, 1] => [O, F, O];
        not_even_the_first_passes_the_total: budget(None, Some(3), Some(5)), [9, 5, 1] => [O, F, O];
        empty_files_are_files: budget(Some(1), None, None), [0, 0] => [F, O];
    }

    #[test]
    fn a_budget_goes_on() {
        let mut budget = Budget::of_round(AskedLimits::default().for_session(), 8 << 20);
        assert_eq!(decide(&[file(1, 1)], &Context::default(), &mut budget), [O]);
        assert_eq!(decide(&[file(1, 0)], &Context::default(), &mut budget), [F]);
        assert_eq!((budget.files, budget.total, budget.first), (Some(49), Some(0), false));
    }

    fn context(version: i64, sha256: u8, refetch_changed: bool) -> Context {
        Context { shown: HashMap::from([(1, Shown { version, sha256: vec![sha256] })]), refetch_changed }
    }

    macro_rules! contexts {
        ($($name:ident: $context:expr => $verdict:expr;)*) => {
            $(#[test] fn $name() {
                let mut left = budget(Some(1), None, None);
                assert_eq!(decide(&[file(1, 1)], &$context, &mut left), [$verdict]);
                assert_eq!(left.files == Some(0), $verdict == Verdict::Fetched, "only what is given is taken");
            })*
        };
    }

    contexts! {
        in_context: context(2, 2, false) => Verdict::AlreadyInContext { version: 2, changed: false };
        changed: context(1, 1, false) => Verdict::AlreadyInContext { version: 1, changed: true };
        moved_with_the_same_bytes: context(1, 2, true) => Verdict::AlreadyInContext { version: 1, changed: false };
        changed_and_refetched: context(1, 1, true) => Verdict::Fetched;
        refetched_once: context(2, 2, true) => Verdict::AlreadyInContext { version: 2, changed: false };
    }
}
