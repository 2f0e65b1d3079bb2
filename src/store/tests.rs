use std::time::Duration;

use proptest::collection::vec;
use proptest::prelude::*;
use tempfile::TempDir;

mod finding;
mod losing;
mod partial;

use super::state::State;
use super::*;
use crate::session::{Finish, Message};

/// 2025-06-28, 12:00:05 UTC
fn noon() -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(1_751_112_005)
}

fn store() -> (TempDir, Store) {
    let home = tempfile::tempdir().unwrap();
    let store = Store::open(home.path().join("state/sessions"));
    (home, store)
}

fn user(id: u32, parent: Option<u32>, text: &str) -> Record {
    Record::Node {
        id: NodeId(id),
        parent: parent.map(NodeId),
        entry: Entry::User(text.to_owned()),
    }
}

fn answer(id: u32, parent: u32) -> Record {
    let call = Message {
        recipient: Some("functions.get_weather".to_owned()),
        content_type: Some("<|constrain|>json".to_owned()),
        ..Message::assistant("commentary", "{\"city\": \"Oslo\"}")
    };
    let entry = Entry::Turn(TurnRecord {
        messages: vec![
            Message::assistant("analysis", "hm\n\"well\""),
            call,
            Message::assistant("final", "It rains. ☔"),
        ],
        finish: Finish::Cancelled,
        prompt_tokens: 70,
        cached_tokens: 60,
        generated_tokens: 12,
        prefill: Duration::from_millis(125),
        time_to_first_token: Some(Duration::from_nanos(130_000_001)),
        decode: Duration::from_secs(2),
        seed: u64::MAX,
    });
    Record::Node {
        id: NodeId(id),
        parent: Some(NodeId(parent)),
        entry,
    }
}

fn setup() -> Record {
    Record::Setup {
        instructions: Some("Be brief.".to_owned()),
        reasoning: Reasoning::High,
        model: "tiny".to_owned(),
    }
}

fn title(text: &str) -> Record {
    Record::Title(text.to_owned())
}

/// A session with these records, closed, and its file.
fn saved(store: &Store, records: &[Record]) -> (String, PathBuf) {
    let log = store.create(noon(), records).unwrap();
    (log.id().to_owned(), log.path().to_owned())
}

fn set_modified(path: &Path, seconds: u64) {
    let file = options().open(path).unwrap();
    file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds))
        .unwrap();
}

