//! Well-behaved and failing plugins.

use engine::ports::hooks::{Text, TextComplete, ToolArgs, ToolBefore};
use futures::future;
use protocol::{MessageId, PartId, SessionId};

use super::*;

/// Appends its name to texts and arguments, or fails.
struct Writer(&'static str);

impl Hooks for Writer {
    fn wants(&self, point: HookPoint) -> bool {
        matches!(point, HookPoint::TextComplete | HookPoint::ToolBefore)
    }

    fn call<'a>(&'a self, call: HookCall<'a>) -> Hooked<'a> {
        match self.0 {
            "hangs" => return future::pending().boxed(),
            "panics early" => panic!("before the future"),
            "panics late" => return async { panic!("{} {}", "within", "the future") }.boxed(),
            _ => {}
        }
        let answer = match call.point {
            HookPoint::TextComplete => {
                let (_, text) = call.typed::<Text>().unwrap();
                text.text = format!("{} {}", text.text, self.0);
                Ok(())
            }
            _ => self.before_tool(call.typed::<ToolArgs>().unwrap().1),
        };
        future::ready(answer).boxed()
    }
}

impl Writer {
    fn before_tool(&self, args: &mut ToolArgs) -> Result<(), Refusal> {
        if self.0 == "forbids" {
            // A refused call does not see this.
            let given = std::mem::replace(&mut args.args, "changed".into());
            return Err(Refusal(format!("no {given}")));
        }
        args.args = format!("{} {}", args.args.as_str().unwrap(), self.0).into();
        Ok(())
    }
}

fn chain(names: &[&'static str]) -> (Chain, Arc<Mutex<Vec<String>>>) {
    let told = Arc::new(Mutex::new(Vec::new()));
    let links =
        names.iter().map(|name| NamedHooks { name: (*name).to_owned(), hooks: Arc::new(Writer(name)) });
    let sink = Arc::clone(&told);
    let report: Reporter = Arc::new(move |text: &str| sink.lock().push(text.to_owned()));
    (Chain::new(links.collect(), report), told)
}

async fn complete(chain: &Chain) -> String {
    let input = TextComplete {
        session_id: "ses_1".parse::<SessionId>().unwrap(),
        message_id: "msg_1".parse::<MessageId>().unwrap(),
        part_id: "prt_1".parse::<PartId>().unwrap(),
    };
    let hooks: &dyn Hooks = chain;
    hooks.change(&input, Text { text: "said".into() }).await.text
}

async fn before(chain: &Chain) -> Result<String, String> {
    let session_id = "ses_1".parse::<SessionId>().unwrap();
    let input = ToolBefore { tool: "read".into(), session_id, call_id: "call_1".into() };
    let hooks: &dyn Hooks = chain;
    let output = hooks.admit(&input, ToolArgs { args: "given".into() }).await;
    output.map(|output| output.args.as_str().unwrap().to_owned()).map_err(|refusal| refusal.to_string())
}

#[tokio::test(start_paused = true)]
async fn a_plugin_that_forbids_a_call_ends_the_chain_without_a_failure() {
    let (chain, told) = chain(&["one", "forbids", "hangs"]);
    assert_eq!(before(&chain).await, Err("no \"given one\"".to_owned()));
    assert_eq!(*told.lock(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn the_next_chain_is_skipped_after_a_call_is_forbidden() {
    let (first, _) = chain(&["forbids"]);
    let (second, told) = chain(&["panics early"]);
    let both = second.after(Arc::new(first));
    assert_eq!(before(&both).await, Err("no \"given\"".to_owned()));
    assert!(told.lock().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_plugin_that_fails_before_a_call_does_not_forbid_it() {
    let (chain, told) = chain(&["one", "hangs", "panics early", "two"]);
    for _ in 0..2 {
        assert_eq!(before(&chain).await, Ok("given one two".to_owned()));
    }
    assert_eq!(told.lock().len(), 2);
}

#[tokio::test]
async fn plugins_are_called_in_order() {
    let (chain, told) = chain(&["one", "two"]);
    assert_eq!(complete(&chain).await, "said one two");
    assert!(chain.wants(HookPoint::TextComplete));
    assert!(!chain.wants(HookPoint::TurnEnd));
    assert!(told.lock().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_chain_may_follow_another_whose_deadlines_are_its_own() {
    let (first, told) = chain(&["one", "hangs", "hangs", "two"]);
    let (second, _) = chain(&["three"]);
    let both = second.after(Arc::new(first));
    assert!(both.wants(HookPoint::TextComplete));
    assert_eq!(complete(&both).await, "said one two three");
    assert_eq!(told.lock().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_failing_plugin_is_reported_once_and_its_output_is_dropped() {
    for (bad, why) in [
        ("hangs", "it takes longer than 11 s"),
        ("panics early", "it panicked: before the future"),
        ("panics late", "it panicked: within the future"),
    ] {
        let (chain, told) = chain(&["one", bad, "two"]);
        for _ in 0..2 {
            assert_eq!(complete(&chain).await, "said one two", "{bad}");
        }
        let told = told.lock().clone();
        let expected = format!("the plugin {bad} failed in its hook experimental.text.complete: {why}");
        assert_eq!(told, [expected]);
    }
}

#[tokio::test]
async fn an_empty_chain_changes_nothing() {
    let (chain, _) = chain(&[]);
    assert!(HookPoint::ALL.iter().all(|point| !chain.wants(*point)));
    assert_eq!(complete(&chain).await, "said");
}
