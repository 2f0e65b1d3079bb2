//! Who may name whom, and how long a file may be: the rules that keep the data path readable.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

const MAX_LINES: usize = 600;

/// For each module, the modules of this crate that its files may name besides itself.
const LAYERS: &[(&str, &[&str])] = &[
    ("checkpoint", &[]),
    ("tokenizer", &[]),
    ("hub", &[]),
    ("engine", &["checkpoint"]),
    ("harmony", &["tokenizer"]),
    ("session", &["engine", "harmony", "tokenizer", "checkpoint"]),
    ("settings", &["session"]),
    ("store", &["session", "text"]),
    ("text", &[]),
    ("tui", &["session", "settings", "store", "text"]),
    (
        "cli",
        &[
            "settings",
            "store",
            "session",
            "hub",
            "checkpoint",
            "text",
            "tui",
        ],
    ),
    ("main", &["cli"]),
    ("lib", &[]),
];

/// Files, or files with those below them, that may name more than their module, because that is their subject.
const EXCEPTIONS: &[(&str, &[&str])] = &[("cli/info.rs", &["engine"]), ("cli/bench", &["engine"])];

/// For each crate that is not a general tool, the modules that may name it.
const CRATES: &[(&str, &[&str])] = &[
    ("anyhow", &["cli", "main"]),
    ("burn", &["engine"]),
    ("burn_candle", &["engine"]),
    ("burn_cubecl", &["engine"]),
    ("burn_cuda", &["engine"]),
    ("burn_wgpu", &["engine"]),
    ("bytemuck", &["checkpoint", "engine"]),
    ("candle_core", &["engine"]),
    ("ciborium", &["engine"]),
    ("clap", &["cli"]),
    ("clap_complete", &["cli"]),
    ("clap_mangen", &["cli"]),
    ("console", &["cli"]),
    ("crossterm", &["tui"]),
    ("cubecl", &["engine"]),
    ("half", &["checkpoint", "engine"]),
    ("hf_hub", &["hub"]),
    ("indicatif", &["cli"]),
    ("jiff", &["harmony", "session", "store", "cli"]),
    ("libloading", &["engine"]),
    ("memmap2", &["checkpoint", "engine"]),
    ("nix", &["hub", "engine", "session", "tui", "cli"]),
    ("pulldown_cmark", &["tui"]),
    ("rand", &["engine", "session"]),
    ("rand_chacha", &["engine"]),
    ("ratatui", &["tui"]),
    ("rayon", &["checkpoint", "engine"]),
    ("ring", &["hub"]),
    ("safetensors", &["checkpoint"]),
    (
        "serde",
        &[
            "checkpoint",
            "engine",
            "harmony",
            "hub",
            "session",
            "store",
            "tokenizer",
            "cli",
        ],
    ),
    (
        "serde_json",
        &[
            "checkpoint",
            "engine",
            "harmony",
            "hub",
            "session",
            "store",
            "tokenizer",
            "cli",
        ],
    ),
    ("signal_hook", &["tui", "cli"]),
    ("syntect", &["tui"]),
    ("sysinfo", &["engine", "session", "cli"]),
    (
        "thiserror",
        &[
            "checkpoint",
            "engine",
            "harmony",
            "hub",
            "session",
            "settings",
            "store",
            "tokenizer",
            "tui",
        ],
    ),
    ("tokenizers", &["tokenizer"]),
    ("toml", &["settings"]),
    ("unicode_segmentation", &["tui"]),
    ("ureq", &["hub"]),
    ("wgpu", &["engine"]),
];

/// A source file: its path below `src/` and what the rules look at.
struct Source {
    path: String,
    code: String,
    lines: usize,
}

impl Source {
    fn new(path: &str, text: &str) -> Self {
        Self {
            path: path.to_owned(),
            code: code(text),
            lines: text.lines().count(),
        }
    }

    /// The top-level module that the file belongs to.
    fn module(&self) -> &str {
        let first = self.path.split('/').next().unwrap_or_default();
        first.strip_suffix(".rs").unwrap_or(first)
    }

    /// How many `super::` lead from the file's module to the root.
    fn depth(&self) -> usize {
        match self.path.as_str() {
            "lib.rs" | "main.rs" => 0,
            path => path.split('/').count(),
        }
    }
}

/// Removes comments, string contents and everything from the unit tests on: tests may combine what they
/// like.
fn code(text: &str) -> String {
    let text = text
        .split("#[cfg(test)]\nmod tests")
        .next()
        .unwrap_or_default();
    let mut code = String::with_capacity(text.len());
    for line in text.lines() {
        let mut rest = line;
        while let Some(at) = rest.find(['"', '/']) {
            let (before, from) = rest.split_at(at);
            code.push_str(before);
            if from.starts_with("//") {
                rest = "";
            } else if let Some(string) = from.strip_prefix('"') {
                let string = string.replace("\\\\", "__").replace("\\\"", "__");
                let end = string.find('"').map_or(string.len(), |end| end + 1);
                rest = &from[1 + end..];
            } else {
                code.push('/');
                rest = &from[1..];
            }
        }
        code.push_str(rest);
        code.push('\n');
    }
    code
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

/// The places after `word::` where `word` is the beginning of a path.
fn paths_after<'a>(code: &'a str, word: &str) -> Vec<&'a str> {
    let pattern = format!("{word}::");
    code.match_indices(&pattern)
        .filter(|(at, _)| {
            let before = code[..*at].bytes().next_back().unwrap_or(b' ');
            !is_word(before) && before != b':' && before != b'.'
        })
        .map(|(at, _)| &code[at + pattern.len()..])
        .collect()
}

