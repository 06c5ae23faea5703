//! All kinds of silence, on a paused clock.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::json;

use super::*;
use crate::dialect::Dialect;
use crate::{Finish, Retry};

const SECOND: Duration = Duration::from_secs(1);

/// Behaviour of a server: waits and sends, in this order, then closes, breaks or hangs.
#[derive(Clone)]
struct Script {
    pieces: Vec<(Duration, Bytes)>,
    end: End,
}

#[derive(Clone, Copy, PartialEq)]
enum End {
    Closes,
    Breaks,
    Hangs,
}

fn script(pieces: &[(u64, &str)], end: End) -> Script {
    let piece = |(wait, text): &(u64, &str)| {
        (SECOND * u32::try_from(*wait).unwrap(), Bytes::from((*text).to_owned()))
    };
    Script { pieces: pieces.iter().map(piece).collect(), end }
}

impl Script {
    fn body(self) -> Pin<Box<dyn Stream<Item = Result<Bytes, Error>> + Send>> {
        let end = self.end;
        let pieces = stream::iter(self.pieces).then(|(wait, bytes)| async move {
            tokio::time::sleep(wait).await;
            Ok(bytes)
        });
        let end = stream::once(async move {
            match end {
                End::Closes => None,
                End::Breaks => Some(Err(Error::Dropped)),
                End::Hangs => std::future::pending().await,
            }
        });
        Box::pin(pieces.chain(end.filter_map(std::future::ready)))
    }
}

fn answer(shape: Shape) -> Answer {
    let deadlines =
        Deadlines { headers: SECOND, first_chunk: 60 * SECOND, next_chunk: 30 * SECOND, total: 600 * SECOND };
    Answer {
        inflate: Inflate::of(None).unwrap(),
        shape,
        decoder: Dialect::Chat.decoder(0),
        total: Instant::now() + deadlines.total,
        deadlines,
        limit: 10_000,
    }
}

fn word(text: &str) -> String {
    format!("data: {}\n\n", json!({ "choices": [{ "index": 0, "delta": { "content": text } }] }))
}

fn stop() -> String {
    format!("data: {}\n\n", json!({ "choices": [{ "index": 0, "delta": {}, "finish_reason": "stop" }] }))
}

/// Events and elapsed time.
async fn hear(script: Script, shape: Shape) -> (Vec<Result<ModelEvent, Error>>, Duration) {
    let started = Instant::now();
    let heard = listen(script.body(), answer(shape)).collect().await;
    (heard, started.elapsed())
}

fn stalled(deadline: Deadline, after: u32) -> Error {
    Error::Stalled { deadline, after: SECOND * after }
}

fn finish(heard: &[Result<ModelEvent, Error>]) -> Option<Finish> {
    match heard.last() {
        Some(Ok(ModelEvent::Finish { reason, .. })) => Some(*reason),
        _ => None,
    }
}

#[tokio::test(start_paused = true)]
async fn keep_alives_do_not_count_as_a_first_event() {
    let role =
        format!("data: {}\n\n", json!({ "choices": [{ "index": 0, "delta": { "role": "assistant" } }] }));
    let mut pieces = vec![(1, ": PROCESSING\n\n"), (1, role.as_str())];
    pieces.extend([(10, ": keep-alive\n\n"); 20]);
    let (heard, took) = hear(script(&pieces, End::Hangs), Shape::Events).await;
    assert_eq!(heard, [Err(stalled(Deadline::FirstChunk, 60))]);
    assert_eq!(took.as_secs(), 60);
}

#[tokio::test(start_paused = true)]
async fn keep_alives_do_not_count_as_a_next_event() {
    let first = word("Hello");
    let mut pieces = vec![(50, first.as_str()), (20, first.as_str())];
    pieces.extend([(10, ": keep-alive\n\n"), (5, "event: ping\ndata: {\"type\":\"ping\"}\n\n")].repeat(9));
    let (heard, took) = hear(script(&pieces, End::Hangs), Shape::Events).await;
    assert_eq!(heard.last(), Some(&Err(stalled(Deadline::NextChunk, 30))));
    assert_eq!(heard.len(), 4);
    assert_eq!(took.as_secs(), 50 + 20 + 30);
}

