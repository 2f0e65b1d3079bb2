//! The saved sessions: the one being written, and what effects ask of the others.

use std::time::SystemTime;

use crate::session::Setup;
use crate::store::{Error, Log, Record, Session, Store};
use crate::text::one_line;
use crate::tui::event::{Effect, Msg, Opened};

/// The store, and the session being written.
#[derive(Debug, Default)]
pub struct Journal {
    /// `None` where there is no place for sessions.
    store: Option<Store>,
    place: Place,
    /// What could not be written yet, in order.
    waiting: Vec<Record>,
    /// Why the last write failed.
    problem: Option<String>,
    /// Why a conversation that was left was not saved to its end.
    left: Option<String>,
}

/// Where the conversation is saved.
#[derive(Debug, Default)]
enum Place {
    /// In a file that is made with the first record.
    #[default]
    New,
    Open(Log),
    /// Its file is gone for this reason, and with it what further records would stand on.
    Lost {
        how: String,
        told: bool,
    },
}

impl Journal {
    /// Sessions of `store`.
    pub fn new(store: Option<Store>) -> Self {
        Self {
            store,
            ..Self::default()
        }
    }

    /// Goes on with a session that was loaded: what is said from here on is added to it.
    pub fn open(&mut self, session: Session) -> Opened {
        self.leave();
        self.place = Place::Open(session.log);
        Opened {
            title: session.title.as_deref().map(one_line),
            begun: session.begun,
            tree: session.tree,
            setup: Setup {
                date: None,
                reasoning: session.reasoning,
                instructions: session.instructions,
                tools: Vec::new(),
            },
            warning: session.warning,
        }
    }

    /// Carries out an effect that concerns saved sessions, and gives what is to be answered.
    pub(super) fn perform(&mut self, effect: Effect) -> Vec<Msg> {
        match effect {
            Effect::Save(record) => self.save(record),
            Effect::NewSession => {
                self.leave();
                self.place = Place::New;
                Vec::new()
            }
            Effect::SaveAll(records) => vec![self.save_all(records)],
            Effect::ListSessions => vec![self.list()],
            Effect::OpenSession(id) => {
                let opened = self.load(&id).map(|session| self.open(session));
                vec![Msg::Opened(Box::new(opened))]
            }
            Effect::RenameSession { id: None, title } => {
                let done = renamed(&title);
                let problems = self.save(Record::Title(title));
                if problems.is_empty() {
                    vec![done]
                } else {
                    problems
                }
            }
            Effect::RenameSession {
                id: Some(id),
                title,
            } => self.rename_listed(&id, title),
            Effect::DeleteSession(id) => self.delete(&id),
            _ => Vec::new(),
        }
    }

    /// Why something that was said is not saved, if it is not.
    pub fn unsaved(&self) -> Option<&str> {
        self.problem.as_deref()
    }

    /// Tries for the last time, and gives what to say where that is no use either.
    pub fn finish(&mut self) -> Option<String> {
        if self.problem.is_some() && !self.waiting.is_empty() {
            let _ = self.write();
        }
        let problem = self.problem.take().or(self.left.take())?;
        Some(not_saved(&problem))
    }

    /// The conversation is another from here on.
    fn leave(&mut self) {
        self.left = self.problem.take().or(self.left.take());
        self.waiting.clear();
    }

    pub(super) fn store(&self) -> Result<&Store, String> {
        self.store
            .as_ref()
            .ok_or_else(|| "there is no place for sessions: set HOME, or GPTOSS_STATE_DIR".into())
    }

    /// Writes what waits and `record`. A record is never left out, as later ones stand on it; a problem is
    /// told once.
    fn save(&mut self, record: Record) -> Vec<Msg> {
        let told = !self.waiting.is_empty();
        if let Record::Node { id, .. } = &record {
            // A whole turn needs no pieces of it.
            let is_piece =
                |other: &Record| matches!(other, Record::Partial(piece) if piece.id == *id);
            self.waiting.retain(|other| !is_piece(other));
        }
        self.waiting.push(record);
        match self.write() {
            Ok(()) if told => vec![Msg::Done("the conversation is saved again".to_owned())],
            Ok(()) => Vec::new(),
            Err(_) if matches!(self.place, Place::Lost { .. }) => self.tell_loss(),
            Err(_) if told => Vec::new(),
            Err(error) => vec![Msg::Problem(not_saved(&error))],
        }
    }

