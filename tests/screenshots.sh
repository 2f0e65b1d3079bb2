#!/bin/sh
# Makes the pictures of the README: the real program in a true terminal, its screen as SVG in a dark and a light palette.
# Needs tmux and a built program: tests/screenshots.sh [target/release/gptoss]
set -eu
program=$(realpath "${1:-target/release/gptoss}")
here=$(dirname "$(realpath "$0")")
pictures=$here/../assets/screenshots
home=$(mktemp -d)
# A server of its own, so that nothing is seen or touched of the one in use.
tmux() { command tmux -L "gptoss-pictures-$$" "$@"; }
trap 'tmux kill-server 2>/dev/null || true; rm -rf "$home"' EXIT

# Waits for a text on the screen, at most 20 seconds.
await() {
    for _ in $(seq 200); do
        if tmux capture-pane -p -t chat | grep -qF -- "$1"; then return 0; fi
        sleep 0.1
    done
    tmux capture-pane -p -t chat
    printf 'not found: %s\n' "$1"
    exit 1
}

# A conversation that was saved, for its Markdown; what is said after it is said by the built-in model.
mkdir -p "$home/.local/state/gptoss/sessions"
cp "$pictures/session.jsonl" "$home/.local/state/gptoss/sessions/20250628-120000.jsonl"
tmux -f /dev/null new-session -d -s chat -x 88 -y 34 "cd '$home' && \
    HOME='$home' TERM=tmux-256color '$program' chat --continue --temperature 0 --current-date 2025-06-28"
await '/131,072'
tmux send-keys -t chat -l 'What is the capital of Norway?'
await 'Norway?'
tmux send-keys -t chat Enter
await 'decode'
await 'Enter send'
tmux send-keys -t chat C-t
await 'thinking is shown'
# Until the line that says so has gone.
while tmux capture-pane -p -t chat | grep -qF 'thinking is shown'; do sleep 0.1; done
tmux capture-pane -p -e -t chat > "$home/screen"

# Background, text, and the sixteen colours of the terminal.
picture() {
    LC_ALL=C awk -v palette="$2" -f "$here/screenshots.awk" "$home/screen" > "$pictures/$1.svg"
}
picture chat-dark '#1e2127 #d0d3da #1e2127 #e06c75 #98c379 #d19a66 #61afef #c678dd #56b6c2 #abb2bf #7f848e #e06c75 #98c379 #e5c07b #61afef #c678dd #56b6c2 #ffffff'
picture chat-light '#fafafa #383a42 #383a42 #ca1243 #2f7d2c #986801 #2f5fd0 #a626a4 #0b7285 #a0a1a7 #696c77 #ca1243 #2f7d2c #986801 #2f5fd0 #a626a4 #0b7285 #fafafa'
