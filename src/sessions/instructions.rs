//! A session's `retrieve`, told to a model: what can be asked, by which tags and values, and what costs a round.
//!
//! The text is written from the declaration and the facets of its folder, and has [`MAX`] bytes at most: tags that do not fit
//! are counted. Names and values of metatags are somebody's data, so they are JSON strings on one line, cut where they are long.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use utoipa::ToSchema;

use crate::item::Mode;
use crate::retrieval::facets::Facet;

/// The name of the tool.
pub const TOOL: &str = "retrieve";
/// The most bytes of the text.
pub const MAX: usize = 2048;
/// How many tags are looked at, and how many values of each.
pub const MAX_TAGS: i64 = 50;
/// How many values of a tag are told.
pub const MAX_VALUES: i64 = 5;
/// The longest name or value that is told whole, in characters.
const MAX_TEXT: usize = 48;

/// What a tool definition is written for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum ToolFormat {
    /// An element of `tools` of OpenAI's chat completions, and of all that speak as they do.
    #[default]
    Openai,
    /// An element of `tools` of Anthropic's messages.
    Anthropic,
    /// A tool of the Model Context Protocol.
    Mcp,
    /// The text alone, for a prompt.
    Text,
}

/// What the text is written from.
#[derive(Debug, Clone, Copy)]
pub struct About<'a> {
    /// The slate's name.
    pub slate: &'a str,
    /// The declared folder.
    pub folder: &'a str,
    /// Whether the folders below are looked at as well.
    pub recursive: bool,
    /// The heading under which the prompt holds what was retrieved.
    pub as_field: &'a str,
    /// How many rounds may retrieve.
    pub max_rounds: u32,
    /// The modes that may be asked for.
    pub granted: &'a [Mode],
    /// The tags of the folder's files.
    pub facets: &'a [Facet],
}

impl About<'_> {
    /// The text.
    pub fn text(&self) -> String {
        let folder = match self.folder {
            "" => String::new(),
            folder => format!("the folder {} of ", quoted(folder)),
        };
        let below = if self.recursive { ", folders below included" } else { "" };
        let mut text = format!(
            "Retrieves documents from {folder}the slate {}{below}; they are added under {}.\n\
             Call this tool, or put out nothing but one JSON object, with any of these members; all that are given are run:\n",
            quoted(self.slate),
            quoted(self.as_field),
        );
        for mode in self.granted {
            text.push_str(line(*mode));
        }
        text.push_str(&format!(
            "Each call is a round, whatever it finds, and there are {} rounds at most; then comes the final answer. So ask for \
             all that you need at once. A document is given once: asked for again, it reads (already in context).\n",
            self.max_rounds,
        ));
        if self.granted.iter().any(|mode| matches!(mode, Mode::Metatag | Mode::Where)) {
            self.push_tags(&mut text);
        }
        text.truncate(text.trim_end().len());
        text
    }

    fn push_tags(&self, text: &mut String) {
        let mut facets: Vec<&Facet> = self.facets.iter().collect();
        // Those that tell most files come first, so that the rest is what is left out.
        facets.sort_by_key(|facet| std::cmp::Reverse(facet.files));
        text.push_str(if facets.is_empty() {
            "No file has a tag.\n"
        } else {
            "The files' tags, with their most frequent values:\n"
        });
        for (told, facet) in facets.iter().enumerate() {
            let line = tag(facet);
            let rest = format!("- and {} more\n", facets.len() - told);
            if text.len() + line.len() + rest.len() > MAX {
                text.push_str(&rest);
                return;
            }
            text.push_str(&line);
        }
    }
}

fn line(mode: Mode) -> &'static str {
    match mode {
        Mode::Files => "- files: an array of paths, from that folder: the contents of each\n",
        Mode::Subfolders => {
            "- subfolders: an array of paths of folders, \".\" for that folder: what each holds\n"
        }
        Mode::Metatag => {
            "- metatag: {\"name\": …} for the files that have the tag; with \"contains\": … those whose value holds the text\n"
        }
        Mode::Glob => "- glob: a pattern of file names, with *, ? and [a-z]\n",
        Mode::Where => {
            "- where: {\"tag\": name, test: value}, or {\"all\": […]}, {\"any\": […]}, {\"not\": …} of such; tests are eq, ne, in, \
             contains, starts_with, has, gt, gte, lt, lte\n"
        }
    }
}

