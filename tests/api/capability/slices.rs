//! Slices of generated documents against a plain model, byte for byte, and their citations after many later versions.

use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use serde_json::{Value, json};
use slatebase::capability::answer::answer;
use slatebase::capability::citations::ToResolve;
use slatebase::capability::ops;
use slatebase::capability::request::{Asked, Request};
use slatebase::capability::target::Locator;
use slatebase::ctx::Ctx;
use slatebase::provenance::citation::Citation;
use uuid::Uuid;

use super::given;

/// A document, made line by line, so that its sections are known without reading it.
struct Document {
    lines: Vec<String>,
    /// Title, level, and the first line of each section.
    headings: Vec<(String, u8, usize)>,
}

impl Document {
    fn generate(random: &mut StdRng) -> Document {
        let ending = *["\n", "\n", "\r\n"].choose(random).unwrap();
        let mut document = Document { lines: Vec::new(), headings: Vec::new() };
        for block in 0..random.random_range(5..40) {
            let title = format!("{} {block}", ["Set up", "Größe 𝄞", "Use 🚀", "API"].choose(random).unwrap());
            let level = random.random_range(1..=4_u8);
            match random.random_range(0..6) {
                0 | 1 => {
                    document.headings.push((title.clone(), level, document.lines.len() + 1));
                    document.lines.push(format!("{} {title}", "#".repeat(level.into())));
                }
                2 => {
                    let level = 1 + level % 2;
                    document.headings.push((title.clone(), level, document.lines.len() + 1));
                    document.lines.push(title);
                    document.lines.push(if level == 1 { "=====" } else { "---" }.into());
                }
                3 => {
                    let fence = *["```", "~~~~"].choose(random).unwrap();
                    document.lines.extend([
                        fence.into(),
                        "# no heading".into(),
                        "Not one either".into(),
                        "---".into(),
                        fence.into(),
                    ]);
                }
                _ => document
                    .lines
                    .extend((0..random.random_range(1..4)).map(|n| format!("text {n} — é🚀 of {block}"))),
            }
            document.lines.push(String::new());
        }
        let last = document.lines.len() - 1;
        document.lines.iter_mut().take(last).for_each(|line| line.push_str(ending));
        match random.random_bool(0.5) {
            true => document.lines[last].push_str(ending),
            false => document.lines[last].push_str("no final newline"),
        }
        document
    }

    fn text(&self) -> String {
        self.lines.concat()
    }

    /// The lines of each section of this title.
    fn sections(&self, title: &str) -> Vec<usize> {
        let mut lines = Vec::new();
        for (i, (_, level, first)) in self.headings.iter().enumerate().filter(|(_, (t, ..))| t == title) {
            let next = self.headings[i + 1..].iter().find(|(_, next, _)| next <= level);
            lines.extend(*first..next.map_or(self.lines.len() + 1, |(.., next)| *next));
        }
        lines
    }

    /// The text of these lines; where some are left out between two, a blank line, as long as each range is a part.
    fn model(&self, ranges: &[(usize, usize)]) -> String {
        let blank = if self.lines[0].ends_with("\r\n") { "\r\n" } else { "\n" };
        let part = |(first, last): &(usize, usize)| self.lines[first - 1..*last].concat();
        ranges.iter().map(part).collect::<Vec<_>>().join(blank)
    }

    /// A constraint, and the text that it should give.
    fn slice(&self, random: &mut StdRng) -> (Value, String) {
        let count = self.lines.len();
        match random.random_range(0..4) {
            0 if !self.headings.is_empty() => {
                let (title, ..) = self.headings.choose(random).unwrap();
                let lines = self.sections(title);
                (json!({"sections": [title]}), self.model(&[(lines[0], *lines.last().unwrap())]))
            }
            1 => {
                let first = random.random_range(1..=count);
                (json!({"lines": format!("{first}-")}), self.model(&[(first, count)]))
            }
            2 if count > 6 => {
                let a = random.random_range(1..=count / 3);
                let b = random.random_range(a + 1..=count / 2 + 1);
                let c = random.random_range(b..=count);
                (json!({"lines": [format!("{a}"), format!("{b}-{c}")]}), self.model(&[(a, a), (b, c)]))
            }
            _ => {
                let first = random.random_range(1..=count);
                let last = random.random_range(first..=count + 3);
                (json!({"lines": format!("{first}-{last}")}), self.model(&[(first, last.min(count))]))
            }
        }
    }
}

#[tokio::test]
async fn ten_thousand_slices_and_their_citations() {
    const DOCUMENTS: usize = 40;
    const SLICES: usize = 250;
    let mut random = StdRng::seed_from_u64(7);
    let documents: Vec<Document> = (0..DOCUMENTS).map(|_| Document::generate(&mut random)).collect();
    let files =
        documents.iter().enumerate().map(|(i, document)| (format!("d{i}.md"), json!(document.text())));
    let (server, caller) = given(Value::Object(files.collect())).await;
    let now = chrono::Utc::now();
    let found = server.app.db.operator(|tx| slatebase::tenants::ops::get_tenant(tx, "acme")).await;
    let tenant = found.unwrap().id;
    let ctx = Ctx::local(tenant, now, Uuid::nil());

    let mut cited: Vec<(String, String, String)> = Vec::new();
    for (i, document) in documents.iter().enumerate() {
        for _ in 0..SLICES {
            let (constraints, expected) = document.slice(&mut random);
            let asked = json!({"target": format!("slate://Knowledge/d{i}.md"), "constraints": constraints});
            let asked: Asked = serde_json::from_value(asked).unwrap();
            let request = Request::parse(asked).unwrap();
            let Locator::File(target) = &request.locator else { panic!("no file") };
            let (target, asking) = (target.clone(), ctx.clone());
            let read =
                server.app.db.tenant(tenant, move |tx| ops::read_file(tx, &asking, &target)).await.unwrap();
            let contract = answer(&request, read.result.unwrap(), now);
            assert_eq!(contract.retrieved.data, expected, "{constraints} of d{i}.md");
            cited.push((contract.citation.reference.unwrap(), contract.citation.hash.unwrap(), expected));
        }
    }
    for i in 0..DOCUMENTS {
        let bulk: String = (0..100)
            .map(|n| json!({"path": format!("d{i}.md"), "content": format!("later {n}")}).to_string() + "\n")
            .collect();
        caller.post("/v1/slates/Knowledge/files").body("application/x-ndjson", bulk).await.expect(200);
    }
    let versions = caller.get("/v1/slates/Knowledge/versions/d0.md").await.ok(200);
    assert_eq!(versions["items"][0]["version"], 101);
    for chunk in cited.chunks(500) {
        let (chunk, asking) = (chunk.to_vec(), ctx.clone());
        let resolved = server.app.db.tenant(tenant, move |tx| {
            let each = chunk.iter().map(|(reference, hash, expected)| {
                let citation = Citation::parse(reference).unwrap();
                let asked = ToResolve { reference: reference.clone(), hash: Some(hash.clone()) };
                let found = ops::resolve_file(tx, &asking, &citation, &asked, &Value::Null)?;
                assert_eq!(found.data.as_ref(), Some(expected), "{reference}");
                Ok(())
            });
            each.collect::<slatebase::error::Result<()>>()
        });
        resolved.await.unwrap();
    }
}
