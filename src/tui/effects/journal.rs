//! The saved sessions: the one being written, and what effects ask of the others.

use std::collections::VecDeque;
use std::time::SystemTime;

use crate::session::Setup;
use crate::store::{Error, Log, Record, Session, Store};
use crate::tui::event::{Effect, Msg, Opened};

/// The store, and the session being written.
#[derive(Debug, Default)]
pub struct Journal {
    /// `None` where there is no place for sessions.
    store: Option<Store>,
    /// Made with the first record.
    log: Option<Log>,
    /// What could not be written yet, in order.
    waiting: VecDeque<Record>,
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
        self.waiting.clear();
        self.log = Some(session.log);
        Opened {
            title: session.title,
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
                self.log = None;
                self.waiting.clear();
                Vec::new()
            }
            Effect::ListSessions => vec![self.list()],
            Effect::OpenSession(id) => {
                let opened = self.load(&id).map(|session| self.open(session));
                vec![Msg::Opened(Box::new(opened))]
            }
            Effect::RenameSession { id, title } => self.rename(id.as_deref(), title),
            Effect::DeleteSession(id) => self.delete(&id),
            _ => Vec::new(),
        }
    }

    fn store(&self) -> Result<&Store, String> {
        self.store
            .as_ref()
            .ok_or_else(|| "there is no place for sessions: set HOME, or GPTOSS_STATE_DIR".into())
    }

    /// Writes what waits and `record`. A record is never left out, as later ones stand on it; a problem is
    /// told once.
    fn save(&mut self, record: Record) -> Vec<Msg> {
        let told = !self.waiting.is_empty();
        self.waiting.push_back(record);
        match self.write() {
            Err(error) if !told => {
                vec![Msg::Problem(format!(
                    "the conversation is not saved: {error}"
                ))]
            }
            Ok(()) if told => vec![Msg::Done("the conversation is saved again".to_owned())],
            _ => Vec::new(),
        }
    }

    fn write(&mut self) -> Result<(), String> {
        while let Some(record) = self.waiting.front() {
            let log = if let Some(log) = &mut self.log {
                log
            } else {
                let created = self.store()?.create(SystemTime::now());
                self.log.insert(created.map_err(said)?)
            };
            log.append(record).map_err(said)?;
            self.waiting.pop_front();
        }
        Ok(())
    }

    fn list(&self) -> Msg {
        let listed = self.store().and_then(|store| store.list().map_err(said));
        Msg::Sessions(listed)
    }

    fn is_current(&self, id: &str) -> bool {
        self.log.as_ref().is_some_and(|log| log.id() == id)
    }

    fn load(&mut self, id: &str) -> Result<Session, String> {
        if self.is_current(id) {
            // Its file is locked by this log, and everything said is in it.
            self.log = None;
        }
        let loaded = self.store()?.load(id);
        loaded.map_err(said)
    }

    fn rename(&mut self, id: Option<&str>, title: String) -> Vec<Msg> {
        let done = Msg::Done(format!("renamed to `{title}`"));
        let Some(id) = id else {
            let problems = self.save(Record::Title(title));
            return if problems.is_empty() {
                vec![done]
            } else {
                problems
            };
        };
        if self.is_current(id) {
            let mut messages = self.rename(None, title);
            messages.push(self.list());
            return messages;
        }
        let renamed = self
            .store()
            .and_then(|store| store.rename(id, &title).map_err(said));
        vec![renamed.map_or_else(Msg::Problem, |()| done), self.list()]
    }

    fn delete(&mut self, id: &str) -> Vec<Msg> {
        if self.is_current(id) {
            let problem = "this is the conversation you are in: begin a new one first".to_owned();
            return vec![Msg::Problem(problem), self.list()];
        }
        let deleted = self
            .store()
            .and_then(|store| store.delete(id).map_err(said));
        match deleted {
            Ok(()) => vec![self.list()],
            Err(problem) => vec![Msg::Problem(problem), self.list()],
        }
    }
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
            matches!(&answers[..], [Msg::Problem(_), Msg::Sessions(Ok(all))] if all.len() == 1)
        );
        journal.perform(Effect::NewSession);
        let answers = journal.perform(Effect::DeleteSession(id));
        assert!(matches!(&answers[..], [Msg::Sessions(Ok(all))] if all.is_empty()));
    }

    #[test]
    fn without_a_place_it_is_said_that_nothing_is_saved() {
        let mut journal = Journal::new(None);
        for (effect, problem) in [
            (
                message(0, "Hello"),
                "the conversation is not saved: there is no place for sessions",
            ),
            (
                Effect::DeleteSession("x".to_owned()),
                "there is no place for sessions",
            ),
        ] {
            let answers = journal.perform(effect);
            assert!(
                matches!(&answers[0], Msg::Problem(text) if text.starts_with(problem)),
                "{answers:?}"
            );
        }
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
        std::fs::remove_file(&place).unwrap();
        assert!(matches!(
            &journal.perform(message(2, "c"))[..],
            [Msg::Done(_)]
        ));
        let id = listed(&mut journal)[0].0.clone();
        drop(journal);
        assert_eq!(Store::open(place).load(&id).unwrap().tree.len(), 3);
    }
}
