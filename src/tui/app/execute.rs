//! Commands, carried out.

use std::path::{Path, PathBuf};
use std::str::FromStr;

use super::note::About;
use super::{App, Left, Mode, Phase};
use crate::session::{Kind, Reasoning, Sampling};
use crate::settings::ThemeName;
use crate::store::{Entry, Tree, TurnRecord, export};
use crate::tui::commands::{self, Verb};
use crate::tui::event::{Command, Effect};
use crate::tui::markdown::Markdown;
use crate::tui::text::sanitize;
use crate::tui::view;
use crate::tui::view::figures::count;

impl App {
    /// Carries out what is typed; the draft stays where it is not understood.
    pub(super) fn execute(&mut self, name: &str, arguments: &str) {
        let Some(command) = commands::find(name) else {
            let meant = match commands::nearest(name) {
                Some(nearest) => format!(": did you mean /{}?", nearest.name),
                None => ": /help lists all; a space before it sends it as a message".to_owned(),
            };
            self.warn(&format!("there is no command /{name}{meant}"));
            return;
        };
        // A message may wait for the very model that this command is to bring.
        let brings_a_model =
            command.verb == Verb::Model && matches!(self.phase, Phase::Failed { .. });
        if !command.while_busy && !brings_a_model && !self.may_change() {
            return;
        }
        if command.arguments.is_empty() && !arguments.is_empty() {
            self.warn(&format!("/{name} takes nothing, but `{arguments}` follows"));
            return;
        }
        if !command.arguments.is_empty()
            && !command.arguments.starts_with('[')
            && arguments.is_empty()
        {
            self.warn(&format!("/{name} {}: {}", command.arguments, command.help));
            return;
        }
        let kept = self.draft.text().to_owned();
        self.draft.sent();
        let is_answered = matches!(
            command.verb,
            Verb::Read | Verb::Save | Verb::Rename | Verb::Export | Verb::Copy
        );
        self.under_way = is_answered.then(|| kept.clone());
        if self.perform(command.verb, arguments).is_err() {
            self.draft.put_back(&kept);
        } else if !command.while_busy {
            self.transcript.drop_errors(false);
        }
    }

    /// `Err` where the arguments are not understood, which was then said.
    fn perform(&mut self, verb: Verb, arguments: &str) -> Result<(), ()> {
        match verb {
            Verb::Help => self.mode = Mode::Help { scroll: 0 },
            Verb::New => self.new_conversation(),
            Verb::Clear => {
                self.left = Some(Left(self.tree.head()));
                self.editing = None;
                self.set_head(None);
                self.transcript.clear();
                self.moved();
                self.say("forgotten; `/branch back` returns to it");
            }
            Verb::Regenerate => self.regenerate(),
            Verb::Edit if arguments.is_empty() => self.edit(None),
            Verb::Edit => {
                let number = self.number(arguments, "the number of a message, 1 for the first")?;
                self.edit(Some(number));
            }
            Verb::Undo => self.undo_exchange(),
            Verb::Branch => self.go_to_branch(arguments),
            Verb::System => self.system(arguments),
            Verb::Reasoning => return self.reasoning(arguments),
            Verb::Temperature
            | Verb::TopK
            | Verb::TopP
            | Verb::MinP
            | Verb::RepetitionPenalty
            | Verb::Seed => return self.sample(verb, arguments),
            Verb::MaxTokens => match arguments {
                "" => {}
                "off" => self.max_tokens = None,
                number => {
                    let number: usize = self.number(number, "1 or more, or off")?;
                    if number == 0 {
                        self.warn("max-tokens 0 is out of range, expected 1 or more, or off");
                        return Err(());
                    }
                    self.max_tokens = Some(number);
                }
            },
            Verb::Model => self.change_model(arguments),
            Verb::Read => self.effect(Effect::ReadFile(file_name(arguments))),
            Verb::Save => self.save(arguments),
            Verb::Rename => self.rename(arguments),
            Verb::Open => self.list_sessions(),
            Verb::Export => return self.export(&file_name(arguments)),
            Verb::Copy => self.copy(arguments),
            Verb::Thinking => match arguments {
                "" => self.toggle_thinking(),
                "show" => self.fold_thinking(true),
                "hide" => self.fold_thinking(false),
                other => return self.refuse(other, "show or hide"),
            },
            Verb::Theme => match arguments {
                "" => {}
                name => match ThemeName::ALL
                    .into_iter()
                    .find(|known| known.as_str() == name)
                {
                    Some(theme) => self.set_theme(theme),
                    None => return self.refuse(name, "standard, high-contrast or plain"),
                },
            },
            Verb::Mouse => match arguments {
                "" => {}
                "on" => self.set_mouse(true),
                "off" => self.set_mouse(false),
                other => return self.refuse(other, "on or off"),
            },
            Verb::Stats => {
                let text = view::stats::text(self);
                self.tell(&text);
            }
            Verb::Quit => self.quit(0),
        }
        match verb {
            Verb::MaxTokens => self.say(&view::stats::max_tokens(self)),
            Verb::Theme => self.say(&view::stats::theme(self)),
            Verb::Mouse => self.say(view::stats::mouse(self)),
            _ => {}
        }
        Ok(())
    }