fn tag(facet: &Facet) -> String {
    let types: Vec<&str> = facet.types.iter().map(|kind| kind.name.as_str()).collect();
    let values: Vec<String> = facet.values.iter().map(|value| quoted(&value.value)).collect();
    let values = if values.is_empty() { String::new() } else { format!(": {}", values.join(", ")) };
    let files = if facet.files == 1 { "file" } else { "files" };
    format!("- {} ({}, {} {files}){values}\n", quoted(&facet.name), types.join(" or "), facet.files)
}

/// A JSON string on one line, cut where it is long.
fn quoted(text: &str) -> String {
    let cut = text.char_indices().nth(MAX_TEXT).map(|(end, _)| format!("{}…", &text[..end]));
    let plain = |c: char| if c.is_control() || matches!(c, '\u{2028}' | '\u{2029}') { ' ' } else { c };
    let text: String = cut.as_deref().unwrap_or(text).chars().map(plain).collect();
    Value::from(text).to_string()
}

/// The definition of the tool, its text and the schema of its arguments; none for [`ToolFormat::Text`].
pub fn definition(format: ToolFormat, text: &str, schema: &Value) -> Option<Value> {
    match format {
        ToolFormat::Openai => Some(json!({"type": "function",
            "function": {"name": TOOL, "description": text, "parameters": schema}})),
        ToolFormat::Anthropic => Some(json!({"name": TOOL, "description": text, "input_schema": schema})),
        ToolFormat::Mcp => Some(json!({"name": TOOL, "description": text, "inputSchema": schema,
            "annotations": {"readOnlyHint": true, "openWorldHint": false}})),
        ToolFormat::Text => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::retrieval::facets::{FacetType, FacetValue};

    fn facet(name: &str, kind: &str, files: i64, values: &[&str]) -> Facet {
        Facet {
            name: name.into(),
            files,
            types: vec![FacetType { name: kind.into(), files }],
            values: values.iter().map(|value| FacetValue { value: (*value).into(), files: 1 }).collect(),
        }
    }

    fn about<'a>(granted: &'a [Mode], facets: &'a [Facet]) -> About<'a> {
        About {
            slate: "K",
            folder: "docs",
            recursive: true,
            as_field: "Docs",
            max_rounds: 3,
            granted,
            facets,
        }
    }

    #[test]
    fn the_text_tells_what_can_be_asked() {
        let facets =
            [facet("owner", "string", 1, &["ada"]), facet("topics", "string[]", 7, &["auth", "x\ny"])];
        let text = about(&[Mode::Files, Mode::Metatag], &facets).text();
        assert_eq!(
            text,
            "Retrieves documents from the folder \"docs\" of the slate \"K\", folders below included; they are added under \
             \"Docs\".\n\
             Call this tool, or put out nothing but one JSON object, with any of these members; all that are given are run:\n\
             - files: an array of paths, from that folder: the contents of each\n\
             - metatag: {\"name\": …} for the files that have the tag; with \"contains\": … those whose value holds the text\n\
             Each call is a round, whatever it finds, and there are 3 rounds at most; then comes the final answer. So ask for \
             all that you need at once. A document is given once: asked for again, it reads (already in context).\n\
             The files' tags, with their most frequent values:\n\
             - \"topics\" (string[], 7 files): \"auth\", \"x y\"\n\
             - \"owner\" (string, 1 file): \"ada\""
        );
        let text = about(&[Mode::Files, Mode::Glob], &facets).text();
        assert!(text.contains("- glob: ") && !text.contains("owner"), "{text}");
        assert!(about(&[Mode::Where], &[]).text().ends_with("No file has a tag."));
    }

    #[test]
    fn it_is_never_longer_than_it_may_be() {
        let long = "ä\u{1}".repeat(500);
        let values = [long.as_str(); 5];
        let facets: Vec<Facet> = (0..50).map(|i| facet(&long, "string", i, &values)).collect();
        let about = About { slate: &long, folder: &long, as_field: &long, ..about(Mode::ALL, &facets) };
        let text = about.text();
        assert!(text.len() <= MAX, "{}", text.len());
        assert!(text.contains(" more"), "{text}");
    }

    #[test]
    fn each_format_has_its_names() {
        let schema = json!({"type": "object"});
        let of = |format| definition(format, "t", &schema).unwrap_or_default();
        assert_eq!(of(ToolFormat::Openai)["function"]["parameters"], schema);
        assert_eq!(of(ToolFormat::Anthropic)["input_schema"], schema);
        assert_eq!(of(ToolFormat::Mcp)["inputSchema"], schema);
        assert_eq!(definition(ToolFormat::Text, "t", &schema), None);
    }
}