#[test]
fn a_session_is_lines_that_people_can_read() {
    let (_home, store) = store();
    let records = [
        setup(),
        user(0, None, "Weather?"),
        answer(1, 0),
        Record::Head(None),
        title("Rain"),
    ];
    let (id, path) = saved(&store, &records);
    assert_eq!(id, "20250628-120005");
    insta::assert_snapshot!(fs::read_to_string(path).unwrap(), @r#"
    {"gptoss_session":1,"created":"2025-06-28T12:00:05Z"}
    {"type":"setup","instructions":"Be brief.","reasoning":"high","model":"tiny"}
    {"type":"user","id":0,"parent":null,"text":"Weather?"}
    {"type":"turn","id":1,"parent":0,"messages":[{"role":"assistant","channel":"analysis","content":[{"text":"hm\n\"well\""}]},{"role":"assistant","channel":"commentary","recipient":"functions.get_weather","content_type":"<|constrain|>json","content":[{"text":"{\"city\": \"Oslo\"}"}]},{"role":"assistant","channel":"final","content":[{"text":"It rains. ☔"}]}],"finish":"cancelled","prompt_tokens":70,"cached_tokens":60,"generated_tokens":12,"prefill_seconds":0.125,"ttft_seconds":0.130000001,"decode_seconds":2.0,"seed":18446744073709551615}
    {"type":"head","id":null}
    {"type":"title","title":"Rain"}
    "#);
}

#[test]
fn a_session_is_read_as_it_was_written() {
    let (_home, store) = store();
    let (id, _) = saved(
        &store,
        &[
            setup(),
            user(0, None, "Weather?"),
            answer(1, 0),
            user(2, None, "Climate?"),
            Record::Head(Some(NodeId(1))),
            title("Rain"),
        ],
    );
    let mut tree = Tree::default();
    for record in [
        user(0, None, "Weather?"),
        answer(1, 0),
        user(2, None, "Climate?"),
    ] {
        let Record::Node { parent, entry, .. } = record else {
            unreachable!("only nodes are listed")
        };
        tree.set_head(parent);
        tree.push(entry);
    }
    tree.set_head(Some(NodeId(1)));
    let session = store.load(&id).unwrap();
    assert_eq!(session.tree, tree);
    assert_eq!(session.id, id);
    assert_eq!(session.title.as_deref(), Some("Rain"));
    assert_eq!(session.instructions.as_deref(), Some("Be brief."));
    assert_eq!(session.reasoning, Reasoning::High);
    assert_eq!(session.model.as_deref(), Some("tiny"));
    assert_eq!(session.warning, None);
}

#[test]
fn what_follows_is_appended_to_what_was_loaded() {
    let (_home, store) = store();
    let (id, path) = saved(&store, &[user(0, None, "a")]);
    let before = fs::read(&path).unwrap();
    let mut session = store.load(&id).unwrap();
    session.log.append(&[user(1, Some(0), "b")]).unwrap();
    drop(session);
    assert!(fs::read(&path).unwrap().starts_with(&before));
    assert_eq!(store.load(&id).unwrap().tree.path(), [NodeId(0), NodeId(1)]);
}

#[test]
fn an_append_writes_nothing_but_its_line() {
    let (_home, store) = store();
    let mut log = store.create(noon(), &[]).unwrap();
    log.append(&[user(0, None, &"long ".repeat(100_000))])
        .unwrap();
    let before = fs::metadata(log.path()).unwrap().len();
    log.append(&[Record::Head(None)]).unwrap();
    let after = fs::metadata(log.path()).unwrap().len();
    assert_eq!(
        after - before,
        "{\"type\":\"head\",\"id\":null}\n".len() as u64
    );
}

/// Every way in which a crash can cut the last record short.
#[test]
fn a_torn_last_line_is_passed_over_and_cut_with_the_next_record() {
    let (_home, store) = store();
    let (id, path) = saved(&store, &[user(0, None, "a"), user(1, Some(0), "ö☔")]);
    let whole = fs::read(&path).unwrap();
    let last = "{\"type\":\"user\",\"id\":1,\"parent\":0,\"text\":\"ö☔\"}\n".len();
    let start = whole.len() - last;
    for cut in start..whole.len() {
        fs::write(&path, &whole[..cut]).unwrap();
        // Looking changes nothing.
        assert_eq!(store.list(noon()).unwrap()[0].problem, None);
        let mut session = store.load(&id).unwrap();
        assert_eq!(fs::read(&path).unwrap(), &whole[..cut]);
        // Nothing is missing where only the line break is.
        let complete = cut == whole.len() - 1;
        assert_eq!(session.tree.len(), if complete { 2 } else { 1 }, "{cut}");
        assert_eq!(
            session.warning.is_some(),
            !complete && cut > start,
            "{cut}: {:?}",
            session.warning
        );
        session.log.append(&[Record::Head(None)]).unwrap();
        drop(session);
        let kept = if complete {
            &whole[..]
        } else {
            &whole[..start]
        };
        let expected = [kept, b"{\"type\":\"head\",\"id\":null}\n"].concat();
        assert_eq!(fs::read(&path).unwrap(), expected, "{cut}");
    }
}

#[test]
fn a_damaged_or_newer_file_is_reported_and_left_as_it_is() {
    let (home, store) = store();
    let (id, path) = saved(&store, &[user(0, None, "a"), user(1, Some(0), "b")]);
    let good = fs::read_to_string(&path).unwrap();
    let header = good.lines().next().unwrap();
    let mut reports = String::new();
    for text in [
        good.replace("\"id\":0", "\"id\":zero"),
        good.replace("\"id\":1", "\"id\":5"),
        good.replace("\"parent\":0", "\"parent\":7"),
        good.replace(
            "\"type\":\"user\",\"id\":0",
            "\"type\":\"hologram\",\"id\":0",
        ),
        good.replace("\"text\":\"a\"", "\"txt\":\"a\""),
        format!("{header}\n\n"),
        format!("{header}\n{{\"type\":\"head\",\"id\":3}}\n"),
        good.replace(header, "{\"gptoss_session\":2,\"sealed\":true}"),
        good.replace(header, "{\"gptoss_session\":0}"),
        good.replace(header, "[1]"),
        String::new(),
        "{\"gptoss_sess".to_owned(),
    ] {
        fs::write(&path, &text).unwrap();
        let error = store.load(&id).unwrap_err().to_string();
        assert!(store.rename(&id, "x").is_err());
        assert_eq!(fs::read_to_string(&path).unwrap(), text);
        reports.push_str(&error.replace(&home.path().display().to_string(), "[home]"));
        reports.push('\n');
    }
    insta::assert_snapshot!(reports, @"
    `[home]/state/sessions/20250628-120005.jsonl` is damaged in line 2 (expected value at column 21): it is left as it is
    `[home]/state/sessions/20250628-120005.jsonl` is damaged in line 3 (it is the entry 5, expected 1): it is left as it is
    `[home]/state/sessions/20250628-120005.jsonl` is damaged in line 3 (it names the entry 7, and there are 1 so far): it is left as it is
    `[home]/state/sessions/20250628-120005.jsonl` is damaged in line 2 (unknown variant `hologram`, expected one of `user`, `turn`, `head`, `title`, `setup`, `partial` at column 18): it is left as it is
    `[home]/state/sessions/20250628-120005.jsonl` is damaged in line 2 (unknown field `txt`, expected one of `id`, `parent`, `text`): it is left as it is
    `[home]/state/sessions/20250628-120005.jsonl` is damaged in line 2 (EOF while parsing a value at column 0): it is left as it is
    `[home]/state/sessions/20250628-120005.jsonl` is damaged in line 2 (it names the entry 3, and there are 0 so far): it is left as it is
    `[home]/state/sessions/20250628-120005.jsonl` was written by a newer gptoss (version 2 of the format, this one reads up to 1): it is left as it is
    `[home]/state/sessions/20250628-120005.jsonl` is not a session of gptoss: its first line is no header
    `[home]/state/sessions/20250628-120005.jsonl` is not a session of gptoss: its first line is no header
    `[home]/state/sessions/20250628-120005.jsonl` is not a session of gptoss: its first line is no header
    `[home]/state/sessions/20250628-120005.jsonl` is not a session of gptoss: its first line is no header
    ");
}

#[test]
fn a_session_that_cannot_be_read_is_listed_with_its_problem_and_can_be_deleted() {
    let (_home, store) = store();
    let (id, path) = saved(&store, &[user(0, None, "a")]);
    fs::write(&path, "{\"gptoss_session\":2}\n").unwrap();
    let list = store.list(noon()).unwrap();
    let problem = list[0].problem.as_deref().unwrap();
    assert!(problem.contains("newer gptoss (version 2"), "{problem}");
    assert_eq!(store.latest(noon()).unwrap(), None);
    store.delete(&id).unwrap();
    assert_eq!(store.list(noon()).unwrap(), []);
}

#[test]
fn one_program_at_a_time_has_a_session() {
    let (_home, store) = store();
    let log = store.create(noon(), &[user(0, None, "a")]).unwrap();
    let id = log.id().to_owned();
    let busy = format!("the session `{id}` is open elsewhere: close it there, or begin a new one");
    assert_eq!(store.load(&id).unwrap_err().to_string(), busy);
    assert_eq!(store.rename(&id, "x").unwrap_err().to_string(), busy);
    assert_eq!(store.delete(&id).unwrap_err().to_string(), busy);
    // A look does not disturb.
    assert_eq!(store.list(noon()).unwrap().len(), 1);
    drop(log);
    assert!(store.load(&id).is_ok());
}

#[test]
fn sessions_of_one_second_have_different_names() {
    let (_home, store) = store();
    let logs: Vec<Log> = (0..3).map(|_| store.create(noon(), &[]).unwrap()).collect();
    let ids: Vec<&str> = logs.iter().map(Log::id).collect();
    assert_eq!(
        ids,
        ["20250628-120005", "20250628-120005-2", "20250628-120005-3"]
    );
}

#[cfg(unix)]
#[test]
fn nobody_else_can_read_what_was_said() {
    use std::os::unix::fs::PermissionsExt;
    let (_home, store) = store();
    let (_, path) = saved(&store, &[]);
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&path), 0o600);
    assert_eq!(mode(store.directory()), 0o700);
}

