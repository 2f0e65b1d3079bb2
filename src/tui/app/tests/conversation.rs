use super::support::{Chat, stats};
use crate::session::{Event, Finish, Kind, Message, Repetition};
use crate::tui::app::Phase;
use crate::tui::event::{Command, Effect, WorkerEvent};

#[test]
fn the_first_thing_asked_for_is_the_model() {
    let mut chat = Chat::loading();
    let effects = chat.take();
    assert!(
        matches!(&effects[..], [Effect::Send(Command::Load { model, .. })] if model == "tiny"),
        "{effects:?}"
    );
    assert!(chat.app.is_animated());
}

#[test]
fn a_message_sent_while_the_model_loads_goes_out_when_it_is_there() {
    let mut chat = Chat::loading();
    chat.say("hello");
    assert_eq!(chat.sent(), [[""; 0]; 0]);
    assert_eq!(chat.lines(), ["› hello"]);
    chat.model_is_ready();
    assert_eq!(chat.sent(), [["hello"]]);
}

#[test]
fn a_message_that_waits_for_the_model_is_taken_back_with_esc() {
    let mut chat = Chat::loading();
    chat.say("hello").say("second");
    assert_eq!(chat.draft(), "second", "only one message waits");
    chat.ctrl('u').press(crossterm::event::KeyCode::Esc);
    assert_eq!(chat.draft(), "hello");
    assert_eq!(chat.lines(), [""; 0]);
    chat.model_is_ready();
    assert_eq!(chat.sent(), [[""; 0]; 0]);
}

#[test]
fn load_progress_is_a_phase_with_its_figures() {
    let mut chat = Chat::loading();
    chat.worker(WorkerEvent::Loading {
        what: "fetching a\u{1b}[31mb".to_owned(),
        done: 1,
        total: 4,
    });
    let what = "fetching ab".to_owned();
    assert_eq!(
        chat.app.phase,
        Phase::Loading {
            what,
            done: 1,
            total: 4
        }
    );
}

#[test]
fn a_failed_load_says_why_and_r_tries_again() {
    let mut chat = Chat::loading();
    chat.take();
    chat.worker(WorkerEvent::LoadFailed {
        message: "not enough memory".to_owned(),
        hint: Some("use the 20b".to_owned()),
    });
    let lines = chat.lines().join("\n");
    assert!(
        lines.contains("✗ cannot load `tiny`: not enough memory"),
        "{lines}"
    );
    assert!(lines.contains("hint: use the 20b"), "{lines}");
    chat.write("r");
    assert!(
        matches!(&chat.take()[..], [Effect::Send(Command::Load { model, .. })] if model == "tiny")
    );
    assert_eq!(chat.draft(), "");
}

#[test]
fn a_message_sent_without_a_model_waits_for_the_next_one() {
    let mut chat = Chat::loading();
    chat.worker(WorkerEvent::LoadFailed {
        message: "no".to_owned(),
        hint: None,
    });
    chat.say("hello").take();
    chat.say("/model other");
    assert!(
        matches!(&chat.take()[..], [Effect::Send(Command::Load { model, .. }), ..] if model == "other")
    );
    chat.model_is_ready();
    assert!(matches!(
        &chat.take()[..],
        [Effect::Send(Command::Turn { .. })]
    ));
}

#[test]
fn a_model_that_cannot_be_loaded_leaves_the_one_before() {
    let mut chat = Chat::loading();
    chat.model_is_ready().say("/model nowhere").take();
    chat.worker(WorkerEvent::LoadFailed {
        message: "there is no `nowhere`".to_owned(),
        hint: None,
    });
    assert_eq!(
        chat.note(),
        "cannot load `nowhere`: there is no `nowhere`\n`tiny` goes on"
    );
    assert_eq!(chat.lines(), [""; 0]);
    assert_eq!(chat.app.wanted, "tiny");
    chat.say("hello");
    assert!(matches!(
        &chat.take()[..],
        [.., Effect::Send(Command::Turn { .. })]
    ));
}

