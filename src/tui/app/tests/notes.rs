use crossterm::event::KeyCode;

use ratatui::style::Modifier;

use super::support::{Chat, model, stats};
use crate::session::{Event, Finish, Message};
use crate::tui::event::{Effect, ModelInfo, Msg, WorkerEvent};

fn read(chat: &mut Chat, path: &str, result: Result<&str, &str>) {
    chat.send(Msg::FileRead {
        path: path.into(),
        result: result.map(str::to_owned).map_err(str::to_owned),
    });
}

#[test]
fn what_went_well_is_said_until_the_next_key_or_for_some_seconds() {
    let mut chat = Chat::ready();
    chat.ctrl('t');
    assert_eq!(chat.note(), "thinking is shown");
    // A key that does nothing is no answer.
    chat.press(KeyCode::F(9));
    assert_eq!(chat.note(), "thinking is shown");
    chat.write("h");
    assert_eq!(chat.note(), "");
    chat.ctrl('t').wait(0).wait(3999);
    assert_eq!(chat.note(), "thinking is folded");
    chat.wait(1);
    assert_eq!(chat.note(), "");
}

#[test]
fn what_went_wrong_is_said_until_a_key_comes() {
    let mut chat = Chat::ready();
    chat.say("/top-k x").wait(0).wait(3_600_000);
    assert_eq!(
        chat.note(),
        "`x` is not understood, expected 0 (keeps all) or more"
    );
    assert!(!chat.app.is_animated(), "nothing about it changes");
    chat.press(KeyCode::Backspace);
    assert_eq!(chat.note(), "");
    assert_eq!(chat.draft(), "/top-k ");
}

#[test]
fn what_answers_no_key_is_not_taken_away_by_the_next_letter() {
    let mut chat = Chat::ready();
    chat.write("a")
        .send(Msg::Problem("memory is short".to_owned()));
    chat.write("b").wait(0).write("c").wait(1400).write("d");
    assert_eq!(chat.note(), "memory is short");
    chat.wait(200).write("e");
    assert_eq!(chat.note(), "");
    assert_eq!(chat.draft(), "abcde");
}

#[test]
fn a_warning_of_the_turn_ends_with_it() {
    let mut chat = Chat::ready();
    chat.say("hi").say("more");
    assert_eq!(chat.note(), "the answer is still coming: Esc stops it");
    chat.ctrl('r');
    assert_eq!(chat.note(), "the answer is still coming: Esc stops it");
    chat.answer("hello");
    assert_eq!(chat.note(), "");
}

#[test]
fn an_error_of_a_command_is_no_part_of_the_conversation() {
    let mut chat = Chat::ready();
    chat.exchange("hi", "hello");
    chat.say("/read no.txt");
    read(&mut chat, "no.txt", Err("there is none"));
    assert_eq!(chat.note(), "not attached: there is none (`no.txt`)");
    chat.send(Msg::Problem("`a.md` is there already".to_owned()));
    chat.send(Msg::Edited(Err("`vi` ended with 1".to_owned())));
    assert_eq!(chat.lines(), ["› hi", "hello"]);
}

#[test]
fn a_turn_that_fails_again_and_again_leaves_one_error() {
    let mut chat = Chat::ready();
    for _ in 0..3 {
        chat.say("hi").fail("boom").ctrl('u');
    }
    assert_eq!(chat.lines(), ["✗ the turn failed: boom"]);
    chat.exchange("hi", "hello");
    assert_eq!(chat.lines(), ["› hi", "hello"]);
}

#[test]
fn a_load_that_fails_again_and_again_leaves_one_error() {
    let mut chat = Chat::loading();
    for _ in 0..3 {
        chat.worker(WorkerEvent::LoadFailed {
            message: "no".to_owned(),
            hint: None,
        });
        chat.write("r");
    }
    assert_eq!(chat.lines(), [""; 0]);
}

#[test]
fn a_file_name_may_be_in_quotes_or_have_spaces() {
    for (typed, path) in [
        ("/read x y.txt", "x y.txt"),
        ("/read \"x y.txt\"", "x y.txt"),
        ("/read 'x y.txt'", "x y.txt"),
        ("/read ~/x\\ y.txt", "~/x y.txt"),
        ("/read it's.txt", "it's.txt"),
    ] {
        let mut chat = Chat::ready();
        chat.say(typed);
        let effects = chat.take();
        assert!(
            matches!(&effects[..], [Effect::ReadFile(file)] if file.as_os_str() == path),
            "{typed}: {effects:?}"
        );
    }
}

