//! A token costs the same in a long conversation as in a short one.

use std::time::{Duration, Instant};

use ratatui::Terminal;
use ratatui::backend::TestBackend;

use super::support::*;
use crate::session::Event;
use crate::tui::view::draw;

const PARAGRAPH: &str = "Some *words* of an answer, with `code` and 日本語.\n\n- one\n- two\n\n";

/// The least that update and draw of ten tokens took.
fn cost(chat: &mut Chat) -> Duration {
    let mut terminal = Terminal::new(TestBackend::new(80, 24)).unwrap();
    let mut batch = || {
        let start = Instant::now();
        for piece in PARAGRAPH.split_inclusive(' ').take(10) {
            chat.event(Event::Token(1));
            chat.event(Event::Text(piece.to_owned()));
            terminal.draw(|frame| draw(&chat.app, frame)).unwrap();
        }
        start.elapsed()
    };
    (0..100).map(|_| batch()).min().unwrap_or_default()
}

#[test]
fn the_cost_of_a_token_is_flat() {
    let mut short = Chat::ready();
    short.say("hi").stream("final", &[PARAGRAPH]);
    let short = cost(&mut short);

    let mut exchanges = Chat::ready();
    for _ in 0..500 {
        exchanges.exchange("question", &PARAGRAPH.repeat(5));
    }
    exchanges.say("hi").stream("final", &[PARAGRAPH]);
    let exchanges = cost(&mut exchanges);

    let mut answer = Chat::ready();
    answer.say("hi").stream("final", &[&PARAGRAPH.repeat(3000)]);
    let answer = cost(&mut answer);

    // Generous, for machines with other things to do.
    assert!(exchanges < short * 2, "{exchanges:?} against {short:?}");
    assert!(answer < short * 2, "{answer:?} against {short:?}");
}