#[test]
fn prefill_thinking_and_answer_are_phases() {
    let mut chat = Chat::ready();
    chat.say("hi");
    assert!(matches!(chat.app.phase, Phase::Prefill { .. }));
    chat.event(Event::Prefill {
        done: 3,
        total: 8,
        reused: 2,
    });
    assert_eq!(
        chat.app.phase,
        Phase::Prefill {
            done: 3,
            total: 8,
            reused: 2
        }
    );
    chat.stream("analysis", &["hm"]);
    assert_eq!(
        chat.app.phase,
        Phase::Streaming {
            kind: Kind::Thinking
        }
    );
    chat.end(Message::assistant("analysis", "hm"));
    chat.stream("final", &["yes"]);
    assert_eq!(chat.app.phase, Phase::Streaming { kind: Kind::Final });
}

#[test]
fn thinking_is_shown_as_it_comes_and_folded_when_it_ends() {
    let mut chat = Chat::ready();
    chat.say("hi").wait(0);
    chat.stream("analysis", &["first ", "second"]);
    assert_eq!(chat.lines(), ["› hi", "┊ thinking", "┊ first second"]);
    chat.wait(3200)
        .end(Message::assistant("analysis", "first second"));
    chat.stream("final", &["yes"]);
    assert_eq!(
        chat.lines(),
        ["› hi", "thought for 3.2 s, 2 words  (Ctrl-T)", "yes"]
    );
    chat.ctrl('t');
    assert_eq!(
        chat.lines(),
        ["› hi", "┊ thinking", "┊ first second", "yes"]
    );
    chat.ctrl('t');
    assert_eq!(chat.lines().len(), 3);
}

#[test]
fn events_of_an_older_turn_are_ignored() {
    let mut chat = Chat::ready();
    chat.exchange("one", "first").say("two");
    chat.worker(WorkerEvent::Turn {
        turn: 1,
        event: Event::Text("late".to_owned()),
    });
    let outcome = Err("late".to_owned().into());
    chat.worker(WorkerEvent::Finished { turn: 1, outcome });
    assert_eq!(chat.lines(), ["› one", "first", "› two"]);
    assert!(chat.app.is_busy());
}

#[test]
fn an_answer_is_kept_in_the_tree_and_its_figures_in_the_status() {
    let mut chat = Chat::ready();
    chat.exchange("hi", "hello");
    assert_eq!(chat.said(), ["hi", "hello"]);
    assert_eq!(chat.app.phase, Phase::Idle);
    assert_eq!(chat.app.used, 15);
    let figures = chat.app.figures.as_ref().unwrap();
    assert_eq!((figures.prefill, figures.decode), (Some(12.0), Some(2.0)));
    assert_eq!(figures.reused, 4);
    assert!(!chat.app.is_animated());
}

#[test]
fn the_speed_of_decoding_counts_the_tokens_between_two_ticks() {
    let mut chat = Chat::ready();
    chat.say("hi").wait(0).stream("final", &["a"]).wait(0);
    for _ in 0..10 {
        chat.event(Event::Token(1));
    }
    chat.wait(1000);
    let speed = chat.app.turn.as_ref().unwrap().speed.unwrap();
    assert!((speed - 10.0).abs() < 1e-9, "{speed}");
}

#[test]
fn the_speed_of_prefill_leaves_out_what_was_reused() {
    let mut chat = Chat::ready();
    chat.say("hi").wait(0);
    chat.event(Event::Prefill {
        done: 150,
        total: 200,
        reused: 100,
    });
    chat.wait(500);
    let speed = chat.app.turn.as_ref().unwrap().speed.unwrap();
    assert!((speed - 100.0).abs() < 1e-9, "{speed}");
}

#[test]
fn a_tool_call_is_shown_with_its_arguments_and_ends_the_turn() {
    let mut chat = Chat::ready();
    chat.say("weather?");
    let call = Message {
        recipient: Some("functions.get_weather".to_owned()),
        ..Message::assistant("commentary", "{\"city\":\"Oslo\"}")
    };
    chat.event(Event::Start(Message {
        content: Vec::new(),
        ..call.clone()
    }));
    chat.event(Event::Text("{\"city\":\"Oslo\"}".to_owned()));
    chat.end(call.clone())
        .finish(vec![call], Finish::ToolCall, stats(9, 0, 4));
    let lines = chat.lines().join("\n");
    assert!(
        lines.contains("→ calls get_weather\n  {\"city\":\"Oslo\"}"),
        "{lines}"
    );
    assert!(lines.contains("there are none in the chat"), "{lines}");
}

#[test]
fn a_preamble_is_told_from_the_answer() {
    let mut chat = Chat::ready();
    chat.say("hi").stream("commentary", &["I will look."]);
    assert_eq!(chat.lines(), ["› hi", "» I will look."]);
}