#[test]
fn a_file_is_measured_against_what_is_left_of_the_context() {
    let mut chat = Chat::ready();
    let message = Message::assistant("final", "x");
    chat.say("hi").stream("final", &["x"]).end(message.clone());
    chat.finish(vec![message], Finish::Stop, stats(490, 0, 10));
    read(&mut chat, "a.txt", Ok(&"word ".repeat(80)));
    assert_eq!(
        chat.note(),
        "attached, about 100 tokens; write what you want to know of it"
    );
    read(&mut chat, "b.txt", Ok(&"word ".repeat(400)));
    assert_eq!(
        chat.note(),
        "attached, but the message is too long: about 610 tokens, and 500 of the context's 1,000 are left: `/new` starts afresh, \
         `--context` makes room for up to 131,072 tokens"
    );
    read(&mut chat, "c.txt", Ok(&"word ".repeat(400_000)));
    let note = chat.note();
    assert!(
        note.starts_with("attached, but the message is too long: about 500,"),
        "{note}"
    );
    assert!(note.ends_with("are left: attach less of it"), "{note}");
}

#[test]
fn more_context_is_proposed_only_where_the_model_has_it() {
    for (most, is_proposed) in [(1000, false), (131_072, true)] {
        let mut chat = Chat::loading();
        chat.worker(WorkerEvent::Ready(ModelInfo {
            most,
            ..model(1000)
        }));
        chat.say("hi")
            .fail("the prompt has 2000 tokens and the context holds 1000");
        let lines = chat.lines().join(" ");
        assert!(lines.contains("`/new` starts afresh"), "{lines}");
        assert_eq!(lines.contains("--context"), is_proposed, "{lines}");
    }
}

#[test]
fn a_title_is_one_line() {
    let mut chat = Chat::ready();
    chat.exchange("hi", "hello").take();
    chat.write("/rename Trip").ctrl('j').write("to  Oslo");
    chat.press(KeyCode::Enter);
    assert_eq!(chat.app.title.as_deref(), Some("Trip to Oslo"));
    let effects = chat.take();
    assert!(
        matches!(&effects[..], [Effect::RenameSession { id: None, title }] if title == "Trip to Oslo"),
        "{effects:?}"
    );
}

#[test]
fn thinking_of_a_moment_is_not_timed() {
    let mut chat = Chat::ready();
    chat.say("hi").wait(0);
    chat.stream("analysis", &["one two ", "three"]);
    chat.wait(90)
        .end(Message::assistant("analysis", "one two three"));
    chat.stream("final", &["yes"]);
    let lines = ["› hi", "thought, 3 words  (Ctrl-T)", "yes"];
    assert_eq!(chat.lines(), lines);
    let messages = [("analysis", "one two three"), ("final", "yes")];
    let messages = messages.map(|(channel, text)| Message::assistant(channel, text));
    chat.finish(messages.to_vec(), Finish::Stop, stats(1, 0, 4));
    chat.app.transcript.clear();
    chat.app.moved();
    chat.wait(0);
    assert_eq!(chat.lines(), lines, "as after reopening");
}

#[test]
fn thinking_is_markdown_behind_its_margin_however_it_comes() {
    const TEXT: &str = "**Plan**\n\n- one\n- two\n\n```sh\nls\n```\nand `so` on";
    let mut chat = Chat::ready();
    chat.say("hi")
        .event(Event::Start(Message::assistant("analysis", "")));
    for letter in TEXT.chars() {
        chat.event(Event::Text(letter.to_string()));
    }
    let streamed = chat.lines();
    let message = Message::assistant("analysis", TEXT);
    chat.end(message.clone())
        .finish(vec![message], Finish::Cancelled, stats(1, 0, 1))
        .ctrl('t');
    let lines = chat.lines();
    assert_eq!(lines[..streamed.len()], streamed);
    let text = lines.join("\n");
    assert!(text.contains("┊ thinking\n┊ Plan\n┊\n┊ • one"), "{text}");
    for (_, line) in chat.app.transcript.visible() {
        let Some(line) = line.filter(|line| line.to_string().starts_with('┊')) else {
            continue;
        };
        for span in &line.spans {
            let style = line.style.patch(span.style);
            assert!(style.add_modifier.contains(Modifier::DIM), "{span:?}");
        }
    }
    let at = |width| Msg::Resize { width, height: 24 };
    chat.send(at(30)).send(at(80));
    assert_eq!(chat.lines(), lines);
}

#[test]
fn the_mouse_is_taken_and_left_while_the_chat_runs() {
    let mut chat = Chat::ready();
    chat.say("/mouse off");
    assert!(chat.note().contains("mouse off"), "{}", chat.note());
    assert!(matches!(&chat.take()[..], [Effect::Mouse(false)]));
    chat.say("/mouse on");
    assert!(matches!(&chat.take()[..], [Effect::Mouse(true)]));
    chat.send(Msg::Click);
    assert!(chat.note().contains("hold Shift"), "{}", chat.note());
}
