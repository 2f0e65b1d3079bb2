//! The events of a generation, each to its place: the answer to its receiver, the rest to the screen.

use super::screen::Screen;
use crate::cli::output::Answer;
use crate::cli::report::{Call, Report};
use crate::session::{Cancel, Error, Event, Kind, Repetition, Turn};

/// Receiver and screen of one generation.
#[derive(Debug)]
pub struct Stream {
    answer: Answer,
    screen: Screen,
    cancel: Cancel,
    /// The answer is printed as it is made.
    live: bool,
    /// The kind of the message being made; a completion without harmony is all answer.
    kind: Kind,
    /// The next text of the answer begins another message.
    next_message: bool,
}

impl Stream {
    /// With `json` the answer is not printed as it is made.
    pub fn new(answer: Answer, screen: Screen, cancel: &Cancel, json: bool) -> Self {
        Self {
            answer,
            screen,
            cancel: cancel.clone(),
            live: !json,
            kind: Kind::Final,
            next_message: false,
        }
    }

    /// Runs a generation of a prompt of `tokens` and shows what it does.
    pub fn watch<T>(
        &mut self,
        tokens: usize,
        generate: impl FnOnce(&mut dyn FnMut(Event)) -> Result<T, Error>,
    ) -> Result<T, Error> {
        self.screen.begin_prompt(tokens);
        let made = generate(&mut |event| self.take(event));
        self.screen.clear();
        self.screen.end_message();
        if made.is_err() && self.live {
            self.answer.end_line();
        }
        made
    }

    fn take(&mut self, event: Event) {
        match event {
            Event::Prefill { done, .. } => self.screen.prompt(done),
            Event::Token(_) => self.screen.clear(),
            Event::Start(message) => {
                self.kind = message.kind();
                self.next_message = true;
            }
            Event::Text(text) => match self.kind {
                Kind::Final if self.live => self.push(&text),
                Kind::Thinking => self.screen.thinking(&text),
                Kind::Preamble if self.live => self.screen.preamble(&text),
                Kind::Final | Kind::Preamble | Kind::ToolCall => {}
            },
            Event::End(_) => self.screen.end_message(),
            Event::Repeating(repetition) => self.warn(&looping(repetition)),
        }
    }

    /// What a turn has to say after its last token: what it told the user if it answered nothing, the
    /// line break at the end, tool calls.
    pub fn rest_of(&mut self, turn: &Turn) -> anyhow::Result<()> {
        if self.answer.is_empty() {
            self.push(&turn.answer());
        }
        self.answer.end_line();
        // A call that was cut off is no call; the error at the end shows it.
        for call in turn.tool_calls() {
            if call.arguments.is_ok() {
                self.answer.json(&Call::from(call))?;
            }
        }
        Ok(())
    }

    /// The end of a completion: on a terminal the prompt of the shell wants a line of its own.
    pub fn end_raw(&mut self) {
        if self.answer.is_terminal() {
            self.answer.end_line();
        }
    }

    /// The result for programs.
    pub fn json(&mut self, report: &Report) -> anyhow::Result<()> {
        self.answer.json(report)
    }

    /// Receiver and screen, to be closed.
    pub fn into_parts(self) -> (Answer, Screen) {
        (self.answer, self.screen)
    }

    fn push(&mut self, text: &str) {
        if text.is_empty() {
            return;
        }
        if std::mem::take(&mut self.next_message) && !self.answer.is_empty() {
            self.answer.push("\n\n");
        }
        if !self.answer.push(text) {
            // Nobody takes it any more: there is nothing left to work for.
            self.cancel.cancel();
        }
    }

    fn warn(&mut self, text: &str) {
        if self.live && self.answer.is_terminal() {
            self.answer.end_line();
        }
        self.screen.warn(text);
    }
}

fn looping(repetition: Repetition) -> String {
    let block = match repetition.period {
        1 => "the same token".to_owned(),
        period => format!("the same {period} tokens"),
    };
    format!(
        "the output repeats itself: {block}, {} times in a row; Ctrl-C stops it, --max-tokens and \
         --repetition-penalty keep it from going on",
        repetition.times
    )
}
