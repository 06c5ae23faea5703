//! Sharing of places, without sockets and on a paused clock.

use tokio::time::advance;

use super::*;

const OWNER: Source = Source::User(1_000);
const OTHER: Source = Source::User(2_000);

fn places(connections: usize) -> Arc<ConnectionSlots> {
    ConnectionSlots::new(Capacity { connections, ..Capacity::default() })
}

#[test]
fn few_files_allow_few_connections_and_some_files_stay_reserved() {
    let connections = |limit| Capacity::of_files(limit).connections();
    assert_eq!(connections(None), MAX_CONNECTIONS);
    assert_eq!(connections(Some(8_192)), MAX_CONNECTIONS);
    assert_eq!(connections(Some(1_024)), 768);
    assert_eq!(connections(Some(64)), 16);
    assert_eq!(connections(Some(20)), MIN_CONNECTIONS);
    for limit in [Some(20), Some(64), Some(1_024), None] {
        let capacity = Capacity::of_files(limit);
        assert!(capacity.streams_of_one() < capacity.of_one() && capacity.of_one() < capacity.connections());
        assert!(capacity.streams() < capacity.connections());
    }
}

#[tokio::test(start_paused = true)]
async fn the_longest_idle_connection_of_the_largest_source_is_closed() {
    let places = places(8);
    let mut taken = Vec::new();
    for source in [OTHER, OTHER, OWNER, OWNER, OWNER, OWNER, OWNER, OTHER] {
        taken.push(places.try_take(source).unwrap());
        advance(Duration::from_millis(1)).await;
    }
    assert!(places.try_take(OTHER).is_err(), "all are fresh");
    advance(FRESH).await;
    let _busy = taken[2].occupy();
    let newcomer = places.try_take(OTHER).unwrap();
    let asked: Vec<usize> = (0..taken.len()).filter(|at| taken[*at].leave.is_cancelled()).collect();
    assert_eq!(asked, [3], "the owner's first is busy");
    assert!(!newcomer.leave.is_cancelled());
}

#[tokio::test(start_paused = true)]
async fn one_source_never_holds_all_places() {
    let places = places(8);
    let mut calls = Vec::new();
    while let Ok(place) = places.try_take(OTHER) {
        calls.push(place.occupy());
    }
    assert_eq!(calls.len(), 6);
    assert_eq!(places.try_take(OTHER).unwrap_err(), Refusal::Share { connections: 6 });
    let owner = [places.try_take(OWNER).unwrap(), places.try_take(OWNER).unwrap()];
    let _busy = owner.each_ref().map(ConnectionSlot::occupy);
    assert_eq!(places.try_take(Source::Unknown).unwrap_err(), Refusal::Full { connections: 8 });
    calls.pop();
    assert!(places.try_take(Source::Unknown).is_ok(), "a place that was given back is free");
}

#[tokio::test(start_paused = true)]
async fn streams_leave_room_for_calls() {
    let places = places(16);
    let mut streams = Vec::new();
    let refusal = loop {
        let place = places.try_take(OWNER).unwrap();
        let call = place.occupy();
        match call.stream() {
            Ok(()) => streams.push(call),
            Err(refusal) => break refusal,
        }
    };
    assert_eq!((streams.len(), refusal), (10, Refusal::Streams { streams: 10 }));
    assert!(places.try_take(OWNER).is_ok(), "an ordinary call of the same user");
    streams.pop();
    let place = places.try_take(OWNER).unwrap();
    assert!(place.occupy().stream().is_ok(), "a stream that ended makes room for another");
}

#[tokio::test(start_paused = true)]
async fn a_connection_is_asked_to_close_only_once_and_few_remain() {
    let places = places(16);
    let mut taken = Vec::new();
    for source in [OTHER, OWNER] {
        taken.extend((0..8).map(|_| places.try_take(source).unwrap()));
    }
    advance(FRESH).await;
    for _ in 0..places.capacity.spare() {
        taken.push(places.try_take(OTHER).unwrap());
    }
    assert_eq!(taken.iter().filter(|place| place.leave.is_cancelled()).count(), places.capacity.spare());
    assert_eq!(places.try_take(OTHER).unwrap_err(), Refusal::Full { connections: 16 });
    taken.clear();
    assert!(places.held.lock().connections.is_empty() && places.held.lock().sources.is_empty());
    assert_eq!(places.held.lock().streams, 0);
}

#[tokio::test(start_paused = true)]
async fn a_new_connection_waits_for_a_closing_one_within_a_deadline() {
    let places = places(4);
    let mut taken: Vec<_> = (0..3).map(|_| places.try_take(OWNER).unwrap()).collect();
    advance(FRESH).await;
    // Each asks one of the first three to close, which these do not do yet.
    taken.extend((0..3).map(|_| places.try_take(OWNER).unwrap()));
    advance(FRESH).await;
    let start = Instant::now();
    assert_eq!(places.take(OWNER).await.unwrap_err(), Refusal::Full { connections: 4 });
    assert!(start.elapsed() >= LEAVING);
    let leave = async { drop(taken.remove(0)) };
    let (newcomer, ()) = tokio::join!(places.take(OWNER), leave);
    assert!(newcomer.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_switched_protocols_is_a_stream_until_it_closes() {
    let places = places(16);
    let place = places.try_take(OWNER).unwrap();
    place.occupy().keep();
    assert_eq!(places.held.lock().streams, 1);
    drop(place);
    assert_eq!(places.held.lock().streams, 0);
}
