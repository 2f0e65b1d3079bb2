//! 40 columns and 12 rows, and less.

use crossterm::event::KeyCode;
use insta::assert_snapshot;

use super::support::*;

#[test]
fn an_answer_with_its_figures() {
    assert_snapshot!(resize(&mut answered(), 40, 12), @r#"
    The sum of n numbers is quick:

    • add them
    • divide, if a mean is wanted

    rust
      let sum: u32 = numbers.iter().sum();

    ────────────────────────────────────────
    › █
    Enter send  F1 help  Ctrl-J new line
    tiny · reasoning medium · 413/1,000
    "#);
}

#[test]
fn while_it_answers() {
    assert_snapshot!(resize(&mut answering(), 40, 12), @r#"
    › How do I sum numbers?

    thought for 3.2 s, 8 words  (Ctrl-T)

    The sum is 4
    ~ 2
    | answering, 24 tokens  5.5 tok/s
    ────────────────────────────────────────
    › █
    Esc stop  Ctrl-T thinking
    tiny · cpu · reasoning medium · 0/1,000
    "#);
}

#[test]
fn reading_the_prompt() {
    assert_snapshot!(resize(&mut prefill(), 40, 12), @r#"
    › How do I sum numbers?
    ~ 6
    - reading 768/800 tokens  256 reused
    ────────────────────────────────────────
    › █
    Esc stop  Ctrl-T thinking
    tiny · reasoning medium · 800/1,000
    "#);
}

#[test]
fn the_completions_of_a_command() {
    assert_snapshot!(resize(&mut completing(), 40, 12), @r#"
    The sum of n numbers is quick:

    • add them
    • divide, if a mean is wanted
      /regen               answer the last …
    ▶ /reasoning           how long to think
      /repetition-penalty  make tokens that…
      /read                attach a text fi…
      /rename              give the session…
    › /re█
    Tab complete  Esc close
    tiny · reasoning medium · 413/1,000
    "#);
}

#[test]
fn the_list_of_sessions() {
    assert_snapshot!(resize(&mut sessions(), 40, 12), @r#"
    ┌ Sessions ────────────────────────────┐
    │search: █                             │
    │  How do I sum numbers?       3 h ago │
    │▶ 日本語の質問                3 h ago │
    │  Broken             ! cannot be read │
    │                                      │
    └──────────────────────────────────────┘

    ────────────────────────────────────────
    ›
    F2 rename  Enter open  Esc close
    tiny · reasoning medium · 413/1,000
    "#);
}

#[test]
fn the_help() {
    let mut chat = answered();
    chat.press(KeyCode::F(1));
    assert_snapshot!(resize(&mut chat, 40, 12), @r#"
    ┌ Help ────────────────────────────────┐
    │ Sending and stopping                 │
    │ Enter                                │
    │   send the message, choose, confirm  │
    │ Esc                                  │
    │   stop the answer, close, cancel     │
    │ Ctrl-J                               │
    │   a new line (also Alt-Enter,        │
    │   Shift-Enter)                       │
    │ Ctrl-C                               │
    │   stop; clear the draft; twice: quit │
    └ 1/20  ↑↓ scroll  Esc close ──────────┘
    "#);
}

#[test]
fn the_smallest_screen() {
    assert_snapshot!(resize(&mut answering(), 20, 5), @r#"
    The sum is 4
    | answering, 24 tok…
    › █
    tiny · 0/1,000
    "#);
    assert_snapshot!(resize(&mut sessions(), 20, 5), @r#"
    search: █
      How do I sum numb…
    ▶ 日本語の質問
      Broken
    tiny · 413/1,000
    "#);
}

#[test]
fn a_screen_that_is_too_small_says_so() {
    assert_eq!(resize(&mut answered(), 19, 5), "too small");
    assert_eq!(resize(&mut answered(), 80, 4), "too small");
    assert_eq!(resize(&mut answered(), 3, 1), "too");
}
