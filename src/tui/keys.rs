//! The keys of the chat, in one table: the footer and the help popup show it, and nothing else is bound.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::editor::Motion;

/// What a key asks for. What it means in the end depends on the state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // The table says what they do.
pub enum Action {
    /// Enter: send, choose, confirm.
    Send,
    NewLine,
    /// Esc: stop, close, cancel.
    Escape,
    /// Ctrl-C: stop, clear, quit.
    Interrupt,
    /// Ctrl-D: delete forward, or quit on an empty draft.
    EndOfInput,
    Complete,
    CompleteBack,
    Go(Motion),
    Delete(Motion),
    Undo,
    Redo,
    Editor,
    Thinking,
    Regenerate,
    Edit,
    NextBranch,
    PreviousBranch,
    Copy,
    Open,
    Help,
    Retry,
    PageUp,
    PageDown,
    LineUp,
    LineDown,
    Top,
    Bottom,
    Repaint,
    Suspend,
    RenameListed,
    DeleteListed,
    Yes,
    No,
}

/// Where a key is listened to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// The draft, whatever the model does.
    Draft,
    /// As `Draft`, and only where nothing is typed.
    EmptyDraft,
    /// Where the model could not be loaded and nothing is typed.
    Failed,
    /// Everywhere.
    Everywhere,
    /// The list of saved sessions.
    Sessions,
    /// Before a session is deleted.
    Confirm,
}

/// When the footer shows a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Footer {
    /// Nothing is under way.
    Idle,
    /// An answer is being made.
    Busy,
    /// The model could not be loaded.
    Failed,
    /// A model is being fetched.
    Loading,
    /// A message is being chosen.
    Select,
    /// The help is open.
    Help,
    /// The list of sessions is open.
    Sessions,
    /// A session is given another name.
    Rename,
    /// A deletion waits for a yes.
    Confirm,
    /// The completion popup is open.
    Completion,
}

/// What the help shows together; the most useful first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // The titles say what they are for.
pub enum Group {
    Sending,
    Scrolling,
    Rewinding,
    More,
    Editing,
    Sessions,
}

impl Group {
    /// What stands above it.
    pub fn title(self) -> &'static str {
        match self {
            Self::Sending => "Sending and stopping",
            Self::Scrolling => "Scrolling",
            Self::Rewinding => "Going back",
            Self::More => "More",
            Self::Editing => "Writing a message",
            Self::Sessions => "In the list of sessions",
        }
    }
}

/// What the mouse does, for the help.
pub const MOUSE: &[(Group, &str, &str)] = &[
    (Group::Scrolling, "Wheel", "three lines up or down"),
    (
        Group::More,
        "Shift-drag",
        "select text (Option-drag on a Mac); after `/mouse off` without Shift",
    ),
];

/// A row of the table.
#[derive(Debug)]
pub struct Binding {
    /// What is pressed; the first is what the label names.
    pub keys: &'static [(KeyCode, KeyModifiers)],
    /// As it is shown.
    pub label: &'static str,
    /// What it does, in a line.
    pub help: &'static str,
    /// Where.
    pub place: Place,
    /// What it asks for.
    pub action: Action,
    /// What the footer says, and when; the first rows of the table first.
    pub footer: &'static [(Footer, &'static str)],
}

const NONE: KeyModifiers = KeyModifiers::NONE;
const CTRL: KeyModifiers = KeyModifiers::CONTROL;
const ALT: KeyModifiers = KeyModifiers::ALT;
const SHIFT: KeyModifiers = KeyModifiers::SHIFT;

const fn key(
    keys: &'static [(KeyCode, KeyModifiers)],
    label: &'static str,
    place: Place,
    action: Action,
    help: &'static str,
) -> Binding {
    Binding {
        keys,
        label,
        help,
        place,
        action,
        footer: &[],
    }
}

