//! 40 columns and 12 rows, and less.

use crossterm::event::KeyCode;
use insta::assert_snapshot;

use super::support::*;

#[test]
fn an_answer_with_its_figures() {
    assert_snapshot!(resize(&mut answered(), 40, 12), @"");
}

#[test]
fn while_it_answers() {
    assert_snapshot!(resize(&mut answering(), 40, 12), @"");
}

#[test]
fn reading_the_prompt() {
    assert_snapshot!(resize(&mut prefill(), 40, 12), @"");
}

#[test]
fn the_completions_of_a_command() {
    assert_snapshot!(resize(&mut completing(), 40, 12), @"");
}

#[test]
fn the_list_of_sessions() {
    assert_snapshot!(resize(&mut sessions(), 40, 12), @"");
}

#[test]
fn the_help() {
    let mut chat = answered();
    chat.press(KeyCode::F(1));
    assert_snapshot!(resize(&mut chat, 40, 12), @"");
}

#[test]
fn the_smallest_screen() {
    assert_snapshot!(resize(&mut answering(), 20, 5), @"");
    assert_snapshot!(resize(&mut sessions(), 20, 5), @"");
}

#[test]
fn a_screen_that_is_too_small_says_so() {
    assert_eq!(resize(&mut answered(), 19, 5), "too small");
    assert_eq!(resize(&mut answered(), 80, 4), "too small");
    assert_eq!(resize(&mut answered(), 3, 1), "too");
}