#[test]
fn no_id_leads_out_of_the_directory() {
    let (home, store) = store();
    saved(&store, &[]);
    fs::write(
        home.path().join("state/x.jsonl"),
        "{\"gptoss_session\":1}\n",
    )
    .unwrap();
    let long = "x".repeat(101);
    for id in [
        "../x", "", ".", "..", "/x", "a/b", "a\\b", "a\0", "x.jsonl", "ü", &long,
    ] {
        assert!(matches!(store.load(id), Err(Error::Id(_))), "{id:?}");
        assert!(matches!(store.delete(id), Err(Error::Id(_))), "{id:?}");
        assert!(matches!(store.rename(id, "t"), Err(Error::Id(_))), "{id:?}");
        assert!(
            matches!(store.find(id, noon()), Err(Error::Unknown { .. })),
            "{id:?}"
        );
    }
    assert!(home.path().join("state/x.jsonl").exists());
}

#[test]
fn the_list_has_the_latest_first_and_a_title_for_each() {
    let (_home, store) = store();
    let now = SystemTime::UNIX_EPOCH + Duration::from_mins(20);
    assert_eq!(store.list(now).unwrap(), []);
    assert_eq!(store.latest(now).unwrap(), None);
    let long = "Why  is\nthe sky blue, and why is it not violet, which scatters even more?";
    for (seconds, records) in [
        (
            300,
            vec![user(0, None, long), answer(1, 0), user(2, Some(1), "And?")],
        ),
        // Nothing was said in it.
        (100, vec![setup()]),
        (
            400,
            vec![
                user(0, None, "a"),
                title("Once"),
                title(" Col\u{1b}[31mours\n"),
            ],
        ),
        (
            200,
            vec![title("x"), user(0, None, "Back to nothing"), title("")],
        ),
    ] {
        let (_, path) = saved(&store, &records);
        set_modified(&path, seconds);
    }
    fs::write(store.directory().join("notes.txt"), "").unwrap();
    fs::write(store.directory().join("no id.jsonl"), "").unwrap();
    let list = store.list(now).unwrap();
    let summary = |id: &str, title: &str, seconds, age: &str, messages| Summary {
        id: id.to_owned(),
        title: title.to_owned(),
        modified: SystemTime::UNIX_EPOCH + Duration::from_secs(seconds),
        age: age.to_owned(),
        messages,
        problem: None,
    };
    assert_eq!(
        list,
        [
            summary("20250628-120005-3", "Colours", 400, "13 min ago", 1),
            summary(
                "20250628-120005",
                "Why is the sky blue, and why is it not violet, which scatter…",
                300,
                "15 min ago",
                2
            ),
            summary("20250628-120005-4", "Back to nothing", 200, "16 min ago", 1),
        ]
    );
    assert_eq!(store.latest(now).unwrap().as_ref(), list.first());
}