/// The first names of a path or of each path of a group: `a::b` gives a, `{a::b, c::{d}}` a and c.
fn first_names(path: &str) -> Vec<&str> {
    let word = |text: &str| text.bytes().take_while(|byte| is_word(*byte)).count();
    let Some(group) = path.strip_prefix('{') else {
        return vec![&path[..word(path)]];
    };
    let mut names = Vec::new();
    let (mut depth, mut start) = (0_usize, 0);
    for (at, byte) in group.bytes().enumerate() {
        match byte {
            b'{' => depth += 1,
            b'}' if depth > 0 => depth -= 1,
            b',' | b'}' if depth == 0 => {
                let item = group[start..at].trim_start();
                names.push(&item[..word(item)]);
                start = at + 1;
                if byte == b'}' {
                    break;
                }
            }
            _ => {}
        }
    }
    names
}

/// The top-level modules of this crate that a file names, by `crate::`, `gptoss::` or enough `super::`.
fn modules_named(source: &Source) -> Vec<&str> {
    let climb = vec!["super"; source.depth()].join("::");
    ["crate", "gptoss", climb.as_str()]
        .into_iter()
        .filter(|start| !start.is_empty())
        .flat_map(|start| paths_after(&source.code, start))
        .flat_map(first_names)
        .filter(|name| LAYERS.iter().any(|(module, _)| module == name))
        .filter(|name| *name != source.module())
        .collect()
}

/// What `path` may name beyond its module.
fn excepted(path: &str) -> &'static [&'static str] {
    let covers = |name: &str| {
        path.strip_prefix(name)
            .is_some_and(|rest| rest.is_empty() || rest == ".rs" || rest.starts_with('/'))
    };
    EXCEPTIONS
        .iter()
        .find(|(name, _)| covers(name))
        .map_or(&[], |(_, names)| *names)
}