#[test]
fn a_loop_is_told_once_and_stays_in_the_transcript() {
    let mut chat = Chat::ready();
    chat.say("hi").stream("final", &["la la"]);
    chat.event(Event::Repeating(Repetition {
        period: 2,
        times: 64,
    }));
    let message = Message::assistant("final", "la la");
    chat.end(message.clone())
        .finish(vec![message], Finish::Stop, stats(1, 0, 130));
    let lines = chat.lines().join("\n");
    assert_eq!(
        lines
            .matches("repeats itself: 64 times the same 2 tokens")
            .count(),
        1
    );
}

#[test]
fn limits_say_what_to_do() {
    for (finish, what) in [
        (Finish::Length, "`/max-tokens off` lifts it"),
        (Finish::Context, "`/new` starts afresh"),
    ] {
        let mut chat = Chat::ready();
        let message = Message::assistant("final", "cut");
        chat.say("hi")
            .stream("final", &["cut"])
            .end(message.clone());
        chat.finish(vec![message], finish, stats(1, 0, 1));
        let lines = chat.lines().join(" ");
        assert!(lines.contains(what), "{lines}");
        assert_eq!(chat.said(), ["hi", "cut"]);
    }
}

#[test]
fn a_nearly_full_context_is_warned_of() {
    let mut chat = Chat::ready();
    let message = Message::assistant("final", "x");
    chat.say("hi").stream("final", &["x"]).end(message.clone());
    chat.finish(vec![message], Finish::Stop, stats(890, 0, 10));
    assert_eq!(
        chat.note(),
        "the context is nearly full: 900 of 1,000 tokens"
    );
    assert!(chat.app.is_nearly_full());
}

#[test]
fn a_failed_turn_returns_the_message_to_the_draft() {
    let mut chat = Chat::ready();
    chat.exchange("one", "first")
        .say("two")
        .fail("out of memory");
    assert_eq!(chat.draft(), "two");
    assert_eq!(chat.said(), ["one", "first"]);
    assert_eq!(
        chat.lines(),
        ["› one", "first", "✗ the turn failed: out of memory"]
    );
}

#[test]
fn a_failed_turn_leaves_a_draft_that_was_begun_alone() {
    let mut chat = Chat::ready();
    chat.say("one").write("two").fail("boom");
    assert_eq!(chat.draft(), "two");
    assert_eq!(chat.said(), ["one"]);
}

#[test]
fn what_a_failed_turn_had_made_is_kept() {
    let mut chat = Chat::ready();
    chat.say("one")
        .stream("final", &["half an", " answer"])
        .fail("boom");
    assert_eq!(chat.said(), ["one", "half an answer"]);
    assert_eq!(
        chat.lines(),
        ["› one", "half an answer", "✗ the turn failed: boom"]
    );
}

#[test]
fn escape_sequences_of_the_model_do_not_reach_the_transcript() {
    let mut chat = Chat::ready();
    chat.say("hi")
        .stream("analysis", &["a\u{1b}", "[31mb\u{202e}"]);
    assert_eq!(chat.lines(), ["› hi", "┊ thinking", "┊ ab"]);
    chat.end(Message::assistant("analysis", "ab"));
    chat.stream("final", &["c\u{1b}", "]52;c;AAAA\u{7}d"]);
    let lines = chat.lines();
    assert_eq!(lines.last().unwrap(), "cd");
}

#[test]
fn every_exchange_is_saved_as_it_goes() {
    let mut chat = Chat::ready();
    chat.exchange("hi", "hello");
    assert_eq!(
        chat.saved(),
        [
            "setup None medium tiny",
            "0 after -: user hi",
            "1 after 0: turn 1"
        ]
    );
    chat.say("/reasoning high");
    assert_eq!(chat.saved(), ["setup None high tiny"]);
}

#[test]
fn nothing_is_saved_where_saving_is_off() {
    let settings = crate::settings::Settings {
        save: false,
        ..Default::default()
    };
    let mut chat = Chat::loading_with(settings, None, (80, 24));
    chat.model_is_ready().exchange("hi", "hello").say("/undo");
    assert_eq!(chat.saved(), [""; 0]);
    chat.ctrl('u').say("/branch back").say("/save");
    assert_eq!(
        chat.saved(),
        [
            "setup None medium tiny",
            "0 after -: user hi",
            "1 after 0: turn 1",
            "head 1"
        ]
    );
}
