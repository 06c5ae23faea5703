//! Converts Slack's message format back to plain text.

use std::borrow::Cow;

/// The plain text of a message, without mentions of `me`.
pub(super) fn plain(text: &str, me: Option<&str>) -> String {
    let text = me.map_or(Cow::Borrowed(text), |me| without_mention(text, me));
    let mut plain = String::with_capacity(text.len());
    let mut rest = text.as_ref();
    while let Some((before, after)) = rest.split_once('<') {
        let Some((inside, behind)) = after.split_once('>') else { break };
        plain.push_str(&unescaped(before));
        plain.push_str(&unescaped(&reference(inside)));
        rest = behind;
    }
    plain.push_str(&unescaped(rest));
    plain.trim().to_owned()
}

/// True if a message mentions the user.
pub(super) fn mentions(text: &str, who: &str) -> bool {
    text.contains(&format!("<@{who}>")) || text.contains(&format!("<@{who}|"))
}

/// Removes every mention of `me`, and the punctuation after one at the beginning.
fn without_mention<'a>(text: &'a str, me: &str) -> Cow<'a, str> {
    if !mentions(text, me) {
        return Cow::Borrowed(text);
    }
    let mut kept = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once(&format!("<@{me}")) {
        // `<@U1` may be the beginning of `<@U12>`.
        let Some((_, behind)) =
            after.split_once('>').filter(|(label, _)| label.is_empty() || label.starts_with('|'))
        else {
            kept.push_str(before);
            kept.push_str("<@");
            kept.push_str(me);
            rest = after;
            continue;
        };
        kept.push_str(before);
        rest = if kept.trim().is_empty() {
            behind.trim_start_matches([':', ',', ' '])
        } else {
            behind.trim_start()
        };
    }
    kept.push_str(rest);
    Cow::Owned(kept)
}

/// The readable form of a reference between `<` and `>`.
fn reference(inside: &str) -> String {
    let (target, label) =
        inside.split_once('|').map_or((inside, None), |(target, label)| (target, Some(label)));
    let label = label.filter(|label| !label.is_empty());
    match target.chars().next() {
        Some('@') => format!("@{}", label.unwrap_or(target).trim_start_matches('@')),
        Some('#') => format!("#{}", label.unwrap_or(target).trim_start_matches('#')),
        Some('!') => {
            let word = target.trim_start_matches('!').split('^').next().unwrap_or_default();
            label.map_or_else(|| format!("@{word}"), str::to_owned)
        }
        _ => link(target, label),
    }
}

fn link(target: &str, label: Option<&str>) -> String {
    let address = target.strip_prefix("mailto:").unwrap_or(target);
    let bare = address.trim_start_matches("https://").trim_start_matches("http://").trim_end_matches('/');
    match label {
        // Slack turns everything that looks like a link into one; the label is then what the user typed.
        Some(label) if label.trim_end_matches('/') == bare => {
            if address == target && label.contains('/') {
                address.to_owned()
            } else {
                label.to_owned()
            }
        }
        Some(label) if label != address => format!("{label} ({address})"),
        _ => address.to_owned(),
    }
}

fn unescaped(text: &str) -> Cow<'_, str> {
    if !text.contains('&') {
        return Cow::Borrowed(text);
    }
    Cow::Owned(text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slacks_markup_becomes_plain_text() {
        let cases = [
            ("a &lt; b &amp;&amp; c &gt; d", "a < b && c > d"),
            ("&amp;lt; stays", "&lt; stays"),
            ("see <https://example.com/a?b=1&amp;c=2>", "see https://example.com/a?b=1&c=2"),
            ("see <https://example.com|the page>", "see the page (https://example.com)"),
            ("run <http://main.rs|main.rs>", "run main.rs"),
            ("see <https://example.com/a|example.com/a>", "see https://example.com/a"),
            ("ask <mailto:ada@example.com|ada@example.com>", "ask ada@example.com"),
            ("<@U2> and <@U3|ada> in <#C1|general>, <!here>", "@U2 and @ada in #general, @here"),
            ("<!subteam^S1|@team> at <!date^1^{date}|noon>", "@team at noon"),
            ("if a < b: a &lt; <broken", "if a < b: a < <broken"),
        ];
        for (wire, words) in cases {
            assert_eq!(plain(wire, Some("UBOT")), words);
        }
    }

    #[test]
    fn the_mention_is_cut_off() {
        let cases = [
            ("<@UBOT> fix it", "fix it"),
            ("<@UBOT>: fix it", "fix it"),
            ("<@UBOT|baton>, fix it", "fix it"),
            ("please <@UBOT> fix it", "please fix it"),
            ("fix it <@UBOT>", "fix it"),
            ("<@UBOT> /cancel", "/cancel"),
            ("<@UBOT>", ""),
            ("<@UBOTS> fix it", "@UBOTS fix it"),
        ];
        for (wire, words) in cases {
            assert_eq!(plain(wire, Some("UBOT")), words);
        }
        assert_eq!(plain("<@UBOT> fix it", None), "@UBOT fix it");
        assert!(mentions("hi <@UBOT>", "UBOT") && !mentions("hi <@UBOTS>", "UBOT"));
    }
}
