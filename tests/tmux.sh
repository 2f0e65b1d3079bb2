#!/bin/sh
# The tour of the chat in a true terminal, for a person to look at: every stop is printed as the screen was.
# Needs tmux and a built program: tests/tmux.sh [target/release/gptoss]
set -eu
program=$(realpath "${1:-target/release/gptoss}")
home=$(mktemp -d)
# A server of its own, so that nothing is seen or touched of the one in use.
tmux() { command tmux -L "gptoss-tour-$$" "$@"; }
trap 'tmux kill-server 2>/dev/null || true; rm -rf "$home"' EXIT

stop() {
    printf '\n===== %s\n' "$1"
    tmux capture-pane -p -t tour
}

# Waits for a text on the screen, at most 20 seconds.
await() {
    for _ in $(seq 200); do
        if tmux capture-pane -p -t tour | grep -qF -- "$1"; then return 0; fi
        sleep 0.1
    done
    stop "NOT FOUND: $1"
    exit 1
}

say() {
    tmux send-keys -t tour -l "$1"
    await "$1"
    tmux send-keys -t tour Enter
}

tmux -f /dev/null new-session -d -s tour -x 120 -y 30 \
    "cd '$home' && HOME='$home' EDITOR=\"sed -i s/France/Norway/\" sh"
tmux send-keys -t tour -l "'$program' chat --model tiny --temperature 0 --reasoning low"
tmux send-keys -t tour Enter
await '/131,072'
stop 'the model is there'

say 'Hello!'
await 'How can I help you today?'
await 'Enter send'
stop 'an answer, its thinking folded'
tmux send-keys -t tour C-t
await 'thinking'
stop 'the thinking unfolded (Ctrl-T)'
tmux send-keys -t tour C-t

tmux send-keys -t tour -l 'What is the capital of France?'
await 'capital of France?'
tmux send-keys -t tour C-g
await 'capital of Norway?'
stop 'the draft came back from the editor (Ctrl-G)'
tmux send-keys -t tour Enter
await 'reused'
await 'Enter send'
stop 'the second answer: what was the same was not read again'

tmux send-keys -t tour C-r
await 'branch 2/2'
await 'Enter send'
stop 'answered again (Ctrl-R), the first answer kept beside it'

tmux send-keys -t tour M-e
await 'which message?'
tmux send-keys -t tour Up
stop 'choosing a message to edit (Alt-E)'
tmux send-keys -t tour Escape
await 'Enter send'

tmux set-buffer -b paste "$(printf 'one\ntwo\nthree')"
tmux paste-buffer -p -b paste -t tour
await 'three'
stop 'a paste of three lines is one draft'
tmux send-keys -t tour C-c

tmux resize-window -t tour -x 20 -y 5
sleep 0.5
stop '20 columns, 5 rows'
tmux resize-window -t tour -x 120 -y 30
await 'Enter send'

tmux send-keys -t tour F1
await 'Going back'
stop 'the help (F1)'
tmux send-keys -t tour Escape
tmux send-keys -t tour C-z
await 'topped'
stop 'suspended (Ctrl-Z): the screen of the shell'
tmux send-keys -t tour -l 'fg'
tmux send-keys -t tour Enter
await 'Enter send'
stop 'back again (fg)'

say '/quit'
tmux send-keys -t tour -l "'$program' chat --model tiny --continue"
tmux send-keys -t tour Enter
await '/131,072'
stop 'the conversation goes on (--continue)'
say '/quit'
sleep 0.5
stop 'the shell as it was'
