use crossterm::event::KeyCode;

use super::support::Chat;
use crate::session::Event;
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