fn allowed<'a>(table: &[(&str, &'a [&'a str])], name: &str) -> &'a [&'a str] {
    table
        .iter()
        .find(|(key, _)| *key == name)
        .map_or(&[], |(_, allowed)| *allowed)
}

/// Every breach of the rules in a file, as a sentence. `dependencies` are the crates of Cargo.toml.
fn violations(source: &Source, dependencies: &[String]) -> Vec<String> {
    let path = &source.path;
    let module = source.module();
    let mut found = Vec::new();
    if source.lines > MAX_LINES {
        found.push(format!(
            "{path} has {} lines, at most {MAX_LINES} are allowed",
            source.lines
        ));
    }
    if !LAYERS.iter().any(|(name, _)| *name == module) {
        found.push(format!("{path} is in no layer; add `{module}` to LAYERS"));
    }
    for name in modules_named(source) {
        if !allowed(LAYERS, module).contains(&name) && !excepted(path).contains(&name) {
            found.push(format!(
                "{path} names `{name}`, which {module} may not know"
            ));
        }
    }
    for name in dependencies {
        let named = !paths_after(&source.code, name).is_empty()
            || source.code.contains(&format!("use {name};"))
            || source.code.contains(&format!("use {name} as "));
        if !named {
            continue;
        }
        if !CRATES.iter().any(|(key, _)| key == name) {
            found.push(format!(
                "{path} names the crate `{name}`, which is not in CRATES"
            ));
        } else if !allowed(CRATES, name).contains(&module) {
            found.push(format!(
                "{path} names the crate `{name}`, which {module} may not know"
            ));
        }
    }
    found.sort();
    found.dedup();
    found
}

/// The names in the dependency tables of Cargo.toml, as the sources write them.
fn dependencies(manifest: &str) -> Vec<String> {
    let mut inside = false;
    let mut names = Vec::new();
    for line in manifest.lines() {
        if line.starts_with('[') {
            inside = line.ends_with("dependencies]") && !line.contains("dev-dependencies");
        } else if let Some((name, _)) = line.split_once('=').filter(|_| inside) {
            names.push(name.trim().replace('-', "_"));
        }
    }
    names.sort();
    names.dedup();
    names
}

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// All files below `directory`; of the unit tests that have files of their own, the length alone.
fn sources(directory: &Path, below: &Path, into: &mut Vec<Source>) {
    for entry in fs::read_dir(directory).expect("the sources are there") {
        let path = entry.expect("the directory can be read").path();
        if path.is_dir() {
            sources(&path, below, into);
        } else if path.extension().is_some_and(|end| end == "rs") {
            let text = fs::read_to_string(&path).expect("a source file is text");
            let name = path.strip_prefix(below).expect("it was found below");
            let name = name.to_string_lossy().replace('\\', "/");
            let mut source = Source::new(&name, &text);
            let of_tests = ["/tests.rs", "/testing.rs"];
            if of_tests.iter().any(|end| name.ends_with(end)) || name.contains("/tests/") {
                source.code.clear();
            }
            into.push(source);
        }
    }
}

fn own_dependencies() -> Vec<String> {
    dependencies(&fs::read_to_string(root().join("Cargo.toml")).expect("Cargo.toml is there"))
}

#[test]
fn every_file_keeps_to_its_layer_and_length() {
    let mut all = Vec::new();
    sources(&root().join("src"), &root().join("src"), &mut all);
    let dependencies = own_dependencies();
    let found: Vec<_> = all
        .iter()
        .flat_map(|source| violations(source, &dependencies))
        .collect();
    assert!(all.len() > 10, "only {} files were looked at", all.len());
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn the_tables_know_every_dependency_and_no_other() {
    let known: Vec<_> = CRATES.iter().map(|(name, _)| (*name).to_owned()).collect();
    assert_eq!(known, own_dependencies());
}

#[test]
fn the_dependencies_are_read_from_every_table() {
    let manifest = "[package]\nname = \"x\"\n[dependencies]\nhf-hub = \"1\"\n\
                    [target.'cfg(unix)'.dependencies]\nnix = { version = \"1\" }\n\
                    [dev-dependencies]\ntempfile = \"1\"\n[profile.release]\ndebug = 1\n";
    assert_eq!(dependencies(manifest), ["hf_hub", "nix"]);
}

#[test]
fn a_breach_is_found_in_every_way_to_write_it() {
    let crates = ["burn", "hf_hub", "new_crate"].map(str::to_owned);
    let found = |path: &str, text: &str| violations(&Source::new(path, text), &crates);
    let may_not = |path: &str, what: &str| vec![format!("{path} names {what} may not know")];
    for text in [
        "use crate::harmony::Parser;\n",
        "use crate::{checkpoint::Config, harmony::{self, Parser}};\n",
        "fn f() { crate::harmony::parse() }\n",
        "use super::super::harmony::Parser;\n",
        "type T = \"//\"; use gptoss::harmony::Parser;\n",
    ] {
        assert_eq!(
            found("engine/model.rs", text),
            may_not("engine/model.rs", "`harmony`, which engine"),
            "{text}"
        );
    }
    assert_eq!(
        found("cli/run.rs", "use crate::engine::Model;\n"),
        may_not("cli/run.rs", "`engine`, which cli")
    );
    for text in [
        "use burn::tensor::Tensor;\n",
        "fn f(x: &burn::Tensor) {}\n",
        "use burn;\n",
    ] {
        assert_eq!(
            found("session.rs", text),
            may_not("session.rs", "the crate `burn`, which session"),
            "{text}"
        );
    }
    assert_eq!(
        found("hub.rs", "use new_crate::X;\n"),
        ["hub.rs names the crate `new_crate`, which is not in CRATES"]
    );
    assert_eq!(
        found("extra.rs", ""),
        ["extra.rs is in no layer; add `extra` to LAYERS"]
    );
    assert_eq!(
        found("hub.rs", &"\n".repeat(MAX_LINES + 1)),
        ["hub.rs has 601 lines, at most 600 are allowed"]
    );
}

#[test]
fn what_only_looks_like_a_breach_is_none() {
    let crates = ["burn", "hf_hub"].map(str::to_owned);
    for (path, text) in [
        ("engine/model.rs", "//! As crate::harmony::Parser does.\n"),
        (
            "engine/model.rs",
            "const X: &str = \"crate::harmony::Parser\"; // burn::x\n",
        ),
        (
            "engine/model.rs",
            "use crate::checkpoint::Config;\nuse super::cache;\n",
        ),
        (
            "engine/model.rs",
            "#[cfg(test)]\nmod tests {\n    use crate::harmony::Parser;\n}\n",
        ),
        (
            "hub/client.rs",
            "use super::harmony;\nfn f() { slow_burn::go(); self.burn::<u8>() }\n",
        ),
        ("cli/info.rs", "use crate::engine::Model;\n"),
        ("cli/bench.rs", "use crate::engine::Model;\n"),
        ("cli/bench/cost.rs", "use crate::engine::Model;\n"),
        ("hub.rs", &"\n".repeat(MAX_LINES)),
    ] {
        assert_eq!(
            violations(&Source::new(path, text), &crates),
            Vec::<String>::new(),
            "{text}"
        );
    }
    let known: BTreeMap<_, _> = LAYERS.iter().copied().collect();
    assert_eq!(known.len(), LAYERS.len(), "a module is listed twice");
}
