//! Shell scripts that play well-behaved and misbehaving agents. They answer in the order of the requests. The ids of
//! Baton's requests count from 1: `initialize`, `session/new`, then prompts.

/// The shell functions that scripts are made of.
const WORDS: &str = r#"
echo $$ >> .pids
# Reads the next message and records it.
hear() { IFS= read -r heard || exit 0; printf '%s\n' "$heard" >> .heard; }
# Answers the request with this id.
answer() { printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$1" "$2"; }
refuse() { printf '{"jsonrpc":"2.0","id":%s,"error":{"code":%s,"message":"%s"}}\n' "$1" "$2" "$3"; }
update() { printf '{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s1","update":%s}}\n' "$1"; }
ask() { printf '{"jsonrpc":"2.0","id":"%s","method":"%s","params":%s}\n' "$1" "$2" "$3"; }
say() { update "{\"sessionUpdate\":\"agent_message_chunk\",\"content\":{\"type\":\"text\",\"text\":\"$1\"}}"; }
tool() { update "{\"sessionUpdate\":\"tool_call\",\"toolCallId\":\"$1\",\"title\":\"Work\",\"kind\":\"$2\",\"status\":\"$3\",\"rawInput\":{\"command\":\"make\"}}"; }
tooled() { update "{\"sessionUpdate\":\"tool_call_update\",\"toolCallId\":\"$1\",\"status\":\"$2\"}"; }
greet() { hear; answer 1 '{"protocolVersion":1,"agentCapabilities":{"loadSession":true,"sessionCapabilities":{"resume":{}}}}'; }
open() { hear; answer 2 '{"sessionId":"s1"}'; }
begin() { greet; open; hear; }
finish() { answer "${1:-3}" '{"stopReason":"end_turn"}'; }
# Waits until the test has seen the output so far.
ready() { until [ -e .go ]; do sleep 0.02; done; }
# Does nothing until its input is closed.
stay() { while IFS= read -r _; do :; done; }
hang() { sleep 600 & echo $! >> .pids; wait; }
"#;

/// A command that runs a script made of these functions.
pub(super) fn script(text: &str) -> Vec<String> {
    vec!["/bin/bash".to_owned(), "-c".to_owned(), format!("{WORDS}\n{text}")]
}
