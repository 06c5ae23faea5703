//! Converts users' messages to updates.

use crate::{
    Attachment, Content, Place, Sender, Unusable, Update,
    whatsapp::{
        CHANNEL,
        wire::{Card, Contact, Delivery, Interactive, Location, Media, Message, QuickReply, Text},
    },
};

/// Converts the messages of a delivery and sorts them by time, because WhatsApp may deliver them out of order.
pub(super) fn updates(delivery: &Delivery) -> Vec<Update> {
    let mut updates: Vec<Update> =
        delivery.messages.iter().filter_map(|message| update(message, &delivery.contacts)).collect();
    updates.sort_by_key(|update| update.sent);
    updates
}

/// The place of a user's chat.
pub(super) fn place(chat: &str) -> Place {
    Place { channel: CHANNEL.to_owned(), chat: chat.to_owned(), thread: None }
}

fn update(message: &Message, contacts: &[Contact]) -> Option<Update> {
    // In a group, other members would read the answer.
    if message.group_id.is_some() {
        tracing::debug!(message = message.id, "ignored a message to a group");
        return None;
    }
    let person = message.from.as_ref().or(message.from_user_id.as_ref())?;
    let Some(content) = content(message) else {
        tracing::debug!(
            message = message.id,
            kind = message.kind,
            "ignored a message of an unsupported kind"
        );
        return None;
    };
    Some(Update {
        id: message.id.clone(),
        alias: None,
        quoted: None,
        replies_to: message.replies_to(),
        album: None,
        place: place(person),
        sender: Sender { id: person.clone(), name: name(person, contacts) },
        is_direct: true,
        is_addressed: true,
        message: Some(message.id.clone()),
        sent: message.timestamp,
        content,
    })
}

/// A user's display name, or else their id.
fn name(person: &str, contacts: &[Contact]) -> String {
    let is_person = |id: &Option<String>| id.as_deref() == Some(person);
    let contact = contacts.iter().find(|contact| is_person(&contact.wa_id) || is_person(&contact.user_id));
    let name = contact.and_then(|contact| contact.profile.as_ref()?.name.as_deref());
    name.filter(|name| !name.trim().is_empty()).unwrap_or(person).to_owned()
}

fn content(message: &Message) -> Option<Content> {
    match message.kind.as_str() {
        "text" => Some(Content::text(message.content::<Text>()?.body)),
        "image" | "video" | "audio" | "document" | "sticker" => file(message),
        "interactive" => {
            let chosen: Interactive = message.content()?;
            Some(tapped(chosen.button_reply.or(chosen.list_reply)?.id))
        }
        "button" => Some(tapped(message.content::<QuickReply>()?.payload)),
        "location" => Some(location(&message.content()?)),
        "contacts" => Some(cards(&message.content::<Vec<Card>>()?)),
        "edit" => Some(Content::Unusable { why: Unusable::Edit }),
        "order" | "unsupported" => Some(Content::Unusable { why: Unusable::Kind }),
        _ => None,
    }
}

fn tapped(token: String) -> Content {
    Content::Tap { token, receipt: None }
}

fn file(message: &Message) -> Option<Content> {
    let media: Media = message.content()?;
    let mime = media.mime_type.as_deref().unwrap_or("application/octet-stream");
    // Voice messages come as `audio/ogg; codecs=opus`.
    let mime = mime.split(';').next().unwrap_or_default().trim().to_owned();
    let name = media.filename.filter(|name| !name.trim().is_empty());
    let name = name.unwrap_or_else(|| format!("{}.{}", message.kind, extension(&mime)));
    let file = Attachment { reference: media.id, name, mime, size: None };
    Some(Content::Message { text: media.caption.unwrap_or_default(), files: vec![file] })
}

/// The file extension for a media type.
fn extension(mime: &str) -> &str {
    match mime {
        "image/jpeg" => "jpg",
        "audio/mpeg" => "mp3",
        "audio/mp4" => "m4a",
        "video/3gpp" => "3gp",
        "text/plain" => "txt",
        _ => {
            let kind = mime.rsplit('/').next().unwrap_or_default();
            let is_short = (1..=5).contains(&kind.len()) && kind.chars().all(char::is_alphanumeric);
            if is_short { kind } else { "bin" }
        }
    }
}

fn location(location: &Location) -> Content {
    let names = [location.name.as_deref(), location.address.as_deref()];
    Content::location(names, location.latitude, location.longitude)
}

