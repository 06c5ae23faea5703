//! Shell scripts that play a well-behaved or misbehaving Codex. They answer in the order of the requests. The ids of
//! Baton's requests count from 1: `initialize`, `thread/start`, then turns.

/// The shell functions that scripts are made of.
const WORDS: &str = r#"
echo $$ >> .processes
# Reads the next message and records it.
hear() { IFS= read -r heard || exit 0; printf '%s\n' "$heard" >> .heard; }
answer() { printf '{"id":%s,"result":%s}\n' "$1" "$2"; }
refuse() { printf '{"id":%s,"error":{"code":-32600,"message":"%s"}}\n' "$1" "$2"; }
tell() { printf '{"method":"%s","params":{"threadId":"t","turnId":"u"%s}}\n' "$1" "${2:+,$2}"; }
ask() { printf '{"id":%s,"method":"%s","params":{"threadId":"t","turnId":"u",%s}}\n' "$1" "$2" "$3"; }
greet() { hear; answer 1 '{"userAgent":"codex"}'; hear; }
open() { hear; answer 2 '{"thread":{"id":"t"},"model":"m"}'; }
# A turn begins: the answer to request $1.
started() { answer "$1" '{"turn":{"id":"u","status":"inProgress"}}'; tell turn/started '"turn":{"id":"u","status":"inProgress"}'; }
begin() { greet; open; hear; started 3; }
word() { tell item/agentMessage/delta "\"itemId\":\"$1\",\"delta\":\"$2\""; }
said() { word "$1" "$2"; tell item/completed "\"item\":{\"type\":\"agentMessage\",\"id\":\"$1\",\"text\":\"$2\"}"; }
command() { printf '"item":{"type":"commandExecution","id":"%s","command":"make","status":"%s","aggregatedOutput":"made","exitCode":%s}' "$1" "$2" "${3:-null}"; }
runs() { tell item/started "$(command "$1" inProgress)"; }
ran() { tell item/completed "$(command "$1" completed 0)"; }
used() { tell thread/tokenUsage/updated "\"tokenUsage\":{\"total\":{\"totalTokens\":$1,\"inputTokens\":$1},\"last\":{\"totalTokens\":$1}}"; }
status() { tell thread/status/changed "\"status\":{\"type\":\"$1\"}"; }
ends() { tell turn/completed "\"turn\":{\"id\":\"u\",\"status\":\"${1:-completed}\",\"error\":${2:-null}}"; }
# Does nothing until it is left.
stay() { while IFS= read -r heard; do printf '%s\n' "$heard" >> .heard; done; }
hang() { sleep 600 & echo $! >> .processes; wait; }
"#;

/// A script made of these functions.
pub(super) fn script(text: &str) -> String {
    format!("{WORDS}\n{text}")
}
