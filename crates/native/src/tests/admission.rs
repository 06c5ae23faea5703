//! A tool begins only on a node that owns the workspace.

use std::sync::{Arc, OnceLock};

use engine::memory::Memory;
use engine::ports::hooks::{HookCall, HookPoint, Hooked, Hooks};
use futures::future::{self, FutureExt};
use protocol::{WorkspaceId, message::ModelRef, prompt::PromptInput};
use serde_json::json;

use super::harness::Harness;
use super::scripted_model::{Reply, ScriptedModel};
use crate::Options;

/// Gives the workspace to another node just before a tool call.
#[derive(Default)]
struct Takeover(OnceLock<(Arc<Memory>, WorkspaceId)>);

impl Hooks for Takeover {
    fn wants(&self, point: HookPoint) -> bool {
        point == HookPoint::ToolBefore
    }

    fn call<'a>(&'a self, _: HookCall<'a>) -> Hooked<'a> {
        if let Some((memory, workspace)) = self.0.get() {
            memory.change_owner(workspace);
        }
        future::ready(Ok(())).boxed()
    }
}

#[tokio::test(start_paused = true)]
async fn a_tool_begins_only_while_the_node_owns_the_workspace() {
    for lost in [false, true] {
        let hooks = Arc::new(Takeover::default());
        let input = json!({ "filePath": "made.txt", "content": "x" });
        let model = ScriptedModel::new([Reply::call("c1", "write", input), Reply::text("done")]);
        let harness = Harness::with_hooks(Arc::new(model), Options::default(), hooks.clone()).await;
        let session = harness.session().await;
        if lost {
            let workspace = harness.sessions.workspace(&session.directory);
            assert!(hooks.0.set((harness.memory.clone(), workspace)).is_ok());
        }
        let mut prompt = PromptInput::text("please");
        prompt.model = Some(ModelRef::new("demo", "simple"));
        assert_eq!(harness.sessions.prompt(&session.id, prompt).await.is_err(), lost);
        assert_eq!(harness.project.path().join("made.txt").exists(), !lost);
    }
}