    /// Nothing that comes can be saved before everything is saved again, so it need not wait.
    fn tell_loss(&mut self) -> Vec<Msg> {
        self.waiting.clear();
        match &mut self.place {
            Place::Lost {
                how,
                told: told @ false,
            } => {
                *told = true;
                vec![Msg::Lost(how.clone())]
            }
            _ => Vec::new(),
        }
    }

    /// Begins a new file with the whole conversation.
    fn save_all(&mut self, records: Vec<Record>) -> Msg {
        let before = std::mem::take(&mut self.place);
        self.waiting = records;
        match (self.write(), &self.place, before) {
            (Ok(()), Place::Open(log), Place::Lost { how, .. }) => Msg::Problem(format!(
                "{how}: all of it is saved again, in `{}`",
                log.path().display()
            )),
            (Ok(()), Place::Open(log), _) => Msg::Told(format!(
                "the conversation is saved, and will be as it goes on, in `{}`",
                log.path().display()
            )),
            (Err(error), _, Place::Lost { how, .. }) => {
                Msg::Problem(format!("{how}; {}", not_saved(&error)))
            }
            (Err(error), ..) => Msg::Problem(not_saved(&error)),
            (Ok(()), ..) => Msg::Done("nothing was said that could be saved".to_owned()),
        }
    }

    fn write(&mut self) -> Result<(), String> {
        let result = self.try_to_write();
        self.problem = result.as_ref().err().cloned();
        result
    }

    fn try_to_write(&mut self) -> Result<(), String> {
        if self.waiting.is_empty() {
            return Ok(());
        }
        match &mut self.place {
            Place::New => {
                let created = self.store()?.create(SystemTime::now(), &self.waiting);
                self.place = Place::Open(created.map_err(said)?);
            }
            Place::Open(log) => {
                if let Err(error) = log.append(&self.waiting) {
                    if let Error::Lost { how, .. } = error {
                        self.lose(format!("the session's file was {how} while it was in use"));
                    }
                    return Err(said(error));
                }
            }
            Place::Lost { how, .. } => return Err(how.clone()),
        }
        self.waiting.clear();
        Ok(())
    }

    fn lose(&mut self, how: String) {
        self.place = Place::Lost { how, told: false };
    }

    fn list(&self) -> Msg {
        let store = self.store();
        let listed = store.and_then(|store| store.list(SystemTime::now()).map_err(said));
        Msg::Sessions(listed)
    }

    fn is_current(&self, id: &str) -> bool {
        matches!(&self.place, Place::Open(log) if log.id() == id)
    }

    fn load(&mut self, id: &str) -> Result<Session, String> {
        let is_current = self.is_current(id);
        if is_current {
            // Its file is locked by this log, and everything said is in it.
            self.place = Place::New;
        }
        let loaded = self.store()?.load(id).map_err(said);
        if let (true, Err(problem)) = (is_current, &loaded) {
            self.lose(problem.clone());
        }
        loaded
    }

    fn rename_listed(&mut self, id: &str, title: String) -> Vec<Msg> {
        if self.is_current(id) {
            let mut messages = self.save(Record::Title(title.clone()));
            if messages.is_empty() {
                messages = vec![renamed(&title), Msg::Renamed(title)];
            }
            messages.push(self.list());
            return messages;
        }
        let store = self.store();
        let result = store.and_then(|store| store.rename(id, &title).map_err(said));
        self.listed_again(result.map(|()| renamed(&title)))
    }

    fn delete(&self, id: &str) -> Vec<Msg> {
        if self.is_current(id) {
            let problem = "this is the conversation you are in: begin a new one first";
            return self.listed_again(Err(problem.to_owned()));
        }
        let store = self.store();
        let result = store.and_then(|store| store.delete(id).map_err(said));
        self.listed_again(result.map(|()| Msg::Done("deleted".to_owned())))
    }

    /// The list after something was done to it, and what came of that.
    fn listed_again(&self, result: Result<Msg, String>) -> Vec<Msg> {
        vec![self.list(), result.unwrap_or_else(Msg::Refused)]
    }
}

