//! What a plan may read and throw away.

use serde_json::Value;

/// Rows that a node may throw away, whatever it gives.
const FEW_ROWS: f64 = 1000.0;
/// Buffers that a node or a statement may read, whatever it gives.
const FEW_BUFFERS: f64 = 500.0;
/// Rows that it may throw away, and buffers that it may read, for each row that it gives.
const FOR_EACH: f64 = 10.0;
/// Buffers that writing a row may take: each of the indexes of its table is walked down, those of metatags for each term.
const FOR_EACH_WRITTEN: f64 = 150.0;

/// What a node, or the statement as a whole, did too much of.
#[derive(Debug, Clone)]
pub struct Excess {
    /// The node with its table and its conditions; empty for the statement as a whole.
    pub node: String,
    pub kind: Kind,
    pub number: f64,
    /// What would have been fine.
    pub bound: f64,
    /// Rows that it gave, all loops together.
    pub rows: f64,
    pub loops: f64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Removed,
    Buffers,
}

impl Excess {
    /// How many times as much as would have been fine.
    pub fn times(&self) -> f64 {
        self.number / self.bound
    }
}

/// All that a plan does too much of.
pub fn excesses(root: &Value) -> Vec<Excess> {
    let mut found = Vec::new();
    let mut written = Total::default();
    walk(root, &mut found, &mut written);
    let worth = rows(root).max(written.rows).max(written.asked);
    let number = buffers(root) - written.buffers;
    let bound = FEW_BUFFERS.max(FOR_EACH * worth);
    if number > bound {
        found.push(Excess {
            node: String::new(),
            kind: Kind::Buffers,
            number,
            bound,
            rows: worth,
            loops: 1.0,
        });
    }
    found
}

/// Of the nodes that write, and of the values that were asked for.
#[derive(Debug, Default)]
struct Total {
    rows: f64,
    buffers: f64,
    asked: f64,
}

fn walk(node: &Value, found: &mut Vec<Excess>, written: &mut Total) {
    let loops = number(node, "Actual Loops");
    if loops == 0.0 {
        return;
    }
    let kind = node["Node Type"].as_str().unwrap_or_default();
    let mut given = rows(node);
    let mut own = buffers(node);
    let mut below = 0.0;
    for child in node["Plans"].as_array().into_iter().flatten() {
        walk(child, found, written);
        own -= buffers(child);
        below += if is_sub(child) { 0.0 } else { rows(child) };
    }
    if kind == "Function Scan" && loops == 1.0 {
        written.asked = written.asked.max(given);
    }
    let mut each = FOR_EACH;
    if kind == "ModifyTable" {
        given = below;
        each = FOR_EACH_WRITTEN;
        written.rows += below;
        written.buffers += own.max(0.0);
    }
    let mut tell = |kind, number: f64, bound: f64| {
        if number > bound {
            found.push(Excess { node: described(node), kind, number, bound, rows: given, loops });
        }
    };
    let removed = ["Rows Removed by Filter", "Rows Removed by Index Recheck", "Rows Removed by Join Filter"];
    let removed: f64 = removed.iter().map(|name| number(node, name) * loops).sum();
    // A table of a page has nothing better to offer than that page.
    let page = kind == "Seq Scan" && own <= 2.0 * loops;
    if !page {
        tell(Kind::Removed, removed, FEW_ROWS.max(FOR_EACH * given));
    }
    // Of what is read through a part that was named before, the part itself tells.
    if kind != "CTE Scan" {
        tell(Kind::Buffers, own, FEW_BUFFERS.max(each * given.max(loops)));
    }
}

/// Whether its rows are not its parent's.
fn is_sub(node: &Value) -> bool {
    matches!(node["Parent Relationship"].as_str(), Some("InitPlan" | "SubPlan"))
}

fn number(node: &Value, name: &str) -> f64 {
    node[name].as_f64().unwrap_or_default()
}

/// What it gives, all loops together.
fn rows(node: &Value) -> f64 {
    number(node, "Actual Rows") * number(node, "Actual Loops")
}

fn buffers(node: &Value) -> f64 {
    number(node, "Shared Hit Blocks") + number(node, "Shared Read Blocks")
}

/// A node in words: what it is, of what, and by which conditions.
fn described(node: &Value) -> String {
    let text = |name: &str| node[name].as_str().map(str::to_owned);
    let mut words = text("Node Type").unwrap_or_default();
    if let Some(operation) = text("Operation") {
        words = format!("{words} ({operation})");
    }
    let of = [text("Relation Name"), text("Alias"), text("Index Name"), text("CTE Name")];
    let of: Vec<String> = of.into_iter().flatten().collect();
    if !of.is_empty() {
        words = format!("{words} on {}", of.join(" / "));
    }
    for name in
        ["Index Cond", "Recheck Cond", "Hash Cond", "Merge Cond", "Join Filter", "Filter", "One-Time Filter"]
    {
        if let Some(condition) = text(name) {
            let condition: String = condition.chars().take(400).collect();
            words.push_str(&format!("; {name}: {condition}"));
        }
    }
    words
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn scan(rows: u32, loops: u32, removed: u32, buffers: u32) -> Value {
        json!({"Node Type": "Index Scan", "Relation Name": "files", "Actual Rows": rows, "Actual Loops": loops,
               "Rows Removed by Filter": removed, "Shared Hit Blocks": buffers})
    }

    #[test]
    fn a_node_may_throw_away_little_of_what_it_reads() {
        assert!(excesses(&scan(1, 1, 1000, 500)).is_empty());
        assert!(excesses(&scan(500, 1, 5000, 5000)).is_empty());
        let thrown = excesses(&scan(1, 50, 30, 100));
        assert_eq!((thrown.len(), thrown[0].kind, thrown[0].number), (1, Kind::Removed, 1500.0));
    }

    #[test]
    fn a_table_of_a_page_may_be_read_as_a_whole() {
        let mut page = scan(0, 200, 20, 200);
        assert_eq!(excesses(&page).len(), 1);
        page["Node Type"] = json!("Seq Scan");
        assert!(excesses(&page).is_empty());
    }

    #[test]
    fn buffers_are_the_nodes_own_and_the_whole_statements() {
        let mut join = json!({"Node Type": "Nested Loop", "Actual Rows": 50, "Actual Loops": 1, "Shared Hit Blocks": 800});
        join["Plans"] = json!([scan(50, 1, 0, 200), scan(1, 50, 0, 600)]);
        let found = excesses(&join);
        assert_eq!(found.len(), 2, "{found:?}");
        assert_eq!((&found[0].node[..], found[1].number), ("Index Scan on files", 800.0));
    }

    #[test]
    fn what_is_written_costs_more() {
        let mut write = json!({"Node Type": "ModifyTable", "Operation": "Insert", "Actual Rows": 0, "Actual Loops": 1,
                               "Shared Hit Blocks": 5000});
        write["Plans"] = json!([scan(100, 1, 0, 100)]);
        assert!(excesses(&write).is_empty());
        write["Shared Hit Blocks"] = json!(20_000);
        assert_eq!(excesses(&write).len(), 1);
    }
}