    fn refuse(&mut self, value: &str, expected: &str) -> Result<(), ()> {
        self.warn(&format!("`{value}` is not understood, expected {expected}"));
        Err(())
    }

    fn number<T: FromStr>(&mut self, value: &str, expected: &str) -> Result<T, ()> {
        value.parse().map_err(|_| {
            self.warn(&format!("`{value}` is not understood, expected {expected}"));
        })
    }

    fn new_conversation(&mut self) {
        self.tree = Tree::default();
        self.title = None;
        self.title_saved = true;
        self.begun = None;
        self.left = None;
        self.editing = None;
        self.setup_saved = false;
        self.transcript.clear();
        self.moved();
        self.effect(Effect::NewSession);
        self.say("a new conversation");
    }

    fn system(&mut self, text: &str) {
        match text {
            "" => {
                let text = match &self.setup.instructions {
                    Some(text) => format!("system prompt: {text}"),
                    None => "there is no system prompt; `/system TEXT` sets one".to_owned(),
                };
                self.tell(&text);
                return;
            }
            "off" => self.setup.instructions = None,
            text => self.setup.instructions = Some(text.to_owned()),
        }
        self.setup_changed();
        self.say("the system prompt is changed; the next turn reads everything once");
    }

    fn reasoning(&mut self, level: &str) -> Result<(), ()> {
        if !level.is_empty() {
            match level.parse::<Reasoning>() {
                Ok(level) => self.setup.reasoning = level,
                Err(error) => {
                    self.warn(&error.to_string());
                    return Err(());
                }
            }
            self.setup_changed();
        }
        self.say(&format!("reasoning: {}", self.setup.reasoning));
        Ok(())
    }

    fn sample(&mut self, verb: Verb, value: &str) -> Result<(), ()> {
        if !value.is_empty() {
            let mut sampling = self.sampling.clone();
            match verb {
                Verb::TopK => sampling.top_k = self.number(value, "0 (keeps all) or more")?,
                Verb::Seed if value == "off" => sampling.seed = None,
                Verb::Seed => {
                    sampling.seed = Some(self.number(value, "0 to 18446744073709551615, or off")?);
                }
                verb => *field(&mut sampling, verb) = self.number(value, "a number")?,
            }
            if let Err(error) = sampling.validate() {
                self.warn(&error.to_string());
                return Err(());
            }
            self.sampling = sampling;
        }
        self.say(&view::stats::sampling(&self.sampling));
        Ok(())
    }

    fn change_model(&mut self, name: &str) {
        match (&self.phase, name) {
            (Phase::Loading { .. } | Phase::Stopping, _) => {
                self.warn_of_the_load("a model is being loaded already: Esc stops it");
            }
            (Phase::Failed { .. }, "") => {
                self.chosen = true;
                self.load(self.wanted.clone());
            }
            (_, "") => self.tell(&view::stats::model(self)),
            (_, name) => {
                self.chosen = true;
                self.load(name.to_owned());
                self.setup_changed();
            }
        }
    }

    fn save(&mut self, title: &str) {
        if !self.saving {
            if !title.is_empty() {
                self.title = Some(title.to_owned());
            }
            self.save_all();
        } else if title.is_empty() {
            self.say("the session is saved as it goes; `/save TITLE` names it");
        } else {
            self.rename(title);
        }
    }

    fn set_mouse(&mut self, on: bool) {
        self.mouse = on;
        self.effect(Effect::Mouse(on));
    }

    /// Attaches a file's text to the draft and says what there is room for.
    pub(super) fn attach(&mut self, path: &Path, text: &str) {
        self.draft.attach(&path.display().to_string(), text);
        let texts = vec![text.to_owned(), self.draft.expanded()];
        self.say_attached("about ", tokens(text), tokens(&texts[1]));
        self.counts += 1;
        let id = self.counts;
        self.note_is_about(About::Count(id));
        self.effect(Effect::Send(Command::Count { id, texts }));
    }

    /// The model has counted what was attached.
    pub(super) fn counted(&mut self, id: u64, tokens: &[usize]) {
        let is_said = self
            .note
            .as_ref()
            .is_some_and(|note| note.about == Some(About::Count(id)));
        if let (true, [file, draft]) = (is_said, tokens) {
            self.say_attached("", *file, *draft);
        }
    }

    fn say_attached(&mut self, about: &str, file: usize, draft: usize) {
        match self.too_long(about, draft) {
            Some(warning) => self.warn(&warning),
            None => self.say(&format!(
                "attached, {about}{} tokens; write what you want to know of it",
                count(file)
            )),
        }
    }

