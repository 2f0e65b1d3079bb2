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

    thought for 3.2 s, 2 tokens  (Ctrl-T)

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
    │ Commands                                                                                                             │
    │ /help                       keys and commands                                                                        │
    │ /regen                      answer the last message again, on a new branch                                           │
    │ /edit [N]                   change an earlier message of yours and go on from there                                  │
    │ /undo                       take the last exchange back                                                              │
    │ /branch [N|next|prev|back]  go to another branch, or back to where you were                                          │
    │ /new                        start a new conversation; this one stays saved                                           │
    │ /clear                      forget what was said but keep the session; `/branch back` returns                        │
    │ /system [TEXT|off]          show or set the system prompt                                                            │
    │ /reasoning [low|medium|high]                                                                                         │
    │                             how long to think                                                                        │
    │ /temperature [X]            0 always takes the likeliest token; the default is 1                                     │
    │ /top-k [N]                  keep the N likeliest tokens; 0 keeps all                                                 │
    │ /top-p [X]                  keep the likeliest tokens up to this probability; 1 keeps all                            │
    │ /min-p [X]                  keep tokens of at least this share of the likeliest; 0 keeps all                         │
    │ /repetition-penalty [X]     make tokens that occurred less likely; 1 is off                                          │
    │ /seed [N|off]               the same seed gives the same answer                                                      │
    │ /max-tokens [N|off]         end an answer after N tokens                                                             │
    │ /model [NAME]               show the model, load another, or try again after a failure                               │
    │ /read FILE                  attach a text file to the message                                                        │
    │ /save [TITLE]               name the session; saves one that was not being saved                                     │
    │ /rename TITLE               give the session another name                                                            │
    │ /open                       find, open, rename or delete a saved session                                             │
    │ /export FILE.md|FILE.json   write the conversation to a file                                                         │
    │ /copy [code]                copy the last answer, or its last code block                                             │
    │ /thinking [show|hide]       unfold or fold the thinking                                                              │
    │ /theme [standard|high-contrast|plain]                                                                                │
    │                             the colours                                                                              │
    │ /stats                      the figures of the last turn, and all settings                                           │
    │ /quit                       leave; the conversation is saved                                                         │
    │                                                                                                                      │
    │ Keys                                                                                                                 │
    │ Enter                       send the message, choose, confirm                                                        │
    │ Tab                         complete a command                                                                       │
    │ Shift-Tab                   complete with the one before                                                             │
    │ Esc                         stop the answer, close, cancel                                                           │
    │ F1                          this help                                                                                │
    │ ?                           this help, where nothing is typed                                                        │
    └ Esc closes, Up and Down scroll ──────────────────────────────────────────────────────────────────────────────────────┘
    "#);
}
