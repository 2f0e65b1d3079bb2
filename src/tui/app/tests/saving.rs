use super::support::{Chat, stats};
use crate::session::{Finish, Message};
use crate::settings::Settings;
use crate::tui::event::{Effect, Msg};

fn thinking(text: &str) -> Message {
    Message::assistant("analysis", text)
}

/// A question that is being answered, saved so far.
fn answering() -> Chat {
    let mut chat = Chat::ready();
    chat.say("hi").take();
    chat
}

#[test]
fn what_is_made_is_saved_every_two_seconds_and_only_what_is_new() {
    let mut chat = answering();
    chat.stream("final", &["One", " two"]).wait(0).wait(1900);
    assert_eq!(chat.saved(), [""; 0]);
    chat.wait(100);
    assert_eq!(chat.saved(), [r#"1 after 0: final "One two""#]);
    // Nothing new.
    chat.wait(5000);
    assert_eq!(chat.saved(), [""; 0]);
    chat.event(crate::session::Event::Text(" three".to_owned()));
    chat.wait(100).wait(2000);
    assert_eq!(chat.saved(), [r#"1 after 0: more " three""#]);
    let message = Message::assistant("final", "One two three");
    chat.end(message.clone())
        .finish(vec![message], Finish::Stop, stats(1, 0, 3));
    assert_eq!(chat.saved(), ["1 after 0: turn 1"]);
}

#[test]
fn what_was_thought_is_saved_when_the_answer_begins() {
    let mut chat = answering();
    chat.stream("analysis", &["Hm"]).wait(0).wait(2000);
    assert_eq!(chat.saved(), [r#"1 after 0: analysis "Hm""#]);
    chat.event(crate::session::Event::Text("!".to_owned()));
    chat.end(thinking("Hm!")).stream("final", &["Yes"]);
    assert_eq!(chat.saved(), [r#"1 after 0: more "!""#]);
    chat.wait(0).wait(2000);
    assert_eq!(chat.saved(), [r#"1 after 0: final "Yes""#]);
}

fn unsaved() -> Chat {
    let settings = Settings {
        model: "tiny".to_owned(),
        save: false,
        ..Settings::default()
    };
    let mut chat = Chat::loading_with(settings, None, (80, 24));
    chat.model_is_ready();
    chat
}

#[test]
fn save_saves_all_of_a_conversation_that_was_not_being_saved_and_what_follows() {
    let mut chat = unsaved();
    chat.exchange("hi", "hello").say("more");
    chat.stream("analysis", &["Hm"]).wait(0).wait(5000);
    assert_eq!(chat.saved(), [""; 0]);
    chat.say("/save Talk");
    let effects = chat.take();
    assert!(
        matches!(&effects[..], [Effect::SaveAll(_), Effect::Save(_)]),
        "{effects:?}"
    );
    chat.effects = effects;
    assert_eq!(
        chat.saved(),
        [
            "setup None medium tiny",
            "0 after -: user hi",
            "1 after 0: turn 1",
            "2 after 1: user more",
            "head 2",
            "title Talk",
            r#"3 after 2: analysis "Hm""#,
        ]
    );
    chat.finish(vec![thinking("Hm")], Finish::Cancelled, stats(1, 0, 1));
    assert_eq!(chat.saved(), ["3 after 2: turn 1"]);
}

#[test]
fn save_before_anything_was_said_saves_from_the_first_message_on() {
    let mut chat = unsaved();
    chat.say("/save");
    assert_eq!(chat.saved(), [""; 0]);
    assert_eq!(
        chat.note(),
        "the conversation is saved from its first message on"
    );
    chat.say("hi");
    assert_eq!(
        chat.saved(),
        ["setup None medium tiny", "0 after -: user hi"]
    );
}

#[test]
fn a_session_whose_file_is_gone_is_saved_again_with_what_is_being_made() {
    let mut chat = answering();
    chat.stream("final", &["One"]).wait(0).wait(2000).take();
    chat.event(crate::session::Event::Text(" two".to_owned()));
    chat.send(Msg::Lost("it was deleted".to_owned()));
    assert_eq!(
        chat.saved(),
        [
            "setup None medium tiny",
            "0 after -: user hi",
            "head 0",
            r#"1 after 0: final "One two""#,
        ]
    );
}

#[test]
fn an_export_says_what_it_is_of() {
    let mut chat = Chat::ready();
    chat.app.today = Some("2025-06-28".to_owned());
    chat.exchange("Why?", "Because.").take();
    chat.say("/export talk.md");
    let effects = chat.take();
    let [Effect::Export { content, .. }] = &effects[..] else {
        panic!("{effects:?}")
    };
    insta::assert_snapshot!(content, @r"
    # Why?

    - Date: 2025-06-28
    - Model: tiny
    - Device: cpu
    - Reasoning: medium
    - Sampling: temperature 1, top-k 0, top-p 1, min-p 0, repetition-penalty 1, seed off

    ## You

    Why?

    ## gpt-oss

    Because.
    ");
}
