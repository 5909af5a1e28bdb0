//! Sections of code: the constructs at the top level of a file, told by their keyword or their name.
//!
//! No grammar is known here, only what most languages share: a construct begins on a line that is not indented and has
//! one of `KEYWORDS`, or a name before a parenthesis; it goes on while brackets are open, and over lines that are
//! indented or close one. Strings and comments are passed over, as the file's extension has them.

use super::lines::Part;
use crate::provenance::lines::LineIndex;

/// What begins a construct.
const KEYWORDS: &[&str] = &[
    "class",
    "const",
    "constructor",
    "contract",
    "data",
    "def",
    "defmacro",
    "defmodule",
    "defp",
    "enum",
    "extension",
    "fn",
    "fun",
    "func",
    "function",
    "impl",
    "interface",
    "let",
    "library",
    "macro",
    "macro_rules",
    "mod",
    "module",
    "namespace",
    "object",
    "package",
    "proc",
    "protocol",
    "record",
    "static",
    "struct",
    "sub",
    "trait",
    "type",
    "typedef",
    "union",
    "val",
    "var",
];

/// Words before a keyword.
const MODIFIERS: &[&str] = &[
    "abstract",
    "async",
    "crate",
    "declare",
    "default",
    "export",
    "extern",
    "final",
    "inline",
    "internal",
    "local",
    "open",
    "override",
    "partial",
    "private",
    "protected",
    "pub",
    "public",
    "readonly",
    "sealed",
    "unsafe",
    "virtual",
];

/// Words that no construct begins with, though a parenthesis follows.
const STATEMENTS: &[&str] = &[
    "assert", "catch", "do", "else", "for", "from", "if", "import", "return", "switch", "throw", "try",
    "use", "using", "while", "with", "yield",
];

/// A construct at the top level.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Construct {
    /// Its keywords, such as `class`, or `const` and `fn`; none for a function of C.
    pub keywords: Vec<String>,
    /// What it declares; of an implementation, the type and the trait.
    pub names: Vec<String>,
    /// Its lines.
    pub lines: Part,
}

/// All constructs of a text, in order. `name` is the file's, for its extension.
pub fn constructs(text: &str, name: &str) -> Vec<Construct> {
    let index = LineIndex::of(text);
    let language = Language::of(name);
    let bare = language.bare(text);
    let mut constructs: Vec<Construct> = Vec::new();
    let mut depth = 0_i64;
    let mut open: Option<Construct> = None;
    // Lines of attributes, and of the parameters of a template, which belong to what follows.
    let mut attributes: Option<u64> = None;
    for n in 1..=index.count() {
        let raw = &text[index.bytes(n, n)];
        let line = &bare[index.bytes(n, n)];
        let indented = raw.starts_with([' ', '\t']);
        let mut within = depth > 0 || indented;
        if !within && !line.trim().is_empty() {
            within = line.starts_with(['}', ')', ']', '{']) || language.ends && is_end(line);
            if !within {
                constructs.extend(open.take());
                if line.starts_with("#[") || line.starts_with('@') || line.starts_with("template") {
                    attributes.get_or_insert(n);
                } else {
                    let first = attributes.take().unwrap_or(n);
                    open = begin(line.trim_end()).map(|(keywords, names)| Construct {
                        keywords,
                        names,
                        lines: (first, n),
                    });
                }
            }
        }
        let brackets = line.bytes().map(|b| i64::from(b"([{".contains(&b)) - i64::from(b")]}".contains(&b)));
        depth = (depth + brackets.sum::<i64>()).max(0);
        if let Some(construct) = open.as_mut().filter(|_| within && !raw.trim().is_empty()) {
            construct.lines.1 = n;
        }
    }
    constructs.extend(open);
    constructs
}

/// The constructs of this keyword or this name.
pub fn find<'a>(constructs: &'a [Construct], asked: &str) -> Vec<&'a Construct> {
    constructs.iter().filter(|c| c.names.iter().chain(&c.keywords).any(|word| word == asked)).collect()
}

/// The keywords and names of the construct that a line begins, if it does.
fn begin(line: &str) -> Option<(Vec<String>, Vec<String>)> {
    // `pub(crate)` has no parameters.
    let line = match line.strip_prefix("pub(").and_then(|rest| rest.split_once(')')) {
        Some((_, rest)) => rest.trim_start(),
        None => line,
    };
    // What comes before the parameters, the body or the value.
    let head = line.split(['(', '{', '=', ';']).next().unwrap_or(line);
    let mut words = words(head).into_iter().peekable();
    let (mut keywords, mut names) = (Vec::new(), Vec::new());
    while let Some(word) = words.next_if(|word| KEYWORDS.contains(word) || MODIFIERS.contains(word)) {
        if KEYWORDS.contains(&word) {
            keywords.push(word.to_owned());
        }
    }
    let first = words.next();
    // `int main(`, but no call and no statement.
    let called = line[head.len()..].starts_with('(');
    if keywords.is_empty() {
        let name =
            words.last().filter(|_| called && first.is_some_and(|word| !STATEMENTS.contains(&word)))?;
        return Some((keywords, vec![name.to_owned()]));
    }
    names.extend(first.map(str::to_owned));
    if keywords.iter().any(|keyword| keyword == "impl") {
        // The rest of the generic parameters, the trait, `for`, and the type.
        names.extend(words.filter(|word| *word != "for").map(str::to_owned));
    } else if called {
        // `static int main(`
        names.extend(words.last().map(str::to_owned));
    }
    if first.is_none() && line.starts_with("func (") {
        // A method of Go, after its receiver.
        let rest = line.split_once(')').map_or("", |(_, rest)| rest);
        names.extend(
            self::words(rest.split('(').next().unwrap_or(rest)).first().map(|name| (*name).to_owned()),
        );
    }
    Some((keywords, names))
}

