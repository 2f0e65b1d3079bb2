use crossterm::event::KeyCode;

use super::support::{Chat, summary};
use crate::session::{Reasoning, Setup};
use crate::store::{Entry, Tree};
use crate::tui::app::Mode;
use crate::tui::event::{Effect, Msg, Opened};

fn listing() -> Chat {
    let mut chat = Chat::ready();
    chat.ctrl('o');
    assert!(matches!(&chat.take()[..], [Effect::ListSessions]));
    chat.send(Msg::Sessions(Ok(vec![
        summary("a", "Cats and dogs", None),
        summary("b", "Rust", None),
        summary("c", "Broken", Some("line 3 is damaged")),
    ])));
    chat
}

fn opened() -> Opened {
    let mut tree = Tree::default();
    tree.push(Entry::User("old".to_owned()));
    Opened {
        title: Some("Talk".to_owned()),
        tree,
        setup: Setup {
            reasoning: Reasoning::Low,
            ..Setup::default()
        },
        warning: Some("the last line was torn".to_owned()),
    }
}

#[test]
fn a_session_is_found_by_typing_and_opened_with_enter() {
    let mut chat = listing();
    chat.write("rus").press(KeyCode::Enter);
    assert!(matches!(&chat.take()[..], [Effect::OpenSession(id)] if id == "b"));
    chat.send(Msg::Opened(Box::new(Ok(opened()))));
    assert!(matches!(chat.app.mode, Mode::Draft));
    assert_eq!(chat.said(), ["old"]);
    assert_eq!(chat.app.setup.reasoning, Reasoning::Low);
    let lines = chat.lines();
    assert_eq!(
        lines,
        [
            "› old",
            "✗ the last line was torn",
            "· opened Talk: the next turn reads its 1 message once"
        ]
    );
    chat.press(KeyCode::Up);
    assert_eq!(chat.draft(), "old");
}

#[test]
fn a_session_that_cannot_be_read_says_why() {
    let mut chat = listing();
    chat.press(KeyCode::Down)
        .press(KeyCode::Down)
        .press(KeyCode::Down);
    chat.press(KeyCode::Enter);
    assert!(chat.take().is_empty());
    assert_eq!(chat.note(), "line 3 is damaged");
}

#[test]
fn a_session_is_deleted_only_after_a_yes() {
    let mut chat = listing();
    chat.press(KeyCode::Delete)
        .press(KeyCode::Enter)
        .write("x")
        .write("n");
    assert!(chat.take().is_empty());
    chat.ctrl('d').write("y");
    assert!(matches!(&chat.take()[..], [Effect::DeleteSession(id)] if id == "a"));
}

#[test]
fn a_session_is_renamed_in_the_list() {
    let mut chat = listing();
    chat.press(KeyCode::F(2)).ctrl('u').say("Pets");
    let effects = chat.take();
    assert!(
        matches!(&effects[..], [Effect::RenameSession { id: Some(id), title }]
            if id == "a" && title == "Pets"),
        "{effects:?}"
    );
}

#[test]
fn esc_leaves_the_question_the_search_and_the_list_in_turn() {
    let mut chat = listing();
    chat.write("c").press(KeyCode::Delete).press(KeyCode::Esc);
    assert!(matches!(&chat.app.mode, Mode::Sessions(picker) if picker.search.text() == "c"));
    chat.press(KeyCode::Esc);
    assert!(matches!(&chat.app.mode, Mode::Sessions(picker) if picker.search.text().is_empty()));
    chat.press(KeyCode::Esc);
    assert!(matches!(chat.app.mode, Mode::Draft));
}

#[test]
fn a_session_that_does_not_open_leaves_the_conversation() {
    let mut chat = Chat::ready();
    chat.exchange("hi", "hello");
    chat.send(Msg::Opened(Box::new(Err(
        "it is of a newer version".to_owned()
    ))));
    assert_eq!(chat.said(), ["hi", "hello"]);
    assert_eq!(chat.note(), "it is of a newer version");
}

#[test]
fn a_new_conversation_begins_another_file() {
    let mut chat = Chat::ready();
    chat.exchange("hi", "hello").say("/rename Talk").take();
    chat.say("/new");
    assert!(matches!(chat.take()[..], [Effect::NewSession]));
    assert_eq!(chat.app.title, None);
    chat.say("again");
    assert_eq!(
        chat.saved(),
        ["setup None medium tiny", "0 after -: user again"]
    );
}
