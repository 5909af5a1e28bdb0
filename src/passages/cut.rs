//! Cuts a text into passages.
//!
//! | text | is cut |
//! |---|---|
//! | Markdown | before each heading, and between blocks (paragraphs, lists, tables, code) where a section grows past [`TARGET`] |
//! | any other | at blank lines, where it grows past [`TARGET`] |
//!
//! A block that is larger than [`TARGET`] is cut within: after a line, else after a sentence, else after a word, else
//! between characters. No passage is larger than [`MAX`]. Headings stay with what they are headings of, and front matter
//! with what follows it. What is only white space is in no passage.
//!
//! Every passage has the title of its document: that of the front matter, else the heading of the first level that the
//! document begins with; and the trail of headings that it stands below.

use std::ops::Range;

use pulldown_cmark::{Event, HeadingLevel, MetadataBlockKind, Options, Parser, Tag, TagEnd};

/// Bytes past which a passage takes no further block.
pub const TARGET: usize = 1200;
/// Bytes up to which a passage takes another block, whatever that makes of it.
const SMALL: usize = 200;
/// The most bytes of a passage.
pub const MAX: usize = TARGET + SMALL;
/// The most bytes of one heading in a trail.
const MAX_HEADING: usize = 200;
/// The most bytes of a trail.
const MAX_TRAIL: usize = 800;

/// A passage of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Passage {
    /// The title of its document; empty where it has none.
    pub title: String,
    /// The headings that it stands below, with ` > ` between each two; empty where there are none.
    pub heading: String,
    /// Its bytes in the text.
    pub bytes: Range<usize>,
    /// Its first and its last line, from 1.
    pub lines: (u32, u32),
}

/// What a text is made of, in order.
enum Block {
    Heading(usize, String),
    /// The title of the document.
    FrontMatter(Option<String>),
    Body,
}

/// Cuts a text of this media type.
pub fn cut(text: &str, media_type: &str) -> Vec<Passage> {
    let essence = media_type.split(';').next().unwrap_or_default().trim_end();
    let blocks = match essence.eq_ignore_ascii_case("text/markdown")
        || essence.eq_ignore_ascii_case("text/x-markdown")
    {
        true => markdown(text),
        false => plain(text),
    };
    let mut cutter = Cutter { text, ..Cutter::default() };
    let mut end = 0;
    for (range, block) in blocks {
        // What is no block to the parser, such as the targets of links, is text all the same.
        cutter.take(end..range.start, Block::Body);
        end = range.end;
        cutter.take(range, block);
    }
    cutter.take(end..text.len(), Block::Body);
    cutter.flush();
    let mut lines = Lines { text, at: 0, line: 1 };
    for passage in &mut cutter.passages {
        let first = lines.of(passage.bytes.start);
        passage.lines = (first, lines.of(passage.bytes.end - 1));
    }
    cutter.passages
}

/// Blocks at the top level, each from its first byte to its last.
fn markdown(text: &str) -> Vec<(Range<usize>, Block)> {
    let options = Options::ENABLE_TABLES
        | Options::ENABLE_YAML_STYLE_METADATA_BLOCKS
        | Options::ENABLE_PLUSES_DELIMITED_METADATA_BLOCKS;
    let mut blocks = Vec::new();
    let (mut depth, mut words) = (0, String::new());
    let mut metadata = None;
    for (event, range) in Parser::new_ext(text, options).into_offset_iter() {
        match event {
            Event::Start(tag) => {
                if depth == 0 {
                    words.clear();
                    metadata = match tag {
                        Tag::MetadataBlock(kind) => Some(kind),
                        _ => None,
                    };
                }
                depth += 1;
            }
            Event::End(tag) => {
                depth -= 1;
                if depth == 0 {
                    let block = match (tag, metadata) {
                        (TagEnd::Heading(level), _) => Block::Heading(number(level), heading(&words)),
                        (_, Some(kind)) => Block::FrontMatter(title(&words, kind)),
                        _ => Block::Body,
                    };
                    blocks.push((range, block));
                }
            }
            Event::Text(piece) | Event::Code(piece) => words.push_str(&piece),
            Event::SoftBreak | Event::HardBreak => words.push(' '),
            // A thematic break, or HTML that is a block of its own.
            _ if depth == 0 => blocks.push((range, Block::Body)),
            _ => {}
        }
    }
    blocks
}

fn number(level: HeadingLevel) -> usize {
    level as usize
}

/// A heading's words, on one line and not too long.
fn heading(words: &str) -> String {
    let mut line = words.split_whitespace().collect::<Vec<_>>().join(" ");
    line.truncate(line.floor_char_boundary(MAX_HEADING));
    line
}

/// The title that front matter gives.
fn title(front_matter: &str, kind: MetadataBlockKind) -> Option<String> {
    let title = match kind {
        MetadataBlockKind::YamlStyle => {
            crate::yaml::parse(front_matter).ok()?.get("title")?.as_str().map(heading)
        }
        MetadataBlockKind::PlusesStyle => {
            front_matter.parse::<toml::Table>().ok()?.get("title")?.as_str().map(heading)
        }
    };
    title.filter(|title| !title.is_empty())
}

