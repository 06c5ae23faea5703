//! Converts Telegram's updates.

use protocol::Millis;

use super::{CHANNEL, wire};
use crate::{Attachment, Content, Place, Sender, Unusable, Update};

/// The bot's own user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Bot {
    pub id: i64,
    pub username: String,
}

impl Bot {
    /// Converts an update; `None` if it is not meant for this bot.
    pub(super) fn read(&self, update: wire::Update, now: Millis) -> Option<Update> {
        let id = format!("{}/{}", self.id, update.update_id);
        if let Some(query) = update.callback_query {
            return tapped(id, query, now);
        }
        match (update.message, update.edited_message) {
            (Some(message), _) => self.message_update(id, message),
            // A live location is edited whenever its sender moves.
            (None, Some(edited)) if edited.location.is_none() => {
                let edited = self.message_update(id, edited)?;
                Some(Update { content: Content::Unusable { why: Unusable::Edit }, sent: now, ..edited })
            }
            _ => None,
        }
    }

    fn message_update(&self, id: String, mut message: wire::Message) -> Option<Update> {
        let from = message.from.take().filter(|from| !from.is_bot)?;
        let files = files(&message);
        let said = message.text.take().or_else(|| message.caption.take()).unwrap_or_default();
        let is_direct = message.chat.kind == "private";
        let (text, is_called) = match command(&said) {
            Some(command) if !command.is_for(&self.username) => return None,
            Some(command) => (command.text, true),
            None => self.without_mention(&said),
        };
        let content = if text.is_empty() && files.is_empty() {
            other_content(&message)?
        } else {
            Content::Message { text, files }
        };
        Some(Update {
            id,
            alias: None,
            quoted: quoted(&message),
            replies_to: None,
            album: message.media_group_id.clone(),
            place: place(&message),
            sender: sender(&from),
            is_direct,
            is_addressed: is_direct || is_called || self.is_answered(&message),
            message: Some(message.message_id.to_string()),
            sent: message.date.saturating_mul(1_000),
            content,
        })
    }

    /// True if a message replies to one of the bot's messages.
    fn is_answered(&self, message: &wire::Message) -> bool {
        let Some(answered) = &message.reply_to_message else { return false };
        answered.forum_topic_created.is_none()
            && answered.from.as_ref().is_some_and(|from| from.id == self.id)
    }

    /// The text without a mention of the bot at its beginning or end; true if the bot is mentioned at all.
    fn without_mention(&self, said: &str) -> (String, bool) {
        let said = said.trim();
        let name = format!("@{}", self.username.to_ascii_lowercase());
        if self.username.is_empty() || !is_named(said, &name) {
            return (said.to_owned(), false);
        }
        let lower = said.to_ascii_lowercase();
        let mut rest = said;
        if is_named(lower.get(..name.len()).unwrap_or_default(), &name) && !goes_on(&lower, name.len()) {
            rest = said.get(name.len()..).unwrap_or_default().trim_start_matches([',', ':', ' ', '\n', '\t']);
        } else if lower.ends_with(&name) {
            rest = said.get(..said.len() - name.len()).unwrap_or_default().trim_end();
        }
        (rest.to_owned(), true)
    }
}

/// The content of a message that has neither text nor files; `None` if no user sent it, as when a group is renamed.
fn other_content(message: &wire::Message) -> Option<Content> {
    if let Some(wire::Location { latitude, longitude }) = message.location {
        let names = message.venue.as_ref().map(|it| [it.title.as_deref(), it.address.as_deref()]);
        return Some(Content::location(names.unwrap_or_default(), latitude, longitude));
    }
    if let Some(contact) = &message.contact {
        let name = format!("{} {}", contact.first_name, contact.last_name.as_deref().unwrap_or_default());
        return Some(Content::text(Content::contact(
            name.trim(),
            contact.phone_number.as_deref().into_iter(),
        )));
    }
    let wire::Message { sticker, poll, dice, game, story, .. } = message;
    let is_known = [sticker, poll, dice, game, story].into_iter().any(Option::is_some);
    is_known.then_some(Content::Unusable { why: Unusable::Kind })
}

/// The text that a message replies to: the part that the user selected, or the whole message.
fn quoted(message: &wire::Message) -> Option<String> {
    let answered = message.reply_to_message.as_ref().filter(|it| it.forum_topic_created.is_none());
    let selected = message.quote.as_ref().map(|quote| &quote.text);
    let text = selected.or_else(|| answered.and_then(|it| it.text.as_ref().or(it.caption.as_ref())))?;
    Some(text.trim().to_owned()).filter(|text| !text.is_empty())
}

/// True if a name occurs in a text as a whole word.
fn is_named(text: &str, name: &str) -> bool {
    let lower = text.to_ascii_lowercase();
    lower.match_indices(name).any(|(at, _)| {
        let before = lower.get(..at).and_then(|it| it.chars().next_back());
        !before.is_some_and(is_word) && !goes_on(&lower, at + name.len())
    })
}

