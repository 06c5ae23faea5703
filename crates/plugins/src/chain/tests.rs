//! Plugins that behave, and plugins that do not.

use futures::future;
use protocol::{MessageId, PartId, SessionId};

use super::*;

/// Adds its name to texts, or fails at it.
struct Writer(&'static str);

impl Hooks for Writer {
    fn wants(&self, point: HookPoint) -> bool {
        point == HookPoint::TextComplete
    }

    fn text_complete<'a>(&'a self, _: &'a TextComplete, output: Text) -> Hooked<'a, Text> {
        match self.0 {
            "hangs" => future::pending().boxed(),
            "panics early" => panic!("before the future"),
            "panics late" => async { panic!("{} {}", "within", "the future") }.boxed(),
            name => future::ready(Text { text: format!("{} {name}", output.text) }).boxed(),
        }
    }
}

fn chain(names: &[&'static str]) -> (Chain, Arc<Mutex<Vec<String>>>) {
    let told = Arc::new(Mutex::new(Vec::new()));
    let links = names.iter().map(|name| Link { name: (*name).to_owned(), hooks: Arc::new(Writer(name)) });
    let sink = Arc::clone(&told);
    let report: Reporter = Arc::new(move |text: &str| sink.lock().unwrap().push(text.to_owned()));
    (Chain::new(links.collect(), report), told)
}

async fn complete(chain: &Chain) -> String {
    let input = TextComplete {
        session_id: "ses_1".parse::<SessionId>().unwrap(),
        message_id: "msg_1".parse::<MessageId>().unwrap(),
        part_id: "prt_1".parse::<PartId>().unwrap(),
    };
    chain.text_complete(&input, Text { text: "said".into() }).await.text
}

#[tokio::test]
async fn plugins_are_called_in_order() {
    let (chain, told) = chain(&["one", "two"]);
    assert_eq!(complete(&chain).await, "said one two");
    assert!(chain.wants(HookPoint::TextComplete));
    assert!(!chain.wants(HookPoint::TurnEnd));
    assert!(told.lock().unwrap().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_chain_may_follow_another_whose_deadlines_are_its_own() {
    let (first, told) = chain(&["one", "hangs", "hangs", "two"]);
    let (second, _) = chain(&["three"]);
    let both = second.after(Arc::new(first));
    assert!(both.wants(HookPoint::TextComplete));
    assert_eq!(complete(&both).await, "said one two three");
    assert_eq!(told.lock().unwrap().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn one_that_fails_is_told_of_once_and_the_output_before_it_counts() {
    for (bad, why) in [
        ("hangs", "it takes longer than 11 s"),
        ("panics early", "it panicked: before the future"),
        ("panics late", "it panicked: within the future"),
    ] {
        let (chain, told) = chain(&["one", bad, "two"]);
        for _ in 0..2 {
            assert_eq!(complete(&chain).await, "said one two", "{bad}");
        }
        let told = told.lock().unwrap().clone();
        let expected = format!("the plugin {bad} failed in its hook experimental.text.complete: {why}");
        assert_eq!(told, [expected]);
    }
}

#[tokio::test]
async fn nobody_changes_nothing() {
    let (chain, _) = chain(&[]);
    assert!(HookPoint::ALL.iter().all(|point| !chain.wants(*point)));
    assert_eq!(complete(&chain).await, "said");
}
