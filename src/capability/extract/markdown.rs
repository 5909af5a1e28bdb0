//! Sections of Markdown (CommonMark): from a heading, ATX or setext, to the next one of the same or a higher level.

use pulldown_cmark::{Event, HeadingLevel, Options, Parser, Tag, TagEnd};

use super::lines::Part;
use crate::provenance::lines::LineIndex;

/// A heading and the lines of its section.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Section {
    /// The heading's text, without its markup.
    pub title: String,
    /// The heading's text as it is written, markup included.
    pub source: String,
    /// From 1, the highest.
    pub level: u8,
    /// Its lines, those of the sections below it included.
    pub lines: Part,
}

/// All sections of a text, in order. Headings within quotes and lists are none of the document's own.
pub fn sections(text: &str) -> Vec<Section> {
    let index = LineIndex::of(text);
    // A byte order mark is no part of the first line's Markdown.
    let mark = if text.starts_with('\u{feff}') { '\u{feff}'.len_utf8() } else { 0 };
    let text = &text[mark..];
    let mut sections: Vec<Section> = Vec::new();
    let mut depth = 0_usize;
    let mut heading: Option<(HeadingLevel, u64, String)> = None;
    let mut inside = None;
    for (event, range) in
        Parser::new_ext(text, Options::ENABLE_TABLES | front_matter(text)).into_offset_iter()
    {
        match event {
            Event::Start(Tag::Heading { level, .. }) if depth == 0 => {
                heading = Some((level, index.line_of(mark + range.start), String::new()));
                inside = None;
            }
            Event::End(TagEnd::Heading(_)) if heading.is_some() => {
                let Some((level, line, title)) = heading.take() else { continue };
                let source = inside.take().map_or("", |inside: std::ops::Range<usize>| &text[inside]);
                let (source, level) = (source.trim().to_owned(), level as u8);
                sections.push(Section {
                    title: title.trim().to_owned(),
                    source,
                    level,
                    lines: (line, index.count()),
                });
            }
            Event::Text(part) | Event::Code(part) => {
                if let Some((.., title)) = &mut heading {
                    title.push_str(&part);
                    extend(&mut inside, range);
                }
            }
            Event::SoftBreak | Event::HardBreak => {
                if let Some((.., title)) = &mut heading {
                    title.push(' ');
                }
            }
            Event::Start(_) => {
                depth += usize::from(heading.is_none());
                if heading.is_some() {
                    extend(&mut inside, range);
                }
            }
            Event::End(_) => depth -= usize::from(heading.is_none()),
            _ => {}
        }
    }
    for i in 0..sections.len() {
        let next = sections[i + 1..].iter().find(|next| next.level <= sections[i].level);
        if let Some(next) = next {
            sections[i].lines.1 = next.lines.0 - 1;
        }
    }
    sections
}

fn extend(inside: &mut Option<std::ops::Range<usize>>, range: std::ops::Range<usize>) {
    *inside = Some(match inside.take() {
        None => range,
        Some(before) => before.start.min(range.start)..before.end.max(range.end),
    });
}

/// Front matter is no part of the document; its last line would otherwise make a heading of the one before.
fn front_matter(text: &str) -> Options {
    match text {
        _ if text.starts_with("---") => Options::ENABLE_YAML_STYLE_METADATA_BLOCKS,
        _ if text.starts_with("+++") => Options::ENABLE_PLUSES_DELIMITED_METADATA_BLOCKS,
        _ => Options::empty(),
    }
}

/// The sections whose heading is this text, with or without its markup, or its `#`s.
pub fn find<'a>(sections: &'a [Section], asked: &str) -> Vec<&'a Section> {
    let bare = asked.trim_start_matches('#').trim();
    sections
        .iter()
        .filter(|s| s.title == asked || s.source == asked || !bare.is_empty() && s.title == bare)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Vec<(String, u8, Part)> {
        sections(text).into_iter().map(|s| (s.title, s.level, s.lines)).collect()
    }

    fn one(title: &str, level: u8, first: u64, last: u64) -> (String, u8, Part) {
        (title.into(), level, (first, last))
    }

    #[test]
    fn a_section_runs_to_the_next_of_its_level_or_higher() {
        let text = "# A\n\n## B\nx\n### C\n## D\n# E\n";
        assert_eq!(
            of(text),
            [one("A", 1, 1, 6), one("B", 2, 3, 5), one("C", 3, 5, 5), one("D", 2, 6, 6), one("E", 1, 7, 7)]
        );
    }

    #[test]
    fn fences_hold_no_headings() {
        assert_eq!(
            of("# A\n```\n# no\n```\n~~~~ x\n## no\n~~~\n~~~~\n    # code\n# B"),
            [one("A", 1, 1, 9), one("B", 1, 10, 10)]
        );
    }

    #[test]
    fn setext_headings_begin_with_their_text() {
        assert_eq!(of("A\nb\n===\nx\n\nC\n---\ny\n"), [one("A b", 1, 1, 8), one("C", 2, 6, 8)]);
    }

    #[test]
    fn front_matter_is_no_heading() {
        assert_eq!(of("---\ntitle: x\n---\n# A\n"), [one("A", 1, 4, 4)]);
        assert_eq!(of("+++\ntitle = 1\n+++\n# A\n"), [one("A", 1, 4, 4)]);
    }

    #[test]
    fn a_byte_order_mark_hides_no_heading() {
        assert_eq!(of("\u{feff}# A\nx\n## B\n"), [one("A", 1, 1, 3), one("B", 2, 3, 3)]);
        assert_eq!(of("\u{feff}---\ntitle: x\n---\n# A\n"), [one("A", 1, 4, 4)]);
    }

    #[test]
    fn quotes_and_lists_have_none_of_their_own() {
        assert_eq!(of("> # A\n\n- # B\n\n# C\n> x\n# D"), [one("C", 1, 5, 6), one("D", 1, 7, 7)]);
    }

    #[test]
    fn titles_are_found_with_and_without_markup() {
        let all = sections("## The `x` of *y* ##\r\nz\r\n## [L](u) &amp; more\r\n");
        assert_eq!(all.iter().map(|s| s.title.as_str()).collect::<Vec<_>>(), ["The x of y", "L & more"]);
        for asked in ["The x of y", "The `x` of *y*", "## The x of y"] {
            assert_eq!(find(&all, asked).len(), 1, "{asked}");
        }
        assert_eq!(find(&all, "the x of y").len(), 0);
    }
}
