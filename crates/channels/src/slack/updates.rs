//! Converts Slack's deliveries to updates.

use protocol::Millis;

use super::{
    CHANNEL, text,
    wire::{Callback, Command, Delivery, Event, File, Interaction},
};
use crate::{Attachment, Content, Place, Sender, Unusable, Update};

/// The app's own user in this workspace.
#[derive(Debug, Clone, Default)]
pub(super) struct Identity {
    /// The user id in mentions of the app.
    pub user: Option<String>,
}

/// Converts a delivery; `None` if it does not concern the app.
pub(super) fn update(delivery: &Delivery, me: &Identity, now: Millis) -> Option<Update> {
    match delivery {
        Delivery::Event(callback) => event(callback, me),
        Delivery::Interaction(interaction) => tap(interaction, now),
        Delivery::Command(words) => command(words, now),
        Delivery::Other => None,
    }
}

fn event(callback: &Callback, me: &Identity) -> Option<Update> {
    let event = &callback.event;
    match event.kind.as_str() {
        "message" if event.subtype.as_deref() == Some("message_changed") => edit(callback, me),
        "message" | "app_mention" => message(callback, me),
        "agent_session_stopped" => {
            let ts = event.moment.as_deref().or(event.ts.as_deref())?;
            let chat = event.channel.as_deref()?;
            let id = callback.event_id.clone().unwrap_or_else(|| format!("stop:{chat}:{ts}"));
            Some(Update {
                is_addressed: true,
                ..something(id, place(chat, event.thread_ts.clone()), person(event)?, ts, Content::Stop)
            })
        }
        _ => None,
    }
}

/// Converts a message. Slack may report one message as `message` and as `app_mention` with different event ids; the
/// alias of channel and time marks them as one.
fn message(callback: &Callback, me: &Identity) -> Option<Update> {
    let event = &callback.event;
    let is_by_person = event.bot_id.is_none() && event.user != me.user;
    let is_new = matches!(event.subtype.as_deref(), None | Some("file_share" | "thread_broadcast"));
    if !is_by_person || !is_new || event.edited.is_some() {
        return None;
    }
    let (chat, ts) = (event.channel.as_deref()?, event.ts.as_deref()?);
    let words = event.text.as_deref().unwrap_or_default();
    let is_direct = is_direct(event, chat);
    let is_mentioned =
        event.kind == "app_mention" || me.user.as_deref().is_some_and(|me| text::mentions(words, me));
    // In a channel every conversation has a thread. A message outside of threads that does not mention the app
    // cannot belong to one; the worker ignores threads that have no session.
    if !is_direct && !is_mentioned && event.thread_ts.is_none() {
        return None;
    }
    let thread =
        if is_direct { event.thread_ts.clone() } else { event.thread_ts.clone().or(Some(ts.to_owned())) };
    let alias = format!("{chat}:{ts}");
    let content = Content::Message {
        text: text::plain(words, me.user.as_deref()),
        files: event.files.iter().filter_map(attachment).collect(),
    };
    let id = callback.event_id.clone().unwrap_or_else(|| alias.clone());
    Some(Update {
        alias: Some(alias),
        quoted: None,
        replies_to: None,
        album: None,
        is_direct,
        is_addressed: is_direct || is_mentioned,
        message: Some(ts.to_owned()),
        ..something(id, place(chat, thread), person(event)?, ts, content)
    })
}

/// Converts a changed message. In a channel it only concerns the app if its thread has a session, which the worker
/// checks.
fn edit(callback: &Callback, me: &Identity) -> Option<Update> {
    let event = &callback.event;
    let (new, old) = (event.message.as_ref()?, event.previous_message.as_ref()?);
    let is_by_person = new.bot_id.is_none() && new.user != me.user;
    if !is_by_person || new.edited.is_none() || new.text == old.text {
        return None;
    }
    let (chat, ts) = (event.channel.as_deref()?, new.ts.as_deref()?);
    let moment = event.ts.as_deref().or(event.moment.as_deref())?;
    let user = new.user.clone().filter(|id| !id.is_empty())?;
    let is_direct = is_direct(event, chat);
    let thread = new.thread_ts.clone().or_else(|| (!is_direct).then(|| ts.to_owned()));
    let id = callback.event_id.clone().unwrap_or_else(|| format!("edit:{chat}:{moment}"));
    let sender = Sender { name: user.clone(), id: user };
    let content = Content::Unusable { why: Unusable::Edit };
    Some(Update {
        is_direct,
        is_addressed: is_direct,
        message: Some(ts.to_owned()),
        ..something(id, place(chat, thread), sender, moment, content)
    })
}

