//! 120 columns and 40 rows.

use crossterm::event::KeyCode;
use insta::assert_snapshot;

use super::support::*;

#[test]
fn an_answer_with_its_figures() {
    let mut chat = answered();
    chat.ctrl('t').wait(0).wait(5000);
    assert_snapshot!(resize(&mut chat, 120, 40), @r#"
    › How do I sum numbers?

    ┊ thinking
    ┊ They want a sum. 日本語 too.

    Sums

    The sum of n numbers is quick:

    • add them
    • divide, if a mean is wanted

    rust
      let sum: u32 = numbers.iter().sum();
    ~ 22
    ────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────
    › █
    Enter send  F1 help  Ctrl-J new line  Ctrl-T thinking  Ctrl-R again  Alt-E edit  Ctrl-Y copy  Ctrl-O open
    tiny · cpu · reasoning medium · context 413/1,000 · prefill 128/s · decode 46.0/s · first 0.55 s · reused 256
    "#);
}

#[test]
fn while_it_answers() {
    assert_snapshot!(resize(&mut answering(), 120, 40), @r#"
    › How do I sum numbers?

    thought for 3.2 s, 8 words  (Ctrl-T)

    The sum is 4
    ~ 30
    | answering, 24 tokens  5.5 tok/s
    ────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────
    › █
    Esc stop  Ctrl-T thinking
    tiny · cpu · reasoning medium · context 0/1,000
    "#);
}

#[test]
fn the_help() {
    let mut chat = answered();
    chat.press(KeyCode::F(1));
    assert_snapshot!(resize(&mut chat, 120, 40), @r#"
    ┌ Help ────────────────────────────────────────────────────────────────────────────────────────────────────────────────┐
    │ Sending and stopping                                                                                                 │
    │ Enter                       send the message, choose, confirm                                                        │
    │ Esc                         stop the answer, close, cancel                                                           │
    │ Ctrl-J                      a new line (also Alt-Enter, Shift-Enter)                                                 │
    │ Ctrl-C                      stop; clear the draft; twice: quit                                                       │
    │ Ctrl-D                      delete forward; quit where nothing is typed                                              │
    │                                                                                                                      │
    │ Scrolling                                                                                                            │
    │ Wheel                       three lines up or down                                                                   │
    │ Ctrl-T                      unfold or fold thinking and files                                                        │
    │ PageUp                      a page up                                                                                │
    │ PageDown                    a page down                                                                              │
    │ Ctrl-Up                     a line up (also Shift-Up)                                                                │
    │ Ctrl-Down                   a line down (also Shift-Down)                                                            │
    │ Ctrl-Home                   to the beginning of the conversation                                                     │
    │ Ctrl-End                    to its end                                                                               │
    │                                                                                                                      │
    │ Going back                                                                                                           │
    │ Ctrl-R                      answer the last message again                                                            │
    │ Alt-E                       change an earlier message                                                                │
    │ Ctrl-N                      the next branch                                                                          │
    │ Ctrl-P                      the branch before                                                                        │
    │                                                                                                                      │
    │ More                                                                                                                 │
    │ Shift-drag                  select text (Option-drag on a Mac); after `/mouse off` without Shift                     │
    │ r                           try to load the model again [where the model could not be loaded]                        │
    │ Tab                         complete a command                                                                       │
    │ Shift-Tab                   complete with the one before                                                             │
    │ F1                          this help                                                                                │
    │ ?                           this help, where nothing is typed                                                        │
    │ Ctrl-Y                      copy the last answer                                                                     │
    │ Ctrl-O                      saved sessions                                                                           │
    │ Ctrl-G                      write the message in $VISUAL or $EDITOR                                                  │
    │ Ctrl-L                      draw the screen anew                                                                     │
    │ Ctrl-Z                      back to the shell; `fg` returns                                                          │
    │                                                                                                                      │
    │ Commands                                                                                                             │
    │ /help                       keys and commands                                                                        │
    └ 1/3  Up, Down, PageUp, PageDown, wheel: scroll  Esc: close ──────────────────────────────────────────────────────────┘
    "#);
}
