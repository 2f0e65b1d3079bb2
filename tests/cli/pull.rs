//! Fetching a model from a hub on loopback, through the library and with `gptoss pull`.

// The helpers below are outside the functions that clippy knows as tests.
#![allow(clippy::unwrap_used)]

#[path = "../support/hub_server.rs"]
pub mod hub_server;

#[cfg(unix)]
mod asks;
mod binary;
mod faults;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use gptoss::hub::{Error, Hub, Located, Progress};
use hub_server::{COMMIT, HubServer, sha256};
use tempfile::TempDir;

const ID: &str = "openai/gpt-oss-20b";
const INDEX: &str = "model.safetensors.index.json";
const SHARDS: [&str; 3] = [
    "model-00000-of-00002.safetensors",
    "model-00001-of-00002.safetensors",
    "model-00002-of-00002.safetensors",
];

/// A safetensors file with one tensor; `seed` makes its bytes differ from another's.
fn weights(bytes: usize, seed: u8) -> Vec<u8> {
    let header =
        format!(r#"{{"x":{{"dtype":"U8","shape":[{bytes}],"data_offsets":[0,{bytes}]}}}}"#);
    let mut file = (header.len() as u64).to_le_bytes().to_vec();
    file.extend(header.as_bytes());
    file.extend((0..bytes).map(|byte| (byte as u8).wrapping_mul(31).wrapping_add(seed)));
    file
}

/// What the published repository holds: the needed files, and those that triple the size.
fn published() -> Vec<(&'static str, Vec<u8>)> {
    let map: BTreeMap<_, _> = SHARDS
        .iter()
        .enumerate()
        .map(|(number, shard)| (format!("tensor.{number}"), *shard))
        .collect();
    let index = serde_json::json!({"metadata": {"total_size": 9}, "weight_map": map}).to_string();
    vec![
        (".gitattributes", b"*".to_vec()),
        ("README.md", b"# gpt-oss".to_vec()),
        ("chat_template.jinja", b"{{ }}".to_vec()),
        ("config.json", br#"{"model_type": "gpt_oss"}"#.to_vec()),
        ("generation_config.json", br#"{"eos_token_id": 1}"#.to_vec()),
        ("metal/model.bin", vec![1; 50_000]),
        (SHARDS[0], weights(300_000, 0)),
        (SHARDS[1], weights(200_000, 1)),
        (SHARDS[2], weights(100_000, 2)),
        (INDEX, index.into_bytes()),
        ("original/config.json", b"{}".to_vec()),
        ("original/model.safetensors", weights(50_000, 3)),
        ("special_tokens_map.json", b"{}".to_vec()),
        ("tokenizer.json", br#"{"version": "1.0"}"#.to_vec()),
        ("tokenizer_config.json", b"{}".to_vec()),
    ]
}

/// The names that must be in the snapshot at the end, and no others.
fn needed() -> Vec<&'static str> {
    let mut names = vec![
        "config.json",
        "generation_config.json",
        INDEX,
        "tokenizer.json",
    ];
    names.extend(SHARDS);
    names.sort_unstable();
    names
}

/// A hub on loopback and an empty cache.
pub struct Fixture {
    pub server: HubServer,
    pub home: TempDir,
}

impl Fixture {
    fn new() -> Self {
        Self::with(&published())
    }

    fn with(files: &[(&str, Vec<u8>)]) -> Self {
        Self {
            server: HubServer::start(files),
            home: tempfile::tempdir().unwrap(),
        }
    }

    /// A hub that gives out the built-in model as the 20b.
    pub fn tiny() -> Self {
        let assets = Path::new(env!("CARGO_MANIFEST_DIR")).join("assets/tiny");
        let files = [
            "config.json",
            "generation_config.json",
            "model.safetensors",
            "tokenizer.json",
        ]
        .map(|name| (name, fs::read(assets.join(name)).unwrap()));
        Self::with(&files)
    }

    pub fn vars(&self) -> BTreeMap<String, OsString> {
        BTreeMap::from([
            (
                "HF_HOME".to_owned(),
                self.home.path().as_os_str().to_owned(),
            ),
            ("HF_ENDPOINT".to_owned(), OsString::from(&self.server.url)),
        ])
    }

    /// The hub with `more` variables, and without waits.
    fn hub(&self, more: &[(&str, &str)]) -> Hub {
        let mut vars = self.vars();
        vars.extend(
            more.iter()
                .map(|(name, value)| ((*name).to_owned(), OsString::from(value))),
        );
        Hub::from_vars(|name| vars.get(name).cloned())
            .unwrap()
            .with_retry_waits(Vec::new())
    }

    pub fn download(&self) -> Result<PathBuf, Error> {
        self.hub(&[])
            .download(ID, None, &mut |_| ControlFlow::Continue(()))
    }

    fn repo(&self) -> PathBuf {
        self.home.path().join("hub/models--openai--gpt-oss-20b")
    }

    fn snapshot(&self, commit: &str) -> PathBuf {
        self.repo().join("snapshots").join(commit)
    }

    /// Asserts that the snapshot of `commit` holds the needed files of the server and nothing else.
    fn assert_complete(&self, commit: &str) {
        let snapshot = self.snapshot(commit);
        assert_eq!(names(&snapshot), needed());
        self.server.set(|hub| {
            for name in needed() {
                // Not assert_eq: a difference would print the weights.
                assert!(
                    fs::read(snapshot.join(name)).unwrap() == hub.files[name],
                    "{name}"
                );
            }
        });
        let blobs = names(&self.repo().join("blobs"));
        assert!(
            !blobs.iter().any(|name| name.contains('.')),
            "left behind: {blobs:?}"
        );
    }
}

fn names(directory: &Path) -> Vec<String> {
    let mut names: Vec<_> = fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

/// The request log with `{commit}`, `{0}`, `{1}`, `{2}` for the commit and the shards' addresses.
fn readable(log: &[String]) -> Vec<String> {
    let mut log = log.to_vec();
    for line in &mut log {
        *line = line.replace(COMMIT, "{commit}").replace("?signature=1", "");
        for (name, content) in published() {
            if let Some(number) = SHARDS.iter().position(|shard| *shard == name) {
                *line = line.replace(&sha256(&content), &format!("{{{number}}}"));
            }
        }
    }
    log
}

#[test]
fn asks_only_for_the_files_that_are_needed() {
    let fixture = Fixture::new();
    let snapshot = fixture.download().unwrap();
    assert_eq!(snapshot, fixture.snapshot(COMMIT));
    fixture.assert_complete(COMMIT);
    assert_eq!(
        readable(&fixture.server.take_log()),
        [
            "hub GET /api/models/openai/gpt-oss-20b/revision/main",
            "hub GET /openai/gpt-oss-20b/resolve/{commit}/config.json",
            "hub GET /openai/gpt-oss-20b/resolve/{commit}/model.safetensors.index.json",
            "hub HEAD /openai/gpt-oss-20b/resolve/{commit}/config.json",
            "hub HEAD /openai/gpt-oss-20b/resolve/{commit}/generation_config.json",
            "hub HEAD /openai/gpt-oss-20b/resolve/{commit}/tokenizer.json",
            "hub HEAD /openai/gpt-oss-20b/resolve/{commit}/model.safetensors.index.json",
            "hub HEAD /openai/gpt-oss-20b/resolve/{commit}/model-00000-of-00002.safetensors",
            "hub HEAD /openai/gpt-oss-20b/resolve/{commit}/model-00001-of-00002.safetensors",
            "hub HEAD /openai/gpt-oss-20b/resolve/{commit}/model-00002-of-00002.safetensors",
            "hub GET /openai/gpt-oss-20b/resolve/{commit}/generation_config.json bytes=0-",
            "hub GET /openai/gpt-oss-20b/resolve/{commit}/tokenizer.json bytes=0-",
            "hub GET /openai/gpt-oss-20b/resolve/{commit}/model-00000-of-00002.safetensors bytes=0-",
            "storage GET /{0} bytes=0-",
            "hub GET /openai/gpt-oss-20b/resolve/{commit}/model-00001-of-00002.safetensors bytes=0-",
            "storage GET /{1} bytes=0-",
            "hub GET /openai/gpt-oss-20b/resolve/{commit}/model-00002-of-00002.safetensors bytes=0-",
            "storage GET /{2} bytes=0-",
        ]
    );
}

#[test]
fn the_cache_has_the_layout_that_other_programs_read() {
    let fixture = Fixture::new();
    fixture.download().unwrap();
    let repo = fixture.repo();
    assert_eq!(fs::read_to_string(repo.join("refs/main")).unwrap(), COMMIT);
    assert_eq!(names(&repo), ["blobs", "refs", "snapshots"]);
    let mut blobs: Vec<_> = fixture.server.set(|hub| {
        let etag = |name: &&str| {
            let hash = sha256(&hub.files[*name]);
            if SHARDS.contains(name) {
                hash
            } else {
                hash[..40].to_owned()
            }
        };
        needed().iter().map(etag).collect()
    });
    blobs.sort();
    assert_eq!(names(&repo.join("blobs")), blobs);
    #[cfg(unix)]
    for name in needed() {
        let link = fs::read_link(fixture.snapshot(COMMIT).join(name)).unwrap();
        assert!(link.starts_with("../../blobs"), "{}", link.display());
    }
}

#[test]
fn a_complete_model_causes_no_request() {
    let fixture = Fixture::new();
    fixture.download().unwrap();
    fixture.server.take_log();
    fixture.download().unwrap();
    let offline = fixture.hub(&[("HF_HUB_OFFLINE", "1")]);
    let snapshot = offline
        .download(ID, None, &mut |_| ControlFlow::Continue(()))
        .unwrap();
    assert_eq!(
        offline.locate(ID, None).unwrap(),
        Located::Complete(snapshot)
    );
    assert_eq!(fixture.server.take_log(), Vec::<String>::new());
}

#[test]
fn files_that_are_there_are_not_fetched_again() {
    let fixture = Fixture::new();
    fixture.download().unwrap();
    fixture.server.take_log();
    fs::remove_file(fixture.snapshot(COMMIT).join(SHARDS[1])).unwrap();
    // The blob is still there: the link is all that is missing.
    fixture.download().unwrap();
    assert_eq!(
        readable(&fixture.server.take_log()),
        [
            "hub GET /api/models/openai/gpt-oss-20b/revision/main",
            "hub HEAD /openai/gpt-oss-20b/resolve/{commit}/model-00001-of-00002.safetensors",
        ]
    );
    fixture.assert_complete(COMMIT);
}

#[test]
fn a_new_commit_takes_over_what_has_not_changed() {
    let fixture = Fixture::new();
    fixture.download().unwrap();
    fixture.server.take_log();
    let new = "b5c939de8f754692c1647ca79fbf85e8c1e70f8a";
    fixture.server.set(|hub| {
        new.clone_into(&mut hub.commit);
        hub.files.insert(SHARDS[2].to_owned(), weights(120_000, 9));
    });
    // `main` is complete as it is here; the new commit is asked for by name.
    let hub = fixture.hub(&[]);
    let plan = hub.plan(ID, Some("v1")).unwrap();
    let size = |name: &str| fixture.server.set(|hub| hub.files[name].len() as u64);
    assert_eq!((plan.commit.as_str(), plan.bytes), (new, size(SHARDS[2])));
    hub.fetch(&plan, &mut |_| ControlFlow::Continue(()))
        .unwrap();
    fixture.assert_complete(new);
    let log = fixture.server.take_log();
    assert_eq!(
        log.iter()
            .filter(|line| line.starts_with("storage"))
            .count(),
        1,
        "{log:?}"
    );
    assert_eq!(
        hub.locate(ID, None).unwrap(),
        Located::Complete(fixture.snapshot(COMMIT))
    );
    assert_eq!(
        hub.locate(ID, Some("v1")).unwrap(),
        Located::Complete(fixture.snapshot(new))
    );
}

#[test]
fn a_commit_may_be_asked_for_by_its_first_digits() {
    let fixture = Fixture::new();
    let hub = fixture.hub(&[]);
    let revision = Some(&COMMIT[..8]);
    let snapshot = hub
        .download(ID, revision, &mut |_| ControlFlow::Continue(()))
        .unwrap();
    assert_eq!(snapshot, fixture.snapshot(COMMIT));
    assert_eq!(
        hub.locate(ID, revision).unwrap(),
        Located::Complete(snapshot)
    );
    assert!(!fixture.repo().join("refs").exists());
}

#[test]
fn one_file_of_weights_needs_no_index() {
    let mut files = published();
    files.retain(|(name, _)| !name.starts_with("model") && *name != "generation_config.json");
    files.push(("model.safetensors", weights(1000, 4)));
    let fixture = Fixture::with(&files);
    let snapshot = fixture.download().unwrap();
    assert_eq!(
        names(&snapshot),
        ["config.json", "model.safetensors", "tokenizer.json"]
    );
}

#[test]
fn the_plan_and_the_progress_count_every_byte() {
    let fixture = Fixture::new();
    let hub = fixture.hub(&[]);
    let plan = hub.plan(ID, None).unwrap();
    let total: u64 = fixture.server.set(|hub| {
        needed()
            .iter()
            .map(|name| hub.files[*name].len() as u64)
            .sum()
    });
    assert_eq!(plan.bytes, total);
    assert_eq!(plan.files.iter().map(|file| file.size).sum::<u64>(), total);
    assert!(plan.fits());
    assert!(!fixture.repo().exists(), "a plan writes nothing");

    let mut seen: Vec<Progress> = Vec::new();
    hub.fetch(&plan, &mut |progress| {
        seen.push(progress.clone());
        ControlFlow::Continue(())
    })
    .unwrap();
    assert!(seen.is_sorted_by_key(|progress| progress.done));
    assert!(seen.iter().all(|progress| progress.total == total));
    let last = seen.last().unwrap();
    assert_eq!((last.file.as_str(), last.done), (SHARDS[2], total));
    assert_eq!(last.file_done, last.file_total);
}

#[test]
fn a_plan_that_does_not_fit_is_refused_before_a_byte_is_written() {
    let fixture = Fixture::new();
    let hub = fixture.hub(&[]);
    let mut plan = hub.plan(ID, None).unwrap();
    plan.free = Some(plan.bytes - 1);
    assert!(!plan.fits());
    let error = hub
        .fetch(&plan, &mut |_| ControlFlow::Continue(()))
        .unwrap_err();
    assert!(
        matches!(error, Error::Space { needed, .. } if needed == plan.bytes),
        "{error}"
    );
    assert!(!fixture.repo().exists());
}

#[test]
fn the_token_goes_to_the_hub_and_not_to_its_storage() {
    let fixture = Fixture::new();
    fixture
        .server
        .set(|hub| hub.token = Some("hf_secret".to_owned()));
    let hub = fixture.hub(&[("HF_TOKEN", "hf_secret")]);
    hub.download(ID, None, &mut |_| ControlFlow::Continue(()))
        .unwrap();
    for (request, token) in fixture.server.tokens() {
        let expected = request
            .starts_with("hub")
            .then(|| "Bearer hf_secret".to_owned());
        assert_eq!(token, expected, "{request}");
    }
}

#[test]
fn the_token_file_is_used_where_no_variable_is_set() {
    let fixture = Fixture::new();
    fixture
        .server
        .set(|hub| hub.token = Some("hf_file".to_owned()));
    fs::write(fixture.home.path().join("token"), "hf_file\n").unwrap();
    fixture.download().unwrap();
    fixture.assert_complete(COMMIT);
}
