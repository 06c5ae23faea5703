//! Tests of the Telegram output: its snapshots, and that any input becomes valid HTML.

use proptest::prelude::*;

use super::{html::Html, *};

fn html(markdown: &str) -> String {
    render(markdown, &Html)
}

#[test]
fn words_are_marked() {
    let text = "**bold**, *italic*, ~~gone~~, `a < b && c`, ***both*** and **again **nested** bold**";
    insta::assert_snapshot!(html(text));
}

#[test]
fn only_three_characters_are_escaped() {
    insta::assert_snapshot!(html("1 < 2 > 0 & \"quotes\" 'stay' <b>tags</b> do not work &copy;"));
}

#[test]
fn code_keeps_its_language_and_its_lines() {
    let text = "Look:\n\n```rust ignore\nfn main() {\n    let x = &1 < &2;\n}\n```\n\nand\n\n```\nplain\n```\n\n    indented";
    insta::assert_snapshot!(html(text));
}

#[test]
fn a_language_cannot_break_out_of_its_attribute() {
    insta::assert_snapshot!(html("```\"><script>\nx\n```"));
}

#[test]
fn an_unfinished_block_of_code_is_closed() {
    insta::assert_snapshot!(html("Wait:\n```js\nconst a = 1;"));
}

#[test]
fn headings_are_bold_lines() {
    insta::assert_snapshot!(html("# One **bold** word\ntext\n## Two\n---\nThree\n==="));
}

#[test]
fn lists_are_readable() {
    let text = "Do:\n- one\n- two\n  more\n  1. first\n  2. second\n     - deep\n- [x] done\n- [ ] open\n\n3. three\n\n   ```sh\n   ls\n   ```\n4. four";
    insta::assert_snapshot!(html(text));
}

#[test]
fn a_quote_is_never_in_a_quote() {
    insta::assert_snapshot!(html("> said\n>\n> > before\n>\n> - list\n\nanswer"));
}

#[test]
fn only_safe_addresses_become_links() {
    let text = "[a](https://a.example/?x=1&y=\"2\") [b](javascript:alert(1)) [src/b.rs](src/b.rs) <https://c.example> \
                [d](tg://user?id=1) [e](mailto:ada@example.org) ![picture](https://f.example/f.png) \
                [![badge](https://g.example/g.png)](https://g.example) [](https://h.example) [i](HTTPS://i.example)";
    insta::assert_snapshot!(html(text));
}

#[test]
fn a_narrow_table_is_aligned() {
    let text = "| name | what |\n|---|:-:|\n| `a` | **one** & two |\n| longer | [link](https://a.example) |";
    insta::assert_snapshot!(html(text));
}

#[test]
fn a_wide_table_is_written_row_by_row() {
    let text = format!("| a | b |\n|---|---|\n| {} | <x> |", "word ".repeat(20));
    insta::assert_snapshot!(html(&text));
}

#[test]
fn an_empty_text_stays_empty() {
    assert_eq!(html(""), "");
    assert_eq!(html(" \n\n "), "");
    assert_eq!(html("****"), "⸻");
}

/// Parses Telegram's HTML as strictly as Telegram does, and returns the first error.
fn check(html: &str) -> Result<(), String> {
    let mut open: Vec<&str> = Vec::new();
    let mut rest = html;
    while let Some(at) = rest.find(['<', '>', '&']) {
        let tail = &rest[at..];
        if tail.starts_with('>') {
            return Err(format!("a bare >: {tail}"));
        }
        let end = tail.find(if tail.starts_with('&') { ';' } else { '>' });
        let end = end.ok_or_else(|| format!("cut short: {tail}"))?;
        let inner = &tail[1..end];
        match tail.chars().next() {
            Some('&') if !matches!(inner, "amp" | "lt" | "gt" | "quot") => return Err(format!("&{inner};")),
            Some('<') if inner.starts_with('/') => {
                let opened = open.pop();
                if opened != Some(&inner[1..]) {
                    return Err(format!("{opened:?} closed by <{inner}>"));
                }
            }
            Some('<') => {
                let name = inner.split(' ').next().unwrap_or_default();
                if !matches!(name, "b" | "i" | "s" | "code" | "pre" | "a" | "blockquote") {
                    return Err(format!("<{inner}> is not known"));
                }
                if open.contains(&name) || (name != "code" && open.contains(&"pre")) || open.contains(&"code")
                {
                    return Err(format!("<{inner}> in {open:?}"));
                }
                open.push(name);
            }
            _ => {}
        }
        rest = &tail[end + 1..];
    }
    if open.is_empty() { Ok(()) } else { Err(format!("open: {open:?}")) }
}

#[test]
fn the_check_finds_mistakes() {
    for bad in ["<b>", "</b>", "<b><i></b></i>", "a > b", "&copy;", "<u>x</u>", "<pre><b>x</b></pre>", "<b"] {
        assert!(check(bad).is_err(), "{bad}");
    }
}

proptest! {
    #[test]
    fn any_text_becomes_well_formed(text in any::<String>()) {
        prop_assert_eq!(check(&html(&text)), Ok(()));
    }

    #[test]
    fn any_markdown_becomes_well_formed(
        words in prop::collection::vec(
            "[a-z<>&\"]{0,4}|\\*{1,3}|_{1,2}|~~|`{1,4}|\n|\n\n|> |- |1\\. |# |    |\\[|\\]\\(https:x\\)|!\\[|\\|\
             |\n\\|-\\|-\\|\n|<b>|</b>|<!--|&lt;|\\\\|---\n|- \\[x\\] |```js\n",
            0..60,
        ),
    ) {
        let text = words.concat();
        let html = html(&text);
        prop_assert_eq!(check(&html), Ok(()), "{} became {}", text, html);
    }
}
