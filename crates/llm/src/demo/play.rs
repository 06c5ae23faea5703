//! Converts actions to cues (pure), and cues to a stream (with the clock).

use std::collections::VecDeque;
use std::time::Duration;

use futures::stream::{self, StreamExt};
use serde_json::Value;

use super::choice::Tuning;
use super::scenario::{Action, ScriptedText};
use crate::{
    AssistantContent, Deadline, Deadlines, Error, EventStream, Headers, Message, ModelEvent, Request, Usage,
    UserContent, complaint,
};

/// One item of a stream.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Cue {
    Say(ModelEvent),
    Wait(Duration),
    Fail(Error),
}

/// Turns actions into cues. Fails when the call itself is refused.
pub(super) fn script(
    actions: &[Action],
    request: &Request,
    tuning: Tuning,
    deadlines: Deadlines,
) -> Result<Vec<Cue>, Error> {
    let mut script = Script::new(request, tuning, deadlines);
    for action in actions {
        script.perform(action)?;
        if matches!(script.cues.last(), Some(Cue::Fail(_))) {
            break;
        }
    }
    Ok(script.cues)
}

/// Streams cues on the tokio clock.
pub(super) fn stream(cues: Vec<Cue>) -> EventStream {
    stream::unfold(VecDeque::from(cues), |mut cues| async move {
        loop {
            match cues.pop_front()? {
                Cue::Say(event) => return Some((Ok(event), cues)),
                Cue::Wait(time) => tokio::time::sleep(time).await,
                Cue::Fail(error) => return Some((Err(error), VecDeque::new())),
            }
        }
    })
    .boxed()
}

/// A block of text or reasoning.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Block {
    kind: Kind,
    id: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Text,
    Reasoning,
}

struct Script<'a> {
    request: &'a Request,
    tuning: Tuning,
    deadlines: Deadlines,
    cues: Vec<Cue>,
    /// The open block. Any following action closes it, unless it continues or cuts it.
    open: Option<Block>,
    blocks: usize,
    calls: usize,
    spoken: usize,
    thought: usize,
}

impl<'a> Script<'a> {
    fn new(request: &'a Request, tuning: Tuning, deadlines: Deadlines) -> Self {
        Self {
            request,
            tuning,
            deadlines,
            cues: Vec::new(),
            open: None,
            blocks: 0,
            calls: 0,
            spoken: 0,
            thought: 0,
        }
    }

    fn say(&mut self, event: ModelEvent) {
        self.cues.push(Cue::Say(event));
    }

    fn happens(&self, times: Option<u32>) -> bool {
        times.is_none_or(|times| self.request.attempt < times)
    }

    fn perform(&mut self, action: &Action) -> Result<(), Error> {
        match action {
            Action::Text(talk) => self.talk(Kind::Text, talk),
            Action::Reasoning(talk) => self.talk(Kind::Reasoning, talk),
            Action::Tool { name, input, raw } => self.tool(name, input.as_ref(), raw.as_deref()),
            Action::Wait { ms } => self.cues.push(Cue::Wait(Duration::from_millis(*ms))),
            Action::Stall { times } if self.happens(*times) => self.stall(),
            Action::Drop { times } if self.happens(*times) => self.cues.push(Cue::Fail(Error::Dropped)),
            Action::Error { message, code, times } if self.happens(*times) => {
                self.cues.push(Cue::Fail(Error::InStream { code: code.clone(), message: message.clone() }));
            }
            Action::Http { status, headers, body, times } if self.happens(*times) => {
                return Err(refusal(*status, headers, body.as_ref()));
            }
            Action::Stall { .. } | Action::Drop { .. } | Action::Error { .. } | Action::Http { .. } => {}
            Action::Finish { reason, usage } => {
                self.close();
                let usage = usage.unwrap_or_else(|| self.estimate());
                self.say(ModelEvent::Finish { reason: *reason, usage });
            }
        }
        Ok(())
    }

    /// Stays silent until the deadline of a real provider's stream would pass.
    fn stall(&mut self) {
        let has_spoken = self.cues.iter().any(|cue| matches!(cue, Cue::Say(_)));
        let (deadline, after) = if has_spoken {
            (Deadline::NextChunk, self.deadlines.next_chunk)
        } else {
            (Deadline::FirstChunk, self.deadlines.first_chunk)
        };
        self.cues.extend([Cue::Wait(after), Cue::Fail(Error::Stalled { deadline, after })]);
    }

