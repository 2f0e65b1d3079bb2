use crossterm::event::KeyCode;

use super::support::Chat;
use std::time::Duration;

use crate::session::{Event, Message};
use crate::tui::event::Msg;

/// An answer of many lines is under way.
fn long() -> Chat {
    let mut chat = Chat::ready();
    let lines: Vec<_> = (0..60).map(|n| format!("line {n}\n\n")).collect();
    let pieces: Vec<_> = lines.iter().map(String::as_str).collect();
    chat.say("hi").stream("final", &pieces);
    chat
}

#[test]
fn the_end_is_followed_until_the_user_scrolls_up() {
    let mut chat = long();
    assert_eq!(chat.lines().last().unwrap(), "line 59");
    chat.press(KeyCode::PageUp);
    let seen = chat.lines();
    assert_ne!(seen.last().unwrap(), "line 59");
    chat.event(Event::Text("line 60\n\nline 61\n\n".to_owned()));
    assert_eq!(chat.lines(), seen);
    assert_eq!(chat.app.transcript.unseen(), Some(4));
    chat.press(KeyCode::PageDown).press(KeyCode::PageDown);
    assert_eq!(chat.lines().last().unwrap(), "line 61");
    assert_eq!(chat.app.transcript.unseen(), None);
}

#[test]
fn thinking_is_folded_and_unfolded_while_it_is_made() {
    let mut chat = Chat::ready();
    chat.say("hi").stream("analysis", &["one ", "two"]);
    assert_eq!(chat.lines(), ["› hi", "┊ thinking", "┊ one two"]);
    chat.ctrl('t');
    assert_eq!(chat.lines(), ["› hi", "thinking  (Ctrl-T)"]);
    chat.event(Event::Text(" three".to_owned()));
    assert_eq!(chat.lines(), ["› hi", "thinking  (Ctrl-T)"]);
    chat.ctrl('t');
    assert_eq!(chat.lines(), ["› hi", "┊ thinking", "┊ one two three"]);
    chat.ctrl('t')
        .end(Message::assistant("analysis", "one two three"));
    assert_eq!(chat.lines(), ["› hi", "thought, 3 words  (Ctrl-T)"]);
}

#[test]
fn a_file_that_was_sent_is_folded_like_thinking() {
    let mut chat = Chat::ready();
    chat.send(Msg::FileRead {
        path: "a.md".into(),
        result: Ok("one\ntwo".to_owned()),
    });
    chat.say("Why?").answer("So.");
    assert_eq!(
        chat.lines(),
        ["› [file a.md, 7 characters]  (Ctrl-T)", "  Why?", "So."]
    );
    chat.ctrl('t');
    assert_eq!(
        chat.lines(),
        [
            "› `a.md`:",
            "  ```",
            "  one",
            "  two",
            "  ```",
            "  Why?",
            "So."
        ]
    );
    chat.ctrl('t');
    assert_eq!(chat.lines().len(), 3);
}

#[test]
fn time_in_which_the_program_was_stopped_is_no_time() {
    let mut chat = Chat::ready();
    chat.say("hi").wait(0).stream("analysis", &["a", "b"]);
    chat.wait(1000);
    chat.now += Duration::from_mins(1);
    chat.send(Msg::Stopped(Duration::from_mins(1)));
    chat.stream("analysis", &["c"]).wait(1000);
    let speed = chat.app.turn.as_ref().unwrap().speed.unwrap();
    assert!((0.9..1.1).contains(&speed), "{speed}");
}

#[test]
fn the_wheel_scrolls_by_lines_and_the_ends_have_keys() {
    let mut chat = long();
    chat.send(Msg::Scroll(-2));
    assert_eq!(chat.lines().last().unwrap(), "line 58");
    let key = |code| {
        Msg::Key(crossterm::event::KeyEvent::new(
            code,
            crossterm::event::KeyModifiers::CONTROL,
        ))
    };
    chat.send(key(KeyCode::Home));
    assert_eq!(chat.lines()[0], "› hi");
    chat.send(key(KeyCode::End));
    assert_eq!(chat.lines().last().unwrap(), "line 59");
}

#[test]
fn a_short_transcript_does_not_scroll() {
    let mut chat = Chat::ready();
    chat.exchange("hi", "hello").press(KeyCode::PageUp);
    assert_eq!(chat.lines(), ["› hi", "hello"]);
    assert_eq!(chat.app.transcript.unseen(), None);
}

#[test]
fn a_resize_there_and_back_shows_the_same_place() {
    let mut chat = long();
    chat.press(KeyCode::PageUp).press(KeyCode::PageUp);
    let before = chat.lines();
    for (width, height) in [(20, 5), (200, 60), (1, 1), (80, 24)] {
        chat.send(Msg::Resize { width, height });
    }
    assert_eq!(chat.lines(), before);
}

#[test]
fn a_line_without_end_grows_at_a_flat_cost() {
    let mut chat = Chat::ready();
    chat.say("hi").stream("analysis", &[]);
    for _ in 0..20_000 {
        chat.event(Event::Text("word ".to_owned()));
    }
    let cell = chat.app.transcript.cells().last().unwrap();
    let text: String = cell
        .lines()
        .iter()
        .skip(1)
        .map(|line| line.to_string().replacen("┊ ", "", 1) + " ")
        .collect();
    assert_eq!(text.split_whitespace().count(), 20_000);
    assert!(cell.lines().iter().all(|line| line.width() <= 80));
}
