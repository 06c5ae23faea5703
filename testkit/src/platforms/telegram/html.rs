//! Parses the HTML that bots send, as Telegram does: an unknown or unclosed tag is an error.

/// The supported tags.
const TAGS: [&str; 16] = [
    "b",
    "strong",
    "i",
    "em",
    "u",
    "ins",
    "s",
    "strike",
    "del",
    "code",
    "pre",
    "a",
    "blockquote",
    "span",
    "tg-spoiler",
    "tg-emoji",
];

/// The visible text. `unknown` lists tags that this server does not know.
pub(super) fn visible(html: &str, unknown: &[String]) -> Result<String, String> {
    let mut text = String::new();
    let mut open: Vec<&str> = Vec::new();
    let mut rest = html;
    while let Some((before, tail)) = rest.split_once('<') {
        text.push_str(before);
        let offset = html.len() - tail.len() - 1;
        let problem =
            |what: String| Err(format!("Bad Request: can't parse entities: {what} at byte offset {offset}"));
        let Some((tag, after)) = tail.split_once('>') else {
            return problem("Unclosed start tag".to_owned());
        };
        rest = after;
        if let Some(name) = tag.strip_prefix('/') {
            match open.pop() {
                Some(opened) if opened == name => continue,
                Some(opened) => {
                    return problem(format!(
                        "Unmatched end tag, expected \"</{opened}>\", found \"</{name}>\""
                    ));
                }
                None => return problem("Unexpected end tag".to_owned()),
            }
        }
        let name = tag.split(' ').next().unwrap_or_default();
        if !TAGS.contains(&name) || unknown.iter().any(|it| it == name) {
            return problem(format!("Unsupported start tag \"{name}\""));
        }
        open.push(name);
    }
    if let Some(name) = open.pop() {
        return Err(format!(
            "Bad Request: can't parse entities: Can't find end tag corresponding to start tag \"{name}\""
        ));
    }
    text.push_str(rest);
    Ok(text.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", "\"").replace("&amp;", "&"))
}

#[cfg(test)]
mod tests {
    use super::visible;

    #[test]
    fn tags_are_removed_and_errors_are_found() {
        let html = "<b>1</b> &lt; <a href=\"https://a.example\">2</a> &amp;lt; <pre><code class=\"language-x\">3</code></pre>";
        assert_eq!(visible(html, &[]).unwrap(), "1 < 2 &lt; 3");
        for bad in ["<b>", "</b>", "<b><i></b></i>", "a < b", "<p>x</p>", "<b"] {
            assert!(visible(bad, &[]).is_err(), "{bad}");
        }
        assert!(visible("<u>x</u>", &["u".to_owned()]).is_err());
    }
}
