use crossterm::event::KeyCode;

use super::support::{Chat, stats};
use crate::session::{Finish, Message};
use crate::tui::app::{Mode, Phase};
use crate::tui::event::{Effect, WorkerEvent};

fn cancels(chat: &mut Chat) -> usize {
    let effects = chat.take();
    effects
        .iter()
        .filter(|effect| matches!(effect, Effect::Cancel(_)))
        .count()
}

#[test]
fn esc_while_streaming_asks_the_worker_to_stop() {
    let mut chat = Chat::ready();
    chat.say("hi").stream("final", &["par"]).press(KeyCode::Esc);
    assert_eq!(chat.app.phase, Phase::Stopping);
    assert_eq!(cancels(&mut chat), 1);
    let message = Message::assistant("final", "par");
    chat.end(message.clone())
        .finish(vec![message], Finish::Cancelled, stats(1, 0, 1));
    assert_eq!(chat.lines(), ["› hi", "par", "· stopped"]);
    assert_eq!(chat.said(), ["hi", "par"]);
}

#[test]
fn esc_while_loading_asks_the_worker_to_stop_and_another_model_can_be_loaded() {
    let mut chat = Chat::loading();
    chat.take();
    let fetching = || WorkerEvent::Loading {
        what: "fetching model.safetensors".to_owned(),
        done: 1,
        total: 2,
    };
    chat.worker(fetching()).press(KeyCode::Esc);
    assert_eq!(chat.app.phase, Phase::Stopping);
    assert_eq!(cancels(&mut chat), 1);
    // What was on its way does not change that.
    chat.worker(fetching()).press(KeyCode::Esc);
    assert_eq!(chat.app.phase, Phase::Stopping);
    assert_eq!(cancels(&mut chat), 0);
    chat.worker(WorkerEvent::LoadFailed {
        message: "the download was stopped".to_owned(),
        hint: None,
    });
    assert!(matches!(chat.app.phase, Phase::Failed { .. }));
    chat.say("/model tiny");
    assert!(matches!(chat.app.phase, Phase::Loading { .. }));
    chat.model_is_ready();
    assert_eq!(chat.app.phase, Phase::Idle);
}

#[test]
fn ctrl_c_while_loading_stops_and_again_quits() {
    let mut chat = Chat::loading();
    chat.take();
    chat.ctrl('c');
    assert_eq!(chat.app.phase, Phase::Stopping);
    assert_eq!(cancels(&mut chat), 1);
    chat.ctrl('c');
    assert_eq!(chat.quits(), Some(130));
}

#[test]
fn tokens_that_come_while_stopping_are_still_shown() {
    let mut chat = Chat::ready();
    chat.say("hi").stream("final", &["a"]).press(KeyCode::Esc);
    chat.stream("final", &["b"]);
    assert_eq!(chat.app.phase, Phase::Stopping);
    assert_eq!(chat.lines(), ["› hi", "a", "b"]);
}

#[test]
fn a_stop_in_prefill_keeps_the_message() {
    let mut chat = Chat::ready();
    chat.say("hi")
        .press(KeyCode::Esc)
        .finish(Vec::new(), Finish::Cancelled, stats(0, 0, 0));
    let lines = chat.lines().join(" ");
    assert!(
        lines.contains("stopped before the answer began; Ctrl-R"),
        "{lines}"
    );
    assert_eq!(chat.said(), ["hi"]);
    chat.take();
    chat.ctrl('r');
    assert_eq!(chat.sent(), [["hi"]]);
}

#[test]
fn a_stop_while_thinking_says_so() {
    let mut chat = Chat::ready();
    let message = Message::assistant("analysis", "hm");
    chat.say("hi")
        .stream("analysis", &["hm"])
        .press(KeyCode::Esc);
    chat.end(message.clone())
        .finish(vec![message], Finish::Cancelled, stats(1, 0, 1));
    let lines = chat.lines();
    assert_eq!(
        lines.last().unwrap(),
        "· stopped while thinking, before an answer"
    );
}

#[test]
fn the_second_ctrl_c_quits_a_turn_that_does_not_stop() {
    let mut chat = Chat::ready();
    chat.say("hi").ctrl('c');
    assert_eq!(chat.app.phase, Phase::Stopping);
    assert_eq!(chat.quits(), None);
    chat.ctrl('c');
    assert_eq!(chat.quits(), Some(130));
}

