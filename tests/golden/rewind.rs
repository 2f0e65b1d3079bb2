//! Going back in a conversation on the built-in model: only what changed is read, and the answer is that of a
//! conversation that never was any other way.

use gptoss::checkpoint::Checkpoint;
use gptoss::session::{
    Cancel, ChatSession, Compute, LoadOptions, Message, Model, Sampling, Setup, Turn, TurnOptions,
};

fn session() -> ChatSession {
    // With nothing rounded, prefill and decode give the same bits.
    let options = LoadOptions {
        compute: Some(Compute::F32),
        ..LoadOptions::default()
    };
    let model = Model::load(&Checkpoint::tiny(), &options).unwrap();
    let setup = Setup {
        date: Some("2025-06-28".to_owned()),
        ..Setup::default()
    };
    ChatSession::new(model, setup)
}

/// Draws from the whole distribution: one bit of a logit that differs shows in the tokens sooner or later.
fn answer(session: &mut ChatSession) -> Turn {
    let options = TurnOptions {
        sampling: Sampling {
            seed: Some(11),
            ..Sampling::default()
        },
        max_tokens: Some(60),
    };
    session.turn(&options, &Cancel::new(), &mut |_| {}).unwrap()
}

fn say(session: &mut ChatSession, text: &str) -> Turn {
    session.push_user(text);
    answer(session)
}

/// The tokens made by a session that knows nothing but `history`.
fn fresh(history: &[Message]) -> Turn {
    let mut session = session();
    session.history = history.to_vec();
    answer(&mut session)
}

fn common(a: &[u32], b: &[u32]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

#[test]
fn the_second_turn_reads_only_the_tail_that_changed() {
    let mut session = session();
    session.push_user("What is the capital of France?");
    let first_prompt = session.prompt();
    let first = answer(&mut session);
    // All but the last token made is in the cache.
    let held = [
        &first_prompt[..],
        &first.token_ids[..first.token_ids.len() - 1],
    ]
    .concat();

    session.push_user("And of Italy?");
    let prompt = session.prompt();
    let history = session.history.clone();
    let second = answer(&mut session);
    assert_eq!(second.stats.cached_tokens, common(&held, &prompt));
    // The dropped thinking ends what is common; the first prompt is held at least.
    assert!(second.stats.cached_tokens >= first_prompt.len());
    assert_eq!(second.token_ids, fresh(&history).token_ids);
}

#[test]
fn regenerating_reads_one_token() {
    let mut session = session();
    say(&mut session, "Hello!");
    session.push_user("Tell me a story.");
    let history = session.history.clone();
    let first = answer(&mut session);
    session.history.clone_from(&history);
    let again = answer(&mut session);
    assert_eq!(again.stats.cached_tokens, again.stats.prompt_tokens - 1);
    assert_eq!(again.token_ids, first.token_ids);
    assert_eq!(again.token_ids, fresh(&history).token_ids);
}

#[test]
fn an_edited_message_is_read_from_the_edit_on() {
    let mut session = session();
    for text in ["Hello!", "What is the opposite of hot?", "Count to five."] {
        say(&mut session, text);
    }
    let old_prompt = session.prompt();
    let second = session
        .history
        .iter()
        .position(|message| message.text() == "What is the opposite of hot?")
        .unwrap();
    let left = session.history.clone();
    session.history.truncate(second);
    session.push_user("What is the opposite of tall?");
    let (prompt, history) = (session.prompt(), session.history.clone());
    let turn = answer(&mut session);
    // "What is the opposite of " is the same; what follows is not.
    assert_eq!(turn.stats.cached_tokens, common(&old_prompt, &prompt));
    assert!(turn.stats.cached_tokens < prompt.len() - 1);
    assert_eq!(turn.token_ids, fresh(&history).token_ids);

    // And back to the branch that was left.
    session.history = left;
    session.push_user("Thanks!");
    let history = session.history.clone();
    assert_eq!(answer(&mut session).token_ids, fresh(&history).token_ids);
}