impl Binding {
    const fn footer(mut self, footer: &'static [(Footer, &'static str)]) -> Self {
        self.footer = footer;
        self
    }

    /// Where the help shows it.
    pub fn group(&self) -> Group {
        match self.action {
            Action::Send
            | Action::NewLine
            | Action::Escape
            | Action::Interrupt
            | Action::EndOfInput => Group::Sending,
            Action::PageUp
            | Action::PageDown
            | Action::LineUp
            | Action::LineDown
            | Action::Top
            | Action::Bottom
            | Action::Thinking => Group::Scrolling,
            Action::Regenerate | Action::Edit | Action::NextBranch | Action::PreviousBranch => {
                Group::Rewinding
            }
            Action::Complete
            | Action::CompleteBack
            | Action::Editor
            | Action::Copy
            | Action::Open
            | Action::Help
            | Action::Retry
            | Action::Repaint
            | Action::Suspend => Group::More,
            Action::Go(_) | Action::Delete(_) | Action::Undo | Action::Redo => Group::Editing,
            Action::RenameListed | Action::DeleteListed | Action::Yes | Action::No => {
                Group::Sessions
            }
        }
    }
}

use KeyCode::{Backspace, Char, Delete, Down, End, Enter, Esc, F, Home, Left, Right, Up};
use Place::{Confirm, Draft, EmptyDraft, Everywhere, Failed, Sessions};