    /// Why the draft, of so many tokens, cannot be sent.
    fn too_long(&self, about: &str, needed: usize) -> Option<String> {
        let model = self.model.as_ref()?;
        // What follows an edited message is not read again.
        let used = match self.editing {
            Some(_) => 0,
            None => self.context_used(),
        };
        let left = model.context.saturating_sub(used);
        if needed <= left {
            return None;
        }
        let way_out = if needed <= model.context && used > 0 {
            "`/new` starts afresh"
        } else {
            "attach less of it"
        };
        let larger = if needed <= model.most {
            self.larger_context()
        } else {
            format!("; this model allows at most {} tokens", count(model.most))
        };
        Some(format!(
            "attached, but the message is too long: {about}{} tokens, and {} of the context's {} are left: {way_out}{larger}",
            count(needed),
            count(left),
            count(model.context),
        ))
    }

    fn rename(&mut self, title: &str) {
        // A title is one line, whatever the draft was.
        let title = sanitize(title);
        let title = title.split_whitespace().collect::<Vec<_>>().join(" ");
        if title.is_empty() {
            self.warn("a title needs a letter that can be shown");
        } else if self.saving && self.tree.is_empty() {
            self.say(&format!("the conversation will be called `{title}`"));
            self.title = Some(title);
            self.title_saved = false;
        } else if self.saving {
            self.title = Some(title.clone());
            self.effect(Effect::RenameSession { id: None, title });
        } else {
            self.warn("the session is not being saved; `/save TITLE` begins it");
        }
    }

    fn export(&mut self, path: &Path) -> Result<(), ()> {
        let title = self.title.clone().or_else(|| self.tree.beginning());
        let title = title.as_deref().unwrap_or("Conversation");
        let ending = path.extension().and_then(|end| end.to_str());
        let content = match ending.map(str::to_ascii_lowercase).as_deref() {
            Some("md") => {
                let about = [
                    ("Date", self.begun.clone().or_else(|| self.today.clone())),
                    ("Model", Some(self.wanted.clone())),
                    (
                        "Device",
                        self.model.as_ref().map(|model| model.device.clone()),
                    ),
                    ("Reasoning", Some(self.setup.reasoning.to_string())),
                    ("Sampling", Some(view::stats::sampling(&self.sampling))),
                ];
                export::markdown(title, &about, &self.tree)
            }
            Some("json") => export::json(title, &self.tree),
            _ => {
                return self.refuse(
                    &path.display().to_string(),
                    "a name that ends in .md or .json",
                );
            }
        };
        self.effect(Effect::Export {
            path: path.to_owned(),
            content,
        });
        Ok(())
    }

    /// The last turn on the current branch.
    pub(crate) fn last_turn(&self) -> Option<&TurnRecord> {
        let path = self.tree.path();
        path.iter()
            .rev()
            .find_map(|node| match self.tree.entry(*node) {
                Entry::Turn(record) => Some(record),
                Entry::User(_) => None,
            })
    }

    pub(super) fn copy(&mut self, what: &str) {
        let answer = self.last_turn().map(answer);
        let answer = answer.map(|text| sanitize(&text).into_owned());
        let answer = answer.filter(|text| !text.is_empty());
        let Some(answer) = answer else {
            self.warn("there is no answer to copy");
            return;
        };
        let text = match what {
            "" => Some(answer),
            "code" => {
                let mut markdown = Markdown::new(80, &self.theme);
                markdown.push(&answer);
                markdown.finish();
                markdown.code_blocks().pop()
            }
            other => {
                self.warn(&format!(
                    "`{other}` is not understood, expected nothing or code"
                ));
                return;
            }
        };
        match text {
            Some(text) => self.effect(Effect::Copy(text)),
            None => self.warn("there is no code block in the last answer"),
        }
    }
}

/// About as many as a text of this length has: four bytes each, in English as in Chinese.
fn tokens(text: &str) -> usize {
    text.len().div_ceil(4)
}

/// A file as it is typed, or dropped by a terminal: in quotes, or with spaces behind backslashes.
fn file_name(typed: &str) -> PathBuf {
    let quoted = ['"', '\'']
        .into_iter()
        .find_map(|quote| typed.strip_prefix(quote)?.strip_suffix(quote));
    match quoted {
        Some(name) => PathBuf::from(name),
        None => PathBuf::from(typed.replace("\\ ", " ")),
    }
}

fn field(sampling: &mut Sampling, verb: Verb) -> &mut f32 {
    match verb {
        Verb::TopP => &mut sampling.top_p,
        Verb::MinP => &mut sampling.min_p,
        Verb::RepetitionPenalty => &mut sampling.repetition_penalty,
        _ => &mut sampling.temperature,
    }
}

/// The answer's text; where there is none, what was said before a tool call.
fn answer(record: &TurnRecord) -> String {
    let text = |kind| {
        let texts = record
            .messages
            .iter()
            .filter(|message| message.kind() == kind);
        let texts: Vec<_> = texts.map(crate::session::Message::text).collect();
        texts.join("\n\n")
    };
    let answer = text(Kind::Final);
    if answer.is_empty() {
        text(Kind::Preamble)
    } else {
        answer
    }
}
