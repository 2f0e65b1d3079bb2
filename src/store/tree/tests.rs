use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

fn said(text: &str) -> Entry {
    Entry::User(text.to_owned())
}

fn turn(messages: Vec<Message>) -> Entry {
    Entry::Turn(TurnRecord {
        messages,
        finish: Finish::Stop,
        prompt_tokens: 1,
        cached_tokens: 0,
        generated_tokens: 1,
        prefill: Duration::ZERO,
        time_to_first_token: None,
        decode: Duration::ZERO,
        seed: 0,
    })
}

#[test]
fn editing_a_message_keeps_the_old_branch() {
    let mut tree = Tree::default();
    let first = tree.push(said("a"));
    let answer = tree.push(turn(vec![]));
    let second = tree.push(said("b"));
    let old_end = tree.push(turn(vec![]));
    assert_eq!(tree.ends().collect::<Vec<_>>(), [old_end]);

    tree.set_head(Some(answer));
    let edited = tree.push(said("c"));
    assert_eq!(tree.path(), [first, answer, edited]);
    assert_eq!(tree.ends().collect::<Vec<_>>(), [old_end, edited]);

    tree.set_head(Some(old_end));
    assert_eq!(tree.path(), [first, answer, second, old_end]);
    assert_eq!(tree.ends().collect::<Vec<_>>(), [old_end, edited]);
}

#[test]
fn editing_the_first_message_begins_beside_it() {
    let mut tree = Tree::default();
    tree.push(said("a"));
    let answer = tree.push(turn(vec![]));
    tree.set_head(None);
    assert_eq!(tree.path(), []);
    assert_eq!(tree.history(), []);
    let other = tree.push(said("b"));
    assert_eq!(tree.parent(other), None);
    assert_eq!(tree.ends().collect::<Vec<_>>(), [answer, other]);
}

#[test]
fn the_history_is_the_current_branch_with_its_thinking() {
    let thinking = Message::assistant("analysis", "hm");
    let answer = Message::assistant("final", "yes");
    let mut tree = Tree::default();
    tree.push(said("a"));
    tree.push(turn(vec![thinking.clone(), answer.clone()]));
    let dropped = tree.push(said("b"));
    tree.set_head(tree.parent(dropped));
    tree.push(said("c"));
    assert_eq!(
        tree.history(),
        [Message::user("a"), thinking, answer, Message::user("c")]
    );
}

/// The tree as one would describe it.
#[derive(Default)]
struct Naive {
    parents: Vec<Option<NodeId>>,
    head: Option<NodeId>,
}

impl Naive {
    fn path(&self, head: Option<NodeId>) -> Vec<NodeId> {
        match head {
            None => Vec::new(),
            Some(id) => {
                let mut path = self.path(self.parents[id.0 as usize]);
                path.push(id);
                path
            }
        }
    }

    fn push(&mut self) -> NodeId {
        let id = NodeId(self.parents.len() as u32);
        self.parents.push(self.head);
        self.head = Some(id);
        id
    }

    fn ends(&self) -> Vec<NodeId> {
        let all = (0..self.parents.len()).map(|at| NodeId(at as u32));
        all.filter(|id| !self.parents.contains(&Some(*id)))
            .collect()
    }
}

proptest! {
    #[test]
    fn the_tree_is_the_naive_one(steps in vec(proptest::option::of(any::<prop::sample::Index>()), 0..60)) {
        let (mut tree, mut naive) = (Tree::default(), Naive::default());
        for step in steps {
            // Where to go on: nowhere, or from any node.
            if let Some(at) = step {
                let at = at.index(tree.len() + 1);
                let head = at.checked_sub(1).map(|id| NodeId(id as u32));
                tree.set_head(head);
                naive.head = head;
            } else {
                prop_assert_eq!(tree.push(said("x")), naive.push());
            }
            prop_assert_eq!(tree.head(), naive.head);
            prop_assert_eq!(tree.path(), naive.path(naive.head));
            prop_assert_eq!(tree.ends().collect::<Vec<_>>(), naive.ends());
            for (id, parent, _) in tree.nodes() {
                prop_assert_eq!(parent, naive.parents[id.0 as usize]);
            }
        }
    }
}
