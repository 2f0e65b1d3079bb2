//! The commands of the chat, in one table: completion, help and execution read it.

/// What a command does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // The table says what they do.
pub enum Verb {
    Help,
    New,
    Clear,
    Regenerate,
    Edit,
    Undo,
    Branch,
    System,
    Reasoning,
    Temperature,
    TopK,
    TopP,
    MinP,
    RepetitionPenalty,
    Seed,
    MaxTokens,
    Model,
    Read,
    Save,
    Rename,
    Open,
    Export,
    Copy,
    Thinking,
    Theme,
    Mouse,
    Stats,
    Quit,
}

/// A row of the table.
#[derive(Debug)]
pub struct Command {
    /// What is typed after the slash.
    pub name: &'static str,
    /// What may follow it, as help shows it.
    pub arguments: &'static str,
    /// What it does, in a line.
    pub help: &'static str,
    /// The words that may follow, for completion.
    pub choices: &'static [&'static str],
    /// It leaves the conversation alone, so an answer may be under way.
    pub while_busy: bool,
    /// What it does.
    pub verb: Verb,
}

const fn row(
    verb: Verb,
    name: &'static str,
    arguments: &'static str,
    while_busy: bool,
    choices: &'static [&'static str],
    help: &'static str,
) -> Command {
    Command {
        name,
        arguments,
        help,
        choices,
        while_busy,
        verb,
    }
}

/// All of them, in the order of the help.
#[rustfmt::skip]
pub const COMMANDS: &[Command] = &[
    row(Verb::Help, "help", "", true, &[], "keys and commands"),
    row(Verb::Regenerate, "regen", "", false, &[], "answer the last message again, on a new branch"),
    row(Verb::Edit, "edit", "[N]", false, &[], "change an earlier message of yours and go on from there"),
    row(Verb::Undo, "undo", "", false, &[], "take the last exchange back"),
    row(Verb::Branch, "branch", "[N|next|prev|back]", false, &["next", "prev", "back"], "go to another branch, or back to where you were"),
    row(Verb::New, "new", "", false, &[], "start a new conversation; this one stays saved"),
    row(Verb::Clear, "clear", "", false, &[], "forget what was said but keep the session; `/branch back` returns"),
    row(Verb::System, "system", "[TEXT|off]", true, &["off"], "show or set the system prompt"),
    row(Verb::Reasoning, "reasoning", "[low|medium|high]", true, &["low", "medium", "high"], "how long to think"),
    row(Verb::Temperature, "temperature", "[X]", true, &[], "0 always takes the likeliest token; the default is 1"),
    row(Verb::TopK, "top-k", "[N]", true, &[], "keep the N likeliest tokens; 0 keeps all"),
    row(Verb::TopP, "top-p", "[X]", true, &[], "keep the likeliest tokens up to this probability; 1 keeps all"),
    row(Verb::MinP, "min-p", "[X]", true, &[], "keep tokens of this share of the likeliest; 0 keeps all"),
    row(Verb::RepetitionPenalty, "repetition-penalty", "[X]", true, &[], "make tokens that occurred less likely; 1 is off"),
    row(Verb::Seed, "seed", "[N|off]", true, &["off"], "the same seed gives the same answer"),
    row(Verb::MaxTokens, "max-tokens", "[N|off]", true, &["off"], "end an answer after N tokens"),
    row(Verb::Model, "model", "[NAME]", false, &[], "show the model, load another, or try again after a failure"),
    row(Verb::Read, "read", "FILE", true, &[], "attach a text file to the message"),
    row(Verb::Save, "save", "[TITLE]", true, &[], "name the session; saves one that was not being saved"),
    row(Verb::Rename, "rename", "TITLE", true, &[], "give the session another name"),
    row(Verb::Open, "open", "", false, &[], "find, open, rename or delete a saved session"),
    row(Verb::Export, "export", "FILE.md|FILE.json", true, &[], "write the conversation to a file"),
    row(Verb::Copy, "copy", "[code]", true, &["code"], "copy the last answer, or its last code block"),
    row(Verb::Thinking, "thinking", "[show|hide]", true, &["show", "hide"], "unfold or fold the thinking"),
    row(Verb::Theme, "theme", "[standard|high-contrast|plain]", true, &["standard", "high-contrast", "plain"], "the colours"),
    row(Verb::Mouse, "mouse", "[on|off]", true, &["on", "off"], "on: the wheel scrolls; off: the mouse selects text"),
    row(Verb::Stats, "stats", "", true, &[], "the figures of the last turn, and all settings"),
    row(Verb::Quit, "quit", "", true, &[], "leave; the conversation stays saved, unless `not saved` is shown"),
];