    /// Says words in the open block if it is of the same kind, else in a new one.
    fn talk(&mut self, kind: Kind, talk: &ScriptedText) {
        let id = match self.open.take() {
            Some(block) if block.kind == kind => block.id,
            other => {
                self.open = other;
                self.close();
                self.open(kind)
            }
        };
        match kind {
            Kind::Text => {
                self.spoken += self.deltas(talk, |text| ModelEvent::TextDelta { id: id.clone(), text });
            }
            Kind::Reasoning => {
                self.thought += self.deltas(talk, |text| ModelEvent::ReasoningDelta { id: id.clone(), text });
            }
        }
        self.open = Some(Block { kind, id });
    }

    fn open(&mut self, kind: Kind) -> String {
        self.blocks += 1;
        match kind {
            Kind::Text => {
                let id = format!("text-{}", self.blocks);
                self.say(ModelEvent::TextStart { id: id.clone() });
                id
            }
            Kind::Reasoning => {
                let id = format!("reasoning-{}", self.blocks);
                self.say(ModelEvent::ReasoningStart { id: id.clone(), metadata: None });
                id
            }
        }
    }

    fn close(&mut self) {
        match self.open.take() {
            Some(Block { kind: Kind::Text, id }) => self.say(ModelEvent::TextEnd { id }),
            Some(Block { kind: Kind::Reasoning, id }) => {
                self.say(ModelEvent::ReasoningEnd { id, metadata: None });
            }
            None => {}
        }
    }

    /// Streams the words and returns their length in characters.
    fn deltas(&mut self, talk: &ScriptedText, event: impl Fn(String) -> ModelEvent) -> usize {
        let delay = Duration::from_millis(self.tuning.delay_ms.unwrap_or(talk.delay_ms));
        let words: Vec<&str> = talk.text.split_inclusive(char::is_whitespace).collect();
        let mut length = 0;
        for _ in 0..self.repeats(talk) {
            for chunk in words.chunks(usize::try_from(talk.words).unwrap_or(1).max(1)) {
                if !delay.is_zero() {
                    self.cues.push(Cue::Wait(delay));
                }
                let text = chunk.concat();
                length += text.chars().count();
                self.say(event(text));
            }
        }
        length
    }

    /// A number in the model id applies to texts that repeat, not to every text of the scenario.
    fn repeats(&self, talk: &ScriptedText) -> u32 {
        if talk.repeat > 1 { self.tuning.repeat.unwrap_or(talk.repeat) } else { talk.repeat }
    }

    fn tool(&mut self, name: &str, input: Option<&Value>, raw: Option<&str>) {
        self.close();
        let json = raw.map_or_else(|| input.map(Value::to_string).unwrap_or_default(), str::to_owned);
        let input = serde_json::from_str(&json).unwrap_or_else(|_| Value::String(json.clone()));
        // Counting all steps of the conversation makes ids unique between turns and equal between attempts.
        let step =
            self.request.messages.iter().filter(|message| matches!(message, Message::Assistant(_))).count();
        let id = format!("call_{step}_{}", self.calls);
        self.calls += 1;
        self.spoken += json.chars().count();
        self.say(ModelEvent::ToolInputStart { id: id.clone(), name: name.to_owned() });
        self.say(ModelEvent::ToolInputDelta { id: id.clone(), json });
        self.say(ModelEvent::ToolCall { id, name: name.to_owned(), input });
    }

    /// Estimates four characters per token.
    fn estimate(&self) -> Usage {
        let tokens = |characters: usize| u64::try_from(characters.div_ceil(4)).unwrap_or(u64::MAX);
        let asked =
            self.request.system.chars().count() + self.request.messages.iter().map(length).sum::<usize>();
        let reasoning = tokens(self.thought);
        let (input, output) = (tokens(asked), tokens(self.spoken) + reasoning);
        Usage { input, output, reasoning, total: Some(input + output), ..Usage::default() }
    }
}

fn length(message: &Message) -> usize {
    match message {
        Message::User(content) => content
            .iter()
            .map(|block| match block {
                UserContent::Text(text) => text.chars().count(),
                UserContent::File { url, .. } => url.len(),
            })
            .sum(),
        Message::Assistant(content) => content
            .iter()
            .map(|block| match block {
                AssistantContent::Text(text) | AssistantContent::Reasoning { text, .. } => {
                    text.chars().count()
                }
                AssistantContent::ToolCall { input, .. } => input.to_string().len(),
            })
            .sum(),
        Message::Tool(results) => results.iter().map(|result| result.output.chars().count()).sum(),
    }
}

/// Uses the same error handling as for any other provider.
fn refusal(status: u16, headers: &Headers, body: Option<&Value>) -> Error {
    let headers = headers.iter().map(|(name, value)| (name.to_ascii_lowercase(), value.clone())).collect();
    let body = match body {
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
        None => String::new(),
    };
    complaint::refusal(status, headers, body)
}
