use std::time::Duration;

use crossterm::event::KeyCode;

use super::support::{Chat, summary};
use crate::session::{Finish, Message, Reasoning, Setup};
use crate::settings::Settings;
use crate::store::{Entry, Hit, Tree, TurnRecord};
use crate::tui::app::Mode;
use crate::tui::app::picker::{Picker, Question};
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

fn picker(chat: &Chat) -> &Picker {
    match &chat.app.mode {
        Mode::Sessions(picker) => picker,
        other => panic!("{other:?}"),
    }
}

/// What the list shows: ids, and what is said where the search was found.
fn found(chat: &Chat) -> Vec<(String, Option<String>)> {
    let found = picker(chat).found().into_iter();
    found
        .map(|found| (found.summary.id.clone(), found.excerpt.map(str::to_owned)))
        .collect()
}

fn opened() -> Opened {
    let mut tree = Tree::default();
    tree.push(Entry::User("old".to_owned()));
    Opened {
        title: Some("Talk".to_owned()),
        begun: Some("2025-06-28".to_owned()),
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
    let asked = chat.take();
    assert!(
        matches!(&asked[..], [.., Effect::Search(search), Effect::OpenSession(id)]
            if search == "rus" && id == "b"),
        "{asked:?}"
    );
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
    assert_eq!(picker(&chat).problem.as_deref(), Some("line 3 is damaged"));
    assert_eq!(chat.lines(), [""; 0]);
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
    chat.press(KeyCode::F(2)).say("Pets");
    let effects = chat.take();
    assert!(
        matches!(&effects[..], [Effect::RenameSession { id: Some(id), title }]
            if id == "a" && title == "Pets"),
        "{effects:?}"
    );
}

/// The title after these keys.
fn edited(keys: &[KeyCode], text: &str) -> String {
    let mut chat = listing();
    chat.press(KeyCode::F(2));
    for key in keys {
        chat.press(*key);
    }
    chat.write(text);
    match &picker(&chat).question {
        Some(Question::Rename { title, .. }) => title.text().to_owned(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_old_title_is_selected_and_edited_after_a_motion() {
    assert_eq!(edited(&[], ""), "Cats and dogs");
    assert_eq!(edited(&[], "Pets"), "Pets");
    assert_eq!(edited(&[KeyCode::Backspace], ""), "");
    assert_eq!(edited(&[KeyCode::End], "!"), "Cats and dogs!");
    assert_eq!(edited(&[KeyCode::Right], "!"), "Cats and dogs!");
    assert_eq!(edited(&[KeyCode::Home], "My "), "My Cats and dogs");
    assert_eq!(
        edited(&[KeyCode::Left, KeyCode::Delete], "B"),
        "Bats and dogs"
    );
    // A title that stays is not written again.
    let mut chat = listing();
    chat.press(KeyCode::F(2)).press(KeyCode::Enter);
    assert!(chat.take().is_empty());
}

#[test]
fn messages_are_searched_too_and_the_choice_stays() {
    let mut chat = listing();
    chat.write("RUS");
    let searches: Vec<_> = chat.take();
    assert!(
        matches!(&searches[..], [Effect::Search(a), Effect::Search(b), Effect::Search(c)]
            if a == "R" && b == "RU" && c == "RUS"),
        "{searches:?}"
    );
    let named = ("b".to_owned(), None);
    assert_eq!(found(&chat), std::slice::from_ref(&named));
    let hit = |id: &str, excerpt: Option<&str>| Hit {
        id: id.to_owned(),
        excerpt: excerpt.map(str::to_owned),
        has_phrase: true,
    };
    let answer = |search: &str, hits| Msg::Hits {
        search: search.to_owned(),
        result: Ok(hits),
    };
    // Of an earlier letter.
    chat.send(answer("RU", vec![hit("c", Some("truck"))]));
    assert_eq!(found(&chat), std::slice::from_ref(&named));
    let hits = vec![hit("a", Some("my Rusty cat")), hit("b", None)];
    chat.send(answer("RUS", hits));
    let said = ("a".to_owned(), Some("my Rusty cat".to_owned()));
    assert_eq!(found(&chat), [said, named]);
    assert_eq!(picker(&chat).chosen().unwrap().id, "b");
}

#[test]
fn what_was_typed_as_it_stands_comes_first() {
    let mut chat = listing();
    chat.write("rust cat");
    let hit = |id: &str, has_phrase| Hit {
        id: id.to_owned(),
        excerpt: Some("…".to_owned()),
        has_phrase,
    };
    chat.send(Msg::Hits {
        search: "rust cat".to_owned(),
        result: Ok(vec![hit("a", false), hit("b", false), hit("c", true)]),
    });
    let ids: Vec<_> = found(&chat).into_iter().map(|(id, _)| id).collect();
    assert_eq!(ids, ["c", "a", "b"]);
}

#[test]
fn a_conversation_without_messages_is_named_with_its_first() {
    let mut chat = Chat::ready();
    chat.say("/rename Talk");
    assert_eq!(chat.note(), "the conversation will be called `Talk`");
    assert!(chat.take().is_empty(), "there is nothing to save yet");
    chat.say("hi");
    assert_eq!(
        chat.saved(),
        ["setup None medium tiny", "0 after -: user hi", "title Talk"]
    );
}

#[test]
fn a_session_that_was_cut_off_has_one_notice() {
    let mut tree = Tree::default();
    tree.push(Entry::User("hi".to_owned()));
    tree.push(Entry::Turn(TurnRecord {
        messages: vec![Message::assistant("final", "hel")],
        finish: Finish::Cancelled,
        prompt_tokens: 1,
        cached_tokens: 0,
        generated_tokens: 1,
        prefill: Duration::ZERO,
        time_to_first_token: None,
        decode: Duration::ZERO,
        seed: 1,
    }));
    let opened = Opened {
        title: None,
        begun: None,
        tree,
        setup: Setup::default(),
        warning: Some("the program was ended while it answered".to_owned()),
    };
    let mut chat = Chat::loading_with(Settings::default(), Some(opened), (80, 24));
    // It is there as long as it takes to be read.
    chat.model_is_ready();
    assert_eq!(
        chat.lines(),
        [
            "› hi",
            "hel",
            "✗ the program was ended while it answered",
            "· opened the session: the next turn reads its 2 messages once"
        ]
    );
}

#[test]
fn a_search_in_vain_says_what_was_searched() {
    let mut chat = listing();
    chat.write("zebra");
    assert_eq!(picker(&chat).emptiness(), "searching the messages");
    let search = "zebra".to_owned();
    let result = Ok(Vec::new());
    chat.send(Msg::Hits { search, result });
    assert_eq!(
        picker(&chat).emptiness(),
        "no title and no message has `zebra` (3 sessions searched, thinking left out)"
    );
}

#[test]
fn what_is_refused_is_said_in_the_list_until_the_next_key() {
    for refusal in [
        Msg::Refused("it is open\nelsewhere".to_owned()),
        Msg::Opened(Box::new(Err("it is open elsewhere".to_owned()))),
        Msg::Sessions(Err("it is open elsewhere".to_owned())),
    ] {
        let mut chat = listing();
        chat.send(refusal);
        let problem = picker(&chat).problem.as_deref();
        assert_eq!(problem, Some("it is open elsewhere"));
        assert_eq!(chat.lines(), [""; 0]);
        chat.press(KeyCode::Down);
        assert_eq!(picker(&chat).problem, None);
    }
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