/// All of them. Where two rows share a key the first whose place fits wins.
#[rustfmt::skip]
pub const BINDINGS: &[Binding] = &[
    key(&[(Char('y'), NONE)], "y", Confirm, Action::Yes, "delete the session")
        .footer(&[(Footer::Confirm, "delete")]),
    key(&[(Char('n'), NONE)], "n", Confirm, Action::No, "keep the session")
        .footer(&[(Footer::Confirm, "keep")]),
    key(&[(Char('r'), CTRL), (F(2), NONE)], "F2", Sessions, Action::RenameListed, "give the session another name (also Ctrl-R)")
        .footer(&[(Footer::Sessions, "rename")]),
    key(&[(Char('d'), CTRL), (Delete, NONE)], "Del", Sessions, Action::DeleteListed, "delete the session (also Ctrl-D)")
        .footer(&[(Footer::Sessions, "delete")]),
    key(&[(Char('r'), NONE)], "r", Failed, Action::Retry, "try to load the model again")
        .footer(&[(Footer::Failed, "try again")]),
    key(&[(Enter, NONE)], "Enter", Everywhere, Action::Send, "send the message, choose, confirm")
        .footer(&[(Footer::Idle, "send"), (Footer::Loading, "send"), (Footer::Select, "edit it"), (Footer::Sessions, "open"), (Footer::Rename, "keep it")]),
    key(&[(KeyCode::Tab, NONE)], "Tab", Draft, Action::Complete, "complete a command")
        .footer(&[(Footer::Completion, "complete")]),
    key(&[(KeyCode::BackTab, NONE)], "Shift-Tab", Draft, Action::CompleteBack, "complete with the one before"),
    key(&[(Esc, NONE)], "Esc", Everywhere, Action::Escape, "stop the answer, close, cancel")
        .footer(&[(Footer::Busy, "stop"), (Footer::Loading, "stops"), (Footer::Select, "cancel"), (Footer::Help, "close"), (Footer::Sessions, "close"), (Footer::Rename, "cancel"), (Footer::Completion, "close")]),
    key(&[(F(1), NONE)], "F1", Everywhere, Action::Help, "this help")
        .footer(&[(Footer::Idle, "help"), (Footer::Loading, "help"), (Footer::Failed, "help"), (Footer::Help, "close")]),
    key(&[(Char('?'), NONE)], "?", EmptyDraft, Action::Help, "this help, where nothing is typed"),
    key(&[(Char('j'), CTRL), (Enter, ALT), (Enter, SHIFT)], "Ctrl-J", Draft, Action::NewLine, "a new line (also Alt-Enter, Shift-Enter)")
        .footer(&[(Footer::Idle, "new line")]),
    key(&[(Char('t'), CTRL)], "Ctrl-T", Everywhere, Action::Thinking, "unfold or fold thinking and files")
        .footer(&[(Footer::Idle, "thinking"), (Footer::Busy, "thinking")]),
    key(&[(Char('r'), CTRL)], "Ctrl-R", Draft, Action::Regenerate, "answer the last message again")
        .footer(&[(Footer::Idle, "again")]),
    key(&[(Char('e'), ALT)], "Alt-E", Draft, Action::Edit, "change an earlier message")
        .footer(&[(Footer::Idle, "edit")]),
    key(&[(Char('n'), CTRL)], "Ctrl-N", Draft, Action::NextBranch, "the next branch"),
    key(&[(Char('p'), CTRL)], "Ctrl-P", Draft, Action::PreviousBranch, "the branch before"),
    key(&[(Char('y'), CTRL)], "Ctrl-Y", Draft, Action::Copy, "copy the last answer")
        .footer(&[(Footer::Idle, "copy")]),
    key(&[(Char('o'), CTRL)], "Ctrl-O", Draft, Action::Open, "saved sessions")
        .footer(&[(Footer::Idle, "open")]),
    key(&[(Char('g'), CTRL)], "Ctrl-G", Draft, Action::Editor, "write the message in $VISUAL or $EDITOR"),
    key(&[(Char('c'), CTRL)], "Ctrl-C", Everywhere, Action::Interrupt, "stop; clear the draft; twice: quit")
        .footer(&[(Footer::Failed, "quit")]),
    key(&[(Char('d'), CTRL)], "Ctrl-D", Draft, Action::EndOfInput, "delete forward; quit where nothing is typed"),
    key(&[(KeyCode::PageUp, NONE)], "PageUp", Everywhere, Action::PageUp, "a page up"),
    key(&[(KeyCode::PageDown, NONE)], "PageDown", Everywhere, Action::PageDown, "a page down"),
    key(&[(Up, CTRL), (Up, SHIFT)], "Ctrl-Up", Everywhere, Action::LineUp, "a line up (also Shift-Up)"),
    key(&[(Down, CTRL), (Down, SHIFT)], "Ctrl-Down", Everywhere, Action::LineDown, "a line down (also Shift-Down)"),
    key(&[(Home, CTRL)], "Ctrl-Home", Everywhere, Action::Top, "to the beginning of the conversation"),
    key(&[(End, CTRL)], "Ctrl-End", Everywhere, Action::Bottom, "to its end"),
    key(&[(Up, NONE)], "Up", Everywhere, Action::Go(Motion::Up), "a line up; from the first, an earlier message")
        .footer(&[(Footer::Select, "earlier")]),
    key(&[(Down, NONE)], "Down", Everywhere, Action::Go(Motion::Down), "a line down; from the last, a later message")
        .footer(&[(Footer::Select, "later")]),
    key(&[(Left, NONE)], "Left", Everywhere, Action::Go(Motion::Left), "a character left"),
    key(&[(Right, NONE)], "Right", Everywhere, Action::Go(Motion::Right), "a character right"),
    key(&[(Left, CTRL), (Left, ALT), (Char('b'), ALT)], "Ctrl-Left", Everywhere, Action::Go(Motion::WordLeft), "a word left (also Alt-B)"),
    key(&[(Right, CTRL), (Right, ALT), (Char('f'), ALT)], "Ctrl-Right", Everywhere, Action::Go(Motion::WordRight), "a word right (also Alt-F)"),
    key(&[(Home, NONE), (Char('a'), CTRL)], "Home", Everywhere, Action::Go(Motion::Home), "start of the line (also Ctrl-A)"),
    key(&[(End, NONE), (Char('e'), CTRL)], "End", Everywhere, Action::Go(Motion::End), "end of the line (also Ctrl-E)"),
    key(&[(Backspace, NONE), (Backspace, SHIFT), (Char('h'), CTRL)], "Backspace", Everywhere, Action::Delete(Motion::Left), "delete the character before"),
    key(&[(Delete, NONE)], "Delete", Everywhere, Action::Delete(Motion::Right), "delete the character after"),
    key(&[(Char('w'), CTRL), (Backspace, ALT), (Backspace, CTRL)], "Ctrl-W", Everywhere, Action::Delete(Motion::WordLeft), "delete the word before (also Alt-Backspace)"),
    key(&[(Char('d'), ALT)], "Alt-D", Everywhere, Action::Delete(Motion::WordRight), "delete the word after"),
    key(&[(Char('u'), CTRL)], "Ctrl-U", Everywhere, Action::Delete(Motion::Home), "delete to the start of the line"),
    key(&[(Char('k'), CTRL)], "Ctrl-K", Everywhere, Action::Delete(Motion::End), "delete to the end of the line"),
    // Terminals send the same byte for Ctrl-_ and Ctrl-7, and crossterm calls it Ctrl-7.
    key(&[(Char('7'), CTRL), (Char('_'), CTRL), (Char('-'), CTRL), (Char('u'), ALT)], "Ctrl-_", Draft, Action::Undo, "undo (also Alt-U)"),
    key(&[(Char('r'), ALT)], "Alt-R", Draft, Action::Redo, "redo"),
    key(&[(Char('l'), CTRL)], "Ctrl-L", Everywhere, Action::Repaint, "draw the screen anew"),
    key(&[(Char('z'), CTRL)], "Ctrl-Z", Everywhere, Action::Suspend, "back to the shell; `fg` returns"),
];

