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
started=$*
printf '%s\n' "$started" >>"$NOTES"
