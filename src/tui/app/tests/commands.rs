use crossterm::event::KeyCode;

use super::support::Chat;
use crate::session::{Reasoning, Sampling};
use crate::settings::ThemeName;
use crate::tui::app::Mode;
use crate::tui::event::{Command, Effect};

#[test]
fn an_unknown_command_names_the_nearest_and_keeps_the_draft() {
    let mut chat = Chat::ready();
    chat.say("/hlep me");
    assert_eq!(
        chat.note(),
        "there is no command /hlep: did you mean /help?"
    );
    assert_eq!(chat.draft(), "/hlep me");
}

#[test]
fn a_space_before_a_slash_makes_a_message() {
    let mut chat = Chat::ready();
    chat.say(" /etc/hosts is what?");
    assert_eq!(chat.sent(), [["/etc/hosts is what?"]]);
}

#[test]
fn sampling_values_are_set_shown_and_refused_with_their_range() {
    let mut chat = Chat::ready();
    chat.say("/temperature 0.5")
        .say("/top-k 40")
        .say("/top-p 0.9");
    chat.say("/min-p 0.05")
        .say("/repetition-penalty 1.1")
        .say("/seed 7");
    let set = Sampling {
        temperature: 0.5,
        top_k: 40,
        top_p: 0.9,
        min_p: 0.05,
        repetition_penalty: 1.1,
        seed: Some(7),
    };
    assert_eq!(chat.app.sampling, set);
    assert_eq!(
        chat.note(),
        "temperature 0.5, top-k 40, top-p 0.9, min-p 0.05, repetition-penalty 1.1, seed 7"
    );
    chat.say("/temperature -1");
    assert!(
        chat.note().contains("0 (the likeliest token) to 100"),
        "{}",
        chat.note()
    );
    assert_eq!(chat.draft(), "/temperature -1");
    chat.ctrl('u').say("/top-p many");
    assert_eq!(chat.note(), "`many` is not understood, expected a number");
    assert_eq!(chat.app.sampling, set);
    chat.ctrl('u').say("/seed off");
    assert_eq!(chat.app.sampling.seed, None);
}

#[test]
fn settings_go_out_with_the_next_turn() {
    let mut chat = Chat::ready();
    chat.say("/system Be brief.")
        .say("/reasoning high")
        .say("/max-tokens 9");
    chat.say("hi");
    let effects = chat.take();
    let sent = effects.iter().find_map(|effect| match effect {
        Effect::Send(Command::Turn { setup, options, .. }) => Some((setup, options)),
        _ => None,
    });
    let (setup, options) = sent.unwrap();
    assert_eq!(setup.instructions.as_deref(), Some("Be brief."));
    assert_eq!(setup.reasoning, Reasoning::High);
    assert_eq!(options.max_tokens, Some(9));
}

#[test]
fn bad_arguments_are_refused_and_the_draft_kept() {
    for (draft, note) in [
        ("/reasoning off", "choose low, medium or high"),
        ("/max-tokens 0", "expected 1 or more, or off"),
        ("/theme pink", "expected standard, high-contrast or plain"),
        ("/export talk.txt", "ends in .md or .json"),
        ("/read", "attach a text file"),
        ("/undo 3", "/undo takes nothing"),
        ("/edit x", "the number of a message"),
        ("/thinking x", "expected show or hide"),
    ] {
        let mut chat = Chat::ready();
        chat.say(draft);
        assert!(chat.note().contains(note), "{draft}: {}", chat.note());
        assert_eq!(chat.draft(), draft);
    }
}

#[test]
fn the_theme_and_the_folding_are_switched() {
    let mut chat = Chat::ready();
    chat.say("/theme plain").say("/thinking show");
    assert_eq!(chat.app.theme_name, ThemeName::Plain);
    assert!(chat.app.transcript.look().unfolded);
    chat.say("/thinking");
    assert!(!chat.app.transcript.look().unfolded);
}