/// What the key asks for at a place of which `here` says whether it is one.
pub fn action(event: &KeyEvent, here: impl Fn(Place) -> bool) -> Option<Action> {
    let pressed = normal(event);
    BINDINGS
        .iter()
        .find(|binding| binding.keys.contains(&pressed) && here(binding.place))
        .map(|binding| binding.action)
}

/// Capitals and Shift are the same key for everything but Enter, arrows and Backspace.
fn normal(event: &KeyEvent) -> (KeyCode, KeyModifiers) {
    let modifiers = event.modifiers & (CTRL | ALT | SHIFT);
    match event.code {
        Char(letter) if modifiers.intersects(CTRL | ALT) => {
            (Char(letter.to_ascii_lowercase()), modifiers - SHIFT)
        }
        Char(_) | KeyCode::BackTab => (event.code, modifiers - SHIFT),
        code => (code, modifiers),
    }
}

/// The character that the key types, if it types one. `AltGr` reaches us as Ctrl-Alt on some systems.
pub fn typed(event: &KeyEvent) -> Option<char> {
    let modifiers = event.modifiers & (CTRL | ALT);
    match event.code {
        Char(letter) if modifiers.is_empty() || modifiers == CTRL | ALT => Some(letter),
        _ => None,
    }
}

/// What the footer says: keys and what they do there.
pub fn footer(state: Footer) -> impl Iterator<Item = (&'static str, &'static str)> {
    BINDINGS.iter().filter_map(move |binding| {
        let (_, what) = binding.footer.iter().find(|(when, _)| *when == state)?;
        Some((binding.label, *what))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_key_is_bound_twice_at_a_place() {
        let mut seen = Vec::new();
        for binding in BINDINGS {
            for key in binding.keys {
                assert!(!seen.contains(&(*key, binding.place)), "{}", binding.label);
                seen.push((*key, binding.place));
            }
        }
    }

    #[test]
    fn a_key_is_written_as_the_table_will_find_it() {
        for binding in BINDINGS {
            for (code, modifiers) in binding.keys {
                let event = KeyEvent::new(*code, *modifiers);
                assert_eq!(normal(&event), (*code, *modifiers), "{}", binding.label);
            }
        }
    }

    #[test]
    fn the_place_decides_between_two_rows_with_one_key() {
        let key = KeyEvent::new(Char('r'), CTRL);
        assert_eq!(action(&key, |p| p == Draft), Some(Action::Regenerate));
        assert_eq!(action(&key, |_| true), Some(Action::RenameListed));
        let letter = KeyEvent::new(Char('r'), NONE);
        assert_eq!(action(&letter, |p| p == Draft), None);
    }

    #[test]
    fn control_keys_ignore_shift_and_plain_letters_are_typed() {
        let shifted = KeyEvent::new(Char('T'), CTRL | SHIFT);
        assert_eq!(
            action(&shifted, |p| p == Everywhere),
            Some(Action::Thinking)
        );
        assert_eq!(typed(&KeyEvent::new(Char('Ä'), SHIFT)), Some('Ä'));
        assert_eq!(typed(&KeyEvent::new(Char('@'), CTRL | ALT)), Some('@'));
        assert_eq!(typed(&KeyEvent::new(Char('a'), ALT)), None);
    }

    #[test]
    fn the_footer_names_what_can_be_done() {
        let busy: Vec<_> = footer(Footer::Busy).collect();
        assert_eq!(busy, [("Esc", "stop"), ("Ctrl-T", "thinking")]);
    }
}
