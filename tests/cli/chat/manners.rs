//! The terminal as it was, whatever happens.

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::{WELCOME, endless, idle, keys, replay, say, start, turn};
use crate::program::Program;
use crate::pty::Terminal;

/// A chat in a shell that writes down the terminal's state before and after, and the exit code.
fn watched(program: &Program, args: &str) -> Terminal {
    let line = format!(
        "stty -g > before; sh -c 'echo $$ > id; exec $GPTOSS chat --model tiny {args}'; \
         echo $? > code; stty -g > after; echo over"
    );
    let mut terminal = Terminal::shell(program.home.path(), &line);
    super::ready(&mut terminal);
    terminal
}

/// The chat has ended with this code and left the terminal as it was.
fn assert_restored(program: &Program, terminal: &mut Terminal, code: &str) {
    terminal.wait_for_text("over");
    assert_eq!(program.read("code").trim(), code);
    assert_eq!(program.read("before"), program.read("after"));
    let screen = terminal.screen();
    assert!(!screen.alternate_screen());
    assert!(!screen.bracketed_paste());
    assert!(!screen.hide_cursor());
    assert_eq!(screen.mouse_protocol_mode(), vt100::MouseProtocolMode::None);
}

fn id(program: &Program) -> Pid {
    Pid::from_raw(program.read("id").trim().parse().unwrap())
}

#[test]
fn signals_end_the_chat_and_leave_the_terminal_as_it_was() {
    for (signal, code) in [(Signal::SIGTERM, "143"), (Signal::SIGHUP, "129")] {
        let program = Program::new();
        let mut terminal = watched(&program, "");
        assert!(terminal.screen().alternate_screen());
        kill(id(&program), signal).unwrap();
        assert_restored(&program, &mut terminal, code);
        // Nothing but what the shell says.
        assert_eq!(terminal.contents().trim(), "over");
    }
}

#[test]
fn a_signal_ends_the_editor_too_and_its_file_goes_away() {
    for (signal, code) in [(Signal::SIGTERM, "143"), (Signal::SIGHUP, "129")] {
        let program = Program::new();
        program.file(
            "editor.sh",
            "echo $1 > edited; stty -echo raw; echo the editor; exec sleep 60",
        );
        let line = "export EDITOR='sh editor.sh'; stty -g > before; \
                    sh -c 'echo $$ > id; exec $GPTOSS chat --model tiny'; \
                    echo $? > code; stty -g > after; echo over";
        let mut terminal = Terminal::shell(program.home.path(), line);
        super::ready(&mut terminal);
        terminal.send("a draft");
        terminal.wait_for_text("› a draft");
        terminal.send(keys::CTRL_G);
        terminal.wait_for_text("the editor");
        let draft = program.read("edited");
        assert!(std::path::Path::new(draft.trim()).exists(), "{draft}");
        kill(id(&program), signal).unwrap();
        assert_restored(&program, &mut terminal, code);
        assert!(!std::path::Path::new(draft.trim()).exists(), "{draft}");
    }
}

#[test]
fn a_signal_stops_an_answer_and_it_is_saved() {
    let program = Program::new();
    program.file("recording.jsonl", endless("Once upon a time"));
    let mut terminal = watched(&program, "--replay recording.jsonl");
    say(&mut terminal, "Tell me a story");
    terminal.wait_for_text("Once upon a time");
    kill(id(&program), Signal::SIGTERM).unwrap();
    assert_restored(&program, &mut terminal, "143");
    let mut terminal = start(&program, &["--continue"]);
    terminal.wait_for_text("Once upon a time");
}

#[test]
fn a_panic_of_the_drawing_is_readable_on_a_terminal_as_it_was() {
    let program = Program::new();
    let mut terminal = watched(&program, "--debug-panic draw");
    terminal.send("x");
    assert_restored(&program, &mut terminal, "101");
    let contents = terminal.contents();
    assert!(
        contents.contains("asked for with --debug-panic"),
        "{contents}"
    );
}

#[test]
fn a_panic_of_the_worker_is_said_and_the_chat_goes_on() {
    let program = Program::new();
    let recording = turn("Hm.", "Hello there", 1);
    let mut terminal = replay(&program, &recording, &["--debug-panic", "worker"]);
    say(&mut terminal, "Hi");
    terminal.wait_for_text("asked for with --debug-panic");
    idle(&mut terminal);
    assert!(terminal.screen().alternate_screen());
    terminal.send(keys::ENTER);
    terminal.wait_for_text("Hello there");
}

#[test]
fn the_chat_is_suspended_and_comes_back() {
    let program = Program::new();
    let line = "set -m; stty -g > before; $GPTOSS chat --model tiny; stty -g > after; echo stopped; \
                read x; fg; echo over";
    let mut terminal = Terminal::shell(program.home.path(), line);
    super::ready(&mut terminal);
    terminal.send("a draft");
    terminal.wait_for_text("› a draft");
    terminal.send(keys::CTRL_Z);
    terminal.wait_for("shell", |screen| {
        !screen.alternate_screen() && screen.contents().contains("stopped")
    });
    assert_eq!(program.read("before"), program.read("after"));
    terminal.send("\r");
    terminal.wait_for("chat", |screen| {
        screen.alternate_screen() && screen.contents().contains("› a draft")
    });
    terminal.send("!");
    terminal.wait_for_text("› a draft!");
    terminal.send(keys::CTRL_C);
    terminal.wait_for("empty draft", |screen| {
        !screen.contents().contains("a draft")
    });
    terminal.send(keys::CTRL_D);
    terminal.wait_for_text("over");
    assert!(!terminal.screen().alternate_screen());
}

