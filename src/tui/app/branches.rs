//! Regenerating, editing, undoing, and going from branch to branch.

use super::{App, Left, Mode, Phase};
use crate::store::{Entry, NodeId};

impl App {
    /// Whether the conversation may be changed now; says why not.
    pub(super) fn may_change(&mut self) -> bool {
        if self.is_busy() {
            self.warn_of_the_turn();
        } else if self.waiting {
            self.warn_of_the_load("a message waits for the model: Esc takes it back");
        } else {
            return true;
        }
        false
    }

    pub(super) fn regenerate(&mut self) {
        if !self.may_change() {
            return;
        }
        if self.phase != Phase::Idle {
            self.warn_of_the_load("there is no model yet");
            return;
        }
        let Some(head) = self.tree.head() else {
            self.warn("nothing was said yet");
            return;
        };
        if matches!(self.tree.entry(head), Entry::Turn(_)) {
            self.left = Some(Left(Some(head)));
            self.set_head(self.tree.parent(head));
            self.moved();
        }
        self.start_again(Some(head));
    }

    fn user_nodes(&self) -> Vec<NodeId> {
        let path = self.tree.path();
        let is_user = |node: &NodeId| matches!(self.tree.entry(*node), Entry::User(_));
        path.into_iter().filter(is_user).collect()
    }

    /// Lets the user choose a message, or takes the one with this number, counted from 1.
    pub(super) fn edit(&mut self, number: Option<usize>) {
        if !self.may_change() {
            return;
        }
        let nodes = self.user_nodes();
        let Some(last) = nodes.len().checked_sub(1) else {
            self.warn("nothing was said yet");
            return;
        };
        match number {
            Some(number) if (1..=nodes.len()).contains(&number) => {
                self.edit_node(nodes[number - 1]);
            }
            Some(number) => {
                let text = format!("there is no message {number}: 1 to {}", nodes.len());
                self.warn(&text);
            }
            None => {
                self.mode = Mode::Select { nodes, index: last };
                self.reveal_selected();
            }
        }
    }

    /// Up or down in the choice of a message.
    pub(super) fn select(&mut self, earlier: bool) {
        if let Mode::Select { nodes, index } = &mut self.mode {
            *index = if earlier {
                index.saturating_sub(1)
            } else {
                (*index + 1).min(nodes.len() - 1)
            };
            self.reveal_selected();
        }
    }

    /// The message that is chosen in the list.
    pub(crate) fn selected(&self) -> Option<NodeId> {
        match &self.mode {
            Mode::Select { nodes, index } => nodes.get(*index).copied(),
            _ => None,
        }
    }

    fn reveal_selected(&mut self) {
        let cell = self
            .selected()
            .and_then(|node| self.transcript.cell_of(node));
        if let Some(cell) = cell {
            self.transcript.reveal(cell);
        }
    }

    pub(super) fn edit_node(&mut self, node: NodeId) {
        self.mode = Mode::Draft;
        self.transcript.follow();
        if let Entry::User(text) = self.tree.entry(node) {
            let text = text.clone();
            if self.editing.is_none() {
                self.stash = self.draft.text().to_owned();
            }
            self.editing = Some(node);
            self.draft.set(&text);
        }
    }

    /// Leaves the earlier message as it is.
    pub(super) fn cancel_edit(&mut self) {
        self.editing = None;
        let stash = std::mem::take(&mut self.stash);
        self.draft.put_back(&stash);
    }

    /// Takes the last message and what came after it back.
    pub(super) fn undo_exchange(&mut self) {
        if !self.may_change() {
            return;
        }
        let Some(node) = self.user_nodes().last().copied() else {
            self.warn("there is nothing to take back");
            return;
        };
        let left = self.tree.head();
        self.left = Some(Left(left));
        let said = match self.tree.entry(node) {
            Entry::User(text) => text.clone(),
            Entry::Turn(_) => String::new(),
        };
        self.set_head(self.tree.parent(node));
        self.moved();
        self.draft.bring_to_mind(&said);
        let whole = self.whole_is_at(left);
        self.say(&format!(
            "taken back; `/branch back` returns to it{whole}, Up has the message"
        ));
    }

    /// How to get to the whole of a conversation of which `here` is not the end.
    fn whole_is_at(&self, here: Option<NodeId>) -> String {
        let (ends, _) = self.branches();
        let follows = |end: &NodeId| {
            let mut path = std::iter::successors(Some(*end), |id| self.tree.parent(*id));
            here.is_none_or(|here| here != *end && path.any(|id| id == here))
        };
        match ends.iter().rposition(follows) {
            Some(index) if here.is_none_or(|here| !ends.contains(&here)) => {
                format!(", `/branch {}` to the whole conversation", index + 1)
            }
            _ => String::new(),
        }
    }

    /// `next`, `prev`, `back` or a number, counted from 1; empty is `next`.
    pub(super) fn go_to_branch(&mut self, which: &str) {
        if !self.may_change() {
            return;
        }
        let here = self.tree.head();
        if which == "back" {
            if let Some(Left(left)) = self.left.replace(Left(here)) {
                self.arrive(left);
            } else {
                self.left = None;
                self.warn("there is no branch that was left");
            }
            return;
        }
        let (ends, current) = self.branches();
        let count = ends.len();
        if count == 0 || (count == 1 && current.is_some()) {
            self.warn("there is one branch only: Ctrl-R and /edit make others");
            return;
        }
        let target = match which {
            "" | "next" => Some(current.map_or(0, |index| (index + 1) % count)),
            "prev" => Some(current.map_or(count - 1, |index| (index + count - 1) % count)),
            number => number
                .parse::<usize>()
                .ok()
                .filter(|number| (1..=count).contains(number))
                .map(|number| number - 1),
        };
        let Some(target) = target else {
            let text = format!("there is no branch `{which}`: 1 to {count}, next, prev or back");
            self.warn(&text);
            return;
        };
        self.left = Some(Left(here));
        self.arrive(Some(ends[target]));
    }

    fn arrive(&mut self, head: Option<NodeId>) {
        self.set_head(head);
        self.editing = None;
        self.moved();
        if let Some((branch, of)) = self.branch {
            self.say(&format!("branch {branch}/{of}"));
            return;
        }
        let rest = match self.whole_is_at(head) {
            whole if whole.is_empty() => "this is all of the conversation".to_owned(),
            whole => format!("more was said here{whole}")
                .replace(", `", ": `")
                .replace(" to ", " has "),
        };
        self.say(&rest);
    }
}
