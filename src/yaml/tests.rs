use serde_json::json;

use super::*;

macro_rules! reads {
    ($($name:ident: $text:expr => $value:tt;)*) => {$(
        #[test]
        fn $name() {
            assert_eq!(parse($text), Ok(json!($value)));
        }
    )*};
}

macro_rules! refuses {
    ($($name:ident: $text:expr => $line:literal, $column:literal, $detail:literal;)*) => {$(
        #[test]
        fn $name() {
            let error = parse($text).expect_err("is refused");
            assert_eq!((error.line, error.column), ($line, $column), "{error}");
            assert!(error.detail.contains($detail), "{error}");
        }
    )*};
}

reads! {
    booleans: "[true, True, TRUE, false, False, FALSE]" => [true, true, true, false, false, false];
    words_of_older_yaml_are_text: "[yes, no, on, off, y, n, tRUE]" => ["yes", "no", "on", "off", "y", "n", "tRUE"];
    nulls: "[null, Null, NULL, ~, '']\n" => [null, null, null, null, ""];
    nothing_is_null: "a:\nb: # a comment\n" => {"a": null, "b": null};
    no_document_is_null: "# only a comment\n" => null;
    integers: "[0, -0, +7, 012, 0o17, 0xfF, -9223372036854775808, 18446744073709551615]"
        => [0, 0, 7, 12, 15, 255, (i64::MIN), (u64::MAX)];
    floats: "[1.0, -.5, 1., 1e3, 1.5E-2, +6.25]" => [1.0, (-0.5), 1.0, 1000.0, 0.015, 6.25];
    near_numbers_are_text: "[1_000, 0b11, 0O7, 0X1, -0x1, 1.2.3, 1e, e1, ., '1', 12:30, 1e+, infinity, nan, +]"
        => ["1_000", "0b11", "0O7", "0X1", "-0x1", "1.2.3", "1e", "e1", ".", "1", "12:30", "1e+", "infinity", "nan", "+"];
    dates_are_text: "[2024-11-21, 2024-11-21T10:00:00Z]" => ["2024-11-21", "2024-11-21T10:00:00Z"];
    quoted_is_text: "['true', \"null\", '1']" => ["true", "null", "1"];
    blocks_are_text: "a: |\n  1\nb: >-\n  x\n  y\n" => {"a": "1\n", "b": "x y"};
    keys_are_text_as_written: "1: a\n1.50: b\nTrue: c\n~: d\n0x10: e\n" => {"1": "a", "1.50": "b", "True": "c", "~": "d", "0x10": "e"};
    quoted_merge_is_a_key: "'<<': 1" => {"<<": 1};
    aliases: "a: &x {n: [1, 2]}\nb: *x\nc: &k word\n*k : d" => {"a": {"n": [1, 2]}, "b": {"n": [1, 2]}, "c": "word", "word": "d"};
    tags: "[!!str 1, !!int 1, !!float 1, !!bool true, !!null ~, ! 1, !!seq [], !!map {}]"
        => ["1", 1, 1.0, true, null, "1", [], {}];
    crlf_and_byte_order_mark: "\u{feff}a: 1\r\nb:\r\n  - x\r\n" => {"a": 1, "b": ["x"]};
    explicit_document: "---\na: 1\n...\n" => {"a": 1};
    escapes: r#"["\u00e9\n\0", "😀"]"# => ["é\n\0", "😀"];
}

