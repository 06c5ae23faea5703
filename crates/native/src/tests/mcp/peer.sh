# A small MCP server on its standard streams. Its first argument says how it behaves.
how=$1

reply() { printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$1"; }
say() { reply "{\"content\":[{\"type\":\"text\",\"text\":\"$1\"}]}"; }
tool() { printf '{"name":"%s","description":"%s","inputSchema":{"type":"object"}}' "$1" "$2"; }

case $how in
  silent) sleep 600 & wait ;;
  broken) echo "cannot open the database with $TOKEN" >&2; exit 3 ;;
  flood) head -c 5000000 /dev/zero | tr '\0' x >&2 ;;
esac

# Programs that log to the wrong stream are common, too.
echo "peer is ready"

while IFS= read -r line; do
  id=${line#*'"id":'}; id=${id%%[,\}]*}
  case $line in
    *'"method":"initialize"'*)
      reply '{"protocolVersion":"2025-06-18","capabilities":{"tools":{"listChanged":true},"resources":{},"prompts":{}},"serverInfo":{"name":"peer","version":"1"},"instructions":"Echo before you act."}' ;;
    *'"method":"tools/list"'*)
      if [ "$how" = many ]; then
        list=
        for number in $(seq 300); do list="$list$(tool "tool-$RANDOM-$number" many),"; done
        reply "{\"tools\":[${list%,}],\"nextCursor\":\"more\"}"
      else
        list=$(tool echo 'Says it again.')
        for name in fail die wait grow variables; do list="$list,$(tool $name $name)"; done
        [ -e grown ] && list="$list,$(tool 'new.tool' 'Was not there before.')"
        reply "{\"tools\":[$list]}"
      fi ;;
    *'"method":"tools/call"'*'"name":"echo"'*)
      text=${line#*'"text":"'}; say "You said: ${text%%'"'*}" ;;
    *'"method":"tools/call"'*'"name":"fail"'*)
      reply '{"content":[{"type":"text","text":"no such table"}],"isError":true}' ;;
    *'"method":"tools/call"'*'"name":"die"'*) echo "out of memory" >&2; exit 7 ;;
    *'"method":"tools/call"'*'"name":"wait"'*) sleep 600 & touch waiting ;;
    *'"method":"tools/call"'*'"name":"grow"'*)
      touch grown; printf '{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}\n'; say grown ;;
    *'"method":"tools/call"'*'"name":"variables"'*) say "key: $PROVIDER_KEY, token: $TOKEN" ;;
    *'"method":"notifications/cancelled"'*) touch cancelled ;;
    *'"method":"resources/list"'*)
      reply '{"resources":[{"uri":"note://one","name":"one","mimeType":"text/plain"}]}' ;;
    *'"method":"resources/templates/list"'*)
      reply '{"resourceTemplates":[{"uriTemplate":"note://{name}","name":"any note"}]}' ;;
    *'"method":"resources/read"'*)
      reply '{"contents":[{"uri":"note://one","text":"the first note"}]}' ;;
    *'"method":"prompts/list"'*)
      reply '{"prompts":[{"name":"review it","description":"Reviews.","arguments":[{"name":"what","required":true}]}]}' ;;
    *'"method":"prompts/get"'*)
      what=${line#*'"what":"'}
      reply "{\"messages\":[{\"role\":\"user\",\"content\":{\"type\":\"text\",\"text\":\"Review ${what%%'"'*}.\"}}]}" ;;
  esac
done
