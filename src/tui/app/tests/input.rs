use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::support::Chat;
use crate::tui::event::{Effect, Msg};

fn paste(chat: &mut Chat, text: &str) {
    chat.send(Msg::Paste(text.to_owned()));
}

#[test]
fn three_keys_make_a_new_line() {
    let mut chat = Chat::ready();
    chat.write("a").ctrl('j').write("b");
    for modifiers in [KeyModifiers::ALT, KeyModifiers::SHIFT] {
        chat.send(Msg::Key(KeyEvent::new(KeyCode::Enter, modifiers)));
        chat.write("c");
    }
    assert_eq!(chat.draft(), "a\nb\nc\nc");
    assert_eq!(chat.sent(), [[""; 0]; 0]);
}

#[test]
fn a_short_paste_is_text_and_is_not_sent() {
    let mut chat = Chat::ready();
    paste(&mut chat, "a\nb\nc");
    assert_eq!(chat.draft(), "a\nb\nc");
    assert_eq!(chat.sent(), [[""; 0]; 0]);
}

#[test]
fn a_long_paste_is_folded_and_sent_whole() {
    let mut chat = Chat::ready();
    let long = "x".repeat(12_345);
    chat.write("see: ");
    paste(&mut chat, &long);
    assert_eq!(chat.draft(), "see: [pasted 12,345 characters]");
    chat.press(KeyCode::Enter);
    assert_eq!(chat.sent(), [[format!("see: {long}")]]);
}

#[test]
fn backspace_after_a_fold_takes_it_whole() {
    let mut chat = Chat::ready();
    chat.write("a");
    paste(&mut chat, &"x".repeat(2000));
    chat.press(KeyCode::Backspace);
    assert_eq!(chat.draft(), "a");
    chat.press(KeyCode::Backspace);
    assert_eq!(chat.draft(), "");
}

#[test]
fn a_fold_is_one_unit_to_every_key_and_never_loses_its_text() {
    let mut chat = Chat::ready();
    let long = "x".repeat(1200);
    chat.write("a ");
    paste(&mut chat, &long);
    chat.write(" b");
    // Over it and into it: there is no place within.
    for _ in 0..3 {
        chat.press(KeyCode::Left);
    }
    chat.write("c");
    assert_eq!(chat.draft(), "a c[pasted 1,200 characters] b");
    chat.press(KeyCode::Delete);
    assert_eq!(chat.draft(), "a c b");
    chat.alt('u');
    assert_eq!(chat.draft(), "a c[pasted 1,200 characters] b");
    chat.press(KeyCode::End).ctrl('w').ctrl('w');
    assert_eq!(chat.draft(), "a c");
    chat.alt('u').alt('u');
    chat.press(KeyCode::Enter);
    assert_eq!(chat.sent(), [[format!("a c{long} b")]]);
    chat.answer("ok").press(KeyCode::Up);
    assert_eq!(chat.draft(), "a c[pasted 1,200 characters] b");
}

#[test]
fn a_folded_text_is_what_a_command_gets() {
    let mut chat = Chat::ready();
    chat.write("/system ");
    paste(&mut chat, &"x".repeat(1200));
    chat.press(KeyCode::Enter);
    assert_eq!(chat.app.setup.instructions, Some("x".repeat(1200)));
}

#[test]
fn a_character_of_the_last_private_plane_is_itself() {
    let mut chat = Chat::ready();
    paste(&mut chat, "a\u{100000}b");
    chat.write("\u{100001}").press(KeyCode::Enter);
    assert_eq!(chat.sent(), [["a\u{100000}b\u{100001}"]]);
}

#[test]
fn a_message_with_a_file_returns_as_it_was_typed() {
    let mut chat = Chat::ready();
    chat.say("/read a.md").send(Msg::FileRead {
        path: "a.md".into(),
        result: Ok("text".to_owned()),
    });
    chat.say("explain").fail("no");
    assert_eq!(chat.draft(), "[file a.md, 4 characters]\nexplain");
    chat.press(KeyCode::Enter)
        .answer("ok")
        .alt('e')
        .press(KeyCode::Enter);
    assert_eq!(chat.draft(), "[file a.md, 4 characters]\nexplain");
}