/// The command of that name.
pub fn find(name: &str) -> Option<&'static Command> {
    COMMANDS.iter().find(|command| command.name == name)
}

/// The command whose name is nearest to a mistyped one, if any is near.
pub fn nearest(name: &str) -> Option<&'static Command> {
    let start = |command: &Command| !name.is_empty() && command.name.starts_with(name);
    if let Some(command) = COMMANDS.iter().find(|command| start(command)) {
        return Some(command);
    }
    COMMANDS
        .iter()
        .map(|command| (crate::text::distance(command.name, name), command))
        .min_by_key(|(distance, _)| *distance)
        .filter(|(distance, command)| *distance <= 1 + command.name.len() / 4)
        .map(|(_, command)| command)
}

/// A draft that is a command: its name and the rest. A message that begins with a slash is written with a space before it.
pub fn parse(draft: &str) -> Option<(&str, &str)> {
    let rest = draft.strip_prefix('/')?;
    let end = rest.find(char::is_whitespace).unwrap_or(rest.len());
    let (name, arguments) = rest.split_at(end);
    Some((name, arguments.trim()))
}

/// What Tab may make of a draft.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// The draft it becomes.
    pub text: String,
    /// As the popup shows it.
    pub label: String,
    /// What it does.
    pub help: &'static str,
}

/// The completions of a draft; none where it is no command or has more than it needs.
pub fn complete(draft: &str) -> Vec<Candidate> {
    let Some(rest) = draft.strip_prefix('/') else {
        return Vec::new();
    };
    match rest.split_once(' ') {
        None => COMMANDS
            .iter()
            .filter(|command| command.name.starts_with(rest))
            .map(|command| Candidate {
                text: if command.arguments.is_empty() {
                    format!("/{}", command.name)
                } else {
                    format!("/{} ", command.name)
                },
                label: format!("/{} {}", command.name, command.arguments)
                    .trim_end()
                    .to_owned(),
                help: command.help,
            })
            .collect(),
        Some((name, word)) => find(name)
            .map(|command| {
                let choices = command.choices.iter();
                choices
                    .filter(|choice| choice.starts_with(word) && **choice != word)
                    .map(|choice| Candidate {
                        text: format!("/{name} {choice}"),
                        label: (*choice).to_owned(),
                        help: "",
                    })
                    .collect()
            })
            .unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_and_every_verb_stands_once_in_the_table() {
        for (index, command) in COMMANDS.iter().enumerate() {
            let others = &COMMANDS[index + 1..];
            assert!(
                others
                    .iter()
                    .all(|other| other.name != command.name && other.verb != command.verb),
                "{}",
                command.name
            );
            assert_eq!(find(command.name).unwrap().verb, command.verb);
        }
    }

    #[test]
    fn the_nearest_name_is_found_for_a_slip_and_none_for_nonsense() {
        for (typed, meant) in [
            ("hlep", "help"),
            ("tempreature", "temperature"),
            ("qit", "quit"),
            ("reas", "reasoning"),
            ("top-q", "top-k"),
        ] {
            assert_eq!(nearest(typed).map(|c| c.name), Some(meant), "{typed}");
        }
        for typed in ["etc/hosts", "xyzzy", ""] {
            assert_eq!(nearest(typed).map(|c| c.name), None, "{typed}");
        }
    }

    #[test]
    fn a_command_is_a_slash_a_name_and_the_rest() {
        assert_eq!(parse("/system  Be brief.\n"), Some(("system", "Be brief.")));
        assert_eq!(parse("/help"), Some(("help", "")));
        assert_eq!(parse("/"), Some(("", "")));
        assert_eq!(parse(" /help"), None);
        assert_eq!(parse("help"), None);
    }

    #[test]
    fn names_are_completed_and_then_the_words_that_may_follow() {
        let texts =
            |draft| -> Vec<String> { complete(draft).into_iter().map(|c| c.text).collect() };
        assert_eq!(
            texts("/re"),
            [
                "/regen",
                "/reasoning ",
                "/repetition-penalty ",
                "/read ",
                "/rename "
            ]
        );
        assert_eq!(texts("/reasoning h"), ["/reasoning high"]);
        assert_eq!(texts("/reasoning high"), [""; 0]);
        assert_eq!(texts("/nothing x"), [""; 0]);
        assert_eq!(texts("no command"), [""; 0]);
        assert_eq!(complete("/").len(), COMMANDS.len());
    }
}
