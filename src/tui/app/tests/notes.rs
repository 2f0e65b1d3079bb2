use crossterm::event::KeyCode;

use ratatui::style::Modifier;

use super::support::{Chat, model, stats};
use crate::session::{Event, Finish, Message};
use crate::settings::Settings;
use crate::tui::event::{Command, Effect, ModelInfo, Msg, TooLong, TurnError, WorkerEvent};

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
    assert!(
        note.ends_with("are left: attach less of it; this model allows at most 131,072 tokens"),
        "{note}"
    );
}

#[test]
fn more_context_is_proposed_only_where_the_model_has_it() {
    for (most, is_proposed) in [(1000, false), (131_072, true)] {
        let lines = too_long(most, 20, 90, 2000);
        assert!(
            lines.contains("it has 2,000 tokens with this message"),
            "{lines}"
        );
        assert!(lines.contains("`/new` starts afresh"), "{lines}");
        assert_eq!(lines.contains("--context"), is_proposed, "{lines}");
    }
}

/// What is said where a message of so many tokens (`afresh` with what always stands before it) does not fit.
fn too_long(most: usize, message: usize, afresh: usize, prompt: usize) -> String {
    let mut chat = Chat::loading();
    chat.worker(WorkerEvent::Ready(ModelInfo {
        most,
        ..model(1000)
    }));
    chat.say("hi");
    let turn = chat.turn();
    chat.worker(WorkerEvent::Finished {
        turn,
        outcome: Err(TurnError {
            reason: "too long".to_owned(),
            too_long: Some(TooLong {
                message,
                afresh,
                prompt,
                context: 1000,
            }),
        }),
    });
    let lines = chat.lines().join(" ");
    lines.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn a_message_that_fits_no_context_gets_no_hint_that_cannot_help() {
    let said = "✗ the message is too long: it has 1,950 tokens, 2,000 with what stands before it, and the context holds 1,000: \
                shorten it";
    assert_eq!(
        too_long(131_072, 1950, 2000, 2500),
        format!("{said}, `--context` makes room for up to 131,072 tokens")
    );
    assert_eq!(
        too_long(1000, 1950, 2000, 2500),
        format!("{said}; this model allows at most 1,000 tokens")
    );
}

#[test]
fn what_the_model_counts_takes_the_place_of_the_estimate() {
    let mut chat = Chat::ready();
    read(&mut chat, "a.txt", Ok(&"word ".repeat(80)));
    assert!(chat.note().starts_with("attached, about 100 tokens"));
    let effects = chat.take();
    let [Effect::Send(Command::Count { id, texts })] = &effects[..] else {
        panic!("{effects:?}")
    };
    assert_eq!(texts[0], "word ".repeat(80));
    let counted = |tokens: [usize; 2]| WorkerEvent::Counted {
        id: *id,
        tokens: tokens.to_vec(),
    };
    chat.worker(counted([81, 95]));
    assert_eq!(
        chat.note(),
        "attached, 81 tokens; write what you want to know of it"
    );
    // Nobody waits for it any more.
    chat.wait(0).wait(1600).write("x");
    chat.worker(counted([81, 95]));
    assert_eq!(chat.note(), "");
}

#[test]
fn a_command_that_fails_stands_in_the_draft_again() {
    let mut chat = Chat::ready();
    chat.exchange("hi", "hello").say("/read no.txt");
    read(
        &mut chat,
        "no.txt",
        Err("No such file or directory (os error 2)"),
    );
    assert_eq!(chat.draft(), "/read no.txt");
    assert_eq!(
        chat.note(),
        "not attached: No such file or directory (`no.txt`)"
    );
    chat.ctrl('u').say("/export a.md");
    chat.send(Msg::Problem("`a.md` is there already".to_owned()));
    assert_eq!(chat.draft(), "/export a.md");
    // Where something is typed by then it stays.
    chat.ctrl('u').say("/read no.txt").write("x");
    read(&mut chat, "no.txt", Err("gone"));
    assert_eq!(chat.draft(), "x");
}

#[test]
fn an_error_goes_when_it_is_overtaken() {
    let mut chat = Chat::ready();
    chat.exchange("hi", "hello").say("more").fail("boom");
    assert!(chat.lines().iter().any(|line| line.contains("boom")));
    chat.ctrl('u').say("/undo");
    assert!(!chat.lines().iter().any(|line| line.contains("boom")));
    // A load that succeeds says so, and ends what was said of the one before.
    let failed = || WorkerEvent::LoadFailed {
        message: "no".to_owned(),
        hint: None,
    };
    chat.say("/model x").worker(failed());
    assert!(
        chat.note().starts_with("cannot load `x`: no"),
        "{}",
        chat.note()
    );
    chat.say("/model tiny").model_is_ready();
    assert_eq!(chat.note(), "`tiny` is loaded");
    let mut chat = Chat::loading();
    chat.say("hi");
    assert_eq!(chat.note(), "the message goes out when the model is loaded");
    chat.model_is_ready();
    assert_eq!(chat.note(), "");
}

#[test]
fn a_failed_load_keeps_its_reason_until_it_is_tried_again() {
    let mut chat = Chat::loading();
    chat.say("hi").worker(WorkerEvent::LoadFailed {
        message: "no disk".to_owned(),
        hint: None,
    });
    let is_said = |chat: &Chat| {
        let lines = chat.lines().join(" ").replace("  ", "");
        lines.contains("no disk") && lines.contains("tries again")
    };
    assert!(is_said(&chat));
    chat.press(KeyCode::Esc);
    assert_eq!(chat.draft(), "hi");
    assert!(is_said(&chat), "the message was taken back");
    chat.press(KeyCode::Enter);
    assert!(is_said(&chat), "and sent again");
    chat.press(KeyCode::Esc).ctrl('u').say("/new");
    assert!(is_said(&chat), "a new conversation");
    chat.write("r");
    assert!(!is_said(&chat));
}

#[test]
fn what_is_not_saved_is_marked_as_long_as_it_is_so() {
    let status = |chat: &Chat| crate::tui::view::status::line(&chat.app, 80).to_string();
    let mut chat = Chat::ready();
    assert!(!status(&chat).contains("not saved"));
    chat.send(Msg::Unsaved(true)).exchange("hi", "hello");
    assert!(status(&chat).contains("! not saved"), "{}", status(&chat));
    chat.send(Msg::Unsaved(false));
    assert!(!status(&chat).contains("not saved"));
    let settings = Settings {
        save: false,
        ..Settings::default()
    };
    let mut chat = Chat::loading_with(settings, None, (80, 24));
    chat.model_is_ready();
    assert!(status(&chat).contains("· not saved"), "{}", status(&chat));
    let narrow = crate::tui::view::status::line(&chat.app, 40).to_string();
    assert!(narrow.contains("· not saved"), "{narrow}");
}

#[test]
fn an_empty_answer_is_always_told_in_the_same_words() {
    let said = "· the model ended without an answer; Ctrl-R tries again";
    let thought = Message::assistant("analysis", "Hm.");
    for messages in [
        vec![],
        vec![thought.clone()],
        vec![thought, Message::assistant("final", " \n")],
        vec![Message::assistant("final", "")],
    ] {
        let mut chat = Chat::ready();
        chat.say("hi")
            .finish(messages.clone(), Finish::Stop, stats(1, 0, 1));
        let lines = chat.lines();
        assert_eq!(lines.last().map(String::as_str), Some(said), "{messages:?}");
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
