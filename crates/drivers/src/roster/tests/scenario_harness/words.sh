# Shell functions for the fake programs of all agents, besides those of `external::world`.
n=0
next() { n=$((n + 1)); }
# Waits for a line that contains this text, and records all lines.
told() {
    while IFS= read -r line; do
        printf '%s\n' "$line" >>"$NOTES"
        case $line in *"$1"*) return 0 ;; esac
    done
    exit 0
}
# The id of the last request.
number() { id=${line#*\"id\":} && id=${id%%[,\}]*}; }
# Waits until the test releases the scenario.
ready() { until [ -e .go ]; do sleep 0.02; done; }
says() { opens "$1" && closes; }
writes() { wants && echo changed >README.md && returns; }
refuses() { echo no licence >&2 && exit 7; }
dies() { exit 7; }
breaks() { printf '{"type":"assi' && exit 7; }
garbles() { printf '\377\376\n' && printf '{oops\n7\nnull\n[1]\n"x"\n{}\n\n\r\n' && head -c 5000 /dev/zero | tr '\0' '[' && echo; }
babbles() { yes nonsense | head -n 5000 && hang; }
floods() { head -c 100000000 /dev/zero | tr '\0' a && hang; }
hangs() { hang; }
complains() { head -c 5000000 /dev/zero >&2; }
mutes() { exec >&- && hang; }
leaves() { sleep 600 & echo $! >>"$PIDS"; setsid sleep 600 & echo $! >>"$PIDS"; }
stubborn() { trap '' TERM INT HUP; }
started=$*
printf '%s\n' "$started" >>"$NOTES"
