//! 120 columns and 40 rows.

use crossterm::event::KeyCode;
use insta::assert_snapshot;

use super::support::*;

#[test]
fn an_answer_with_its_figures() {
    let mut chat = answered();
    chat.ctrl('t').wait(0).wait(5000);
    assert_snapshot!(resize(&mut chat, 120, 40), @"");
}

#[test]
fn while_it_answers() {
    assert_snapshot!(resize(&mut answering(), 120, 40), @"");
}

#[test]
fn the_help() {
    let mut chat = answered();
    chat.press(KeyCode::F(1));
    assert_snapshot!(resize(&mut chat, 120, 40), @"");
}