fn is_end(line: &str) -> bool {
    words(line).first() == Some(&"end")
}

fn words(text: &str) -> Vec<&str> {
    text.split(|c: char| !c.is_alphanumeric() && c != '_' && c != '$')
        .filter(|word| !word.is_empty())
        .collect()
}

/// How a language writes comments and strings.
struct Language {
    /// `#` begins a comment.
    hash: bool,
    /// `//` and `/* */` are comments.
    slashes: bool,
    /// `--` begins a comment.
    dashes: bool,
    /// `'…'` is a string, not a character.
    single: bool,
    /// `"""…"""` and `'''…'''` are strings.
    triple: bool,
    /// `` `…` `` is a string.
    backtick: bool,
    /// `end` ends a construct.
    ends: bool,
}

impl Language {
    fn of(name: &str) -> Language {
        let extension = name.rsplit_once('.').map_or("", |(_, extension)| extension);
        let python = matches!(extension, "py" | "pyi");
        let hash =
            python || matches!(extension, "rb" | "sh" | "bash" | "pl" | "r" | "jl" | "ex" | "exs" | "tf");
        let dashes = matches!(extension, "sql" | "lua" | "hs");
        let script = matches!(
            extension,
            "ts" | "tsx" | "mts" | "cts" | "js" | "jsx" | "mjs" | "cjs" | "php" | "dart" | "vue"
        );
        Language {
            hash,
            slashes: !hash && !dashes,
            dashes,
            single: hash || dashes || script,
            triple: python,
            backtick: script || extension == "go",
            ends: matches!(extension, "rb" | "lua" | "jl" | "ex" | "exs"),
        }
    }

    /// The text with spaces for all that is within strings and comments; every byte stays at its place.
    fn bare(&self, text: &str) -> String {
        let bytes = text.as_bytes();
        let mut out = bytes.to_vec();
        let mut at = 0;
        while at < bytes.len() {
            let rest = &text[at..];
            let end = match bytes[at] {
                b'#' if self.hash => line_end(rest),
                b'/' if self.slashes && rest.starts_with("//") => line_end(rest),
                b'/' if self.slashes && rest.starts_with("/*") => {
                    rest[2..].find("*/").map_or(rest.len(), |end| end + 4)
                }
                b'-' if self.dashes && rest.starts_with("--") => line_end(rest),
                b'"' | b'\'' if self.triple && (rest.starts_with("\"\"\"") || rest.starts_with("'''")) => {
                    rest[3..].find(&rest[..3]).map_or(rest.len(), |end| end + 6)
                }
                b'"' => quoted(rest, b'"'),
                b'\'' if self.single => quoted(rest, b'\'').min(line_end(rest)),
                b'\'' => character(rest),
                b'`' if self.backtick => quoted(rest, b'`'),
                b'r' if rest.starts_with("r#\"") => rest[3..].find("\"#").map_or(rest.len(), |end| end + 5),
                _ => {
                    at += rest.chars().next().map_or(1, char::len_utf8);
                    continue;
                }
            };
            // Half of a character would be no text.
            let end = (at + end.max(1)..=bytes.len())
                .find(|end| text.is_char_boundary(*end))
                .unwrap_or(bytes.len());
            out[at..end].iter_mut().filter(|b| !matches!(**b, b'\n' | b'\r')).for_each(|b| *b = b' ');
            at = end;
        }
        // Whole characters were overwritten with spaces.
        String::from_utf8(out).unwrap_or_else(|_| text.to_owned())
    }
}

fn line_end(text: &str) -> usize {
    text.find('\n').unwrap_or(text.len())
}

/// The length of a quoted string, escapes heeded.
fn quoted(text: &str, quote: u8) -> usize {
    let bytes = text.as_bytes();
    let mut at = 1;
    while at < bytes.len() {
        match bytes[at] {
            b'\\' => at += 2,
            b if b == quote => return at + 1,
            _ => at += 1,
        }
    }
    bytes.len()
}

