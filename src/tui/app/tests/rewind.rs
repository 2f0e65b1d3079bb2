use crossterm::event::KeyCode;

use super::support::Chat;
use crate::tui::app::Mode;

fn two_exchanges() -> Chat {
    let mut chat = Chat::ready();
    chat.exchange("one", "first").exchange("two", "second");
    chat.take();
    chat
}

#[test]
fn regenerating_answers_the_last_message_on_a_new_branch() {
    let mut chat = two_exchanges();
    chat.ctrl('r');
    assert_eq!(chat.lines(), ["› one", "first", "› two"]);
    chat.answer("other");
    assert_eq!(chat.said(), ["one", "first", "two", "other"]);
    assert_eq!(chat.app.branch, Some((2, 2)));
    assert_eq!(chat.saved(), ["head 2", "4 after 2: turn 1"]);
}

#[test]
fn a_failed_regeneration_returns_to_the_old_answer() {
    let mut chat = two_exchanges();
    chat.ctrl('r').fail("boom");
    assert_eq!(chat.said(), ["one", "first", "two", "second"]);
    assert_eq!(chat.draft(), "");
}

#[test]
fn the_branches_are_gone_through_round_and_round() {
    let mut chat = two_exchanges();
    chat.ctrl('r').answer("other").ctrl('n');
    assert_eq!(chat.said(), ["one", "first", "two", "second"]);
    assert_eq!(chat.note(), "branch 1/2");
    chat.ctrl('p');
    assert_eq!(chat.said()[3], "other");
    chat.say("/branch 1");
    assert_eq!(chat.said()[3], "second");
    chat.say("/branch 3");
    assert!(
        chat.note().starts_with("there is no branch `3`: 1 to 2"),
        "{}",
        chat.note()
    );
    chat.ctrl('u').say("/branch back");
    assert_eq!(chat.said()[3], "other");
}

#[test]
fn an_earlier_message_is_chosen_edited_and_forked() {
    let mut chat = two_exchanges();
    chat.write("draft").alt('e');
    assert!(matches!(chat.app.mode, Mode::Select { index: 1, .. }));
    chat.press(KeyCode::Up)
        .press(KeyCode::Up)
        .press(KeyCode::Enter);
    assert_eq!(chat.draft(), "one");
    chat.write("!").press(KeyCode::Enter);
    assert_eq!(chat.sent(), [["one!"]]);
    chat.answer("new");
    assert_eq!(chat.said(), ["one!", "new"]);
    assert_eq!(chat.lines(), ["› one!", "new"]);
    assert_eq!(chat.app.branch, Some((2, 2)));
    chat.say("/branch prev");
    assert_eq!(chat.said(), ["one", "first", "two", "second"]);
}

#[test]
fn leaving_an_edit_restores_the_draft() {
    let mut chat = two_exchanges();
    chat.write("draft").alt('e').press(KeyCode::Enter);
    assert_eq!(chat.draft(), "two");
    chat.press(KeyCode::Esc);
    assert_eq!(chat.draft(), "draft");
    assert!(chat.app.editing.is_none());
    assert_eq!(chat.said().len(), 4);
}

#[test]
fn an_edit_by_number_counts_from_one() {
    let mut chat = two_exchanges();
    chat.say("/edit 1");
    assert_eq!(chat.draft(), "one");
    chat.press(KeyCode::Esc).say("/edit 3");
    assert_eq!(chat.note(), "there is no message 3: 1 to 2");
}

#[test]
fn a_failed_edit_returns_to_the_old_branch_and_keeps_the_text() {
    let mut chat = two_exchanges();
    chat.say("/edit 1")
        .write("!")
        .press(KeyCode::Enter)
        .fail("boom");
    assert_eq!(chat.said(), ["one", "first", "two", "second"]);
    assert_eq!(chat.draft(), "one!");
}