/// What lies between blank lines.
fn plain(text: &str) -> Vec<(Range<usize>, Block)> {
    let (mut blocks, mut at, mut start) = (Vec::new(), 0, None);
    for line in text.split_inclusive('\n') {
        match (line.trim().is_empty(), start) {
            (true, Some(from)) => {
                blocks.push((from..at, Block::Body));
                start = None;
            }
            (false, None) => start = Some(at),
            _ => {}
        }
        at += line.len();
    }
    blocks.extend(start.map(|from| (from..at, Block::Body)));
    blocks
}

/// Puts blocks together to passages.
#[derive(Default)]
struct Cutter<'a> {
    text: &'a str,
    passages: Vec<Passage>,
    title: String,
    /// The headings that are open, with their levels.
    trail: Vec<(usize, String)>,
    /// The passage so far, and whether there is more in it than headings.
    open: Option<(Range<usize>, bool)>,
}

impl Cutter<'_> {
    fn take(&mut self, range: Range<usize>, block: Block) {
        match block {
            Block::Heading(level, words) => {
                if self.open.as_ref().is_some_and(|(_, body)| *body) {
                    self.flush();
                }
                if level == 1 && self.title.is_empty() && self.trail.is_empty() {
                    self.title = words.clone();
                }
                self.trail.retain(|(above, _)| *above < level);
                self.trail.push((level, words));
                self.add(range, false);
            }
            Block::FrontMatter(title) => {
                self.title = title.unwrap_or_default();
                self.add(range, false);
            }
            Block::Body => self.add(range, true),
        }
    }

    fn add(&mut self, range: Range<usize>, body: bool) {
        let Some(range) = trimmed(self.text, range) else { return };
        if range.len() > TARGET {
            pieces(self.text, range).into_iter().for_each(|piece| self.add(piece, body));
            return;
        }
        if let Some((open, has_body)) = &self.open {
            let grown = range.end - open.start;
            if grown > MAX || grown > TARGET && *has_body && open.len() > SMALL {
                self.flush();
            }
        }
        self.open = Some(match self.open.take() {
            Some((open, had)) => (open.start..range.end, had || body),
            None => (range, body),
        });
    }

    fn flush(&mut self) {
        let Some((bytes, _)) = self.open.take() else { return };
        let mut heading = String::new();
        let trail = self.trail.iter().map(|(_, words)| words.as_str());
        for words in trail.filter(|words| !words.is_empty() && *words != self.title) {
            if heading.len() + words.len() > MAX_TRAIL {
                continue;
            }
            if !heading.is_empty() {
                heading.push_str(" > ");
            }
            heading.push_str(words);
        }
        self.passages.push(Passage { title: self.title.clone(), heading, bytes, lines: (0, 0) });
    }
}

/// The range without white space at its ends; none where nothing is left.
fn trimmed(text: &str, range: Range<usize>) -> Option<Range<usize>> {
    let part = &text[range.clone()];
    // The indentation of the first line is part of it: it may be code.
    let blank: usize =
        part.split_inclusive('\n').take_while(|line| line.trim().is_empty()).map(str::len).sum();
    let end = range.start + part.trim_end().len();
    let start = range.start + blank;
    (start < end).then_some(start..end)
}

/// A block that is too large, in pieces of at most [`TARGET`] bytes.
fn pieces(text: &str, range: Range<usize>) -> Vec<Range<usize>> {
    let (mut pieces, mut at) = (Vec::new(), range.start);
    while range.end - at > TARGET {
        let limit = text.floor_char_boundary(at + TARGET);
        let part = &text[at..limit];
        // Not so early that the piece would be a crumb.
        let enough = |end: &usize| *end > SMALL;
        let end = (part.rfind('\n').map(|end| end + 1).filter(enough))
            .or_else(|| {
                let ends = [". ", "! ", "? ", "。"];
                ends.iter().filter_map(|end| Some(part.rfind(end)? + end.len())).max().filter(enough)
            })
            .or_else(|| {
                let space = part.char_indices().rfind(|(_, c)| c.is_whitespace());
                space.map(|(at, c)| at + c.len_utf8()).filter(enough)
            })
            .unwrap_or(part.len());
        pieces.push(at..at + end);
        at += end;
    }
    pieces.push(at..range.end);
    pieces
}

/// Counts lines on the way through a text.
struct Lines<'a> {
    text: &'a str,
    at: usize,
    line: u32,
}