fn is_direct(event: &Event, chat: &str) -> bool {
    event.channel_type.as_deref().map_or_else(|| chat.starts_with('D'), |kind| kind == "im")
}

/// Converts a tap on a button.
fn tap(interaction: &Interaction, now: Millis) -> Option<Update> {
    if interaction.kind != "block_actions" {
        return None;
    }
    let (container, message) = (&interaction.container, &interaction.message);
    let action = interaction.actions.iter().find(|action| action.value.is_some())?;
    let token = action.value.clone()?;
    let chat = interaction.channel.id.as_deref().or(container.channel_id.as_deref())?;
    let user = &interaction.user;
    let moment = action.action_ts.as_deref().or(interaction.trigger_id.as_deref())?;
    let on = container.ts.as_deref().or(message.ts.as_deref()).unwrap_or_default();
    let id = format!("tap:{chat}:{on}:{}:{moment}", user.id);
    let sender = Sender { id: user.id.clone(), name: name(&[&user.name, &user.username], &user.id) };
    let thread = container.thread_ts.clone().or_else(|| message.thread_ts.clone());
    let content = Content::Tap { token, receipt: None };
    let sent = action.action_ts.as_deref().and_then(millis).unwrap_or(now);
    Some(Update { is_addressed: true, sent, ..something(id, place(chat, thread), sender, "", content) })
        .filter(|update| !update.sender.id.is_empty())
}

/// Converts `/baton` with its text. Slack accepts no unregistered commands, and slash commands have no thread, so
/// this one addresses the chat as a whole.
fn command(words: &Command, now: Millis) -> Option<Update> {
    let chat = words.channel_id.as_deref()?;
    let user = words.user_id.clone().filter(|id| !id.is_empty())?;
    let id = format!("command:{}", words.trigger_id.as_deref()?);
    let text = match text::plain(&words.text, None) {
        nothing if nothing.is_empty() => "/help".to_owned(),
        text => text,
    };
    let sender = Sender { name: name(&[&words.user_name], &user), id: user };
    let is_direct = words.channel_name.as_deref() == Some("directmessage") || chat.starts_with('D');
    let content = Content::Message { text, files: Vec::new() };
    Some(Update {
        is_direct,
        is_addressed: true,
        sent: now,
        ..something(id, place(chat, None), sender, "", content)
    })
}

fn something(id: String, place: Place, sender: Sender, ts: &str, content: Content) -> Update {
    let is_direct = place.chat.starts_with('D');
    let sent = millis(ts).unwrap_or_default();
    Update {
        id,
        alias: None,
        quoted: None,
        replies_to: None,
        album: None,
        place,
        sender,
        is_direct,
        is_addressed: false,
        message: None,
        sent,
        content,
    }
}

fn place(chat: &str, thread: Option<String>) -> Place {
    Place { channel: CHANNEL.to_owned(), chat: chat.to_owned(), thread }
}

fn person(event: &Event) -> Option<Sender> {
    let id = event.user.clone().filter(|id| !id.is_empty())?;
    Some(Sender { name: id.clone(), id })
}

fn name(known: &[&Option<String>], otherwise: &str) -> String {
    known.iter().find_map(|name| (*name).clone()).unwrap_or_else(|| otherwise.to_owned())
}

/// A file that can be downloaded. Slack only mentions some, for instance deleted ones.
fn attachment(file: &File) -> Option<Attachment> {
    let reference = file.url_private_download.clone().or_else(|| file.url_private.clone())?;
    Some(Attachment {
        reference,
        name: file.name.clone().or_else(|| file.id.clone()).unwrap_or_else(|| "file".to_owned()),
        mime: file.mimetype.clone().unwrap_or_else(|| "application/octet-stream".to_owned()),
        size: file.size,
    })
}

/// Converts a timestamp such as `1700000000.123456` to milliseconds.
fn millis(ts: &str) -> Option<Millis> {
    let (seconds, rest) = ts.split_once('.').unwrap_or((ts, ""));
    let thousandths = format!("{rest:0<3}");
    let seconds: Millis = seconds.parse().ok()?;
    seconds.checked_mul(1_000)?.checked_add(thousandths.get(..3)?.parse().ok()?)
}

#[cfg(test)]
mod tests;