fn goes_on(text: &str, at: usize) -> bool {
    text.get(at..).and_then(|it| it.chars().next()).is_some_and(is_word)
}

fn is_word(character: char) -> bool {
    character.is_alphanumeric() || character == '_'
}

/// A command at the beginning of a text.
struct Command {
    /// The bot it is addressed to, if it names one.
    bot: Option<String>,
    /// The text without the bot's name.
    text: String,
}

impl Command {
    fn is_for(&self, username: &str) -> bool {
        self.bot.as_deref().is_none_or(|bot| bot.eq_ignore_ascii_case(username))
    }
}

/// Parses `/name@bot words`. A path such as `/usr/bin` is not a command.
fn command(said: &str) -> Option<Command> {
    let said = said.trim();
    let end = said.find(char::is_whitespace).unwrap_or(said.len());
    let (first, words) = said.split_at(end);
    let (name, bot) = match first.strip_prefix('/')?.split_once('@') {
        Some((name, bot)) => (name, Some(bot.to_owned())),
        None => (first.strip_prefix('/')?, None),
    };
    let is_name = !name.is_empty() && name.chars().all(|it| it.is_ascii_alphanumeric() || it == '_');
    is_name.then(|| Command { bot, text: format!("/{name}{words}") })
}

fn tapped(id: String, query: wire::CallbackQuery, now: Millis) -> Option<Update> {
    let message = query.message?;
    if query.from.is_bot {
        return None;
    }
    Some(Update {
        id,
        alias: None,
        quoted: None,
        replies_to: None,
        album: None,
        place: place(&message),
        sender: sender(&query.from),
        is_direct: message.chat.kind == "private",
        is_addressed: true,
        message: Some(message.message_id.to_string()),
        // Telegram reports when the message was sent, not when its button was tapped.
        sent: now,
        content: Content::Tap { token: query.data?, receipt: Some(query.id) },
    })
}

fn place(message: &wire::Message) -> Place {
    let thread = message.message_thread_id.filter(|_| message.is_topic_message);
    Place {
        channel: CHANNEL.to_owned(),
        chat: message.chat.id.to_string(),
        thread: thread.map(|thread| thread.to_string()),
    }
}

fn sender(user: &wire::User) -> Sender {
    let name = match (&user.last_name, &user.username) {
        (Some(last), _) => format!("{} {last}", user.first_name),
        (None, Some(username)) if user.first_name.is_empty() => username.clone(),
        _ => user.first_name.clone(),
    };
    Sender { id: user.id.to_string(), name: name.trim().to_owned() }
}

/// The files of a message; of a photo only its largest size.
fn files(message: &wire::Message) -> Vec<Attachment> {
    let photo = message.photo.iter().max_by_key(|it| (it.width * it.height, it.file_size));
    let files = [
        (photo, "photo.jpg", "image/jpeg"),
        (message.document.as_ref(), "document", "application/octet-stream"),
        (message.voice.as_ref(), "voice.ogg", "audio/ogg"),
        (message.audio.as_ref(), "audio.mp3", "audio/mpeg"),
        (message.video.as_ref(), "video.mp4", "video/mp4"),
        (message.video_note.as_ref(), "video.mp4", "video/mp4"),
    ];
    files.into_iter().filter_map(|(file, name, mime)| attachment(file?, name, mime)).collect()
}

