//! Broken connections between the gateway and Telegram: every message is answered once, or the user is told.

use protocol::channel::ChannelState;
use testkit::breaker::{Breaker, Cut};

use super::*;
use crate::{Health, Post, courier::Couriers};

/// Answers every update with a fixed text.
async fn answer(mut gateway: Gateway, couriers: Couriers) {
    while let Some(place) = gateway.news.recv().await {
        for pending in gateway.ledger.open_updates(&place).await.unwrap() {
            let post = Post::text(format!("Answer to {}", text(&pending.update)));
            gateway.ledger.done(pending.id, &place, vec![post]).await.unwrap();
        }
        couriers.wake(&place);
    }
}

struct Cutting {
    harness: Harness,
    health: Health,
    breaker: Breaker,
    answering: JoinHandle<()>,
}

impl Cutting {
    async fn new() -> Self {
        let mut harness = Harness::new().await;
        let target = harness.fake.address().trim_start_matches("http://").parse().unwrap();
        let breaker = Breaker::start(target).await.unwrap();
        harness.settings.api = format!("http://{}/", breaker.address());
        // Attempts are due in real time.
        harness.clock = Arc::new(|| jiff::Timestamp::now().as_millisecond());
        let gateway = harness.receive();
        let adapter: Arc<dyn Adapter> = gateway.adapter.clone();
        let health = gateway.inbox.health().clone();
        let couriers = Couriers::new(gateway.inbox.clone(), &[adapter]);
        let answering = tokio::spawn(answer(gateway, couriers));
        Self { harness, health, breaker, answering }
    }

    fn count(&self, words: &str) -> usize {
        self.harness.fake.service_state().state().messages.iter().filter(|it| it.text.contains(words)).count()
    }

    async fn until(&self, words: &str) {
        let found = |state: &testkit::platforms::service_state::State| {
            state.messages.iter().any(|it| it.text.contains(words)).then_some(())
        };
        self.harness.fake.service_state().until(words, found).await.unwrap();
    }
}

impl Drop for Cutting {
    fn drop(&mut self) {
        self.answering.abort();
    }
}

/// Cuts the connection while the answer is on its way.
async fn cut_during_the_answer(cut: Cut) {
    let cutting = Cutting::new().await;
    let harness = &cutting.harness;
    harness.say("one");
    cutting.until("Answer to one").await;
    // Holds the next answer at the service until the connection is cut.
    harness.plan("sendMessage", Planned::Hold);
    harness.say("two");
    let held = |state: &testkit::platforms::service_state::State| (!state.held.is_empty()).then_some(());
    harness.fake.service_state().until("the held answer", held).await.unwrap();
    cutting.breaker.cut(cut);
    // The cut breaks the answer; the note about it meets the broken connection as well.
    timeout(PATIENCE, cutting.breaker.broken("sendMessage")).await.unwrap();
    cutting.breaker.restore();
    harness.say("three");
    cutting.until("Answer to three").await;
    cutting.until("may not have arrived").await;
    let counts = ["Answer to one", "Answer to three"].map(|words| cutting.count(words));
    assert_eq!(counts, [1, 1], "{cut:?}");
    assert!(cutting.count("Answer to two") <= 1, "{cut:?}");
}

#[tokio::test]
async fn the_channel_reports_an_outage_and_its_end() {
    let cutting = Cutting::new().await;
    let mut states = cutting.health.subscribe();
    let mut until = async |state: ChannelState| {
        let found = states.wait_for(|states| states.get("telegram").is_some_and(|it| it.state == state));
        drop(timeout(PATIENCE, found).await.unwrap().unwrap());
    };
    until(ChannelState::Connected).await;
    cutting.breaker.cut(Cut::Reset);
    until(ChannelState::Reconnecting).await;
    cutting.breaker.restore();
    until(ChannelState::Connected).await;
}

#[tokio::test]
async fn after_reset_connections_the_user_gets_a_notice() {
    cut_during_the_answer(Cut::Reset).await;
}

#[tokio::test]
async fn after_hanging_connections_the_user_gets_a_notice() {
    cut_during_the_answer(Cut::Hang).await;
}

#[tokio::test]
async fn after_bad_gateways_the_user_gets_a_notice() {
    cut_during_the_answer(Cut::BadGateway).await;
}

#[tokio::test]
async fn after_half_open_connections_the_user_gets_a_notice() {
    cut_during_the_answer(Cut::HalfOpen).await;
}