fn renamed(title: &str) -> Msg {
    Msg::Done(format!("renamed to `{title}`"))
}

fn not_saved(error: &str) -> String {
    format!("the conversation is not saved: {error}")
}

#[allow(clippy::needless_pass_by_value)] // As `map_err` hands it over.
fn said(error: Error) -> String {
    error.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{Entry, NodeId};

    fn message(id: u32, text: &str) -> Effect {
        Effect::Save(Record::Node {
            id: NodeId(id),
            parent: id.checked_sub(1).map(NodeId),
            entry: Entry::User(text.to_owned()),
        })
    }

    fn journal(directory: &std::path::Path) -> Journal {
        Journal::new(Some(Store::open(directory)))
    }

    fn listed(journal: &mut Journal) -> Vec<(String, String)> {
        match journal.perform(Effect::ListSessions).as_slice() {
            [Msg::Sessions(Ok(all))] => all
                .iter()
                .map(|summary| (summary.id.clone(), summary.title.clone()))
                .collect(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_session_is_made_with_its_first_record_and_can_be_opened_again() {
        let home = tempfile::tempdir().unwrap();
        let mut journal = journal(home.path());
        assert_eq!(listed(&mut journal), []);
        assert!(journal.perform(message(0, "Hello")).is_empty());
        let all = listed(&mut journal);
        assert_eq!(all.len(), 1);
        let id = all[0].0.clone();
        // Also while it is the current one.
        for _ in 0..2 {
            let opened = journal.perform(Effect::OpenSession(id.clone()));
            let [Msg::Opened(opened)] = opened.as_slice() else {
                panic!("{opened:?}");
            };
            let opened = opened.as_ref().as_ref().unwrap();
            assert_eq!(opened.tree.len(), 1);
        }
        assert!(journal.perform(message(1, "More")).is_empty());
        let store = Store::open(home.path());
        assert!(store.load(&id).is_err(), "it is locked");
        drop(journal);
        assert_eq!(store.load(&id).unwrap().tree.len(), 2);
    }

    #[test]
    fn the_current_session_can_be_renamed_and_not_deleted() {
        let home = tempfile::tempdir().unwrap();
        let mut journal = journal(home.path());
        journal.perform(message(0, "Hello"));
        let id = listed(&mut journal)[0].0.clone();
        let title = "Greetings".to_owned();
        journal.perform(Effect::RenameSession { id: None, title });
        assert_eq!(listed(&mut journal)[0].1, "Greetings");
        let answers = journal.perform(Effect::DeleteSession(id.clone()));
        assert!(
            matches!(&answers[..], [Msg::Sessions(Ok(all)), Msg::Refused(_)] if all.len() == 1)
        );
        journal.perform(Effect::NewSession);
        let answers = journal.perform(Effect::DeleteSession(id));
        assert!(matches!(&answers[..], [Msg::Sessions(Ok(all)), Msg::Done(_)] if all.is_empty()));
    }

    #[test]
    fn without_a_place_it_is_said_that_nothing_is_saved() {
        let mut journal = Journal::new(None);
        let answers = journal.perform(message(0, "Hello"));
        let problem = "the conversation is not saved: there is no place for sessions";
        assert!(
            matches!(&answers[..], [Msg::Problem(text)] if text.starts_with(problem)),
            "{answers:?}"
        );
        let answers = journal.perform(Effect::DeleteSession("x".to_owned()));
        assert!(
            matches!(&answers[..], [Msg::Sessions(Err(_)), Msg::Refused(_)]),
            "{answers:?}"
        );
    }

    #[test]
    fn the_session_in_use_is_renamed_in_the_list_too() {
        let home = tempfile::tempdir().unwrap();
        let mut journal = journal(home.path());
        journal.perform(message(0, "Hello"));
        let id = Some(listed(&mut journal)[0].0.clone());
        let title = "Greetings".to_owned();
        let answers = journal.perform(Effect::RenameSession { id, title });
        assert!(
            matches!(&answers[..], [Msg::Done(_), Msg::Renamed(title), Msg::Sessions(Ok(all))]
                if title == "Greetings" && all[0].title == "Greetings"),
            "{answers:?}"
        );
    }

    /// Loses the file of a session in use, and saves again what was said.
    fn lose(how: &str, lose: impl Fn(&std::path::Path)) {
        let home = tempfile::tempdir().unwrap();
        let mut journal = journal(home.path());
        journal.perform(message(0, "a"));
        let old = listed(&mut journal)[0].0.clone();
        let path = home.path().join(format!("{old}.jsonl"));
        lose(&path);
        let after = std::fs::read(&path).ok();
        let answers = journal.perform(message(1, "b"));
        let why = format!("the session's file was {how} while it was in use");
        assert!(
            matches!(&answers[..], [Msg::Lost(text)] if *text == why),
            "{answers:?}"
        );
        // Told once, and nothing is written that stands on what is gone.
        assert!(journal.perform(message(2, "c")).is_empty());
        let records = ["a", "b", "c"].iter().zip(0..).map(|(text, id)| {
            let Effect::Save(record) = message(id, text) else {
                unreachable!("a message is a record")
            };
            record
        });
        let answers = journal.perform(Effect::SaveAll(records.collect()));
        let [Msg::Problem(text)] = &answers[..] else {
            panic!("{answers:?}")
        };
        assert!(text.starts_with(&why), "{text}");
        assert!(text.contains("is saved again"), "{text}");
        assert!(journal.perform(message(3, "d")).is_empty());
        if after.is_some() {
            assert_eq!(
                std::fs::read(&path).ok(),
                after,
                "what is there now is not ours"
            );
        }
        let new = text.split('`').nth(1).unwrap();
        let new = std::path::Path::new(new).file_stem().unwrap();
        drop(journal);
        let saved = Store::open(home.path())
            .load(new.to_str().unwrap())
            .unwrap();
        assert_eq!(saved.tree.len(), 4);
    }

    #[test]
    fn a_file_that_was_deleted_is_noticed_and_everything_saved_again() {
        lose("deleted", |path| std::fs::remove_file(path).unwrap());
    }

    #[cfg(unix)]
    #[test]
    fn a_file_that_was_replaced_or_changed_is_left_as_it_is_now() {
        lose("replaced", |path| {
            let other = path.with_extension("other");
            std::fs::copy(path, &other).unwrap();
            std::fs::rename(&other, path).unwrap();
        });
        lose("changed", |path| {
            let text = std::fs::read_to_string(path).unwrap();
            std::fs::write(path, text.replace("\"a\"", "\"longer\"")).unwrap();
        });
    }

    #[test]
    fn a_session_in_use_that_cannot_be_opened_again_is_saved_again() {
        let home = tempfile::tempdir().unwrap();
        let mut journal = journal(home.path());
        journal.perform(message(0, "a"));
        let id = listed(&mut journal)[0].0.clone();
        std::fs::remove_file(home.path().join(format!("{id}.jsonl"))).unwrap();
        let answers = journal.perform(Effect::OpenSession(id));
        assert!(matches!(&answers[..], [Msg::Opened(result)] if result.is_err()));
        assert!(matches!(
            &journal.perform(message(1, "b"))[..],
            [Msg::Lost(_)]
        ));
    }

    #[test]
    fn what_could_not_be_written_is_written_later_and_told_once() {
        let home = tempfile::tempdir().unwrap();
        let place = home.path().join("sessions");
        std::fs::write(&place, "a file where the directory should be").unwrap();
        let mut journal = journal(&place);
        assert!(matches!(
            &journal.perform(message(0, "a"))[..],
            [Msg::Problem(_)]
        ));
        assert!(journal.perform(message(1, "b")).is_empty());
        assert!(journal.unsaved().is_some());
        let said = journal.finish().unwrap();
        assert!(
            said.starts_with("the conversation is not saved: "),
            "{said}"
        );
        std::fs::remove_file(&place).unwrap();
        assert!(matches!(
            &journal.perform(message(2, "c"))[..],
            [Msg::Done(_)]
        ));
        assert_eq!(journal.unsaved(), None);
        assert_eq!(journal.finish(), None);
        let id = listed(&mut journal)[0].0.clone();
        drop(journal);
        assert_eq!(Store::open(place).load(&id).unwrap().tree.len(), 3);
    }
}
