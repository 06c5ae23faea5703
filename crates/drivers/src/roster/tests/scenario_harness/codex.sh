# The commands of scenarios in the protocol of Codex.
turns=0
answer() { number && printf '{"id":%s,"result":%s}\n' "$id" "$1"; }
tell() { printf '{"method":"%s","params":{"threadId":"t","turnId":"u%s"%s}}\n' "$1" $turns "${2:+,$2}"; }
greet() {
    told '"initialize"' && answer '{"userAgent":"codex"}'
    told '"thread/' && answer '{"thread":{"id":"t"},"model":"m"}'
}
forgets() {
    told '"initialize"' && answer '{"userAgent":"codex"}'
    told '"thread/resume"' && number && printf '{"id":%s,"error":{"code":-32600,"message":"no rollout found"}}\n' "$id"
    told '"thread/start"' && answer '{"thread":{"id":"t"},"model":"m"}'
    greet() { :; }
}
prompted() {
    [ $turns -gt 0 ] || greet
    turns=$((turns + 1))
    told '"turn/start"' && answer '{"turn":{"id":"u'$turns'","status":"inProgress"}}'
    tell turn/started '"turn":{"id":"u'$turns'","status":"inProgress"}'
}
joined() { told '"turn/steer"' && answer '{"turnId":"u'$turns'"}'; }
opens() { next && tell item/agentMessage/delta '"itemId":"m'$n'","delta":"'"$1"'"'; }
closes() {
    tell item/completed '"item":{"type":"agentMessage","id":"m'$n'","text":""}'
    tell thread/tokenUsage/updated '"tokenUsage":{"total":{"totalTokens":'${n}5',"inputTokens":'${n}5'},"last":{"totalTokens":15,"inputTokens":15}}'
}
plans() {
    case $1 in in_progress) set -- inProgress ;; esac
    tell turn/plan/updated '"plan":[{"step":"work","status":"'"$1"'"}]'
}
item() { tell item/$1 '"item":{"type":"commandExecution","id":"c'$n'","command":"make","status":"'"$2"'","exitCode":0}'; }
request() {
    printf '{"id":"r%s","method":"item/%s","params":{"threadId":"t","turnId":"u%s","itemId":"c%s",%s}}\n' $n "$1" $turns $n "$2"
    told '"result"'
}
wants() { next && item started inProgress && request commandExecution/requestApproval '"command":"make"'; }
returns() { item completed completed; }
wonders() { next && request tool/requestUserInput '"questions":[{"id":"q","question":"Which?","options":[{"label":"Red"}]}]'; }
retries() { tell error '"error":{"message":"overloaded"},"willRetry":true'; }
below() { printf '{"method":"%s","params":{"threadId":"k","turnId":"v",%s}}\n' "$1" "$2"; }
bears() {
    tell item/completed '"item":{"type":"collabAgentToolCall","id":"s","tool":"spawnAgent","prompt":"Look","receiverThreadIds":["k"],"status":"completed"}'
    below turn/started '"turn":{"id":"v","status":"inProgress"}'
    below item/completed '"item":{"type":"agentMessage","id":"b1","text":"below"}'
}
buries() { below turn/completed '"turn":{"id":"v","status":"completed"}'; }
finish() { tell turn/completed '"turn":{"id":"u'$turns'","status":"'"${1:-completed}"'"}'; }
stopped() { told '"turn/interrupt"' && answer '{}' && finish interrupted; }