#[test]
fn the_second_ctrl_c_quits_where_the_first_stopped_at_once() {
    let mut chat = Chat::ready();
    let message = Message::assistant("final", "Well");
    chat.say("hi").stream("final", &["Well"]).ctrl('c');
    chat.end(message.clone())
        .finish(vec![message], Finish::Cancelled, stats(1, 0, 1));
    assert_eq!(chat.quits(), None);
    chat.ctrl('c');
    assert_eq!(chat.quits(), Some(0));
}

#[test]
fn ctrl_c_clears_the_draft_and_undo_brings_it_back() {
    let mut chat = Chat::ready();
    chat.write("half").ctrl('c');
    assert_eq!(chat.draft(), "");
    assert_eq!(chat.quits(), None);
    chat.ctrl('7');
    assert_eq!(chat.draft(), "half");
}

#[test]
fn ctrl_c_twice_on_an_empty_draft_quits() {
    let mut chat = Chat::ready();
    chat.ctrl('c');
    assert_eq!(chat.note(), "Ctrl-C again quits");
    chat.wait(0).wait(1900).ctrl('c');
    assert_eq!(chat.quits(), Some(0));
}

#[test]
fn the_offer_to_quit_ends_after_two_seconds_or_another_key() {
    let mut chat = Chat::ready();
    chat.ctrl('c').wait(0).wait(2000).ctrl('c');
    assert_eq!(chat.quits(), None);
    chat.press(KeyCode::Left).ctrl('c');
    assert_eq!(chat.quits(), None);
}

#[test]
fn ctrl_d_quits_where_nothing_is_typed_and_deletes_elsewhere() {
    let mut chat = Chat::ready();
    chat.write("ab").press(KeyCode::Home).ctrl('d');
    assert_eq!(chat.draft(), "b");
    chat.press(KeyCode::Delete).ctrl('d');
    assert_eq!(chat.quits(), Some(0));
}

#[test]
fn quitting_while_busy_cancels_first() {
    let mut chat = Chat::ready();
    chat.say("hi").take();
    chat.say("/quit");
    let effects = chat.take();
    assert!(
        matches!(effects[..], [Effect::Cancel(_), Effect::Quit(0)]),
        "{effects:?}"
    );
}

#[test]
fn enter_while_busy_keeps_the_draft() {
    let mut chat = Chat::ready();
    chat.say("one").say("two");
    assert_eq!(chat.draft(), "two");
    assert_eq!(chat.sent(), [["one"]]);
}

#[test]
fn esc_closes_a_popup_before_it_stops_anything() {
    let mut chat = Chat::ready();
    chat.say("hi").press(KeyCode::F(1)).press(KeyCode::Esc);
    assert!(matches!(chat.app.mode, Mode::Draft));
    assert_eq!(cancels(&mut chat), 0);
    chat.write("/he").press(KeyCode::Esc);
    assert!(chat.app.completion.is_none());
    assert_eq!(cancels(&mut chat), 0);
    chat.press(KeyCode::Esc);
    assert_eq!(cancels(&mut chat), 1);
}

#[test]
fn a_question_mark_opens_the_help_only_where_nothing_is_typed() {
    let mut chat = Chat::ready();
    chat.write("?");
    assert!(matches!(chat.app.mode, Mode::Help { .. }));
    chat.press(KeyCode::Esc).write("really?");
    assert_eq!(chat.draft(), "really?");
}

#[test]
fn the_help_scrolls_no_further_than_its_end() {
    let mut chat = Chat::ready();
    chat.press(KeyCode::F(1));
    for _ in 0..50 {
        chat.press(KeyCode::PageDown);
    }
    let Mode::Help { scroll } = chat.app.mode else {
        panic!("help is open")
    };
    let (lines, room) = crate::tui::view::help::extent(&chat.app.theme, (80, 24));
    assert_eq!(scroll, lines - room);
}

#[test]
fn repaint_and_suspend_are_asked_for() {
    let mut chat = Chat::ready();
    chat.ctrl('l').ctrl('z');
    assert!(matches!(
        chat.take()[..],
        [Effect::Repaint, Effect::Suspend]
    ));
}