/// Waits until the system has stopped the process.
#[cfg(target_os = "linux")]
fn stopped(id: Pid) {
    let stat = format!("/proc/{id}/stat");
    let is_stopped = || {
        let stat = std::fs::read_to_string(&stat).unwrap();
        stat.rsplit(") ")
            .next()
            .is_some_and(|rest| rest.starts_with('T'))
    };
    while !is_stopped() {
        std::thread::yield_now();
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_stop_from_outside_in_the_middle_of_an_answer_is_survived() {
    let program = Program::new();
    program.file("recording.jsonl", endless("Once upon a time"));
    let mut terminal = watched(&program, "--replay recording.jsonl");
    say(&mut terminal, "Tell me a story");
    terminal.wait_for_text("Once upon a time");
    kill(id(&program), Signal::SIGSTOP).unwrap();
    stopped(id(&program));
    // The terminal is another meanwhile.
    terminal.resize(120, 30);
    kill(id(&program), Signal::SIGCONT).unwrap();
    terminal.wait_for("screen of the new size", |screen| {
        let rows = rows(screen);
        rows[0] == "› Tell me a story"
            && rows.iter().any(|row| row.starts_with("Once upon a time"))
            && rows[28].contains("Esc stop")
            && rows[29].starts_with("tiny · replay")
    });
    let screen = terminal.screen();
    assert!(screen.alternate_screen() && screen.bracketed_paste());
    assert_ne!(screen.mouse_protocol_mode(), vt100::MouseProtocolMode::None);
    terminal.send(keys::ESCAPE);
    terminal.wait_for_text("stopped");
    terminal.send("still here");
    terminal.wait_for_text("› still here");
    terminal.send(keys::CTRL_C);
    terminal.wait_for("empty draft", |screen| {
        !screen.contents().contains("still here")
    });
    terminal.send(keys::CTRL_D);
    assert_restored(&program, &mut terminal, "0");
}

#[cfg(target_os = "linux")]
#[test]
fn a_shell_that_had_the_terminal_meanwhile_gives_it_back() {
    let program = Program::new();
    program.file("recording.jsonl", endless("Once upon a time"));
    let line = "set -m; stty -g > before; sh -c 'echo $$ > id; \
                exec $GPTOSS chat --model tiny --replay recording.jsonl'; \
                stty sane; printf '\\033[?1049l\\033[?25h\\033[?2004lstopped'; read x; \
                fg; stty -g > after; echo over";
    let mut terminal = Terminal::shell(program.home.path(), line);
    super::ready(&mut terminal);
    say(&mut terminal, "Tell me a story");
    terminal.wait_for_text("Once upon a time");
    kill(id(&program), Signal::SIGSTOP).unwrap();
    terminal.wait_for("shell", |screen| {
        !screen.alternate_screen() && screen.contents().contains("stopped")
    });
    terminal.send("\r");
    terminal.wait_for("chat", |screen| {
        screen.alternate_screen()
            && screen.bracketed_paste()
            && rows(screen)[0] == "› Tell me a story"
            && screen.contents().contains("Once upon a time")
    });
    terminal.send(keys::ESCAPE);
    terminal.wait_for_text("stopped");
    terminal.send(keys::CTRL_D);
    terminal.wait_for_text("over");
    assert_eq!(program.read("before"), program.read("after"));
    let screen = terminal.screen();
    assert!(!screen.alternate_screen() && !screen.bracketed_paste() && !screen.hide_cursor());
}

#[test]
fn any_size_will_do_and_the_way_back_is_the_same() {
    let program = Program::new();
    let answer =
        "A rather long answer that needs more than one line on a narrow screen, and then some.";
    let mut terminal = replay(&program, &turn("Hm.", answer, 1), &[]);
    say(&mut terminal, "Hi");
    terminal.wait_for_text("some.");
    idle(&mut terminal);
    let before = rows(terminal.screen());
    for (columns, rows) in [(20, 5), (7, 2), (200, 60), (1, 1)] {
        terminal.resize(columns, rows);
    }
    terminal.resize(20, 5);
    terminal.wait_for_text("some.");
    terminal.resize(80, 24);
    terminal.wait_for("screen as before", |screen| rows(screen) == before);
}

/// The screen, without the spaces that nobody sees.
fn rows(screen: &vt100::Screen) -> Vec<String> {
    screen
        .rows(0, screen.size().1.get())
        .map(|row| row.trim_end().to_owned())
        .collect()
}

#[test]
fn the_mouse_is_left_alone_where_that_is_wanted() {
    let program = Program::new();
    let terminal = start(&program, &["--no-mouse"]);
    assert_eq!(
        terminal.screen().mouse_protocol_mode(),
        vt100::MouseProtocolMode::None
    );
    let terminal = start(&program, &["--mouse"]);
    assert_ne!(
        terminal.screen().mouse_protocol_mode(),
        vt100::MouseProtocolMode::None
    );
    assert!(terminal.contents().contains(WELCOME));
}

#[test]
fn the_mouse_is_left_and_taken_while_the_chat_runs() {
    let program = Program::new();
    let mut terminal = start(&program, &[]);
    // A button is pressed, as if to select something.
    terminal.send("\x1b[<0;5;5M\x1b[<0;5;5m");
    terminal.wait_for_text("hold Shift");
    say(&mut terminal, "/mouse off");
    terminal.wait_for("mouse left alone", |screen| {
        screen.mouse_protocol_mode() == vt100::MouseProtocolMode::None
    });
    say(&mut terminal, "/mouse on");
    terminal.wait_for("mouse taken", |screen| {
        screen.mouse_protocol_mode() != vt100::MouseProtocolMode::None
    });
}
