//! Each kind of misquote, matches that must not be guessed, and many random texts.

use proptest::prelude::*;

use super::*;

/// The text after a replacement, or the reason for none. Checks invariants of every replacement.
fn replace(text: &str, old: &str, new: &str, all: bool) -> Result<String, Miss> {
    let swaps = find(text, old, new, all)?;
    assert!(all || swaps.len() == 1, "{swaps:?}");
    assert!(!swaps.is_empty());
    let mut after = String::new();
    let mut done = 0;
    for Swap { span, text: new } in &swaps {
        assert!(span.start >= done && span.start < span.end, "{swaps:?}");
        after.push_str(text.get(done..span.start).expect("a boundary"));
        after.push_str(new);
        done = span.end;
    }
    after.push_str(text.get(done..).expect("a boundary"));
    Ok(after)
}

fn becomes(text: &str, old: &str, new: &str, expected: &str) {
    assert_eq!(replace(text, old, new, false).as_deref(), Ok(expected), "{old:?}");
}

#[test]
fn exact_text_is_replaced_exactly() {
    becomes("a  b\nc", "  b\nc", "x", "ax");
    assert_eq!(replace("aXbXc", "X", "", true).as_deref(), Ok("abc"));
    assert_eq!(replace("aaa", "aa", "b", true).as_deref(), Ok("ba"));
}

#[test]
fn wrong_indentation_is_accepted_and_corrected() {
    let text = "fn a() {\n    if x {\n        y();\n    }\n}\n";
    becomes(
        text,
        "if x {\n    y();\n}",
        "if z {\n    w();\n}",
        "fn a() {\n    if z {\n        w();\n    }\n}\n",
    );
    becomes(
        text,
        "        if x {\n            y();",
        "        if z {\n            y();",
        "fn a() {\n    if z {\n        y();\n    }\n}\n",
    );
    becomes(
        "\tif x {\n\t\ty();\n\t}\n",
        "if x {\n    y();\n}\n",
        "if x {\n    y();\n    z();\n}\n",
        "\tif x {\n\t\ty();\n\t\tz();\n\t}\n",
    );
}

#[test]
fn spaces_at_the_ends_of_lines_are_forgiven() {
    becomes("a  \n  b\t\nc", "a\n  b", "x\n  y", "x\n  y\nc");
    becomes("one\ntwo  \n", "one  \ntwo\n", "1\n2\n", "1\n2\n");
    becomes("one \ntwo", "one\ntwo\n", "1\n2\n", "1\n2");
}

#[test]
fn a_shift_of_the_whole_is_preferred_to_other_spaces() {
    let text = "  a:\n    b\nx\n  a:\n b\n";
    becomes(text, "a:\n  b\n", "c:\n  d\n", "  c:\n    d\nx\n  a:\n b\n");
}

#[test]
fn other_spaces_and_line_breaks_between_words_are_forgiven() {
    becomes("x = f(a,\n      b)\n", "f(a, b)", "f(b, a)", "x = f(b, a)\n");
    becomes("let  a\t=  1;", "let a = 1;", "let a = 2;", "let a = 2;");
    becomes("a b c", "  a  b ", "  x ", "x c");
}

#[test]
fn blanks_around_the_text_are_forgiven() {
    becomes("x(foo)y", "\n  foo\n", "\n  bar\n", "x(bar)y");
    becomes("x(foo)y", " foo", "bar", "x(bar)y");
}

#[test]
fn escapes_are_forgiven() {
    becomes("say(\"hi\");\nend", "say(\\\"hi\\\");\\nend", "say(\\\"ho\\\");\\nend", "say(\"ho\");\nend");
    let lines = "  one\n  two\n  three\n  four\n  five\n  six\n";
    becomes(lines, "one\\ntwo\\nthree\\nfour\\nfive\\nsix", "x", "  x\n");
}

#[test]
fn a_block_quoted_from_memory_is_found_by_its_edges() {
    let text = "fn one() {\n    let total = count(items);\n    report(total);\n}\n\nfn two() {\n    other();\n    thing();\n}\n";
    becomes(
        text,
        "fn one() {\n    let total = count(items);\n    reporting(totals);\n}",
        "fn one() {}",
        "fn one() {}\n\nfn two() {\n    other();\n    thing();\n}\n",
    );
    // The model omitted a line.
    becomes(
        "start {\n  first line here\n  second line here\n  third line here\n}\n",
        "start {\n  first line here\n  third line here\n}\n",
        "gone\n",
        "gone\n",
    );
}

#[test]
fn half_of_a_block_is_enough_if_the_edges_are_right() {
    becomes(
        "begin\nkeep this line\nsomething\nend\n",
        "begin\nkeep this line\nwholly different\nend",
        "x",
        "x\n",
    );
}