#[test]
fn tab_completes_names_and_words() {
    let mut chat = Chat::ready();
    chat.write("/reas").press(KeyCode::Tab);
    assert_eq!(chat.draft(), "/reasoning ");
    chat.press(KeyCode::Down)
        .press(KeyCode::Down)
        .press(KeyCode::Enter);
    assert_eq!(chat.draft(), "/reasoning high");
    chat.press(KeyCode::Enter);
    assert_eq!(chat.app.setup.reasoning, Reasoning::High);
}

#[test]
fn the_popup_wraps_around_and_goes_with_the_slash() {
    let mut chat = Chat::ready();
    chat.write("/").press(KeyCode::Up);
    let popup = chat.app.completion.as_ref().unwrap();
    assert_eq!(popup.candidates[popup.index].text, "/quit");
    chat.press(KeyCode::Backspace);
    assert!(chat.app.completion.is_none());
}

#[test]
fn the_last_answer_and_its_last_code_block_are_copied() {
    let mut chat = Chat::ready();
    chat.say("/copy");
    assert_eq!(chat.note(), "there is no answer to copy");
    chat.exchange("hi", "see\n\n```sh\nls\n```\n").take();
    chat.ctrl('y').say("/copy code");
    let copied: Vec<_> = chat.take().into_iter().collect();
    let texts: Vec<_> = copied
        .iter()
        .map(|effect| match effect {
            Effect::Copy(text) => text.trim_end(),
            _ => panic!("{effect:?}"),
        })
        .collect();
    assert_eq!(texts, ["see\n\n```sh\nls\n```", "ls"]);
}

#[test]
fn an_export_has_the_form_that_the_name_asks_for() {
    let mut chat = Chat::ready();
    chat.exchange("hi", "hello").take();
    chat.say("/export talk.md").say("/export talk.json");
    let effects = chat.take();
    let [
        Effect::Export { content: md, .. },
        Effect::Export { content: json, .. },
    ] = &effects[..]
    else {
        panic!("{effects:?}")
    };
    assert!(md.contains("hello"), "{md}");
    assert!(json.starts_with('{') || json.starts_with('['), "{json}");
}

#[test]
fn stats_tell_the_figures_of_the_last_turn() {
    let mut chat = Chat::ready();
    chat.exchange("hi", "hello").say("/stats");
    let lines = chat.lines().join("\n");
    for line in [
        "model: tiny on cpu, loaded in 1.5 s; context: 15 of 1,000 tokens",
        "prompt: 10 tokens, 4 reused, the others read in 0.50 s at 12.0 tok/s",
        "answer: 5 tokens in 2.0 s at 2.0 tok/s",
        "seed: 7 by chance; `/seed 7` has it again",
    ] {
        assert!(lines.contains(line), "{lines}");
    }
    assert_eq!(lines.matches("seed").count(), 2, "{lines}");
}

#[test]
fn another_model_is_loaded_without_leaving() {
    let mut chat = Chat::ready();
    chat.exchange("hi", "hello").take();
    chat.say("/model openai/gpt-oss-120b");
    let effects = chat.take();
    assert!(
        effects.iter().any(|effect| matches!(effect,
            Effect::Send(Command::Load { model, .. }) if model == "openai/gpt-oss-120b")),
        "{effects:?}"
    );
    assert_eq!(chat.said(), ["hi", "hello"]);
}

#[test]
fn every_command_of_the_table_does_something() {
    for command in crate::tui::commands::COMMANDS {
        let mut chat = Chat::ready();
        chat.exchange("hi", "hello").take();
        let argument = match command.name {
            "read" => " a.txt",
            "rename" => " title",
            "export" => " a.md",
            _ => "",
        };
        let before = chat.lines();
        chat.say(&format!("/{}{argument}", command.name));
        let changed = !chat.note().is_empty()
            || !matches!(chat.app.mode, Mode::Draft)
            || chat.lines() != before
            || !chat.take().is_empty();
        assert!(changed, "/{}", command.name);
    }
}