/// The length of a character such as `'x'` or `'\n'`; of a lifetime, its apostrophe.
fn character(text: &str) -> usize {
    let mut chars = text.char_indices().skip(1);
    match (chars.next(), chars.next(), chars.next()) {
        (Some((_, '\\')), ..) => text[1..].find('\'').map_or(1, |end| if end < 12 { end + 2 } else { 1 }),
        (Some(_), Some((end, '\'')), _) => end + 1,
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(name: &str, text: &str, asked: &str) -> Vec<Part> {
        find(&constructs(text, name), asked).iter().map(|c| c.lines).collect()
    }

    #[test]
    fn typescript() {
        let text = "// user\ninterface User {\n  id: string;\n}\n\nexport default class Store extends Base {\n  find() { return '}'; }\n\n  // }\n}\n\nexport const x = 1;\ncall(x);\nexport async function load(\n  a: string,\n): Promise<void> {\n  `${a} {`\n}\n@Injectable()\nclass B {}\n";
        assert_eq!(found("a.ts", text, "interface"), [(2, 4)]);
        assert_eq!(found("a.ts", text, "class"), [(6, 10), (19, 20)]);
        assert_eq!(found("a.ts", text, "Store"), [(6, 10)]);
        assert_eq!(found("a.ts", text, "x"), [(12, 12)]);
        assert_eq!(found("a.ts", text, "load"), [(14, 18)]);
        assert_eq!(found("a.ts", text, "find"), []);
        assert_eq!(found("a.ts", text, "call"), []);
    }

    #[test]
    fn rust() {
        let text = "use a::b;\n\n#[derive(Debug)]\npub struct S<'a> {\n    x: &'a str,\n}\n\nimpl<'a> fmt::Display for S<'a> {\n    fn fmt(&self) { '{' }\n}\n\npub(crate) const fn f() -> u8 {\n    b'}'\n}\n";
        assert_eq!(found("a.rs", text, "struct"), [(3, 6)]);
        assert_eq!(found("a.rs", text, "impl"), [(8, 10)]);
        assert_eq!(found("a.rs", text, "Display"), [(8, 10)]);
        assert_eq!(found("a.rs", text, "S"), [(3, 6), (8, 10)]);
        assert_eq!(found("a.rs", text, "f"), [(12, 14)]);
        assert_eq!(found("a.rs", text, "fn"), [(12, 14)]);
        assert_eq!(found("a.rs", text, "fmt"), [(8, 10)]);
    }

    #[test]
    fn python() {
        let text = "import os\n\n@cache\ndef f(a,\n      b):\n    '''\n  doc {\n    '''\n    return a\n\n\nclass C:\n    def g(self):\n        pass\n\n    # last\n\nx = 1\n";
        assert_eq!(found("a.py", text, "def"), [(3, 9)]);
        assert_eq!(found("a.py", text, "C"), [(12, 16)]);
        assert_eq!(found("a.py", text, "g"), []);
    }

    #[test]
    fn go_and_c() {
        let go = "func (s *Store) Find(id string) error {\n\treturn nil\n}\n\ntype T struct {\n}\n";
        assert_eq!(found("a.go", go, "Find"), [(1, 3)]);
        assert_eq!(found("a.go", go, "type"), [(5, 6)]);
        assert_eq!(found("a.go", go, "T"), [(5, 6)]);
        let c = "#include <x>\nstatic int main(int argc)\n{\n  return 0; /* } */\n}\nif (x) y;\n";
        assert_eq!(found("a.c", c, "main"), [(2, 5)]);
        assert_eq!(found("a.c", c, "x"), []);
    }

    #[test]
    fn what_ends_with_a_word() {
        let ruby = "class A\n  def b\n    1\n  end\nend\n\ndef c\n  2\nend\nputs c\n";
        assert_eq!(found("a.rb", ruby, "class"), [(1, 5)]);
        assert_eq!(found("a.rb", ruby, "c"), [(7, 9)]);
        let lua = "local function f(x)\n  return x\nend\nfunction M.g()\nend -- g\n";
        assert_eq!(found("a.lua", lua, "function"), [(1, 3), (4, 5)]);
        assert_eq!(found("a.ex", "defmodule A do\n  def b, do: 1\nend\n", "defmodule"), [(1, 3)]);
    }

    #[test]
    fn templates_begin_with_their_parameters() {
        let cpp = "template <typename T>\nclass A {\n};\nint end(int x) {\n}\n";
        assert_eq!(found("a.cpp", cpp, "class"), [(1, 3)]);
        assert_eq!(found("a.cpp", cpp, "end"), [(4, 5)]);
    }

    #[test]
    fn whatever_it_is_it_ends() {
        for text in [
            "'",
            "\"",
            "`",
            "r#\"",
            "/*",
            "'''",
            "fn",
            "'\\",
            "é'",
            "fn f() { '𝄞' }",
            "class\u{a0}A {",
            "\\'",
        ] {
            for name in ["a.rs", "a.py", "a.ts", "a.sql", "a"] {
                let count = LineIndex::of(text).count();
                assert!(
                    constructs(text, name).iter().all(|c| c.lines.0 >= 1 && c.lines.1 <= count),
                    "{text} {name}"
                );
            }
        }
    }
}