#[test]
fn text_that_differs_too_much_is_not_found() {
    for (text, old) in [
        ("begin\naaaa\nbbbb\nend\n", "begin\nxxxx\nyyyy\nend"),
        ("begin\nend\n", "begin\nsomething\nend"),
        ("a\nb\nc", "a\nc"),
        ("abc", "b c"),
        ("", "a"),
        ("a", "   "),
        ("x\n\n\ny", "\n \n"),
    ] {
        assert_eq!(replace(text, old, "new", false), Err(Miss::Nowhere), "{text:?} {old:?}");
    }
}

#[test]
fn several_places_are_refused_and_named() {
    let twice = Miss::Ambiguous { count: 2, lines: vec![1, 3] };
    assert_eq!(replace("foo\nbar\nfoo\n", "foo", "x", false), Err(twice.clone()));
    assert_eq!(replace("  foo\nbar\n  foo\n", "foo \n", "x", false), Err(twice));
    let block = "begin {\n  one of the lines\n  another line\n}\n";
    let text = format!("{block}{block}");
    let result = replace(&text, "begin {\n  one of the lines\n  yet another line\n}", "x", false);
    assert_eq!(result, Err(Miss::Ambiguous { count: 2, lines: vec![1, 5] }));
    assert_eq!(
        replace(&"x\n".repeat(50), "x", "y", false),
        Err(Miss::Ambiguous { count: 50, lines: (1..=10).collect() })
    );
}

#[test]
fn guessed_matches_are_not_replaced_several_times() {
    let block = "begin {\n  one of the lines\n  another line\n}\n";
    let text = format!("{block}{block}");
    assert!(replace(&text, "begin {\n  one of the lines\n  yet another line\n}", "x", true).is_err());
    assert_eq!(replace("  foo\nbar\n    foo\n", "foo \n", "x\n", true).as_deref(), Ok("  x\nbar\n    x\n"));
}

#[test]
fn a_place_much_larger_than_the_text_is_refused() {
    let text = format!("a{}b", "\n".repeat(40));
    assert_eq!(replace(&text, "a b", "x", false), Err(Miss::TooLarge { first: 1, last: 41 }));
    let text = format!("a{}b", " ".repeat(400));
    assert_eq!(replace(&text, "a b", "x", false), Err(Miss::TooLarge { first: 1, last: 1 }));
}

#[test]
fn hostile_texts_cost_a_bounded_amount() {
    let lines = "{\n}\n".repeat(30_000);
    let start = std::time::Instant::now();
    for old in
        ["{\nx\ny\nz\n}", &"a ".repeat(5000), &"{\n".repeat(3000), &format!("{}x", "{ } ".repeat(2000))]
    {
        let _ = replace(&lines, old, "x", false);
        let _ = replace(&"a ".repeat(100_000), old, "x", true);
    }
    assert!(start.elapsed().as_secs() < 60, "{:?}", start.elapsed());
}

/// Texts with near repetitions.
fn texts() -> impl Strategy<Value = String> {
    let word = prop_oneof![
        Just("a"),
        Just("b"),
        Just("foo"),
        Just("{"),
        Just("}"),
        Just("é"),
        Just("\\n"),
        Just("\\\""),
        Just("\u{3000}")
    ];
    let gap =
        prop_oneof![Just(" "), Just("  "), Just("\n"), Just("\r\n"), Just("\n\t"), Just("\n  "), Just("")];
    prop::collection::vec((word, gap), 0..24)
        .prop_map(|pairs| pairs.into_iter().flat_map(|(word, gap)| [word, gap]).collect())
}

/// A piece of a text with a small change, as a model would make it.
fn misquote(text: &str, from: usize, length: usize, how: u8) -> String {
    let piece: String = text.chars().skip(from).take(length).collect();
    match how % 6 {
        0 => piece,
        1 => piece.replace('\t', "    "),
        2 => piece.lines().map(str::trim).collect::<Vec<_>>().join("\n"),
        3 => piece.replace('\n', "\\n"),
        4 => format!(" {piece}\n"),
        _ => piece.replacen('a', "b", 1),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn only_the_match_changes_for_any_quote(text in texts(), old in texts(), new in texts(), all: bool) {
        prop_assume!(!old.is_empty());
        let _ = replace(&text, &old, &new, all);
    }

    #[test]
    fn misquotes_never_break(
        text in texts(), from in 0..40_usize, length in 1..40_usize, how: u8, new in texts(), all: bool,
    ) {
        let old = misquote(&text, from, length, how);
        prop_assume!(!old.is_empty());
        let _ = replace(&text, &old, &new, all);
    }

    #[test]
    fn an_exact_quote_of_one_place_is_always_found(
        before in texts(), old in texts(), after in texts(), new in texts(),
    ) {
        let plain = |text: String| text.replace('\r', "");
        let (before, old, after) = (plain(before), plain(format!("<{old}>")), plain(after));
        let text = format!("{before}{old}{after}");
        prop_assert_eq!(replace(&text, &old, &new, false), Ok(format!("{before}{new}{after}")));
    }

    #[test]
    fn arbitrary_input_does_not_panic(text: String, old in ".{1,20}", new: String, all: bool) {
        let _ = replace(&text, &old, &new, all);
    }
}
