//! What servers, networks and disks do wrong.

use std::time::Duration;

use super::*;

fn storage_requests(log: &[String]) -> Vec<String> {
    let mut log = readable(log);
    log.retain(|line| line.starts_with("storage"));
    log
}

#[test]
fn a_download_that_broke_off_goes_on_where_it_ended() {
    let fixture = Fixture::new();
    // Sixty per cent of the first shard.
    fixture.server.set(|hub| hub.budget = Some(180_000));
    let error = fixture.download().unwrap_err();
    assert!(
        matches!(&error, Error::BrokeOff { file, done: 180_000, .. } if file == SHARDS[0]),
        "{error}"
    );
    let located = fixture.hub(&[]).locate(ID, None).unwrap();
    let missing = SHARDS.map(str::to_owned).to_vec();
    assert_eq!(located, Located::Incomplete { missing });

    fixture.server.set(|hub| hub.budget = None);
    fixture.server.take_log();
    let plan = fixture.hub(&[]).plan(ID, None).unwrap();
    assert_eq!(plan.files[0].done, 180_000);
    fixture.server.take_log();
    fixture.download().unwrap();
    fixture.assert_complete(COMMIT);
    assert_eq!(
        storage_requests(&fixture.server.take_log()),
        [
            "storage GET /{0} bytes=180000-",
            "storage GET /{1} bytes=0-",
            "storage GET /{2} bytes=0-",
        ]
    );
}

#[test]
fn a_transfer_that_breaks_off_is_taken_up_again_by_itself() {
    let fixture = Fixture::new();
    fixture.server.set(|hub| hub.budget = Some(180_000));
    let server = &fixture.server;
    let hub = fixture
        .hub(&[])
        .with_retry_waits(vec![Duration::from_millis(1)]);
    let plan = hub.plan(ID, None).unwrap();
    hub.fetch(&plan, &mut |progress| {
        if progress.file_done == 180_000 {
            server.set(|hub| hub.budget = None);
        }
        ControlFlow::Continue(())
    })
    .unwrap();
    fixture.assert_complete(COMMIT);
    let requests = storage_requests(&fixture.server.take_log());
    assert_eq!(
        requests[..2],
        [
            "storage GET /{0} bytes=0-",
            "storage GET /{0} bytes=180000-"
        ]
    );
}

#[test]
fn a_server_without_ranges_starts_the_file_again() {
    let fixture = Fixture::new();
    fixture.server.set(|hub| hub.budget = Some(180_000));
    fixture.download().unwrap_err();
    fixture.server.set(|hub| {
        hub.budget = None;
        hub.ranges = false;
    });
    fixture.download().unwrap();
    fixture.assert_complete(COMMIT);
}

#[test]
fn a_stopped_download_keeps_what_it_has() {
    let fixture = Fixture::new();
    let hub = fixture.hub(&[]);
    let mut kept = 0;
    let error = hub
        .download(ID, None, &mut |progress| {
            if progress.file == SHARDS[1] && progress.file_done > 0 {
                kept = progress.file_done;
                return ControlFlow::Break(());
            }
            ControlFlow::Continue(())
        })
        .unwrap_err();
    assert!(matches!(error, Error::Cancelled), "{error}");
    let plan = hub.plan(ID, None).unwrap();
    let files: Vec<_> = plan
        .files
        .iter()
        .map(|file| (file.name.as_str(), file.done))
        .collect();
    assert_eq!(files, [(SHARDS[1], kept), (SHARDS[2], 0)]);
    fixture.download().unwrap();
    fixture.assert_complete(COMMIT);
}

#[test]
fn a_file_of_another_length_than_the_hub_states_is_refused() {
    for (stated, shown) in [(300_000, "300000"), (400_000, "400000")] {
        let fixture = Fixture::new();
        let length = published()[6].1.len();
        fixture
            .server
            .set(|hub| hub.stated_sizes.insert(SHARDS[0].to_owned(), stated));
        let error = fixture.download().unwrap_err();
        assert_eq!(
            error.to_string(),
            format!(
                "`{}` should have {shown} bytes, but the server sends {length}; try again later, or \
                 another HF_ENDPOINT",
                SHARDS[0]
            )
        );
        assert!(!fixture.snapshot(COMMIT).join(SHARDS[0]).exists());
    }
}

#[test]
fn what_an_earlier_attempt_left_must_be_the_beginning_of_the_file() {
    let fixture = Fixture::new();
    let blobs = fixture.repo().join("blobs");
    fs::create_dir_all(&blobs).unwrap();
    let (name, content) = &published()[6];
    let part = blobs.join(format!("{}.part", sha256(content)));
    fs::write(&part, vec![0; 1000]).unwrap();
    let error = fixture.download().unwrap_err();
    assert!(
        matches!(&error, Error::Hash { file, .. } if file == name),
        "{error}"
    );
    assert!(!part.exists());
    // More than the file has is thrown away at once.
    fs::write(&part, vec![0; content.len() + 1]).unwrap();
    fixture.download().unwrap();
    fixture.assert_complete(COMMIT);
}

#[test]
fn a_file_that_was_cut_off_later_is_fetched_again() {
    let fixture = Fixture::new();
    fixture.download().unwrap();
    let path = fixture.snapshot(COMMIT).join(SHARDS[2]);
    let blob = fs::canonicalize(&path).unwrap();
    let whole = fs::read(&blob).unwrap();
    fs::write(&blob, &whole[..50_000]).unwrap();
    fixture.download().unwrap();
    fixture.assert_complete(COMMIT);
}

