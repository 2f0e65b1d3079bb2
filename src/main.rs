//! Parse, run, print one error, exit code: all of it in [`gptoss::cli`].

fn main() -> std::process::ExitCode {
    gptoss::cli::main()
}
