//! What is looked for in a directory, and what is said when it is not as it should be.

use std::fs::File;

use super::*;

#[test]
fn opens_one_file_and_shards_numbered_from_zero() {
    let micro = Micro::hugging_face();
    let (one, two) = (directory(), directory());
    micro.write(one.path());
    micro.write_shards(two.path());
    let one = Checkpoint::open(one.path()).unwrap();
    let two = Checkpoint::open(two.path()).unwrap();
    assert_eq!((one.files.len(), two.files.len()), (1, 2));
    assert_eq!((one.tensors, two.tensors), (41, 41));
    assert_eq!(one.eos_token_ids, [3]);
}

#[test]
fn opens_shards_without_their_index() {
    let directory = directory();
    Micro::hugging_face().write_shards(directory.path());
    fs::remove_file(index_path(directory.path())).unwrap();
    assert_eq!(Checkpoint::open(directory.path()).unwrap().tensors, 41);
}

#[test]
fn end_ids_come_from_the_generation_config_first() {
    let directory = directory();
    Micro::hugging_face().write(directory.path());
    let path = directory.path().join("generation_config.json");
    fs::write(&path, r#"{"eos_token_id": [1, 2]}"#).unwrap();
    assert_eq!(
        Checkpoint::open(directory.path()).unwrap().eos_token_ids,
        [1, 2]
    );
    fs::write(&path, r#"{"do_sample": true}"#).unwrap();
    assert_eq!(
        Checkpoint::open(directory.path()).unwrap().eos_token_ids,
        [3]
    );
    fs::write(&path, r#"{"eos_token_id": 10}"#).unwrap();
    assert_eq!(
        fault(&directory),
        "`DIR/generation_config.json`: `eos_token_id` is 10, expected token ids below vocab_size, which is 10"
    );
}

#[test]
fn falls_back_to_original_with_the_tokenizer_beside_it() {
    let directory = directory();
    let original = directory.path().join("original");
    fs::create_dir(&original).unwrap();
    fs::write(directory.path().join("tokenizer.json"), "words").unwrap();
    fs::write(
        directory.path().join("generation_config.json"),
        r#"{"eos_token_id": 5}"#,
    )
    .unwrap();
    Micro::hugging_face().write(&original);
    for path in [directory.path(), &original] {
        let checkpoint = Checkpoint::open(path).unwrap();
        assert_eq!(checkpoint.source, original.display().to_string());
        let tokenizer = checkpoint.tokenizer.unwrap();
        assert_eq!(&*tokenizer.json, b"words");
        assert_eq!(tokenizer.path, directory.path().join("tokenizer.json"));
        assert_eq!(checkpoint.eos_token_ids, [5]);
    }

    // Weights in the directory itself come first.
    Micro::hugging_face().write(directory.path());
    let checkpoint = Checkpoint::open(directory.path()).unwrap();
    assert_eq!(checkpoint.source, directory.path().display().to_string());
}

#[test]
fn refuses_a_directory_that_is_not_there_and_a_file_in_its_place() {
    let directory = directory();
    let wanted = "name the directory that holds config.json and the .safetensors files";
    let missing = directory.path().join("gone");
    assert_eq!(
        fault_at(&missing, &directory),
        format!("`DIR/gone` does not exist; {wanted}")
    );
    Micro::hugging_face().write(directory.path());
    assert_eq!(
        fault_at(&directory.path().join("model.safetensors"), &directory),
        format!("`DIR/model.safetensors` is a file; {wanted}")
    );
}

#[test]
fn refuses_other_forms_by_their_name() {
    let get = "which is not supported; get the published safetensors files \
               (config.json, model.safetensors.index.json and its shards of openai/gpt-oss-20b or -120b)";
    for (file, what, form) in [
        ("gpt-oss.GGUF", "gpt-oss.GGUF", "GGUF"),
        (
            "metal/model.bin",
            "metal",
            "Metal (`metal/` of the published repository)",
        ),
        (
            "model.bin",
            "model.bin",
            "Metal (`metal/` of the published repository)",
        ),
        (
            "pytorch_model-00001-of-00003.bin",
            "pytorch_model-00001-of-00003.bin",
            "PyTorch",
        ),
    ] {
        let directory = directory();
        let path = directory.path().join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, "").unwrap();
        let text = format!("`DIR/{what}` is a checkpoint in {form} form, {get}");
        assert_eq!(fault(&directory), text);
        if form == "GGUF" {
            assert_eq!(fault_at(&path, &directory), text);
        }
        // Beside weights that can be read they do not matter.
        Micro::hugging_face().write(directory.path());
        Checkpoint::open(directory.path()).unwrap();
    }
}

#[test]
fn refuses_a_directory_without_weights_or_without_config() {
    let directory = directory();
    let no_config = "`DIR` has no config.json; name the directory of a gpt-oss checkpoint, or fetch config.json too";
    assert_eq!(fault(&directory), no_config);
    fs::write(directory.path().join("config.json"), "{}").unwrap();
    assert_eq!(
        fault(&directory),
        "`DIR` holds no weights; expected model.safetensors, or model.safetensors.index.json and its shards"
    );
    Micro::hugging_face().write(directory.path());
    fs::remove_file(directory.path().join("config.json")).unwrap();
    assert_eq!(fault(&directory), no_config);
}

#[test]
fn refuses_small_files_that_are_absurdly_large() {
    let directory = directory();
    Micro::hugging_face().write(directory.path());
    let config = File::create(directory.path().join("config.json")).unwrap();
    config.set_len((16 << 20) + 1).unwrap();
    assert_eq!(
        fault(&directory),
        "`DIR/config.json` has more than the 16777216 bytes that such a file may have"
    );
}

#[test]
fn names_a_missing_shard() {
    let directory = directory();
    Micro::hugging_face().write_shards(directory.path());
    let shard = "model-00001-of-00001.safetensors";
    fs::remove_file(directory.path().join(shard)).unwrap();
    assert_eq!(
        fault(&directory),
        format!(
            "`DIR/model.safetensors.index.json` names the shard `{shard}`, which is not there; \
             the checkpoint is incomplete: fetch that file too"
        )
    );
}

#[test]
fn opens_no_shard_outside_the_directory() {
    let directory = directory();
    let mut index = Micro::hugging_face().write_shards(directory.path());
    for shard in [
        "../model.safetensors",
        "/etc/passwd",
        "sub/model.safetensors",
        "sub\\model.safetensors",
        "..",
        ".",
        "",
        "model.safetensors/",
    ] {
        index["weight_map"]["lm_head.weight"] = json!(shard);
        fs::write(index_path(directory.path()), index.to_string()).unwrap();
        assert_eq!(
            fault(&directory),
            format!(
                "`DIR/model.safetensors.index.json` names the shard `{shard}`, expected the plain name of a file \
                 in the same directory"
            )
        );
    }
}

#[test]
fn lists_what_the_index_names_and_the_shards_lack() {
    let directory = directory();
    let mut index = Micro::hugging_face().write_shards(directory.path());
    index["weight_map"]["lm_head.weight"] = json!("model-00001-of-00001.safetensors");
    index["weight_map"]["model.extra"] = json!("model-00000-of-00001.safetensors");
    fs::write(index_path(directory.path()), index.to_string()).unwrap();
    assert_eq!(
        fault(&directory),
        "`DIR/model.safetensors.index.json` and its shards do not belong together; fetch them again:\n  \
         `lm_head.weight` should be in `model-00001-of-00001.safetensors`, but is not\n  \
         `model.extra` should be in `model-00000-of-00001.safetensors`, but is not"
    );
}

#[test]
fn refuses_an_index_of_another_structure() {
    let directory = directory();
    Micro::hugging_face().write_shards(directory.path());
    for (text, reason) in [
        (
            "{\"weight_map\":\n[",
            "invalid type: sequence, expected a map at line 2 column 0",
        ),
        ("{}", "missing field `weight_map` at line 1 column 2"),
        ("weights", "expected value at line 1 column 1"),
    ] {
        fs::write(index_path(directory.path()), text).unwrap();
        assert_eq!(
            fault(&directory),
            format!(
                "`DIR/model.safetensors.index.json` cannot be used: {reason}; fetch the file again"
            )
        );
    }
}

#[test]
fn says_which_file_is_cut_short() {
    let directory = directory();
    Micro::hugging_face().write_shards(directory.path());
    let name = "model-00001-of-00001.safetensors";
    let file = File::options()
        .write(true)
        .open(directory.path().join(name))
        .unwrap();
    let length = file.metadata().unwrap().len();
    file.set_len(length - 1).unwrap();
    let text = fault(&directory);
    assert!(
        text.starts_with(&format!(
            "`DIR/{name}` is not a usable safetensors file: it is cut short: `model.layers.1.self_attn.v_proj.weight` ends at"
        )),
        "{text}"
    );
    file.set_len(0).unwrap();
    assert_eq!(
        fault(&directory),
        format!(
            "`DIR/{name}` is not a usable safetensors file: it has 0 bytes, and 8 are needed for the length of its \
             header; fetch it again"
        )
    );
}

/// Sparse files, so that the real sizes cost nothing: opening must not read or allocate what it maps.
#[test]
fn the_published_sizes_add_up_to_the_published_bytes() {
    let kib = 1024;
    for (layers, experts, tensors, bytes, history) in [
        (24, 32, 459, 13_761_264_768, 48 * kib),
        (36, 128, 687, 65_248_815_744, 72 * kib),
    ] {
        let micro = Micro::shaped(layers, [2880, 2880], [64, 8, 64], [experts, 4], 201_088);
        let directory = directory();
        fs::write(
            directory.path().join("config.json"),
            micro.config.to_string(),
        )
        .unwrap();
        let path = directory.path().join("model.safetensors");
        let (header, data) = micro.header(micro.tensors.keys());
        fs::write(&path, &header).unwrap();
        let length = header.len() as u64 + data;
        let file = File::options().write(true).open(&path).unwrap();
        file.set_len(length).unwrap();

        let summary = Checkpoint::open(directory.path()).unwrap().summary();
        assert_eq!(summary.tensors, tensors);
        assert_eq!(summary.weight_bytes(), bytes);
        assert_eq!(
            summary.files,
            [WeightFile {
                path,
                bytes: length
            }]
        );
        assert_eq!(summary.kv_bytes_per_token(2), history);

        // Per layer an expert has 5760 + 2880 rows of 90 blocks of 17 bytes, and as many biases of 2.
        let rows = 5760 + 2880;
        let expert = rows * (90 * 17 + 2);
        assert_eq!(summary.expert_bytes, (layers * experts * expert) as u64);
        let unread = layers * (experts - 4) * expert + (201_088 - 1) * 2880 * 2;
        assert_eq!(summary.decode_bytes, bytes - unread as u64);
    }
}

#[test]
#[cfg(unix)]
fn a_link_that_leads_nowhere_is_named() {
    let directory = directory();
    Micro::hugging_face().write(directory.path());
    for name in ["config.json", "model.safetensors"] {
        let path = directory.path().join(name);
        let kept = fs::read(&path).unwrap();
        fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink("/nowhere", &path).unwrap();
        assert_eq!(
            fault(&directory),
            format!(
                "`DIR/{name}` is neither a file nor a link to one that is there; put the file itself in its place"
            )
        );
        fs::remove_file(&path).unwrap();
        fs::write(&path, kept).unwrap();
    }
}