#[test]
fn two_downloads_of_a_file_do_not_mix() {
    let fixture = Fixture::new();
    let hub = fixture.hub(&[]);
    let mut second = None;
    hub.download(ID, None, &mut |progress| {
        if progress.file == SHARDS[0] && second.is_none() {
            second = Some(fixture.download());
        }
        ControlFlow::Continue(())
    })
    .unwrap();
    let error = second.unwrap().unwrap_err();
    assert!(
        matches!(&error, Error::Locked { file } if file == SHARDS[0]),
        "{error}"
    );
    fixture.assert_complete(COMMIT);
}

#[test]
fn a_refusal_says_what_to_check() {
    let fixture = Fixture::new();
    let url = fixture.server.url.clone();
    let api = format!("{url}/api/models/{ID}/revision/main");
    for (status, code, token, expected) in [
        (
            401,
            "RepoNotFound",
            "",
            format!(
                "the hub refuses `{ID}@main` (401): the name is wrong, or the model is not public and \
                 needs a token; check the name or set HF_TOKEN"
            ),
        ),
        (
            401,
            "RepoNotFound",
            "hf_x",
            format!(
                "the hub refuses `{ID}@main` (401): the name is wrong, or the token in use may not \
                 read it; check both"
            ),
        ),
        (
            403,
            "GatedRepo",
            "hf_x",
            format!(
                "the hub refuses `{ID}@main` (403): the owner asks for consent first; give it on the \
                 model's page, then set HF_TOKEN to a token of that account"
            ),
        ),
        (
            404,
            "RepoNotFound",
            "",
            format!(
                "there is no `{ID}@main` at {url}; check the name and the revision, or HF_ENDPOINT"
            ),
        ),
        (
            500,
            "",
            "",
            format!("{api} answered with status 500; try again later, or another HF_ENDPOINT"),
        ),
    ] {
        fixture.server.set(|hub| hub.refuse = Some((status, code)));
        let hub = fixture.hub(&[("HF_TOKEN", token)]);
        let error = hub
            .download(ID, None, &mut |_| ControlFlow::Continue(()))
            .unwrap_err();
        assert_eq!(error.to_string(), expected);
    }
    assert!(!fixture.repo().exists());
}

#[test]
fn a_host_that_is_not_there_is_named() {
    let fixture = Fixture::new();
    // Bound and closed again: nobody listens there.
    let port = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    let hub = fixture.hub(&[("HF_ENDPOINT", &format!("http://127.0.0.1:{port}"))]);
    let error = hub.plan(ID, None).unwrap_err().to_string();
    assert!(
        error.starts_with(&format!("no connection to http://127.0.0.1:{port}: ")),
        "{error}"
    );
    assert!(error.contains("HF_ENDPOINT"), "{error}");
}

#[test]
fn offline_with_a_missing_file_names_it_and_connects_to_nothing() {
    let fixture = Fixture::new();
    fixture.download().unwrap();
    fixture.server.take_log();
    fs::remove_file(fixture.snapshot(COMMIT).join(SHARDS[1])).unwrap();
    let hub = fixture.hub(&[("HF_HUB_OFFLINE", "1")]);
    let error = hub
        .download(ID, None, &mut |_| ControlFlow::Continue(()))
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        format!(
            "`{ID}` cannot be fetched because HF_HUB_OFFLINE is set; not in `{}`: {}; unset \
             HF_HUB_OFFLINE, or copy the model there",
            fixture.repo().display(),
            SHARDS[1]
        )
    );
    assert_eq!(fixture.server.take_log(), Vec::<String>::new());
}

#[test]
fn a_repository_without_usable_weights_is_refused_by_what_it_holds() {
    let config = ("config.json", br#"{"model_type": "gpt_oss"}"#.to_vec());
    let tokenizer = ("tokenizer.json", b"{}".to_vec());
    for (files, expected) in [
        (
            vec![config.clone(), ("gpt-oss-20b-F16.gguf", vec![0])],
            "GGUF files, which this program does not read",
        ),
        (
            vec![("original/model.safetensors", vec![0])],
            "only original/ or metal/, and only the Hugging Face form is fetched",
        ),
        (
            vec![
                ("config.json", br#"{"model_type": "qwen3"}"#.to_vec()),
                tokenizer.clone(),
                ("model.safetensors", vec![0]),
            ],
            "a model of type `qwen3`, expected `gpt_oss`",
        ),
        (
            vec![
                config,
                tokenizer,
                (
                    INDEX,
                    br#"{"weight_map": {"x": "gone.safetensors"}}"#.to_vec(),
                ),
            ],
            "it has no gone.safetensors, which its model.safetensors.index.json names",
        ),
    ] {
        let fixture = Fixture::with(&files);
        match fixture.download().unwrap_err() {
            Error::Unsupported { found, .. } => assert_eq!(found, expected),
            other => panic!("{other}"),
        }
        assert!(!fixture.repo().exists());
    }
}

#[test]
fn an_endpoint_that_is_no_hub_is_named() {
    let fixture = Fixture::new();
    fixture
        .server
        .set(|hub| hub.commit = "../../outside".to_owned());
    let error = fixture.download().unwrap_err();
    assert!(
        matches!(&error, Error::Reply { reason, .. } if reason.contains("outside")),
        "{error}"
    );
    fixture.server.set(|hub| hub.refuse = Some((200, "")));
    let error = fixture.download().unwrap_err();
    assert!(matches!(error, Error::Reply { .. }), "{error}");
    assert!(!fixture.repo().exists());
}
