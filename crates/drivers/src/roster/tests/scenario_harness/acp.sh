# The commands of scenarios in the Agent Client Protocol.
turns=0
answer() { printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$1" "$2"; }
update() { printf '{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"%s","update":%s}}\n' "${2:-s}" "$1"; }
greet() {
    told '"initialize"' && number
    answer "$id" '{"protocolVersion":1,"agentCapabilities":{"promptCapabilities":{"image":true},"sessionCapabilities":{"resume":{}}}}'
    told '"session/' && number && answer "$id" '{"sessionId":"s"}'
}
forgets() {
    told '"initialize"' && number
    answer "$id" '{"protocolVersion":1,"agentCapabilities":{"sessionCapabilities":{"resume":{}}}}'
    told '"session/resume"' && number
    printf '{"jsonrpc":"2.0","id":%s,"error":{"code":-32602,"message":"unknown session"}}\n' "$id"
    told '"session/new"' && number && answer "$id" '{"sessionId":"s"}'
    greet() { :; }
}
prompted() {
    [ $turns -gt 0 ] || greet
    turns=$((turns + 1))
    told '"session/prompt"' && number && prompt=$id
}
opens() { update '{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"'"$1"'"}}'; }
closes() { :; }
plans() { update '{"sessionUpdate":"plan","entries":[{"content":"work","priority":"medium","status":"'"$1"'"}]}'; }
request() { printf '{"jsonrpc":"2.0","id":"r%s","method":"%s","params":%s}\n' $n "$1" "$2" && told '"result"'; }
wants() {
    next
    request session/request_permission '{"sessionId":"s","toolCall":{"toolCallId":"c'$n'","kind":"execute","title":"Run","status":"in_progress","rawInput":{"command":"make"}},"options":[{"optionId":"now","kind":"allow_once"},{"optionId":"never","kind":"reject_once"}]}'
}
returns() { update '{"sessionUpdate":"tool_call_update","toolCallId":"c'$n'","status":"completed"}'; }
wonders() {
    next
    request elicitation/create '{"mode":"form","sessionId":"s","message":"Which?","requestedSchema":{"type":"object","properties":{"q":{"type":"string","oneOf":[{"const":"Red","title":"Red"}]}}}}'
}
# The protocol has no message for retries.
retries() { :; }
bears() { update '{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"below"}}' s2; }
buries() { :; }
finish() {
    update '{"sessionUpdate":"usage_update","used":1,"size":2,"cost":{"amount":0.25,"currency":"USD"}}'
    answer "$prompt" '{"stopReason":"'"${1:-end_turn}"'","usage":{"inputTokens":10,"outputTokens":5,"totalTokens":15}}'
}
stopped() { told '"session/cancel"' && finish cancelled; }
