//! Turns that were not made to their end.

use super::*;

/// An answer in pieces of one token each.
pub fn pieces(id: NodeId, parent: Option<NodeId>, pieces: &[String]) -> Vec<Record> {
    let records = pieces.iter().enumerate().map(|(index, text)| {
        Record::Partial(Partial {
            id,
            parent,
            begins: (index == 0).then(|| Message::assistant("final", "")),
            text: text.clone(),
            prompt_tokens: 70,
            generated_tokens: index + 1,
        })
    });
    records.collect()
}

/// What the pieces of an answer add up to.
pub fn cut_off(text: &str, tokens: usize) -> TurnRecord {
    TurnRecord {
        messages: vec![Message::assistant("final", text)],
        finish: Finish::Cancelled,
        prompt_tokens: 70,
        cached_tokens: 0,
        generated_tokens: tokens,
        prefill: Duration::ZERO,
        time_to_first_token: None,
        decode: Duration::ZERO,
        seed: 0,
    }
}

fn some_pieces() -> Vec<Record> {
    let texts = ["It ", "rains", ", I"].map(str::to_owned);
    pieces(NodeId(1), Some(NodeId(0)), &texts)
}

#[test]
fn the_pieces_of_an_answer_are_lines_of_what_is_new() {
    let (_home, store) = store();
    let (_, path) = saved(&store, &some_pieces()[..2]);
    insta::assert_snapshot!(fs::read_to_string(path).unwrap(), @r#"
    {"gptoss_session":1,"created":"2025-06-28T12:00:05Z"}
    {"type":"partial","id":1,"parent":0,"begins":{"role":"assistant","channel":"final","content":[{"text":""}]},"text":"It ","prompt_tokens":70,"generated_tokens":1}
    {"type":"partial","id":1,"parent":0,"text":"rains","prompt_tokens":70,"generated_tokens":2}
    "#);
}

#[test]
fn pieces_without_their_turn_are_a_turn_that_was_stopped() {
    let (_home, store) = store();
    let mut records = vec![user(0, None, "Weather?")];
    records.extend(some_pieces());
    let (id, path) = saved(&store, &records);
    let before = fs::read(&path).unwrap();
    let mut session = store.load(&id).unwrap();
    assert_eq!(session.tree.path(), [NodeId(0), NodeId(1)]);
    let turn = cut_off("It rains, I", 3);
    assert_eq!(session.tree.entry(NodeId(1)), &Entry::Turn(turn));
    assert_eq!(
        session.warning.as_deref(),
        Some("the program was ended while it answered: this is what was saved of the answer")
    );
    assert_eq!(fs::read(&path).unwrap(), before, "reading changes nothing");
    // It goes on after it.
    let more = user(2, Some(1), "And?");
    session.log.append(&[more]).unwrap();
    drop(session);
    let session = store.load(&id).unwrap();
    assert_eq!(session.tree.len(), 3);
    assert_eq!(session.warning, None);
    assert_eq!(store.list(noon()).unwrap()[0].messages, 2);
}

#[test]
fn the_whole_turn_takes_the_place_of_its_pieces() {
    let (_home, store) = store();
    let mut records = vec![user(0, None, "Weather?")];
    records.extend(some_pieces());
    records.push(title("Rain"));
    records.push(answer(1, 0));
    let (id, _) = saved(&store, &records);
    let session = store.load(&id).unwrap();
    assert_eq!(session.tree.len(), 2);
    let Record::Node { entry, .. } = answer(1, 0) else {
        unreachable!("a node")
    };
    assert_eq!(session.tree.entry(NodeId(1)), &entry);
    assert_eq!(session.warning, None);
}

#[test]
fn a_piece_that_follows_on_nothing_is_damage() {
    let (_home, store) = store();
    let mut records = vec![user(0, None, "Weather?")];
    records.push(some_pieces().remove(1));
    let (id, _) = saved(&store, &records);
    let error = store.load(&id).unwrap_err().to_string();
    assert!(
        error.contains("line 3 (it goes on with a message that did not begin)"),
        "{error}"
    );
}