#[tokio::test(start_paused = true)]
async fn an_endless_response_times_out() {
    let more = word("more ");
    let pieces = [(10, more.as_str())].repeat(100);
    let (heard, took) = hear(script(&pieces, End::Hangs), Shape::Events).await;
    assert_eq!(heard.last(), Some(&Err(stalled(Deadline::Total, 600))));
    assert_eq!(took.as_secs(), 600);
    assert_eq!(stalled(Deadline::Total, 600).retry(), Retry::Never);
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_is_not_closed_ends_after_its_finish_reason() {
    let (said, stopped) = (word("Hello"), stop());
    let pieces = [(1, said.as_str()), (1, stopped.as_str())];
    let (heard, took) = hear(script(&pieces, End::Hangs), Shape::Events).await;
    assert_eq!(finish(&heard), Some(Finish::Stop));
    assert_eq!(took, 2 * SECOND + SETTLE + DRAIN);
}

#[tokio::test(start_paused = true)]
async fn usage_may_follow_a_reason_without_content() {
    let numbers = format!("data: {}\n\n", json!({ "choices": [], "usage": { "prompt_tokens": 7 } }));
    let pieces = [(40, stop()), (3, numbers)];
    let pieces: Vec<(u64, &str)> = pieces.iter().map(|(wait, text)| (*wait, text.as_str())).collect();
    let (heard, took) = hear(script(&pieces, End::Closes), Shape::Events).await;
    assert!(matches!(&heard[..], [Ok(ModelEvent::Finish { usage, .. })] if usage.input == 7), "{heard:?}");
    assert_eq!(took.as_secs(), 43);
}

#[tokio::test(start_paused = true)]
async fn a_broken_connection_is_an_error_unless_the_response_is_complete() {
    let (said, stopped) = (word("Hello"), stop());
    let (heard, _) = hear(script(&[(1, &said)], End::Breaks), Shape::Events).await;
    assert_eq!(heard.last(), Some(&Err(Error::Dropped)));
    let (heard, _) = hear(script(&[(1, &said)], End::Closes), Shape::Events).await;
    assert_eq!(heard.last(), Some(&Err(Error::Dropped)));
    let (heard, _) = hear(script(&[(1, &said), (1, &stopped)], End::Breaks), Shape::Events).await;
    assert_eq!(finish(&heard), Some(Finish::Stop));
    let (heard, _) = hear(script(&[], End::Closes), Shape::Events).await;
    assert_eq!(heard, [Err(Error::Dropped)]);
}

#[tokio::test(start_paused = true)]
async fn a_slow_caller_is_not_silence() {
    let (said, stopped) = (word("Hello"), stop());
    let pieces = [(1, said.as_str()), (1, said.as_str()), (1, stopped.as_str())];
    let mut events = Box::pin(listen(script(&pieces, End::Closes).body(), answer(Shape::Events)));
    let mut heard = Vec::new();
    while let Some(event) = events.next().await {
        heard.push(event);
        tokio::time::sleep(45 * SECOND).await;
    }
    assert_eq!(finish(&heard), Some(Finish::Stop), "{heard:?}");
}

#[tokio::test(start_paused = true)]
async fn dropping_the_events_drops_the_call() {
    struct Flag(Arc<AtomicBool>);
    impl Drop for Flag {
        fn drop(&mut self) {
            self.0.store(true, Ordering::SeqCst);
        }
    }
    let dropped = Arc::new(AtomicBool::new(false));
    let flag = Flag(Arc::clone(&dropped));
    let said = word("Hello");
    let body = script(&[(1, &said)], End::Hangs).body().map(move |piece| {
        let _ = &flag;
        piece
    });
    let mut events = Box::pin(listen(body, answer(Shape::Events)));
    assert!(events.next().await.is_some());
    assert!(!dropped.load(Ordering::SeqCst));
    drop(events);
    assert!(dropped.load(Ordering::SeqCst));
}

#[tokio::test(start_paused = true)]
async fn a_response_that_is_too_long_is_an_error() {
    let more = word(&"x".repeat(900));
    let pieces = [(0, more.as_str())].repeat(20);
    let (heard, _) = hear(script(&pieces, End::Closes), Shape::Events).await;
    assert_eq!(heard.last(), Some(&Err(Error::TooLong { limit: 10_000 })));
    let endless = [(0, "data: endless ")].repeat(1_000);
    let (heard, _) = hear(script(&endless, End::Closes), Shape::Events).await;
    assert_eq!(heard, [Err(Error::TooLong { limit: 10_000 })]);
}

#[tokio::test(start_paused = true)]
async fn a_last_frame_may_lack_its_end() {
    let (said, stopped) = (word("Hello"), stop());
    let (heard, _) = hear(script(&[(1, &said), (1, stopped.trim_end())], End::Closes), Shape::Events).await;
    assert_eq!(finish(&heard), Some(Finish::Stop));
    let cut = &stopped[..stopped.len() - 9];
    let (heard, _) = hear(script(&[(1, &said), (1, cut)], End::Closes), Shape::Events).await;
    assert_eq!(heard.last(), Some(&Err(Error::Dropped)), "an incomplete frame is ignored");
}

#[tokio::test(start_paused = true)]
async fn the_first_character_determines_the_format() {
    let whole =
        json!({ "choices": [{ "index": 0, "finish_reason": "stop", "message": { "content": "Hello" } }] });
    let whole = format!("\n {whole}");
    let (head, tail) = whole.split_at(20);
    let (heard, _) =
        hear(script(&[(1, head), (1, tail)], End::Closes), Shape::of(Some("application/json"))).await;
    assert_eq!(finish(&heard), Some(Finish::Stop), "{heard:?}");

    let (heard, _) =
        hear(script(&[(1, &word("Hi")), (1, &stop())], End::Closes), Shape::of(Some("text/plain"))).await;
    assert_eq!(finish(&heard), Some(Finish::Stop), "{heard:?}");

    for kind in [None, Some("text/html; charset=utf-8")] {
        let (heard, _) = hear(script(&[(1, "<!doctype html>")], End::Closes), Shape::of(kind)).await;
        assert!(
            matches!(heard.as_slice(), [Err(Error::Other(why))] if why.contains("web page")),
            "{heard:?}"
        );
    }

    let failed = json!({ "error": { "message": "no such model", "code": "model_not_found" } }).to_string();
    let (heard, _) = hear(script(&[(1, &failed)], End::Closes), Shape::Unknown).await;
    assert!(matches!(heard.as_slice(), [Err(Error::InStream { .. })]), "{heard:?}");

    let (heard, _) = hear(script(&[(1, "{\"status\":\"ok\"}")], End::Closes), Shape::Unknown).await;
    assert!(matches!(heard.as_slice(), [Err(Error::Garbled(why))] if why.contains("status")), "{heard:?}");
}
