//! What is wrong with a command line is said before anything else is done.

use crate::program::Program;

/// The standard error of a command line that is refused as such.
fn refused(args: &[&str]) -> String {
    let program = Program::new();
    let output = program.run(args).output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    assert_eq!(output.stdout, b"");
    stderr
}

#[test]
fn refuses_two_prompts() {
    insta::assert_snapshot!(refused(&["--prompt", "a.txt", "Hello!"]), @"
    error: the argument '--prompt <FILE>' cannot be used with '[PROMPT]'

    Usage: gptoss run --model <MODEL> --temperature <T> --kv-type <TYPE> --prompt <FILE> [PROMPT]

    For more information, try '--help'.
    ");
    insta::assert_snapshot!(refused(&["--raw", "--prompt-ids", "a.txt", "Hello!"]), @"
    error: the argument '--prompt-ids <FILE>' cannot be used with '[PROMPT]'

    Usage: gptoss run --model <MODEL> --temperature <T> --kv-type <TYPE> --raw --prompt-ids <FILE> [PROMPT]

    For more information, try '--help'.
    ");
    insta::assert_snapshot!(refused(&["--system", "a", "--system-file", "b", "Hello!"]), @"
    error: the argument '--system <TEXT>' cannot be used with '--system-file <FILE>'

    Usage: gptoss run --model <MODEL> --temperature <T> --kv-type <TYPE> --system <TEXT> <PROMPT>

    For more information, try '--help'.
    ");
}

#[test]
fn refuses_levels_that_do_not_exist() {
    insta::assert_snapshot!(refused(&["--reasoning", "none", "Hello!"]), @"
    error: invalid value 'none' for '--reasoning <LEVEL>': there is no reasoning level `none`: choose low, medium or high (gpt-oss cannot turn reasoning off)

    For more information, try '--help'.
    ");
    insta::assert_snapshot!(refused(&["--reasoning", "extreme", "Hello!"]), @"
    error: invalid value 'extreme' for '--reasoning <LEVEL>': there is no reasoning level `extreme`: choose low, medium or high (gpt-oss cannot turn reasoning off)

    For more information, try '--help'.
    ");
}

#[test]
fn refuses_numbers_outside_their_range() {
    let refusals: Vec<String> = [
        ["--temperature", "-1"],
        ["--temperature", "nan"],
        ["--top-p", "1.5"],
        ["--min-p", "-0.1"],
        ["--repetition-penalty", "0"],
        ["--top-k", "-1"],
        ["--max-tokens", "0"],
        ["--seed", "-1"],
        ["--seed", "18446744073709551616"],
        ["--max-tokens", "99999999999999999999"],
        ["--context", "-1"],
        ["--threads", "-1"],
        ["--threads", "1000000"],
        ["--threads", "+3"],
        ["--seed", "+3"],
        ["--top-p", "+0.5"],
        ["--gpu-memory", "8G"],
        ["--gpu-memory", "0"],
        ["--gpu-memory", "-1"],
        ["--top-p", "high"],
        ["--temperature", ""],
    ]
    .iter()
    .map(|args| {
        let stderr = refused(&[args[0], args[1], "Hello!"]);
        stderr.lines().next().unwrap().to_owned()
    })
    .collect();
    insta::assert_snapshot!(refusals.join("\n"), @"
    error: `temperature` is -1, expected 0 (the likeliest token) to 100
    error: `temperature` is NaN, expected 0 (the likeliest token) to 100
    error: `top-p` is 1.5, expected above 0, at most 1 (keeps all)
    error: `min-p` is -0.1, expected 0 (keeps all) to 1
    error: `repetition-penalty` is 0, expected above 0, at most 100; 1 is off
    error: invalid value '-1' for '--top-k <K>': expected a whole number from 0 on
    error: invalid value '0' for '--max-tokens <N>': expected a whole number from 1 on
    error: invalid value '-1' for '--seed <N>': expected a whole number from 0 on
    error: invalid value '18446744073709551616' for '--seed <N>': expected a whole number up to 18446744073709551615
    error: invalid value '99999999999999999999' for '--max-tokens <N>': expected a whole number up to 18446744073709551615
    error: invalid value '-1' for '--context <TOKENS>': expected a whole number from 1 on
    error: invalid value '-1' for '--threads <N>': expected a whole number from 1 to 4096
    error: invalid value '1000000' for '--threads <N>': expected a whole number from 1 to 4096
    error: invalid value '+3' for '--threads <N>': expected a whole number from 1 to 4096
    error: invalid value '+3' for '--seed <N>': expected a whole number from 0 on
    error: invalid value '+0.5' for '--top-p <P>': expected a number
    error: invalid value '8G' for '--gpu-memory <SIZE>': expected a size above 0 such as 8GB, 7.5 GB, 11GiB or 500MB, or a number of bytes
    error: invalid value '0' for '--gpu-memory <SIZE>': expected a size above 0 such as 8GB, 7.5 GB, 11GiB or 500MB, or a number of bytes
    error: invalid value '-1' for '--gpu-memory <SIZE>': expected a size above 0 such as 8GB, 7.5 GB, 11GiB or 500MB, or a number of bytes
    error: invalid value 'high' for '--top-p <P>': expected a number
    error: invalid value '' for '--temperature <T>': expected a number
    ");
}

#[test]
fn refuses_what_cannot_be_run_on() {
    insta::assert_snapshot!(refused(&["--kv-type", "q4", "Hello!"]), @"
    error: invalid value 'q4' for '--kv-type <TYPE>'
      [possible values: bf16, f32, q8]

    For more information, try '--help'.
    ");
    insta::assert_snapshot!(refused(&["--device", "gpu", "Hello!"]), @"
    error: invalid value 'gpu' for '--device <DEVICE>': expected auto, cpu, vulkan, metal or cuda; a number chooses among several: vulkan:1

    For more information, try '--help'.
    ");
    insta::assert_snapshot!(refused(&["--device", "vulkan", "--kernels", "portable", "Hello!"]), @"
    error: --kernels portable chooses among CPU kernels and the device is `vulkan`

    hint: leave --kernels out, or take --device cpu
    ");
    insta::assert_snapshot!(refused(&["--threads", "0", "Hello!"]), @"
    error: invalid value '0' for '--threads <N>': expected a whole number from 1 to 4096

    For more information, try '--help'.
    ");
    insta::assert_snapshot!(refused(&["--context", "131073", "Hello!"]), @"
    error: --context 131073 is more than the 131072 positions of this model

    hint: give at most 131072, or leave --context out
    ");
}

#[test]
fn refuses_chat_flags_where_there_is_no_chat() {
    insta::assert_snapshot!(refused(&["--raw", "--system", "x", "Hello!"]), @"
    error: the argument '--raw' cannot be used with '--system <TEXT>'

    Usage: gptoss run --model <MODEL> --temperature <T> --kv-type <TYPE> --raw <PROMPT>

    For more information, try '--help'.
    ");
    insta::assert_snapshot!(refused(&["--prompt-ids", "ids.txt"]), @"
    error: the following required arguments were not provided:
      --raw

    Usage: gptoss run --raw --model <MODEL> --temperature <T> --kv-type <TYPE> --prompt-ids <FILE> [PROMPT]

    For more information, try '--help'.
    ");
}

#[test]
fn a_model_that_is_not_here_can_be_had_or_tried() {
    let program = Program::new();
    assert_transcript!(program.command(&["run", "Hello!"]), @"
    exit code: 1
    ----- stdout -----
    ----- stderr -----
    error: `openai/gpt-oss-20b` is not on this machine; looked in `[home]/.cache/huggingface/hub/models--openai--gpt-oss-20b`; fetch it with `gptoss pull 20b`, or try the built-in toy with `--model tiny`
    ");
    assert_transcript!(program.command(&["run", "--model", "40b", "Hello!"]), @"
    exit code: 2
    ----- stdout -----
    ----- stderr -----
    error: invalid value '40b' for '--model <MODEL>': `40b` names no model: no such directory, and a name on the hub has an owner; accepted are `20b`, `120b`, `tiny`, a directory with a checkpoint, and `owner/name[@revision]`

    For more information, try '--help'.
    ");
    assert_transcript!(program.command(&["run", "--model", "./nowhere", "Hello!"]), @"
    exit code: 1
    ----- stdout -----
    ----- stderr -----
    error: --model: `./nowhere` does not exist; name the directory that holds config.json and the .safetensors files
    ");
}

#[test]
fn help_is_short_and_complete() {
    let program = Program::new();
    assert_transcript!(program.command(&["--help"]), @"
    exit code: 0
    ----- stdout -----
    OpenAI's gpt-oss in the terminal, from the published checkpoint

    Usage: gptoss <COMMAND>

    Commands:
      chat         Talk, in the terminal
      run          Answer one prompt
      bench        Measure how fast a model runs here
      info         Show what a checkpoint holds, what it needs, and whether it fits here
      pull         Fetch a model into the Hugging Face cache
      devices      List what there is to run on
      config       Print the commented default configuration, and where files are
      completions  Print the completion script of a shell
      man          Print the manual page of the program, or of one command
      help         Print this message or the help of the given subcommand(s)

    Options:
      -h, --help     Print help
      -V, --version  Print version

    Examples:
      gptoss chat --model tiny                                   talk to the built-in toy, at once
      gptoss run --model tiny 'What is the capital of France?'   the built-in toy, runs at once
      gptoss pull 20b                                            fetch gpt-oss-20b (13.8 GB)
      gptoss run 'Why is the sky blue?'                          ask it
      gptoss run --prompt question.txt --output answer.txt       files in, files out
      gptoss bench --model 20b                                   how fast it runs here
      gptoss info --model 20b --context 32768                    what it needs; does it fit here

    Exit codes: 0 done, 1 failed, 2 wrong command line, 3 the model ended without an answer,
    129 SIGHUP, 130 Ctrl-C, 143 SIGTERM
    ----- stderr -----
    ");
}

#[test]
fn the_help_of_run_has_every_flag() {
    let program = Program::new();
    assert_transcript!(program.command(&["run", "-h"]), @r#"
    exit code: 0
    ----- stdout -----
    Answer one prompt

    Usage: gptoss run [OPTIONS] [PROMPT]

    Arguments:
      [PROMPT]  The prompt; `-` reads standard input, as does no prompt at all when something is piped
                in

    Options:
      -p, --prompt <FILE>     Read the prompt from FILE, `-` for standard input
      -m, --model <MODEL>     `20b`, `120b`, `tiny` (the built-in toy), a directory, or a repository as
                              `OWNER/NAME[@REVISION]` [default: 20b]
          --context <TOKENS>  Most tokens the context may hold [default: what the model allows]
          --kv-type <TYPE>    How keys and values of the context are kept [default: bf16] [possible
                              values: bf16, f32, q8]
      -h, --help              Print help (see more with '--help')
      -V, --version           Print version

    Prompt:
          --system <TEXT>       Instructions for the whole answer: the system prompt
          --system-file <FILE>  Read the instructions from FILE
      -r, --reasoning <LEVEL>   How long to think: low, medium or high [default: medium]
          --tools <FILE>        Functions the model may call: a JSON list of {"type": "function",
                                "function": {...}}
          --raw                 Complete the prompt as it is, without the chat format
          --prompt-ids <FILE>   Complete the token ids in FILE, separated by commas or white space;
                                needs --raw

    Sampling:
      -t, --temperature <T>         0 always takes the likeliest token [default: 1]
          --top-k <K>               Choose among the K likeliest tokens, 0 for all [default: 0]
          --top-p <P>               Choose among the likeliest tokens that together have probability P
                                    [default: 1]
          --min-p <P>               Choose among tokens at least P times as likely as the likeliest
                                    [default: 0]
          --repetition-penalty <X>  Make tokens that were already used less likely; 1 changes nothing
                                    [default: 1]
          --seed <N>                The same seed gives the same text [default: drawn, and printed]
      -n, --max-tokens <N>          Stop after N tokens, thinking included [default: when the context is
                                    full]

    Output:
          --show-thinking  Show the thinking on standard error [default: when it is a terminal]
          --hide-thinking  Do not show the thinking
          --json           Print one JSON object at the end instead of streaming text
      -o, --output <FILE>  Write the answer to FILE, `-` for standard output
      -q, --quiet          Nothing on standard error but errors

    Machine:
          --device <DEVICE>    What to run on: `auto`, `cpu`, `vulkan`, `metal` or `cuda`, and which of
                               several: `vulkan:1`; `gptoss devices` lists them [default: auto]
          --gpu-layers <N>     Keep the experts of the first N layers only on the GPU, those of the
                               others on the CPU [default: as many as fit]
          --gpu-memory <SIZE>  Plan with at most SIZE of the GPU's memory, as `8GB`, `7.5GB`, `11GiB` or
                               bytes; other programs have the rest [default: all of it]
          --compute <TYPE>     How far activations are rounded for products [default: auto] [possible
                               values: auto, f32, bf16, int16, int8]
          --dense <TYPE>       How the weights of attention, embedding and output are kept [default:
                               bf16] [possible values: bf16, q8]
          --kernels <NAME>     CPU kernels by name, or `auto`: the fastest [default: auto]
          --threads <N>        Threads to compute with on the CPU [default: one per core]

    Text from files and standard input is UTF-8; a byte order mark is removed, CRLF becomes LF, and one
    line break at the end is removed. An argument is taken as it is, --raw text too. With a prompt
    argument standard input is not read.

    The answer goes to standard output and ends in a line break; everything else goes to standard error.
    ----- stderr -----
    "#);
    assert_transcript!(program.command(&["info", "-h"]), @"
    exit code: 0
    ----- stdout -----
    Show what a checkpoint holds, what it needs, and whether it fits here

    Usage: gptoss info [OPTIONS]

    Options:
      -m, --model <MODEL>     `20b`, `120b`, `tiny` (the built-in toy), a directory, or a repository as
                              `OWNER/NAME[@REVISION]` [default: 20b]
          --context <TOKENS>  Most tokens the context may hold [default: what the model allows]
          --kv-type <TYPE>    How keys and values of the context are kept [default: bf16] [possible
                              values: bf16, f32, q8]
          --json              Print one JSON object
      -h, --help              Print help (see more with '--help')
      -V, --version           Print version

    Machine:
          --device <DEVICE>    What to run on: `auto`, `cpu`, `vulkan`, `metal` or `cuda`, and which of
                               several: `vulkan:1`; `gptoss devices` lists them [default: auto]
          --gpu-layers <N>     Keep the experts of the first N layers only on the GPU, those of the
                               others on the CPU [default: as many as fit]
          --gpu-memory <SIZE>  Plan with at most SIZE of the GPU's memory, as `8GB`, `7.5GB`, `11GiB` or
                               bytes; other programs have the rest [default: all of it]
    ----- stderr -----
    ");
}

#[test]
fn the_version_is_one_line() {
    let program = Program::new();
    let output = program.command(&["--version"]).output().unwrap();
    let expected = format!("gptoss {}\n", env!("CARGO_PKG_VERSION"));
    assert_eq!(String::from_utf8(output.stdout).unwrap(), expected);
}
