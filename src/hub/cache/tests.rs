use std::fs;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use super::*;

const ID: &str = "openai/gpt-oss-20b";
const COMMIT: &str = "6cee5e81ee83917806bbde320786a8fb61efebee";
const OTHER: &str = "6cee5e8200000000000000000000000000000000";

/// A cache with a directory for [`ID`].
struct Fixture {
    home: TempDir,
    hub: Hub,
}

impl Fixture {
    fn new() -> Self {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().as_os_str().to_owned();
        let hub = Hub::from_vars(|name| (name == "HF_HOME").then(|| path.clone())).unwrap();
        Self { home, hub }
    }

    fn repo(&self) -> PathBuf {
        self.home.path().join("hub/models--openai--gpt-oss-20b")
    }

    fn snapshot(&self, commit: &str) -> PathBuf {
        self.repo().join("snapshots").join(commit)
    }

    fn write(&self, path: &str, content: &[u8]) {
        let path = self.repo().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    /// A whole model with one file of weights.
    fn single(&self, commit: &str) {
        for name in [CONFIG, TOKENIZER] {
            self.write(&format!("snapshots/{commit}/{name}"), b"{}");
        }
        self.write(&format!("snapshots/{commit}/{SINGLE}"), &safetensors(24));
    }

    fn locate(&self, revision: Option<&str>) -> Located {
        self.hub.locate(ID, revision).unwrap()
    }

    fn complete(&self, commit: &str) -> Located {
        Located::Complete(self.snapshot(commit))
    }
}

fn incomplete(missing: &[&str]) -> Located {
    Located::Incomplete {
        missing: missing.iter().map(|name| (*name).to_owned()).collect(),
    }
}

/// A file with one tensor of `bytes` bytes.
fn safetensors(bytes: usize) -> Vec<u8> {
    let header = format!(
        r#"{{"__metadata__":{{"format":"pt"}},"x":{{"dtype":"U8","shape":[{bytes}],"data_offsets":[0,{bytes}]}}}}"#
    );
    let mut file = (header.len() as u64).to_le_bytes().to_vec();
    file.extend(header.as_bytes());
    file.resize(file.len() + bytes, 7);
    file
}

fn index(shards: &[&str]) -> Vec<u8> {
    let map: serde_json::Map<_, _> = shards
        .iter()
        .enumerate()
        .map(|(number, shard)| (format!("tensor.{number}"), (*shard).into()))
        .collect();
    serde_json::json!({"metadata": {"total_size": 1}, "weight_map": map})
        .to_string()
        .into_bytes()
}

#[test]
fn a_branch_leads_through_its_reference_to_a_whole_snapshot() {
    let cache = Fixture::new();
    assert_eq!(cache.locate(None), Located::Absent);
    cache.single(COMMIT);
    cache.write("refs/main", format!("{COMMIT}\n").as_bytes());
    cache.write("refs/refs/pr/1", COMMIT.as_bytes());
    assert_eq!(cache.locate(None), cache.complete(COMMIT));
    assert_eq!(cache.locate(Some("main")), cache.complete(COMMIT));
    assert_eq!(cache.locate(Some("refs/pr/1")), cache.complete(COMMIT));
    assert_eq!(cache.locate(Some("refs/pr")), Located::Absent);
    assert_eq!(cache.locate(Some("other")), Located::Absent);
}

#[test]
fn a_commit_is_found_by_all_or_enough_of_its_digits() {
    let cache = Fixture::new();
    cache.single(COMMIT);
    assert_eq!(cache.locate(Some(COMMIT)), cache.complete(COMMIT));
    assert_eq!(cache.locate(Some("6cee5e8")), cache.complete(COMMIT));
    assert_eq!(cache.locate(Some("6ce")), Located::Absent);
    // A commit alone is not a branch.
    assert_eq!(cache.locate(None), Located::Absent);
    cache.single(OTHER);
    match cache.hub.locate(ID, Some("6cee5e8")) {
        Err(Error::Ambiguous { commits, .. }) => assert_eq!(commits, [COMMIT, OTHER]),
        other => panic!("{other:?}"),
    }
    assert_eq!(cache.locate(Some("6cee5e82")), cache.complete(OTHER));
}

#[test]
fn what_the_snapshot_lacks_is_named() {
    let cache = Fixture::new();
    cache.write("refs/main", COMMIT.as_bytes());
    assert_eq!(
        cache.locate(None),
        incomplete(&[
            "model.safetensors.index.json or model.safetensors",
            "config.json",
            "tokenizer.json"
        ])
    );
    assert_eq!(missing(Path::new("/no/such/snapshot")), nothing_of());
    cache.single(COMMIT);
    fs::remove_file(cache.snapshot(COMMIT).join(TOKENIZER)).unwrap();
    cache.write(&format!("snapshots/{COMMIT}/config.json"), b"");
    assert_eq!(
        cache.locate(None),
        incomplete(&["config.json (empty)", "tokenizer.json"])
    );
}

#[test]
fn every_shard_of_the_index_counts_whatever_their_numbers() {
    let cache = Fixture::new();
    cache.single(COMMIT);
    let snapshot = format!("snapshots/{COMMIT}");
    fs::remove_file(cache.snapshot(COMMIT).join(SINGLE)).unwrap();
    let shards = [
        "model-00000-of-00002.safetensors",
        "model-00001-of-00002.safetensors",
        "model-00002-of-00002.safetensors",
    ];
    cache.write(&format!("{snapshot}/{INDEX}"), &index(&shards));
    cache.write(&format!("{snapshot}/{}", shards[1]), &safetensors(8));
    cache.write(&format!("{snapshot}/{}", shards[2]), &safetensors(8));
    assert_eq!(cache.locate(Some(COMMIT)), incomplete(&[shards[0]]));
    cache.write(&format!("{snapshot}/{}", shards[0]), &safetensors(8));
    assert_eq!(cache.locate(Some(COMMIT)), cache.complete(COMMIT));
}

#[test]
fn weights_that_were_cut_off_are_not_complete() {
    let cache = Fixture::new();
    cache.single(COMMIT);
    let path = format!("snapshots/{COMMIT}/{SINGLE}");
    let whole = safetensors(2000);
    for length in [whole.len() - 1, whole.len() - 2000, 20] {
        cache.write(&path, &whole[..length]);
        let Located::Incomplete { missing } = cache.locate(Some(COMMIT)) else {
            panic!("{length} bytes count as whole");
        };
        assert!(missing[0].starts_with("model.safetensors ("), "{missing:?}");
    }
    cache.write(&path, &whole[..whole.len() - 1000]);
    assert_eq!(
        cache.locate(Some(COMMIT)),
        incomplete(&["model.safetensors (1.1 kB of 2.1 kB)"])
    );
    cache.write(&path, &whole);
    assert_eq!(cache.locate(Some(COMMIT)), cache.complete(COMMIT));
}

#[test]
fn a_header_that_claims_the_impossible_is_left_to_the_checkpoint() {
    let cache = Fixture::new();
    cache.single(COMMIT);
    let path = format!("snapshots/{COMMIT}/{SINGLE}");
    for content in [
        b"short".to_vec(),
        u64::MAX.to_le_bytes().repeat(2),
        [9_u64.to_le_bytes().as_slice(), b"not json!"].concat(),
        {
            let header =
                br#"{"x":{"dtype":"U8","shape":[1],"data_offsets":[0,18446744073709551615]}}"#;
            [(header.len() as u64).to_le_bytes().as_slice(), header].concat()
        },
    ] {
        cache.write(&path, &content);
        assert_eq!(cache.locate(Some(COMMIT)), cache.complete(COMMIT));
    }
}

#[cfg(unix)]
#[test]
fn links_into_the_blobs_are_followed_and_a_dangling_one_is_a_missing_file() {
    let cache = Fixture::new();
    cache.single(COMMIT);
    let pointer = cache.snapshot(COMMIT).join(TOKENIZER);
    fs::remove_file(&pointer).unwrap();
    std::os::unix::fs::symlink("../../blobs/abc", &pointer).unwrap();
    assert_eq!(cache.locate(Some(COMMIT)), incomplete(&["tokenizer.json"]));
    cache.write("blobs/abc.part", b"{");
    assert_eq!(cache.locate(Some(COMMIT)), incomplete(&["tokenizer.json"]));
    cache.write("blobs/abc", b"{}");
    assert_eq!(cache.locate(Some(COMMIT)), cache.complete(COMMIT));
}

#[test]
fn an_index_must_name_plain_files() {
    assert_eq!(
        shards(&index(&["b.safetensors", "a.safetensors", "b.safetensors"])).unwrap(),
        BTreeSet::from(["a.safetensors".to_owned(), "b.safetensors".to_owned()])
    );
    for (text, reason) in [
        (
            index(&["../../etc/passwd"]),
            "it names `../../etc/passwd`, which is not a file name",
        ),
        (
            index(&["/etc/passwd"]),
            "it names `/etc/passwd`, which is not a file name",
        ),
        (index(&[".."]), "it names `..`, which is not a file name"),
        (index(&[]), "it names no file"),
        (
            b"{".to_vec(),
            "EOF while parsing an object at line 1 column 1",
        ),
    ] {
        assert_eq!(shards(&text), Err(reason.to_owned()));
    }
}

#[test]
fn a_name_or_revision_that_leaves_the_cache_is_refused() {
    let cache = Fixture::new();
    for (id, revision) in [
        ("../x", "main"),
        ("a/b", "../../../x"),
        ("a", "main"),
        ("a/b", ""),
    ] {
        assert!(
            matches!(
                cache.hub.locate(id, Some(revision)),
                Err(Error::Name { .. })
            ),
            "{id}@{revision}"
        );
    }
}
