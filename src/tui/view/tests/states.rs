//! The states at 80 columns and 24 rows, and what does not fit a picture.

use crossterm::event::KeyCode;
use insta::assert_snapshot;
use proptest::prelude::*;

use super::support::*;
use crate::session::{Event, Finish, Message};
use crate::store::Hit;
use crate::tui::app::Phase;
use crate::tui::event::{Msg, WorkerEvent};
use crate::tui::keys::BINDINGS;

#[test]
fn loading_with_a_message_that_waits() {
    let mut chat = Chat::loading();
    chat.worker(WorkerEvent::Loading {
        what: "fetching model-00001-of-00002.safetensors".to_owned(),
        done: 3_400_000_000,
        total: 13_800_000_000,
    });
    chat.say("Hello").wait(0).wait(5000);
    assert_snapshot!(screen(&chat), @r#"
    › Hello
    ~ 18
    - fetching model-00001-of-00002.safetensors 24 % of 13.8 GB
    ────────────────────────────────────────────────────────────────────────────────
    › █
    Enter send  Esc stops  F1 help
    tiny · reasoning medium
    "#);
}

#[test]
fn a_load_that_failed() {
    let mut chat = Chat::loading();
    chat.worker(WorkerEvent::LoadFailed {
        message: "it needs 14.2 GB and 7.9 GB are free".to_owned(),
        hint: Some("`--context 4096` needs less".to_owned()),
    });
    assert_snapshot!(screen(&chat), @r#"
    ✗ cannot load `tiny`: it needs 14.2 GB and 7.9 GB are free
      hint: `--context 4096` needs less
      `/model NAME` loads another; `/model`, or r where nothing is typed, tries
      again
    ~ 15
    ✗ no model
    ────────────────────────────────────────────────────────────────────────────────
    › █
    r try again  F1 help  Ctrl-C quit
    tiny · reasoning medium
    "#);
}

#[test]
fn nothing_said_yet() {
    assert_snapshot!(screen(&Chat::ready()), @r#"
    Type a message, or / for the commands.
    ~ 19
    ────────────────────────────────────────────────────────────────────────────────
    › █
    Enter send  F1 help  Ctrl-J new line  Ctrl-T thinking  Ctrl-R again  Alt-E edit
    tiny · cpu · reasoning medium · context 0/1,000
    "#);
}

#[test]
fn reading_the_prompt() {
    assert_snapshot!(screen(&prefill()), @r#"
    › How do I sum numbers?
    ~ 18
    - reading 768/800 tokens  256 reused  256 tok/s
    ────────────────────────────────────────────────────────────────────────────────
    › █
    Esc stop  Ctrl-T thinking
    tiny · cpu · reasoning medium · context 800/1,000
    "#);
}

#[test]
fn while_it_thinks() {
    assert_snapshot!(screen(&thinking()), @r#"
    › How do I sum numbers?

    ┊ thinking
    ┊ They want a sum. 日本語 too.
    ~ 15
    / thinking, 2 tokens
    ────────────────────────────────────────────────────────────────────────────────
    › █
    Esc stop  Ctrl-T thinking
    tiny · cpu · reasoning medium · context 0/1,000
    "#);
}

#[test]
fn while_it_answers() {
    assert_snapshot!(screen(&answering()), @r#"
    › How do I sum numbers?

    thought for 3.2 s, 8 words  (Ctrl-T)

    The sum is 4
    ~ 14
    | answering, 24 tokens  5.5 tok/s
    ────────────────────────────────────────────────────────────────────────────────
    › █
    Esc stop  Ctrl-T thinking
    tiny · cpu · reasoning medium · context 0/1,000
    "#);
}

#[test]
fn an_answer_with_its_figures() {
    assert_snapshot!(screen(&answered()), @r#"
    › How do I sum numbers?

    thought for 3.2 s, 8 words  (Ctrl-T)

    Sums

    The sum of n numbers is quick:

    • add them
    • divide, if a mean is wanted

    rust
      let sum: u32 = numbers.iter().sum();
    ~ 7
    ────────────────────────────────────────────────────────────────────────────────
    › █
    Enter send  F1 help  Ctrl-J new line  Ctrl-T thinking  Ctrl-R again  Alt-E edit
    tiny · reasoning medium · context 413/1,000 · decode 46.0/s · reused 256
    "#);
}

#[test]
fn choosing_a_message_to_edit() {
    let mut chat = answered();
    chat.alt('e');
    assert_snapshot!(screen(&chat), @r#"
    › How do I sum numbers?

    thought for 3.2 s, 8 words  (Ctrl-T)

    Sums

    The sum of n numbers is quick:

    • add them
    • divide, if a mean is wanted

    rust
      let sum: u32 = numbers.iter().sum();
    ~ 6
    which message?
    ────────────────────────────────────────────────────────────────────────────────
    ›
    Enter edit it  Esc cancel  Up earlier  Down later
    tiny · reasoning medium · context 413/1,000 · decode 46.0/s · reused 256
    "#);
    let row = buffer(&chat, 80, 24).0[(0, 0)].modifier;
    assert_eq!(
        row,
        ratatui::style::Modifier::REVERSED | ratatui::style::Modifier::BOLD
    );
}

#[test]
fn a_draft_of_several_lines_with_a_folded_paste() {
    let mut chat = answered();
    chat.press(KeyCode::Up)
        .ctrl('u')
        .write("Look: 日本")
        .ctrl('j');
    chat.send(Msg::Paste("x".repeat(12_345)));
    assert_snapshot!(screen(&chat), @r#"
    › How do I sum numbers?

    thought for 3.2 s, 8 words  (Ctrl-T)

    Sums

    The sum of n numbers is quick:

    • add them
    • divide, if a mean is wanted

    rust
      let sum: u32 = numbers.iter().sum();
    ~ 6
    ────────────────────────────────────────────────────────────────────────────────
    › Look: 日本
      [pasted 12,345 characters]█
    Enter send  F1 help  Ctrl-J new line  Ctrl-T thinking  Ctrl-R again  Alt-E edit
    tiny · reasoning medium · context 413/1,000 · decode 46.0/s · reused 256
    "#);
}

#[test]
fn the_completions_of_a_command() {
    assert_snapshot!(screen(&completing()), @r#"
    › How do I sum numbers?

    thought for 3.2 s, 8 words  (Ctrl-T)

    Sums

    The sum of n numbers is quick:

    • add them
    • divide, if a mean is wanted

    rust
      let sum: u32 = numbers.iter().sum();
    ~ 3
      /regen                        answer the last message again, on a new branch
    ▶ /reasoning [low|medium|high]  how long to think
      /repetition-penalty [X]       make tokens that occurred less likely; 1 is off
      /read FILE                    attach a text file to the message
      /rename TITLE                 give the session another name
    › /re█
    Tab complete  Esc close
    tiny · reasoning medium · context 413/1,000 · decode 46.0/s · reused 256
    "#);
}

#[test]
fn the_list_of_sessions() {
    let mut chat = sessions();
    assert_snapshot!(screen(&chat), @r#"
    ┌ Sessions ────────────────────────────────────────────────────────────────────┐
    │search: █                                                                     │
    │  How do I sum numbers?                                3 messages     3 h ago │
    │▶ 日本語の質問                                         3 messages     3 h ago │
    │  Broken                                         ! cannot be read     3 h ago │
    │                                                                              │
    │                                                                              │
    │                                                                              │
    │                                                                              │
    │                                                                              │
    │                                                                              │
    │                                                                              │
    │                                                                              │
    │                                                                              │
    │                                                                              │
    │                                                                              │
    │                                                                              │
    │                                                                              │
    └──────────────────────────────────────────────────────────────────────────────┘

    ────────────────────────────────────────────────────────────────────────────────
    ›
    F2 rename  Del delete  Enter open  Esc close
    tiny · reasoning medium · context 413/1,000 · decode 46.0/s · reused 256
    "#);
    chat.press(KeyCode::Delete);
    let screen = screen(&chat);
    assert!(screen.contains("delete `日本語の質問`? y or n"), "{screen}");
    assert!(screen.contains("y delete  n keep"), "{screen}");
}

#[test]
fn what_was_found_in_messages_and_what_was_refused() {
    let mut chat = sessions();
    chat.press(KeyCode::Up).write("sum");
    chat.send(Msg::Hits {
        search: "sum".to_owned(),
        result: Ok(vec![Hit {
            id: "b".to_owned(),
            excerpt: Some("… it is the \u{1b}[31msum of all".to_owned()),
            has_phrase: false,
        }]),
    });
    chat.press(KeyCode::Down).send(Msg::Refused(
        "the session `b` is open elsewhere: close it there".to_owned(),
    ));
    assert_snapshot!(resize(&mut chat, 40, 12), @r#"
    ┌ Sessions ────────────────────────────┐
    │search: sum█                          │
    │▶ 日本語の質問                3 h ago │
    │    … it is the sum of all            │
    │✗ the session `b` is open elsewhere:  │
    │  close it there                      │
    └──────────────────────────────────────┘

    ────────────────────────────────────────
    ›
    F2 rename  Enter open  Esc close
    tiny · reasoning medium · 413/1,000
    "#);
    chat.press(KeyCode::F(2));
    assert_snapshot!(resize(&mut chat, 40, 8), @r#"
    ┌ Sessions ────────────────────────────┐
    │title: 日本語の質問█                  │
    │  How do I sum numbers?       3 h ago │
    │▶ 日本語の質問                3 h ago │
    │    … it is the sum of all            │
    │                                      │
    └──────────────────────────────────────┘
    tiny · reasoning medium · 413/1,000
    "#);
    let mut chat = sessions();
    chat.write("zebra").send(Msg::Hits {
        search: "zebra".to_owned(),
        result: Ok(Vec::new()),
    });
    assert_snapshot!(resize(&mut chat, 40, 8), @r#"
    ┌ Sessions ────────────────────────────┐
    │search: zebra█                        │
    │no title and no message has `zebra` (3│
    │sessions searched, thinking left out) │
    │                                      │
    │                                      │
    └──────────────────────────────────────┘
    tiny · reasoning medium · 413/1,000
    "#);
}

#[test]
fn scrolled_up_while_more_comes() {
    assert_snapshot!(screen(&scrolled()), @r#"
    line 21

    line 22

    line 23

    line 24

    line 25

    line 26

    line 27

    line 28

    line 29

    line 30
    - answering, 40 tokens  ↓ 4 new lines
    ────────────────────────────────────────────────────────────────────────────────
    › █
    Esc stop  Ctrl-T thinking
    tiny · reasoning medium · context 413/1,000 · decode 46.0/s · reused 256
    "#);
}

#[test]
fn a_full_context_is_marked_by_more_than_colour() {
    let mut chat = Chat::ready();
    let message = Message::assistant("final", "x");
    chat.say("hi").stream("final", &["x"]).end(message.clone());
    chat.finish(vec![message], Finish::Stop, stats(950, 0, 10));
    assert!(screen(&chat).contains("! context 960/1,000"));
}

#[test]
fn what_the_footer_shows_is_what_the_table_says() {
    let mut chat = thinking();
    let bottom = |chat: &Chat| {
        screen(chat)
            .lines()
            .rev()
            .nth(1)
            .unwrap_or_default()
            .to_owned()
    };
    assert_eq!(bottom(&chat), "Esc stop  Ctrl-T thinking");
    chat.press(KeyCode::Esc);
    assert_eq!(chat.app.phase, Phase::Stopping);
}

/// Something that may happen to a chat.
#[derive(Clone, Debug)]
enum Step {
    Key(usize),
    Write(String),
    Paste(String),
    Resize(u16, u16),
    Scroll(i16),
    Tick(u64),
    Ready,
    LoadFailed,
    Stream(&'static str, String),
    End,
    Finish(Finish),
    Fail,
    Sessions,
    Run(usize),
}

fn step() -> impl Strategy<Value = Step> {
    let text = "[a-z0-9 \\n`*#|>\u{301}\u{1b}日本👩\u{200d}é-]{0,40}";
    let finish = prop_oneof![
        Just(Finish::Stop),
        Just(Finish::Cancelled),
        Just(Finish::Context)
    ];
    prop_oneof![
        6 => (0..BINDINGS.len()).prop_map(Step::Key),
        3 => text.prop_map(Step::Write),
        1 => text.prop_map(|text| Step::Paste(text.repeat(60))),
        3 => (1_u16..200, 1_u16..60).prop_map(|(width, height)| Step::Resize(width, height)),
        1 => (-90_i16..90).prop_map(Step::Scroll),
        1 => (0_u64..3000).prop_map(Step::Tick),
        1 => Just(Step::Ready),
        1 => Just(Step::LoadFailed),
        4 => (prop_oneof![Just("analysis"), Just("final"), Just("commentary")], text)
            .prop_map(|(channel, text)| Step::Stream(channel, text)),
        2 => Just(Step::End),
        3 => finish.prop_map(Step::Finish),
        1 => Just(Step::Fail),
        1 => Just(Step::Sessions),
        2 => (0..crate::tui::commands::COMMANDS.len()).prop_map(Step::Run),
    ]
}

fn apply(chat: &mut Chat, step: Step) {
    match step {
        Step::Key(index) => {
            for (code, modifiers) in BINDINGS[index].keys {
                let key = crossterm::event::KeyEvent::new(*code, *modifiers);
                chat.send(Msg::Key(key));
            }
        }
        Step::Write(text) => {
            chat.write(&text);
        }
        Step::Paste(text) => {
            chat.send(Msg::Paste(text));
        }
        Step::Resize(width, height) => {
            chat.send(Msg::Resize { width, height });
        }
        Step::Scroll(lines) => {
            chat.send(Msg::Scroll(lines));
        }
        Step::Tick(milliseconds) => {
            chat.wait(milliseconds);
        }
        Step::Ready if !chat.app.is_busy() => {
            chat.model_is_ready();
        }
        Step::LoadFailed if !chat.app.is_busy() => {
            chat.worker(WorkerEvent::LoadFailed {
                message: "no".to_owned(),
                hint: None,
            });
        }
        Step::Sessions => {
            chat.ctrl('o');
            chat.send(Msg::Sessions(Ok(vec![summary("a", "日本語 title", None)])));
        }
        Step::Run(index) => {
            chat.press(KeyCode::Esc);
            chat.say(&format!("/{}", crate::tui::commands::COMMANDS[index].name));
        }
        _ if !chat.app.is_busy() => {
            chat.say("question");
        }
        Step::Stream(channel, text) => {
            chat.stream(channel, &[&text]);
        }
        Step::End => {
            chat.event(Event::End(Message::assistant("final", "an answer")));
        }
        Step::Finish(finish) => {
            let messages = vec![Message::assistant("final", "an answer")];
            chat.finish(messages, finish, stats(9, 3, 9));
        }
        Step::Fail => {
            chat.fail("boom");
        }
        Step::Ready | Step::LoadFailed => {}
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn nothing_that_happens_on_any_screen_panics(
        steps in prop::collection::vec(step(), 1..50),
        other in (1_u16..200, 1_u16..60),
    ) {
        let mut chat = Chat::loading();
        for step in steps {
            apply(&mut chat, step);
            let (width, height) = chat.app.size;
            let _ = buffer(&chat, width, height);
        }
        // A draw may come before the message that tells of the resize.
        let _ = buffer(&chat, other.0, other.1);
    }
}