fn attachment(file: &wire::File, name: &str, mime: &str) -> Option<Attachment> {
    (!file.file_id.is_empty()).then(|| Attachment {
        reference: file.file_id.clone(),
        name: file.file_name.clone().unwrap_or_else(|| name.to_owned()),
        mime: file.mime_type.clone().unwrap_or_else(|| mime.to_owned()),
        size: file.file_size,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// Reads a message in a group as the bot `@baton_bot` with the id 42.
    fn read(fields: Value) -> Option<Update> {
        let mut message = json!({
            "message_id": 3, "date": 5, "chat": {"id": -7, "type": "supergroup"},
            "from": {"id": 1, "first_name": "Ada", "last_name": "Lovelace"},
        });
        let (Value::Object(message_fields), Value::Object(fields)) = (&mut message, fields) else { panic!() };
        message_fields.extend(fields);
        let update = serde_json::from_value(json!({"update_id": 9, "message": message})).unwrap();
        Bot { id: 42, username: "baton_bot".to_owned() }.read(update, 77)
    }

    fn said(text: &str) -> Option<(String, bool)> {
        let update = read(json!({"text": text}))?;
        let Content::Message { text, .. } = update.content else { panic!() };
        Some((text, update.is_addressed))
    }

    #[test]
    fn commands_lose_the_bots_name_and_others_are_ignored() {
        assert_eq!(said("/new"), Some(("/new".into(), true)));
        assert_eq!(said("/model@Baton_Bot demo/hello"), Some(("/model demo/hello".into(), true)));
        assert_eq!(said("/model@other_bot demo/hello"), None);
        assert_eq!(said("/usr/bin is missing"), Some(("/usr/bin is missing".into(), false)));
    }

    #[test]
    fn a_mention_at_either_end_is_removed() {
        assert_eq!(said("@baton_bot, hello"), Some(("hello".into(), true)));
        assert_eq!(said("hello @BATON_BOT"), Some(("hello".into(), true)));
        assert_eq!(said("ask @baton_bot about it"), Some(("ask @baton_bot about it".into(), true)));
        assert_eq!(said("@baton_bots hello"), Some(("@baton_bots hello".into(), false)));
        assert_eq!(said("mail ada@baton_bot"), Some(("mail ada@baton_bot".into(), false)));
        assert_eq!(said("é@baton_bot"), Some(("é@baton_bot".into(), false)));
        assert_eq!(said("@baton_bot"), None);
        assert_eq!(said("hello"), Some(("hello".into(), false)));
    }

    #[test]
    fn a_reply_to_the_bot_is_addressed_to_it() {
        let is_addressed = |answered: Value| {
            read(json!({"text": "yes", "reply_to_message": answered})).unwrap().is_addressed
        };
        assert!(is_addressed(json!({"from": {"id": 42, "is_bot": true}})));
        assert!(!is_addressed(json!({"from": {"id": 43}})));
        // Telegram reports every message in a topic as a reply to the message that opened the topic.
        assert!(!is_addressed(json!({"from": {"id": 42}, "forum_topic_created": {"name": "work"}})));
    }

    #[test]
    fn only_a_topic_is_a_separate_place() {
        let thread = |fields: Value| read(fields).unwrap().place.thread;
        assert_eq!(
            thread(json!({"text": "a", "message_thread_id": 5, "is_topic_message": true})),
            Some("5".into())
        );
        assert_eq!(thread(json!({"text": "a", "message_thread_id": 5})), None);
    }

    #[test]
    fn updates_without_a_users_message_are_ignored() {
        for nothing in [
            json!({"text": "hello", "from": {"id": 2, "is_bot": true}}),
            json!({"text": "hello", "from": null}),
            json!({"new_chat_members": []}),
            json!({"new_chat_title": "a"}),
        ] {
            assert_eq!(read(nothing.clone()), None, "{nothing}");
        }
    }

    #[test]
    fn locations_and_contacts_become_text_and_stickers_are_unusable() {
        let content = |fields: Value| read(fields).map(|update| update.content);
        let text = |words: &str| Some(Content::text(words.to_owned()));
        let here = json!({"latitude": 52.5, "longitude": 13.4});
        assert_eq!(content(json!({"location": here})), text("📍 52.5, 13.4"));
        let venue = json!({"location": here, "venue": {"title": "Office", "address": "Street 1"}});
        assert_eq!(content(venue), text("📍 Office, Street 1, 52.5, 13.4"));
        let bob = json!({"contact": {"first_name": "Bob", "phone_number": "+1 2"}});
        assert_eq!(content(bob), text("👤 Bob, +1 2"));
        for kind in ["sticker", "poll", "dice"] {
            assert_eq!(content(json!({kind: {}})), Some(Content::Unusable { why: Unusable::Kind }), "{kind}");
        }
    }

    #[test]
    fn an_edit_is_unusable_unless_it_moves_a_live_location() {
        let edited = |fields: Value| {
            let mut message = json!({"message_id": 3, "date": 5, "chat": {"id": 1, "type": "private"},
                "from": {"id": 1, "first_name": "Ada"}});
            message.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
            let update = json!({"update_id": 9, "edited_message": message});
            Bot { id: 42, username: "baton_bot".to_owned() }.read(serde_json::from_value(update).unwrap(), 77)
        };
        let update = edited(json!({"text": "hello, world"})).unwrap();
        assert_eq!(update.content, Content::Unusable { why: Unusable::Edit });
        assert_eq!((update.sent, update.message.as_deref()), (77, Some("3")));
        assert_eq!(edited(json!({"location": {"latitude": 1.0, "longitude": 2.0}})), None);
    }

    #[test]
    fn files_keep_their_names_types_and_sizes() {
        let update = read(json!({
            "caption": "look", "video": {"file_id": "v", "file_size": 9},
            "document": {"file_id": "d", "file_name": "a.rs", "mime_type": "text/rust"},
            "audio": {"file_id": ""},
        }));
        let Some(Update { content: Content::Message { text, files }, sender, .. }) = update else { panic!() };
        assert_eq!((text.as_str(), sender.name.as_str()), ("look", "Ada Lovelace"));
        let files: Vec<_> = files.iter().map(|it| (it.name.as_str(), it.mime.as_str(), it.size)).collect();
        assert_eq!(files, [("a.rs", "text/rust", None), ("video.mp4", "video/mp4", Some(9))]);
    }
}