#[test]
fn undo_takes_the_last_exchange_back_and_leaves_the_draft_alone() {
    let mut chat = two_exchanges();
    chat.say("/undo");
    assert_eq!(chat.said(), ["one", "first"]);
    assert_eq!(chat.draft(), "");
    assert_eq!(chat.saved(), ["head 1"]);
    // What the note says to type works as it stands.
    chat.say("/branch back");
    assert_eq!(chat.said(), ["one", "first", "two", "second"]);
    chat.say("/undo").say("/undo").say("/undo");
    assert_eq!(chat.said(), [""; 0]);
    assert_eq!(chat.note(), "there is nothing to take back");
}

#[test]
fn up_after_an_undo_has_the_message_first() {
    let mut chat = two_exchanges();
    chat.say("/undo");
    assert_eq!(
        chat.note(),
        "taken back; `/branch back` returns to it, Up has the message"
    );
    chat.press(KeyCode::Up);
    assert_eq!(chat.draft(), "two");
    chat.ctrl('u').say("/undo").press(KeyCode::Up);
    assert_eq!(chat.draft(), "one");
}

#[test]
fn after_several_undos_it_is_said_where_the_whole_conversation_is() {
    let mut chat = two_exchanges();
    chat.say("/undo").say("/undo");
    assert_eq!(
        chat.note(),
        "taken back; `/branch back` returns to it, `/branch 1` to the whole conversation, Up has the message"
    );
    chat.say("/branch back");
    assert_eq!(chat.said(), ["one", "first"]);
    assert_eq!(
        chat.note(),
        "more was said here: `/branch 1` has the whole conversation"
    );
    chat.say("/branch 1");
    assert_eq!(chat.said().len(), 4);
    assert_eq!(chat.note(), "this is all of the conversation");
}

#[test]
fn what_was_reused_stays_in_the_status_line_after_a_rewind() {
    let status = |chat: &Chat| crate::tui::view::status::line(&chat.app, 80).to_string();
    let mut chat = two_exchanges();
    assert!(!chat.app.rewound);
    chat.app.wanted = "a-model-with-a-rather-long-name".to_owned();
    chat.ctrl('r').answer("other");
    assert!(chat.app.rewound);
    let line = status(&chat);
    assert!(
        line.contains("branch 2/2") && line.contains("reused 4"),
        "{line}"
    );
    assert!(!line.contains("decode"), "{line}");
    chat.exchange("three", "third");
    assert!(!chat.app.rewound);
    chat.say("/edit 1")
        .write("!")
        .press(KeyCode::Enter)
        .answer("x");
    assert!(chat.app.rewound);
}

#[test]
fn every_branch_can_be_reached() {
    let mut chat = two_exchanges();
    chat.ctrl('r').answer("other").say("/edit 1").write("!");
    chat.press(KeyCode::Enter).answer("third");
    let third = ["one!", "third"];
    assert_eq!(chat.said(), third);
    assert_eq!(chat.app.branch, Some((3, 3)));
    chat.ctrl('p');
    assert_eq!(chat.said(), ["one", "first", "two", "other"]);
    chat.ctrl('p');
    assert_eq!(chat.said(), ["one", "first", "two", "second"]);
    chat.ctrl('p');
    assert_eq!(chat.said(), third);
    // From the empty conversation too.
    chat.say("/undo");
    assert_eq!(chat.said(), [""; 0]);
    chat.ctrl('n');
    assert_eq!(chat.said(), ["one", "first", "two", "second"]);
}

#[test]
fn clear_forgets_and_branch_back_returns() {
    let mut chat = two_exchanges();
    chat.say("/clear");
    assert_eq!(chat.said(), [""; 0]);
    assert_eq!(chat.app.used, 0);
    assert_eq!(chat.lines(), [""; 0]);
    chat.say("/branch back");
    assert_eq!(chat.said().len(), 4);
    assert_eq!(chat.lines().len(), 4);
}

#[test]
fn nothing_is_changed_while_an_answer_comes() {
    let mut chat = two_exchanges();
    chat.say("three").take();
    for command in [
        "/undo", "/regen", "/edit", "/clear", "/new", "/branch", "/open", "/model x",
    ] {
        chat.say(command);
        assert_eq!(chat.draft(), command);
        assert!(chat.note().contains("Esc stops it"), "{command}");
        chat.ctrl('u');
    }
    assert!(chat.take().is_empty());
}
