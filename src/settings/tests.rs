use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;

use super::*;

fn env<'a>(variables: &'a [(&'a str, &'a str)]) -> impl Fn(&str) -> Option<OsString> + 'a {
    |name| {
        let found = variables.iter().find(|(key, _)| *key == name);
        found.map(|(_, value)| value.into())
    }
}

fn config(text: &str) -> Config<'_> {
    Config {
        path: Path::new("config.toml"),
        text,
    }
}

fn of_file(text: &str) -> Result<Settings, String> {
    resolve(Given::default(), env(&[]), Some(config(text))).map_err(|error| error.to_string())
}

fn of_env(variables: &[(&str, &str)]) -> Result<Settings, String> {
    resolve(Given::default(), env(variables), None).map_err(|error| error.to_string())
}

/// The example configurations of a directory, by name.
fn examples(directory: &str) -> BTreeMap<String, String> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/fixtures/config")
        .join(directory);
    let files = fs::read_dir(directory).unwrap().map(|entry| {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        (name, fs::read_to_string(path).unwrap())
    });
    files.collect()
}

/// None of these is a default.
fn everything(context_source: Source) -> Settings {
    Settings {
        model: "~/models/gpt-oss-20b".to_owned(),
        system: Some("Answer briefly.\nIn verse.".to_owned()),
        reasoning: Reasoning::High,
        sampling: Sampling {
            temperature: 0.0,
            top_k: 40,
            top_p: 0.9,
            min_p: 0.05,
            repetition_penalty: 1.1,
            seed: Some(42),
        },
        max_tokens: Some(500),
        context: Some(8192),
        context_source,
        kv_type: KvType::F32,
        device: "vulkan:1".parse().unwrap(),
        gpu_layers: Some(12),
        gpu_memory: Some(7_500_000_000),
        compute: Some(Compute::Int8),
        dense: Dense::Q8,
        kernels: Some("avx2".to_owned()),
        threads: Some(4),
        theme: ThemeName::HighContrast,
        mouse: false,
        save: false,
        show_thinking: true,
    }
}

#[test]
fn a_file_sets_everything() {
    let valid = examples("valid");
    assert_eq!(of_file(&valid["everything"]), Ok(everything(Source::File)));
    assert_eq!(of_file(&valid["empty"]), Ok(Settings::default()));
    let windows = Settings {
        reasoning: Reasoning::Low,
        sampling: Sampling {
            top_k: 1000,
            ..Sampling::default()
        },
        ..Settings::default()
    };
    assert_eq!(of_file(&valid["windows"]), Ok(windows));
    assert_eq!(valid.len(), 3);
}

#[test]
fn the_environment_sets_everything() {
    let variables = [
        ("GPTOSS_MODEL", "~/models/gpt-oss-20b"),
        ("GPTOSS_SYSTEM", "Answer briefly.\nIn verse."),
        ("GPTOSS_REASONING", "high"),
        ("GPTOSS_TEMPERATURE", "0"),
        ("GPTOSS_TOP_K", "40"),
        ("GPTOSS_TOP_P", "0.9"),
        ("GPTOSS_MIN_P", "0.05"),
        ("GPTOSS_REPETITION_PENALTY", "1.1"),
        ("GPTOSS_SEED", "42"),
        ("GPTOSS_MAX_TOKENS", "500"),
        ("GPTOSS_CONTEXT", "8192"),
        ("GPTOSS_KV_TYPE", "f32"),
        ("GPTOSS_DEVICE", "vulkan:1"),
        ("GPTOSS_GPU_LAYERS", "12"),
        ("GPTOSS_GPU_MEMORY", "7500000000"),
        ("GPTOSS_COMPUTE", "int8"),
        ("GPTOSS_DENSE", "q8"),
        ("GPTOSS_KERNELS", "avx2"),
        ("GPTOSS_THREADS", "4"),
        ("GPTOSS_THEME", "high-contrast"),
        ("GPTOSS_MOUSE", "0"),
        ("GPTOSS_SAVE", "No"),
        ("GPTOSS_SHOW_THINKING", "on"),
    ];
    assert_eq!(of_env(&variables), Ok(everything(Source::Variable)));
    assert_eq!(
        variables.map(|(name, _)| name.to_owned()),
        KEYS.map(variable)
    );
}