#[test]
fn a_session_is_renamed_and_deleted_by_its_id() {
    let (_home, store) = store();
    let (id, _) = saved(&store, &[user(0, None, "a")]);
    store.rename(&id, "Two\nlines").unwrap();
    assert_eq!(
        store.load(&id).unwrap().title.as_deref(),
        Some("Two\nlines")
    );
    store.delete(&id).unwrap();
    assert!(matches!(store.load(&id), Err(Error::NotFound(_))));
    assert!(matches!(store.delete(&id), Err(Error::NotFound(_))));
}

/// A step of a conversation, as the chat takes them.
#[derive(Clone, Debug)]
enum Step {
    Say(String),
    Answer,
    /// Pieces of an answer, and whether the program ends before the answer is whole.
    Pieces(Vec<String>, bool),
    GoTo(prop::sample::Index),
    Title(String),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => any::<String>().prop_map(Step::Say),
        2 => Just(Step::Answer),
        1 => (vec(".{1,4}", 1..4), any::<bool>()).prop_map(|(pieces, ends)| Step::Pieces(pieces, ends)),
        2 => any::<prop::sample::Index>().prop_map(Step::GoTo),
        1 => any::<String>().prop_map(Step::Title),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn replaying_the_records_gives_the_same_conversation(steps in vec(step(), 0..40)) {
        let mut live = State::default();
        let mut text = String::from("{\"gptoss_session\":1}\n");
        let mut write = |record: &Record| {
            let line = serde_json::to_string(&record::Line::from(record)).unwrap();
            assert!(!line.contains('\n'));
            text.push_str(&line);
            text.push('\n');
        };
        for step in steps {
            let parent = live.tree.head();
            let say = |tree: &mut Tree, entry: Entry| {
                let id = tree.push(entry.clone());
                Record::Node { id, parent, entry }
            };
            let record = match step {
                Step::Say(text) => say(&mut live.tree, Entry::User(text)),
                Step::Answer => {
                    let Record::Node { entry, .. } = answer(0, 0) else { unreachable!("a node") };
                    say(&mut live.tree, entry)
                }
                Step::Pieces(pieces, ends) => {
                    let id = live.tree.next_id();
                    for record in partial::pieces(id, parent, &pieces) {
                        write(&record);
                    }
                    let turn = partial::cut_off(&pieces.concat(), pieces.len());
                    let node = say(&mut live.tree, Entry::Turn(turn));
                    if ends {
                        continue;
                    }
                    node
                }
                Step::GoTo(at) => {
                    let at = at.index(live.tree.len() + 1);
                    let head = at.checked_sub(1).map(|id| NodeId(id as u32));
                    live.tree.set_head(head);
                    Record::Head(head)
                }
                Step::Title(title) => {
                    live.title = Some(title.clone()).filter(|title| !title.is_empty());
                    Record::Title(title)
                }
            };
            write(&record);
        }
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("x.jsonl");
        fs::write(&path, text).unwrap();
        let loaded = read::load(&path, &File::open(&path).unwrap()).unwrap();
        prop_assert_eq!(loaded.state, live);
    }

    #[test]
    fn no_file_makes_it_panic(bytes in vec(any::<u8>(), 0..200), with_header in any::<bool>()) {
        let header: &[u8] = if with_header { b"{\"gptoss_session\":1}\n{\"type\":\"user\"" } else { b"" };
        let directory = tempfile::tempdir().unwrap();
        let store = Store::open(directory.path());
        fs::write(directory.path().join("x.jsonl"), [header, &bytes].concat()).unwrap();
        prop_assert!(store.list(noon()).is_ok());
        let _ = store.load("x");
    }
}
