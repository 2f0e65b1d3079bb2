//! What was edited, to be taken back.

/// More steps are forgotten.
const MAX_STEPS: usize = 1000;

/// What kind of edit may join with the one before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// One character; those of a word are one step.
    Typing,
    /// One character back; one step until something else is done.
    Erasing,
    Other,
}

/// `removed` at a byte was replaced by `inserted`.
#[derive(Clone, Debug)]
pub struct Edit {
    pub at: usize,
    pub removed: String,
    pub inserted: String,
    /// The caret before it.
    pub caret: usize,
    pub kind: Kind,
}

/// Edits done and undone.
#[derive(Clone, Debug, Default)]
pub struct History {
    done: Vec<Edit>,
    undone: Vec<Edit>,
    /// The last edit is closed: nothing joins it.
    is_closed: bool,
}

impl History {
    pub fn push(&mut self, edit: Edit) {
        self.undone.clear();
        let is_closed = std::mem::replace(&mut self.is_closed, false);
        if !is_closed
            && let Some(last) = self.done.last_mut()
            && last.join(&edit)
        {
            return;
        }
        self.done.push(edit);
        if self.done.len() > MAX_STEPS {
            self.done.remove(0);
        }
    }

    /// What comes next is a step of its own.
    pub fn interrupt(&mut self) {
        self.is_closed = true;
    }

    pub fn undo(&mut self) -> Option<Edit> {
        let edit = self.done.pop()?;
        self.undone.push(edit.clone());
        self.is_closed = true;
        Some(edit)
    }

    pub fn redo(&mut self) -> Option<Edit> {
        let edit = self.undone.pop()?;
        self.done.push(edit.clone());
        self.is_closed = true;
        Some(edit)
    }
}

impl Edit {
    /// Takes `next` in, if both are one step to the user.
    fn join(&mut self, next: &Self) -> bool {
        if self.kind != next.kind {
            return false;
        }
        match self.kind {
            Kind::Typing => {
                let ends_word = self.inserted.ends_with(char::is_whitespace);
                let is_space = next.inserted.starts_with(char::is_whitespace);
                let joins = next.at == self.at + self.inserted.len() && (!ends_word || is_space);
                if joins {
                    self.inserted.push_str(&next.inserted);
                }
                joins
            }
            Kind::Erasing => {
                let joins = next.at + next.removed.len() == self.at;
                if joins {
                    self.removed.insert_str(0, &next.removed);
                    self.at = next.at;
                }
                joins
            }
            Kind::Other => false,
        }
    }
}