#[test]
fn refuses_every_wrong_file_with_line_value_and_what_was_expected() {
    let mut refusals = String::new();
    for (name, text) in examples("invalid") {
        let error = of_file(&text).expect_err(&name);
        writeln!(refusals, "{name}: {error}").unwrap();
    }
    insta::assert_snapshot!(refusals, @r#"
    compute: `config.toml`, line 1: `compute` is "fp16", expected "auto", "f32", "bf16", "int16" or "int8"
    context_list: `config.toml`, line 1: `context` is a list, expected a whole number from 1 on
    dense: `config.toml`, line 1: `dense` is true, expected "bf16" or "q8"
    device: `config.toml`, line 1: `device` is "gpu", expected auto, cpu, vulkan, metal or cuda; a number chooses among several: vulkan:1
    gpu_memory: `config.toml`, line 1: `gpu-memory` is "8G", expected a size above 0 such as 8GB, 7.5 GB, 11GiB or 500MB, or a number of bytes
    gpu_memory_zero: `config.toml`, line 1: `gpu-memory` is 0, expected a size above 0 such as 8GB, 7.5 GB, 11GiB or 500MB, or a number of bytes
    kernels_number: `config.toml`, line 1: `kernels` is 512, expected text in quotes
    kv_type: `config.toml`, line 1: `kv-type` is "q4", expected "bf16", "f32" or "q8"
    max_tokens_zero: `config.toml`, line 1: `max-tokens` is 0, expected a whole number from 1 on
    model_empty: `config.toml`, line 1: `model` is empty, expected the name of a model
    model_type: `config.toml`, line 2: `model` is 20, expected text in quotes
    mouse_text: `config.toml`, line 1: `mouse` is "yes", expected true or false (without quotes)
    reasoning: `config.toml`, line 1: `reasoning` is "off", expected "low", "medium" or "high"
    reasoning_type: `config.toml`, line 1: `reasoning` is 1, expected "low", "medium" or "high"
    save_number: `config.toml`, line 1: `save` is 1, expected true or false (without quotes)
    seed_negative: `config.toml`, line 1: `seed` is -1, expected a whole number from 0 on
    syntax: `config.toml`, line 2: invalid basic string, expected `"`
    table: `config.toml`, line 1: there is no setting `sampling`: expected model, system, reasoning, temperature, top-k, top-p, min-p, repetition-penalty, seed, max-tokens, context, kv-type, device, gpu-layers, gpu-memory, compute, dense, kernels, threads, theme, mouse, save or show-thinking
    temperature_nan: `config.toml`, line 1: `temperature` is NaN, expected 0 (the likeliest token) to 100
    temperature_range: `config.toml`, line 2: `temperature` is -0.5, expected 0 (the likeliest token) to 100
    temperature_type: `config.toml`, line 1: `temperature` is "1.0", expected a number
    theme: `config.toml`, line 1: `theme` is "solarized", expected "standard", "high-contrast" or "plain"
    threads_date: `config.toml`, line 1: `threads` is 2025-06-28, expected a whole number from 1 to 4096
    top_k_fraction: `config.toml`, line 1: `top-k` is 1.5, expected a whole number from 0 on
    top_p_range: `config.toml`, line 1: `top-p` is 0, expected above 0, at most 1 (keeps all)
    twice: `config.toml`, line 2: duplicate key: `seed`
    unknown_key: `config.toml`, line 3: there is no setting `temprature`: expected model, system, reasoning, temperature, top-k, top-p, min-p, repetition-penalty, seed, max-tokens, context, kv-type, device, gpu-layers, gpu-memory, compute, dense, kernels, threads, theme, mouse, save or show-thinking
    "#);
}

#[test]
fn refuses_variables_that_mean_nothing_with_the_nearest_that_does() {
    let said = |variables: &[(&str, &str)]| {
        let variables = variables
            .iter()
            .map(|(name, value)| (name.into(), value.into()));
        given::check_variables(variables).map_err(|error| error.to_string())
    };
    let known: Vec<String> = KEYS.iter().map(|key| variable(key)).collect();
    let known: Vec<(&str, &str)> = known.iter().map(|name| (name.as_str(), "x")).collect();
    assert_eq!(said(&known), Ok(()));
    let others = [
        ("GPTOSS_CONFIG", "x"),
        ("GPTOSS_STATE_DIR", "x"),
        ("GPTOSS_TEMPRATURE", ""),
        ("GPTOSS", "x"),
        ("HOME", "x"),
    ];
    assert_eq!(said(&others), Ok(()));
    assert_eq!(
        said(&[("GPTOSS_TOPK", "4"), ("GPTOSS_TEMPRATURE", "1")]),
        Err(
            "the environment variable GPTOSS_TEMPRATURE: there is no such setting; GPTOSS_TEMPERATURE is the nearest"
                .to_owned()
        )
    );
    assert_eq!(
        said(&[("GPTOSS_HUGE_PAGES", "4")]),
        Err(
            "the environment variable GPTOSS_HUGE_PAGES: there is no such setting; unset it"
                .to_owned()
        )
    );
}

#[test]
fn refuses_wrong_variables_by_name() {
    let mut refusals = String::new();
    for (name, value) in [
        ("GPTOSS_REASONING", "none"),
        ("GPTOSS_TEMPERATURE", "hot"),
        ("GPTOSS_TEMPERATURE", "101"),
        ("GPTOSS_TOP_P", "0"),
        ("GPTOSS_TOP_K", "-1"),
        ("GPTOSS_MAX_TOKENS", "0"),
        ("GPTOSS_SEED", "18446744073709551616"),
        ("GPTOSS_THREADS", "+3"),
        ("GPTOSS_TOP_P", "+0.5"),
        ("GPTOSS_GPU_MEMORY", "most"),
        ("GPTOSS_KV_TYPE", "F32"),
        ("GPTOSS_COMPUTE", "fp16"),
        ("GPTOSS_DENSE", "q4"),
        ("GPTOSS_DEVICE", "vulkan:"),
        ("GPTOSS_KERNELS", " "),
        ("GPTOSS_THEME", "dark"),
        ("GPTOSS_SAVE", "maybe"),
        ("GPTOSS_MODEL", " "),
    ] {
        writeln!(refusals, "{}", of_env(&[(name, value)]).expect_err(name)).unwrap();
    }
    insta::assert_snapshot!(refusals, @r#"
    the environment variable GPTOSS_REASONING: `reasoning` is `none`, expected low, medium or high
    the environment variable GPTOSS_TEMPERATURE: `temperature` is `hot`, expected a number
    the environment variable GPTOSS_TEMPERATURE: `temperature` is 101, expected 0 (the likeliest token) to 100
    the environment variable GPTOSS_TOP_P: `top-p` is 0, expected above 0, at most 1 (keeps all)
    the environment variable GPTOSS_TOP_K: `top-k` is `-1`, expected a whole number from 0 on
    the environment variable GPTOSS_MAX_TOKENS: `max-tokens` is `0`, expected a whole number from 1 on
    the environment variable GPTOSS_SEED: `seed` is `18446744073709551616`, expected a whole number up to 18446744073709551615
    the environment variable GPTOSS_THREADS: `threads` is `+3`, expected a whole number from 1 to 4096
    the environment variable GPTOSS_TOP_P: `top-p` is `+0.5`, expected a number
    the environment variable GPTOSS_GPU_MEMORY: `gpu-memory` is `most`, expected a size above 0 such as 8GB, 7.5 GB, 11GiB or 500MB, or a number of bytes
    the environment variable GPTOSS_KV_TYPE: `kv-type` is `F32`, expected bf16, f32 or q8
    the environment variable GPTOSS_COMPUTE: `compute` is `fp16`, expected auto, f32, bf16, int16 or int8
    the environment variable GPTOSS_DENSE: `dense` is `q4`, expected bf16 or q8
    the environment variable GPTOSS_DEVICE: `device` is `vulkan:`, expected auto, cpu, vulkan, metal or cuda; a number chooses among several: vulkan:1
    the environment variable GPTOSS_KERNELS: `kernels` is empty, expected "auto" or the name of a set
    the environment variable GPTOSS_THEME: `theme` is `dark`, expected standard, high-contrast or plain
    the environment variable GPTOSS_SAVE: `save` is `maybe`, expected true or false
    the environment variable GPTOSS_MODEL: `model` is empty, expected the name of a model
    "#);
}

#[cfg(unix)]
#[test]
fn refuses_a_variable_that_is_not_text() {
    use std::os::unix::ffi::OsStringExt;
    let garbage =
        |name: &str| (name == "GPTOSS_SYSTEM").then(|| OsString::from_vec(vec![b'a', 0xff]));
    let error = resolve(Given::default(), garbage, None).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the environment variable GPTOSS_SYSTEM: `a\u{fffd}` is not UTF-8"
    );
}

#[test]
fn flags_come_before_the_environment_and_that_before_the_file() {
    let flags = Given {
        reasoning: Some(Reasoning::High),
        ..Given::default()
    };
    let variables = [
        ("GPTOSS_REASONING", "low"),
        ("GPTOSS_TOP_K", "7"),
        ("GPTOSS_SEED", ""),
    ];
    let file = "reasoning = \"medium\"\ntop-k = 8\nseed = 9\n";
    let settings = resolve(flags, env(&variables), Some(config(file))).unwrap();
    let expected = Settings {
        reasoning: Reasoning::High,
        sampling: Sampling {
            top_k: 7,
            // An empty variable says nothing.
            seed: Some(9),
            ..Sampling::default()
        },
        ..Settings::default()
    };
    assert_eq!(settings, expected);
}

#[test]
fn a_flag_can_give_a_choice_back_to_the_program() {
    let flags = Given {
        compute: Some(Choice::Auto),
        kernels: Some("auto".into()),
        ..Given::default()
    };
    let variables = [("GPTOSS_COMPUTE", "f32"), ("GPTOSS_KERNELS", "portable")];
    let settings = resolve(flags, env(&variables), None).unwrap();
    assert_eq!(settings, Settings::default());
}

#[test]
fn a_wrong_file_is_refused_also_where_it_would_not_count() {
    let flags = Given {
        top_k: Some(1),
        ..Given::default()
    };
    assert!(resolve(flags.clone(), env(&[]), Some(config("top-k = -1\n"))).is_err());
    assert!(resolve(flags, env(&[("GPTOSS_TOP_K", "x")]), None).is_err());
}

#[test]
fn no_color_asks_for_the_plain_theme_unless_a_flag_says_otherwise() {
    let theme = |flag, variables: &[(&str, &str)]| {
        let flags = Given {
            theme: flag,
            ..Given::default()
        };
        resolve(
            flags,
            env(variables),
            Some(config("theme = \"high-contrast\"\n")),
        )
        .unwrap()
        .theme
    };
    assert_eq!(theme(None, &[]), ThemeName::HighContrast);
    assert_eq!(theme(None, &[("NO_COLOR", "1")]), ThemeName::Plain);
    assert_eq!(theme(None, &[("NO_COLOR", "")]), ThemeName::HighContrast);
    assert_eq!(
        theme(Some(ThemeName::Standard), &[("NO_COLOR", "1")]),
        ThemeName::Standard
    );
}

#[test]
fn blank_instructions_are_none() {
    assert_eq!(of_file("system = \" \\n\"\n").unwrap().system, None);
}

/// `#key = value` is a setting, `# text` is text.
fn uncommented() -> String {
    let lines = DEFAULT_CONFIG.lines().map(|line| {
        let setting = line
            .strip_prefix('#')
            .filter(|rest| rest.starts_with(|c: char| c.is_ascii_lowercase()));
        setting.unwrap_or(line)
    });
    lines.collect::<Vec<_>>().join("\n")
}

#[test]
fn the_default_configuration_says_nothing_and_shows_every_default() {
    assert_eq!(
        gather(Given::default(), env(&[]), Some(config(DEFAULT_CONFIG))).unwrap(),
        Given::default()
    );
    let examples = Settings {
        sampling: Sampling {
            seed: Some(1),
            ..Sampling::default()
        },
        max_tokens: Some(4096),
        context: Some(8192),
        context_source: Source::File,
        gpu_layers: Some(24),
        gpu_memory: Some(8_000_000_000),
        threads: Some(8),
        ..Settings::default()
    };
    assert_eq!(of_file(&uncommented()), Ok(examples));
    let shown = uncommented();
    for key in KEYS {
        let lines = shown
            .lines()
            .filter(|line| line.starts_with(&format!("{key} = ")));
        assert_eq!(lines.count(), 1, "{key}");
    }
}

#[test]
fn paths_follow_the_base_directory_specification() {
    let paths = |variables: &[(&str, &str)]| {
        Paths::from_env(env(variables)).map_err(|error| error.to_string())
    };
    let expected = |config: &str, state: &str, cache: &str| {
        Ok(Paths {
            config: config.into(),
            state: state.into(),
            cache: cache.into(),
        })
    };
    let home = ("HOME", "/home/x");
    let at_home = expected(
        "/home/x/.config/gptoss/config.toml",
        "/home/x/.local/state/gptoss",
        "/home/x/.cache/gptoss",
    );
    assert_eq!(paths(&[home]), at_home);
    // Empty and relative ones are ignored.
    assert_eq!(
        paths(&[home, ("XDG_CONFIG_HOME", ""), ("XDG_STATE_HOME", "state")]),
        at_home
    );
    assert_eq!(
        paths(&[
            home,
            ("XDG_CONFIG_HOME", "/c"),
            ("XDG_STATE_HOME", "/s"),
            ("XDG_CACHE_HOME", "/k")
        ]),
        expected("/c/gptoss/config.toml", "/s/gptoss", "/k/gptoss")
    );
    let own = [
        ("GPTOSS_CONFIG", "my.toml"),
        ("GPTOSS_STATE_DIR", "/own"),
        ("GPTOSS_CACHE_DIR", "/fast"),
    ];
    assert_eq!(paths(&own), expected("my.toml", "/own", "/fast"));
    assert_eq!(
        Paths::kernels(env(&own)),
        Some(PathBuf::from("/fast/kernels"))
    );
    assert_eq!(Paths::kernels(env(&own[..2])), None);
    assert_eq!(
        paths(&own).unwrap().sessions(),
        PathBuf::from("/own/sessions")
    );
    assert_eq!(
        paths(&own[..1]),
        Err("the home directory is not known: set HOME, or GPTOSS_STATE_DIR".to_owned())
    );
}