impl Lines<'_> {
    /// The line that the byte at `to` is in; no byte before one that was asked for.
    fn of(&mut self, to: usize) -> u32 {
        let between = self.text.as_bytes().get(self.at..to).unwrap_or_default();
        self.line += between.iter().filter(|b| **b == b'\n').count() as u32;
        self.at = self.at.max(to);
        self.line
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Title and heading, lines and text of each.
    fn passages(text: &str, media_type: &str) -> Vec<(String, (u32, u32), String)> {
        let all = cut(text, media_type);
        all.into_iter()
            .map(|p| (format!("{}: {}", p.title, p.heading), p.lines, text[p.bytes].to_owned()))
            .collect()
    }

    fn headings(text: &str) -> Vec<String> {
        passages(text, "text/markdown").into_iter().map(|(heading, ..)| heading).collect()
    }

    #[test]
    fn sections_of_markdown() {
        let text = "---\ntitle: Core\n---\n\n# Core\n\nIntro.\n\n## A *b* `c`\n\n    code\n\nMore.\n\n### D\n## E\n\nLast\n";
        let expected = [
            ("Core: ".into(), (1, 7), "---\ntitle: Core\n---\n\n# Core\n\nIntro.".into()),
            ("Core: A b c".into(), (9, 13), "## A *b* `c`\n\n    code\n\nMore.".into()),
            ("Core: E".into(), (15, 18), "### D\n## E\n\nLast".into()),
        ];
        assert_eq!(passages(text, "text/markdown; charset=utf-8"), expected);
    }

    #[test]
    fn what_looks_like_a_heading_is_none_in_code() {
        assert_eq!(headings("# A\n\n```sh\n# not one\n```\n"), ["A: "]);
        assert_eq!(headings("A\n=\n\nx\n\nB\n-\n\ny\n"), ["A: ", "A: B"]);
        assert_eq!(headings("+++\ntitle = \"T\"\n+++\n# A\n\nx\n# B\n\ny"), ["T: A", "T: B"]);
        assert_eq!(headings("---\n- : {\n---\n\nx\n"), [": "]);
    }

    #[test]
    fn other_text_is_cut_at_blank_lines_where_it_is_long() {
        assert_eq!(passages("a\n\n  b\n\n\n", "text/plain"), [(": ".into(), (1, 3), "a\n\n  b".into())]);
        let (long, longer) = ("x ".repeat(400), "y ".repeat(400));
        let text = format!("# a\n{long}\n\n\n{longer}\n");
        let found = passages(&text, "text/plain");
        let lines: Vec<_> = found.iter().map(|(_, lines, _)| *lines).collect();
        assert_eq!(lines, [(1, 2), (5, 5)]);
    }

    #[test]
    fn nothing_gives_nothing() {
        for blank in ["", "\n", " \t\r\n\n", "\u{2028}"] {
            assert_eq!(cut(blank, "text/plain"), [], "{blank:?}");
            assert_eq!(cut(blank, "text/markdown"), [], "{blank:?}");
        }
    }

    #[test]
    fn large_blocks_are_cut_after_lines_sentences_and_words() {
        let lines = "0123456789 abcdefghij\n".repeat(100);
        assert!(passages(&lines, "text/plain").iter().all(|(_, _, text)| text.ends_with('j')));
        let sentences = "One thing is said here. ".repeat(100);
        let all = passages(&sentences, "text/markdown");
        assert!(all.len() > 1 && all.iter().all(|(_, _, text)| text.ends_with('.')), "{all:?}");
        let words = "word ".repeat(500);
        assert!(passages(&words, "text/plain").iter().all(|(_, _, text)| text.ends_with("word")));
        let solid = "é".repeat(2000);
        assert_eq!(passages(&solid, "text/plain").iter().map(|p| p.2.len()).sum::<usize>(), 4000);
    }

    proptest! {
        /// Every byte that is no white space is in exactly one passage, in order, and lines are counted right.
        #[test]
        fn all_is_there_once(
            blocks in proptest::collection::vec(
                prop_oneof!["[a-z]{1,9}\n\n", "#{1,4} [a-z]{1,6}\n", "(- [a-zé ]{1,60}\n){1,40}\n", "([a-z]{1,9}\\. ){1,300}\n\n",
                    "```\n([a-z#]{1,9}\n){1,200}```\n", "\r\n", "[\u{20}-\u{7e}é𝄞]{1,80}\n", "---\n", "<div>\n", "\\[[a-z]\\]: [a-z]{1,5}\n"], 0..12),
            markdown in any::<bool>(),
        ) {
            let text = blocks.concat();
            let all = cut(&text, if markdown { "text/markdown" } else { "text/plain" });
            let mut end = 0;
            for passage in &all {
                prop_assert!(passage.bytes.start >= end && passage.bytes.len() <= MAX && !passage.bytes.is_empty());
                prop_assert!(text[end..passage.bytes.start].trim().is_empty(), "{:?}", &text[end..passage.bytes.start]);
                let line = |at: usize| 1 + text.as_bytes()[..at].iter().filter(|b| **b == b'\n').count() as u32;
                prop_assert_eq!(passage.lines, (line(passage.bytes.start), line(passage.bytes.end - 1)));
                end = passage.bytes.end;
            }
            prop_assert!(text[end..].trim().is_empty(), "{:?}", &text[end..]);
        }
    }
}
