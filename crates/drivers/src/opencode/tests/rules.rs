//! Permission rules decide about OpenCode's requests before the user is asked.

use engine::limits::Limits;
use protocol::request::{Action, PermissionReply, Rule};
use protocol::{EndReason, EventBody, Session};

use super::fake::{Act, Fake};
use super::script::*;
use crate::external::harness::{Harness, SimulatedUser};

async fn harness(rules: &[Rule]) -> (Fake, Harness, Session) {
    let fake = Fake::new().await;
    let harness = Harness::bounded(Limits::default(), |_| fake.ruled_runner(rules.to_vec())).await;
    let session = harness.session().await;
    (fake, harness, session)
}

/// A turn that begins with a permission request and continues after the answer.
fn wanting(request: &str, answer: &'static str) -> Vec<Act> {
    let asks = vec![opened("$A"), tool("$A", "running"), permission(request), Act::Called(answer, 1)];
    [asks, goes_on()].concat()
}

fn goes_on() -> Vec<Act> {
    let closed = vec![tool("$A", "error"), closed("$A", "tool-calls")];
    [closed, super::script::answer("$B", "Hello"), idle()].concat()
}

fn asked(harness: &Harness) -> usize {
    harness.seen.iter().filter(|event| matches!(event.body, EventBody::PermissionAsked(_))).count()
}

#[tokio::test]
async fn rules_decide_before_the_user_is_asked() {
    for (action, answer) in
        [(Action::Allow, "/permission/per_1/reply {\"reply\":\"once\"}"), (Action::Deny, "prevents you")]
    {
        let rules = [Rule::new("bash", "*", Action::Ask), Rule::new("bash", "make", action)];
        let (fake, mut harness, session) = harness(&rules).await;
        harness.submit(&session, "please").await;
        fake.play([start(), wanting("per_1", answer)].concat()).await;
        let end = harness.until_idle(&session, SimulatedUser::Silent).await;
        assert_eq!((end, asked(&harness)), (EndReason::Completed, 0), "{action:?}");
        assert_eq!(harness.check(&session.id), 1);
    }
}

#[tokio::test]
async fn the_user_is_asked_without_a_matching_rule() {
    for rules in [vec![Rule::new("bash", "*", Action::Ask)], Vec::new()] {
        let (fake, mut harness, session) = harness(&rules).await;
        harness.submit(&session, "please").await;
        let playing =
            fake.play([start(), wanting("per_1", "/permission/per_1/reply {\"reply\":\"once\"}")].concat());
        let (end, ()) = tokio::join!(harness.until_idle(&session, SimulatedUser::Agrees), playing);
        assert_eq!((end, asked(&harness)), (EndReason::Completed, 1), "{rules:?}");
    }
}

#[tokio::test]
async fn a_permanent_approval_is_not_requested_again() {
    let (fake, mut harness, session) = harness(&[]).await;
    harness.submit(&session, "please").await;
    fake.play([start(), vec![opened("$A"), tool("$A", "running"), permission("per_1")]].concat()).await;
    let request = harness.until(|body| matches!(body, EventBody::PermissionAsked(_))).await;
    let EventBody::PermissionAsked(request) = request else { unreachable!() };
    harness.sessions.reply_permission(&request.id, PermissionReply::Always, None).await.unwrap();
    fake.called("/permission/per_1/reply {\"reply\":\"always\"}", 1).await;
    fake.play(goes_on()).await;
    assert_eq!(harness.until_idle(&session, SimulatedUser::Silent).await, EndReason::Completed);

    // In another session, too: it is allowed in this directory.
    let other = harness.session().await;
    harness.submit(&other, "again").await;
    fake.prompted(2).await;
    let again = [start(), wanting("per_2", "/permission/per_2/reply {\"reply\":\"once\"}")].concat();
    fake.play(again.into_iter().skip(1).collect()).await;
    assert_eq!(harness.until_idle(&other, SimulatedUser::Silent).await, EndReason::Completed);
    assert_eq!(asked(&harness), 1);
}