refuses! {
    big_integer: "a: 1\nb: 18446744073709551616\n" => 2, 4, "64 bits";
    big_negative: "- -9223372036854775809" => 1, 3, "64 bits";
    thirty_digits: "n: 123456789012345678901234567890" => 1, 4, "64 bits";
    overflow: "a:\n  - 1e400" => 2, 5, "double";
    infinite: "a: -.inf" => 1, 4, "not a number";
    not_a_number: "a: .nan" => 1, 4, "not a number";
    duplicate: "a: 1\nb: 2\na: 3\n" => 3, 1, "already";
    duplicate_as_text: "1: a\n'1': b\n" => 2, 1, "already";
    merge: "a: &x {b: 1}\nc:\n  <<: *x\n" => 3, 3, "merge key";
    second_document: "a: 1\n---\nb: 2\n" => 2, 1, "second document";
    collection_key: "? [a]\n: 1\n" => 1, 3, "scalar";
    custom_tag: "a: !!binary aGk=" => 1, 13, "!!binary";
    wrong_tag: "a: !!int x" => 1, 10, "!!int";
    unknown_alias: "a: *nowhere" => 1, 4, "anchor";
    alias_within_itself: "a: &x [*x]" => 1, 8, "inside";
    unclosed: "a: [1, 2\nb: 3\n" => 2, 2, "':'";
    bad_indent: "a: 1\n  b: 2\n" => 2, 4, "";
}

#[test]
fn laughing_aliases_are_refused() {
    let mut text = String::from("a0: &a0 [lol, lol, lol, lol, lol, lol, lol, lol, lol]\n");
    for level in 1..12 {
        let alias = format!("*a{}, ", level - 1).repeat(9);
        text.push_str(&format!("a{level}: &a{level} [{alias}]\n"));
    }
    let error = parse(&text).expect_err("is refused");
    assert!(error.detail.contains("repeat more than"), "{error}");
    assert!(error.line > 2, "{error}");
}

#[test]
fn long_texts_repeated_are_refused() {
    let text = format!("a: &a {}\nb: [{}]\n", "x".repeat(100_000), "*a,".repeat(20));
    assert!(parse(&text).expect_err("is refused").detail.contains("repeat more than"));
}

#[test]
fn nesting_is_bounded() {
    let nested = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
    assert!(parse(&nested(MAX_DEPTH)).is_ok());
    assert!(parse(&nested(MAX_DEPTH + 1)).expect_err("is refused").detail.contains("deeper"));
    assert!(parse(&nested(100_000)).is_err());
}

#[test]
fn aliases_do_not_nest_past_the_bound() {
    let mut text = String::from("- &a0 x\n");
    for level in 1..=MAX_DEPTH {
        text.push_str(&format!("- &a{level} [*a{}]\n", level - 1));
    }
    assert!(parse(&text).expect_err("is refused").detail.contains("deeper"));
}

#[test]
fn lines_are_those_of_keys_and_items() {
    let (value, lines) =
        parse_located("files:\n  - path: a.md\n    content: |\n      x\n  -\n    path: b/c\n'x/~y': 1\n")
            .expect("is read");
    assert_eq!(value["files"][1]["path"], "b/c");
    assert_eq!(lines.near("/files/0/path"), 2);
    assert_eq!(lines.near("/files/0/content"), 3);
    assert_eq!(lines.near("/files/0/from"), 2);
    assert_eq!(lines.near("/files/1/path"), 6);
    assert_eq!(lines.near("/x~1~0y"), 7);
    assert_eq!(lines.near("/nothing"), 1);
    assert_eq!(lines.near(""), 1);
}

#[test]
fn what_is_not_yaml_is_told_from_what_is_not_accepted() {
    assert!(parse("a: [").expect_err("is refused").malformed);
    assert!(!parse("a: 1e400").expect_err("is refused").malformed);
    assert!(!parse("a: 1\na: 2").expect_err("is refused").malformed);
}

proptest::proptest! {
    #[test]
    fn any_json_reads_as_itself(value in json_value()) {
        proptest::prop_assert_eq!(parse(&value.to_string()), Ok(value));
    }

    #[test]
    fn no_text_panics(text in "[-a0-9:\\[\\]{}&*!|>%@`'\"~<# \n.,?]{0,60}") {
        let _ = parse(&text);
    }
}

fn json_value() -> impl proptest::strategy::Strategy<Value = Value> {
    use proptest::prelude::*;
    let text = "[ -~é😀\u{301}]{0,12}";
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        text.prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 32, 5, move |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            proptest::collection::hash_map(text, inner, 0..5)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}