#[test]
fn two_pastes_of_one_length_are_told_apart() {
    let mut chat = Chat::ready();
    paste(&mut chat, &"x".repeat(2000));
    paste(&mut chat, &"y".repeat(2000));
    paste(&mut chat, &"x".repeat(2000));
    assert_eq!(
        chat.draft(),
        "[pasted 2,000 characters][pasted 2,000 characters, 2][pasted 2,000 characters]"
    );
    chat.press(KeyCode::Enter);
    let (x, y) = ("x".repeat(2000), "y".repeat(2000));
    assert_eq!(chat.sent(), [[format!("{x}{y}{x}")]]);
}

#[test]
fn brackets_that_are_no_fold_are_sent_as_they_are() {
    let mut chat = Chat::ready();
    chat.say("a [b] [pasted 5 characters] é[");
    assert_eq!(chat.sent(), [["a [b] [pasted 5 characters] é["]]);
}

#[test]
fn control_characters_of_a_paste_are_left_out() {
    let mut chat = Chat::ready();
    paste(&mut chat, "a\u{1b}[31mb\r\nc");
    assert_eq!(chat.draft(), "ab\nc");
}

#[test]
fn up_in_the_first_line_recalls_what_was_sent_and_down_returns() {
    let mut chat = Chat::ready();
    chat.exchange("one", "1").exchange("two", "2").write("dr");
    chat.press(KeyCode::Up);
    assert_eq!(chat.draft(), "two");
    chat.press(KeyCode::Up).press(KeyCode::Up);
    assert_eq!(chat.draft(), "one");
    chat.press(KeyCode::Down).press(KeyCode::Down);
    assert_eq!(chat.draft(), "dr");
    chat.press(KeyCode::Down);
    assert_eq!(chat.draft(), "dr");
}

#[test]
fn up_moves_within_a_draft_of_several_lines_first() {
    let mut chat = Chat::ready();
    chat.exchange("one", "1").write("a").ctrl('j').write("b");
    chat.press(KeyCode::Up);
    assert_eq!(chat.draft(), "a\nb");
    chat.press(KeyCode::Up);
    assert_eq!(chat.draft(), "one");
}

#[test]
fn words_and_lines_are_deleted_and_undone() {
    let mut chat = Chat::ready();
    chat.write("one two three").ctrl('w');
    assert_eq!(chat.draft(), "one two ");
    chat.ctrl('u');
    assert_eq!(chat.draft(), "");
    chat.ctrl('7').alt('u').alt('r');
    assert_eq!(chat.draft(), "one two ");
    chat.ctrl('a').alt('f').ctrl('k');
    assert_eq!(chat.draft(), "one");
}

#[test]
fn the_editor_gets_the_draft_unfolded_and_gives_it_back() {
    let mut chat = Chat::ready();
    let long = "x".repeat(2000);
    paste(&mut chat, &long);
    chat.ctrl('g');
    assert!(matches!(&chat.take()[..], [Effect::Edit(text)] if *text == long));
    chat.send(Msg::Edited(Ok("new\n".to_owned())));
    assert_eq!(chat.draft(), "new");
}

#[test]
fn a_failing_editor_leaves_the_draft() {
    let mut chat = Chat::ready();
    chat.write("old")
        .send(Msg::Edited(Err("no $EDITOR".to_owned())));
    assert_eq!(chat.draft(), "old");
    assert_eq!(chat.note(), "no $EDITOR");
}

#[test]
fn a_file_is_attached_folded_and_fenced() {
    let mut chat = Chat::ready();
    chat.say("/read a.md");
    assert!(matches!(&chat.take()[..], [Effect::ReadFile(path)] if path.to_str() == Some("a.md")));
    chat.send(Msg::FileRead {
        path: "a.md".into(),
        result: Ok("```\ncode\n```\n".to_owned()),
    });
    assert_eq!(chat.draft(), "[file a.md, 13 characters]\n");
    chat.say("explain");
    assert_eq!(
        chat.sent(),
        [["`a.md`:\n````\n```\ncode\n```\n````\n\nexplain"]]
    );
}

#[test]
fn nothing_but_space_is_not_sent() {
    let mut chat = Chat::ready();
    chat.say("  ");
    assert_eq!(chat.sent(), [[""; 0]; 0]);
}
