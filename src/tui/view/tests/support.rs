//! States of the chat and the screens they make.

use crossterm::event::KeyCode;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::buffer::Buffer;

use crate::session::{Event, Message};
pub(crate) use crate::tui::app::tests::support::{Chat, stats, summary};
use crate::tui::event::Msg;
use crate::tui::view::draw;

pub(crate) fn buffer(chat: &Chat, width: u16, height: u16) -> (Buffer, Option<(u16, u16)>) {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| draw(&chat.app, frame)).unwrap();
    let backend = terminal.backend();
    let caret = backend.cursor_visible().then(|| backend.cursor_position());
    (backend.buffer().clone(), caret.map(|at| (at.x, at.y)))
}

/// The rows without the spaces at their ends; several empty ones as `~ 12`. The caret is `█` where nothing is under it.
pub(crate) fn screen(chat: &Chat) -> String {
    let (width, height) = chat.app.size;
    let (mut buffer, caret) = buffer(chat, width, height);
    if let Some(at) = caret
        && buffer[at].symbol() == " "
    {
        buffer[at].set_symbol("█");
    }
    let mut rows = Vec::new();
    let mut empty = 0;
    for y in 0..height {
        let mut row = String::new();
        let mut skip = 0;
        for x in 0..width {
            if skip == 0 {
                row.push_str(buffer[(x, y)].symbol());
                skip = crate::tui::text::width(buffer[(x, y)].symbol()).max(1);
            }
            skip -= 1;
        }
        let row = row.trim_end().to_owned();
        if row.is_empty() {
            empty += 1;
            continue;
        }
        match std::mem::take(&mut empty) {
            0 => {}
            1 => rows.push(String::new()),
            empty => rows.push(format!("~ {empty}")),
        }
        rows.push(row);
    }
    rows.join("\n")
}

pub(crate) fn resize(chat: &mut Chat, width: u16, height: u16) -> String {
    chat.send(Msg::Resize { width, height });
    screen(chat)
}

const ANSWER: &str = "# Sums\n\nThe sum of *n* numbers is **quick**:\n\n- add them\n- divide, if a mean is wanted\n\n```rust\nlet sum: u32 = numbers.iter().sum();\n```\n";

/// A whole exchange with thinking, markdown and figures.
pub(crate) fn answered() -> Chat {
    let mut chat = thinking();
    let thought = Message::assistant("analysis", "They want a sum. 日本語 too.");
    chat.wait(3200).end(thought.clone());
    chat.stream("final", &[ANSWER]);
    let answer = Message::assistant("final", ANSWER);
    chat.end(answer.clone());
    chat.finish(
        vec![thought, answer],
        crate::session::Finish::Stop,
        stats(320, 256, 93),
    );
    chat
}

/// An answer is under way.
pub(crate) fn answering() -> Chat {
    let mut chat = thinking();
    chat.wait(3200).end(Message::assistant(
        "analysis",
        "They want a sum. 日本語 too.",
    ));
    chat.stream("final", &["The sum", " is **4"]).wait(0);
    for _ in 0..20 {
        chat.event(Event::Token(1));
    }
    chat.wait(1000);
    chat
}

pub(crate) fn thinking() -> Chat {
    let mut chat = Chat::ready();
    chat.say("How do I sum numbers?").wait(0);
    chat.stream("analysis", &["They want a sum. ", "日本語 too."]);
    chat
}

pub(crate) fn prefill() -> Chat {
    let mut chat = Chat::ready();
    chat.say("How do I sum numbers?").wait(0);
    chat.event(Event::Prefill {
        done: 768,
        total: 800,
        reused: 256,
    });
    chat.wait(2000);
    chat
}

pub(crate) fn completing() -> Chat {
    let mut chat = answered();
    chat.write("/re").press(KeyCode::Down);
    chat
}

pub(crate) fn sessions() -> Chat {
    let mut chat = answered();
    chat.ctrl('o');
    chat.send(Msg::Sessions(Ok(vec![
        summary("a", "How do I sum numbers?", None),
        summary("b", "日本語の質問", None),
        summary("c", "Broken", Some("line 3 is damaged")),
    ])));
    chat.press(KeyCode::Down);
    chat
}

pub(crate) fn scrolled() -> Chat {
    let mut chat = answered();
    let lines: Vec<_> = (0..40).map(|n| format!("line {n}\n\n")).collect();
    let pieces: Vec<_> = lines.iter().map(String::as_str).collect();
    chat.say("More")
        .stream("final", &pieces)
        .press(KeyCode::PageUp);
    chat.event(Event::Text("more\n\nand more".to_owned()));
    chat
}
