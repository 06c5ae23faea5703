//! Parses a user's text as the answer to a request.

use protocol::request::{PermissionReply, Question, QuestionOption};

use crate::words::is_free;

/// Numbers up to this one are choices; larger ones may be answers, such as a port.
const LARGEST_CHOICE: usize = 99;

/// The part of a text that matches no option.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct NoSuchChoice(pub(super) String);

/// Parses a reply to a permission request; `None` if the text is not one.
pub(super) fn permission(text: &str) -> Option<PermissionReply> {
    let word = text.trim().trim_end_matches(['.', '!', ')']).to_lowercase();
    match word.as_str() {
        "1" | "yes" | "y" | "ok" | "once" | "allow" | "allow once" | "👍" => Some(PermissionReply::Once),
        "2" | "always" | "allow always" | "always allow" => Some(PermissionReply::Always),
        "3" | "no" | "n" | "deny" | "reject" | "👎" => Some(PermissionReply::Reject),
        _ => None,
    }
}

/// Parses the answer to a question: labels of chosen options, or the user's own words.
pub(super) fn question(question: &Question, text: &str) -> Result<Vec<String>, NoSuchChoice> {
    let text = text.trim();
    let options = &question.options;
    // A label may be a number or contain a comma, so labels are compared first.
    if let Some(label) = labelled(options, text).or_else(|| numbered(options, text)) {
        return Ok(vec![label]);
    }
    if !options.is_empty() && number(text).is_some_and(|number| number <= LARGEST_CHOICE) {
        return Err(NoSuchChoice(text.to_owned()));
    }
    let pieces: Vec<&str> = text.split([',', ';', '\n']).map(str::trim).filter(|it| !it.is_empty()).collect();
    if question.multiple == Some(true)
        && pieces.len() > 1
        && let Some(answer) = several(question, &pieces)?
    {
        return Ok(answer);
    }
    if is_free(question) { Ok(vec![text.to_owned()]) } else { Err(NoSuchChoice(text.to_owned())) }
}

/// Parses several choices. Returns `None` if no piece is an option: then the text is a sentence with commas.
fn several(question: &Question, pieces: &[&str]) -> Result<Option<Vec<String>>, NoSuchChoice> {
    let chosen =
        |piece: &str| labelled(&question.options, piece).or_else(|| numbered(&question.options, piece));
    if pieces.iter().all(|piece| chosen(piece).is_none()) {
        return Ok(None);
    }
    let mut answer = Vec::new();
    for piece in pieces {
        let label = match chosen(piece) {
            Some(label) => label,
            None if is_free(question) => (*piece).to_owned(),
            None => return Err(NoSuchChoice((*piece).to_owned())),
        };
        if !answer.contains(&label) {
            answer.push(label);
        }
    }
    Ok(Some(answer))
}

fn labelled(options: &[QuestionOption], text: &str) -> Option<String> {
    let text = text.to_lowercase();
    options.iter().map(|option| &option.label).find(|label| label.trim().to_lowercase() == text).cloned()
}

fn numbered(options: &[QuestionOption], text: &str) -> Option<String> {
    options.get(number(text)?.checked_sub(1)?).map(|option| option.label.clone())
}

fn number(text: &str) -> Option<usize> {
    text.trim_start_matches('#').trim_end_matches(['.', ')']).parse().ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn asked(labels: &[&str], multiple: bool, custom: bool) -> Question {
        let options: Vec<_> =
            labels.iter().map(|label| json!({ "label": label, "description": "" })).collect();
        serde_json::from_value(json!({
            "question": "Which?", "header": "Pick", "options": options, "multiple": multiple, "custom": custom,
        }))
        .unwrap()
    }

    #[test]
    fn a_number_is_the_choice_with_that_number() {
        let colour = asked(&["Red", "Blue"], false, true);
        for text in ["2", " 2 ", "2.", "2)", "#2", "blue", "BLUE"] {
            assert_eq!(question(&colour, text), Ok(vec!["Blue".to_owned()]), "{text}");
        }
    }

    #[test]
    fn a_label_goes_before_a_number() {
        let threads = asked(&["4", "8", "16", "32"], false, false);
        assert_eq!(question(&threads, "4"), Ok(vec!["4".to_owned()]));
        assert_eq!(question(&threads, "3"), Ok(vec!["16".to_owned()]));
        let clauses = asked(&["Yes, all", "No"], true, false);
        assert_eq!(question(&clauses, "yes, all"), Ok(vec!["Yes, all".to_owned()]));
    }

    #[test]
    fn commas_separate_several_choices() {
        let many = asked(&["Red", "Blue", "Green"], true, false);
        assert_eq!(question(&many, "1, green,1"), Ok(vec!["Red".to_owned(), "Green".to_owned()]));
        assert_eq!(question(&many, "1, 7"), Err(NoSuchChoice("7".to_owned())));
        let one = asked(&["Red", "Blue"], false, true);
        assert_eq!(question(&one, "1, 2"), Ok(vec!["1, 2".to_owned()]));
    }

    #[test]
    fn own_words_are_an_answer_where_allowed() {
        let many = asked(&["Red", "Blue"], true, true);
        assert_eq!(question(&many, "Well, neither"), Ok(vec!["Well, neither".to_owned()]));
        assert_eq!(question(&many, "2, mauve"), Ok(vec!["Blue".to_owned(), "mauve".to_owned()]));
        let closed = asked(&["Red", "Blue"], false, false);
        assert_eq!(question(&closed, "mauve"), Err(NoSuchChoice("mauve".to_owned())));
        assert!(is_free(&asked(&[], false, false)), "there has to be a way to answer");
    }

    #[test]
    fn a_number_that_is_not_on_the_list_is_no_answer() {
        let colour = asked(&["Red", "Blue"], false, true);
        for text in ["7", "0", "#3", "12."] {
            assert_eq!(question(&colour, text), Err(NoSuchChoice(text.to_owned())), "{text}");
        }
        assert_eq!(question(&colour, "8080"), Ok(vec!["8080".to_owned()]), "it may be a port");
        assert_eq!(question(&asked(&[], false, true), "7"), Ok(vec!["7".to_owned()]), "there is no list");
    }

    #[test]
    fn only_a_few_words_answer_a_permission() {
        for (text, reply) in [
            ("1", PermissionReply::Once),
            ("Yes!", PermissionReply::Once),
            ("always", PermissionReply::Always),
            (" 3 ", PermissionReply::Reject),
            ("no.", PermissionReply::Reject),
        ] {
            assert_eq!(permission(text), Some(reply), "{text}");
        }
        for text in ["", "yes please do it", "4", "what is that?"] {
            assert_eq!(permission(text), None, "{text}");
        }
    }
}
