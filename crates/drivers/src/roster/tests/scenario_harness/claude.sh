# The commands of scenarios in the protocol of Claude Code.
event() { say '{"type":"stream_event","event":'"$1"'}'; }
state() { say '{"type":"system","subtype":"session_state_changed","state":"'"$1"'"}'; }
forgets() {
    case $started in *--resume*) echo 'No conversation found with session ID: conversation' >&2 && exit 1 ;; esac
}
joined() { told '"type":"user"'; }
prompted() { joined && state running && say '{"type":"system","subtype":"init","session_id":"conversation"}'; }
opens() {
    next
    event '{"type":"message_start","message":{"id":"m'$n'","usage":{"input_tokens":10}}}'
    event '{"type":"content_block_start","index":0,"content_block":{"type":"text"}}'
    event '{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"'"$1"'"}}'
}
closes() {
    event '{"type":"content_block_stop","index":0}'
    event '{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":5}}'
    event '{"type":"message_stop"}'
}
calls() {
    next
    say '{"type":"assistant","message":{"id":"m'$n'","content":[{"type":"tool_use","id":"c'$n'","name":"'"$1"'","input":'"$2"'}]}}'
}
returns() { say '{"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"c'$n'","content":"done"}]}}'; }
plans() { calls TodoWrite '{"todos":[{"content":"work","status":"'"$1"'"}]}' && returns; }
may() {
    calls "$1" "$2"
    say '{"type":"control_request","request_id":"r'$n'","request":{"subtype":"can_use_tool","tool_name":"'"$1"'","input":'"$2"',"tool_use_id":"c'$n'"}}'
    told behavior
}
wants() { may Bash '{"command":"make"}'; }
wonders() {
    may AskUserQuestion '{"questions":[{"question":"Which?","header":"Choice","multiSelect":false,"options":[{"label":"Red","description":""}]}]}'
    returns
}
retries() { say '{"type":"system","subtype":"api_retry","attempt":1,"retry_delay_ms":10,"error":"overloaded"}'; }
bears() {
    calls Agent '{"description":"child","prompt":"Look","subagent_type":"general"}' && child=c$n
    say '{"type":"system","subtype":"task_started","task_id":"task","tool_use_id":"'$child'","task_type":"local_agent"}'
    say '{"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"'$child'","content":"launched"}]},"tool_use_result":{"isAsync":true,"status":"async_launched"}}'
    say '{"type":"assistant","parent_tool_use_id":"'$child'","message":{"id":"b1","content":[{"type":"text","text":"below"}]}}'
}
buries() {
    say '{"type":"system","subtype":"task_updated","task_id":"task","patch":{"status":"completed"}}'
    state running
    say '{"type":"system","subtype":"task_notification","task_id":"task","status":"completed","summary":"done"}'
    says after && finish
}
finish() { say '{"type":"result","subtype":"success","is_error":false,"total_cost_usd":0.25}' && state idle; }
stopped() {
    told interrupt
    say '{"type":"result","is_error":true,"terminal_reason":"aborted_streaming"}' && state idle
}
