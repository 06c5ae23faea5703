//! Submission of prompts. An answer means that the prompt is durable; a repeated call with the same id has no
//! effect.

use axum::{Json, extract::State};
use engine::Sessions;
use protocol::{
    Event, EventBody, MessageId, Rest, SessionId,
    prompt::PromptInput,
    v2::{Admitted, Data, Prompt, PromptRequest},
    wire_error::{TaggedError, WireError},
};

use super::history::{READ, place};
use crate::{
    App, Error,
    error::Fault,
    extract::{Body, Params, Sent},
    fleet::Offered,
    openapi::{Class, Route},
};

pub(super) fn routes() -> Vec<Route> {
    vec![
        Route::post(Class::Session, "/api/session/{sessionID}/prompt", "v2.session.prompt", prompt)
            .summary("Submit a prompt; events carry the answer")
            .faults(&[Fault::NotFound, Fault::Busy])
            .stores(),
    ]
}

async fn prompt(
    State(app): State<App>,
    Params(session_id): Params<SessionId>,
    Sent(sender): Sent,
    Offered(offered): Offered<MessageId>,
    Body(request): Body<PromptRequest>,
) -> Result<Json<Data<Admitted>>, Error> {
    let (delivery, said) = (request.delivery.unwrap_or_default(), request.prompt.text.clone());
    let input = PromptInput::from(request);
    let input = PromptInput { sender, message_id: input.message_id.clone().or(offered), ..input };
    let submitted = app.sessions.submit(&session_id, input).await?;
    let prompt = Prompt::of(&submitted.message);
    let (id, time_created) = (submitted.message.info.id().clone(), submitted.message.info.created());
    if prompt.text != said {
        let message = format!("message {id} already exists with another text");
        let body = TaggedError::Conflict { message, resource: Some(id.to_string()), extra: Rest::NONE };
        return Err(Error::new(Fault::Busy, WireError::Tagged(body)));
    }
    let admitted_seq = admitted(&app.sessions, &session_id, &id, submitted.after.unwrap_or(0)).await?;
    Ok(Json(Data { data: Admitted { admitted_seq, id, session_id, prompt, delivery, time_created } }))
}

/// Returns the position in the history at which the prompt was accepted. A prompt without a turn has no position of
/// its own.
async fn admitted(
    sessions: &Sessions,
    session: &SessionId,
    message: &MessageId,
    mut after: u64,
) -> Result<u64, Error> {
    loop {
        let events = sessions.events(session, after, READ).await?;
        let accepts =
            |event: &Event| matches!(&event.body, EventBody::PromptQueued(it) if it.message_id == *message);
        if let Some((number, _)) = events.iter().find(|(_, event)| accepts(event)) {
            return Ok(place(*number));
        }
        match events.last() {
            Some((last, _)) => after = *last,
            None => return Ok(place(after)),
        }
    }
}