fn cards(cards: &[Card]) -> Content {
    let line = |card: &Card| {
        Content::contact(&card.name.formatted_name, card.phones.iter().map(|phone| phone.phone.as_str()))
    };
    Content::text(cards.iter().map(line).collect::<Vec<_>>().join(
        "
",
    ))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn delivered(messages: &[Value]) -> Vec<Update> {
        let contacts = json!([{ "profile": { "name": "Ada" }, "wa_id": "1" }, { "user_id": "DE.2" }]);
        let delivery = json!({ "contacts": contacts, "messages": messages });
        updates(&serde_json::from_value(delivery).unwrap())
    }

    fn content_of(kind: &str, content: &Value) -> Option<Content> {
        let message = json!({ "id": "m", "from": "1", "timestamp": "1", "type": kind, kind: content });
        delivered(&[message]).pop().map(|update| update.content)
    }

    fn words(kind: &str, content: &Value) -> String {
        match content_of(kind, content) {
            Some(Content::Message { text, files }) if files.is_empty() => text,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn locations_and_contacts_become_text() {
        assert_eq!(words("text", &json!({ "body": "/new" })), "/new");
        let office = json!({ "latitude": 52.5, "longitude": 13.4, "name": "Office", "address": "Street 1" });
        assert_eq!(words("location", &office), "📍 Office, Street 1, 52.5, 13.4");
        let bob = json!([{ "name": { "formatted_name": "Bob" }, "phones": [{ "phone": "+1 2" }, {}] }]);
        assert_eq!(words("contacts", &bob), "👤 Bob, +1 2");
    }

    #[test]
    fn edits_and_unsupported_kinds_are_unusable_and_reactions_are_ignored() {
        let unusable = |why| Some(Content::Unusable { why });
        assert_eq!(content_of("edit", &json!({})), unusable(Unusable::Edit));
        assert_eq!(content_of("unsupported", &json!({})), unusable(Unusable::Kind));
        assert_eq!(content_of("reaction", &json!({ "emoji": "👍" })), None);
    }

    #[test]
    fn a_reply_names_the_message_that_it_answers() {
        let message = json!({ "id": "m", "from": "1", "type": "text", "text": { "body": "what about this?" },
            "context": { "from": "9", "id": "wamid.1" } });
        let update = delivered(&[message]).pop().unwrap();
        assert_eq!((update.replies_to.as_deref(), update.quoted), (Some("wamid.1"), None));
    }

    #[test]
    fn a_choice_is_its_token() {
        let tapped = |token: &str| Some(tapped(token.to_owned()));
        assert_eq!(content_of("interactive", &json!({ "button_reply": { "id": "a" } })), tapped("a"));
        assert_eq!(
            content_of("interactive", &json!({ "list_reply": { "id": "b", "title": "B" } })),
            tapped("b")
        );
        assert_eq!(content_of("button", &json!({ "payload": "c", "text": "C" })), tapped("c"));
        assert_eq!(content_of("interactive", &json!({ "nfm_reply": {} })), None);
    }

    #[test]
    fn a_file_has_a_name_and_a_kind() {
        let file = |kind: &str, content: Value| match content_of(kind, &content) {
            Some(Content::Message { files, .. }) => (files[0].name.clone(), files[0].mime.clone()),
            other => panic!("{other:?}"),
        };
        let named = |name: &str, mime: &str| (name.to_owned(), mime.to_owned());
        let voice = json!({ "id": "9", "mime_type": "audio/ogg; codecs=opus", "voice": true });
        assert_eq!(file("audio", voice), named("audio.ogg", "audio/ogg"));
        assert_eq!(
            file("image", json!({ "id": "9", "mime_type": "image/jpeg" })),
            named("image.jpg", "image/jpeg")
        );
        assert_eq!(
            file("sticker", json!({ "id": "9", "mime_type": "image/webp" })),
            named("sticker.webp", "image/webp")
        );
        let unknown = named("document.bin", "application/octet-stream");
        assert_eq!(file("document", json!({ "id": "9", "filename": " " })), unknown);
        assert_eq!(content_of("image", &json!({ "mime_type": "image/jpeg" })), None, "it cannot be fetched");
    }

    #[test]
    fn updates_are_sorted_and_every_user_has_a_name() {
        let said = |id: &str, at: Value| json!({ "id": id, "from": "1", "timestamp": at, "type": "text", "text": { "body": id } });
        let mut nobody = said("d", json!(5));
        nobody["from"] = Value::Null;
        let mut shy = nobody.clone();
        shy["from_user_id"] = json!("DE.2");
        let updates =
            delivered(&[said("b", json!("2")), said("a", json!(1)), said("c", json!("2")), nobody, shy]);
        let order: Vec<_> =
            updates.iter().map(|it| (it.id.as_str(), it.sender.name.as_str(), it.sent)).collect();
        assert_eq!(
            order,
            [("a", "Ada", 1_000), ("b", "Ada", 2_000), ("c", "Ada", 2_000), ("d", "DE.2", 5_000)]
        );
    }
}
