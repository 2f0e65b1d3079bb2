//! The real binary on a terminal: what it draws, as a screen.

use std::io::{Read, Write};
use std::num::NonZeroU16;
use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use portable_pty::{Child, CommandBuilder, MasterPty, PtySize, native_pty_system};

use crate::program::environment;

/// Far longer than anything here takes.
const DEADLINE: Duration = Duration::from_mins(1);

/// What the terminal is, which a program may ask and wait for.
const QUESTION: &[u8] = b"\x1b[c";

/// A program on a terminal of 24 lines of 80 columns.
pub struct Terminal {
    child: Box<dyn Child + Send + Sync>,
    writer: Box<dyn Write + Send>,
    bytes: Receiver<Vec<u8>>,
    screen: vt100::Parser,
    /// Everything it wrote.
    pub log: Vec<u8>,
    master: Box<dyn MasterPty + Send>,
}

impl Terminal {
    /// Starts `gptoss` with `args` and further variables.
    pub fn start(home: &Path, args: &[&str], variables: &[(&str, &str)]) -> Self {
        let mut command = CommandBuilder::new(assert_cmd::cargo::cargo_bin("gptoss"));
        command.args(args);
        Self::spawn(command, home, variables)
    }

    /// Starts a line of shell, in which `$GPTOSS` is the program.
    pub fn shell(home: &Path, line: &str) -> Self {
        Self::shell_with(home, line, &[])
    }

    /// As [`Terminal::shell`], with further variables.
    pub fn shell_with(home: &Path, line: &str, variables: &[(&str, &str)]) -> Self {
        let mut command = CommandBuilder::new("/bin/sh");
        command.args(["-c", line]);
        let program = assert_cmd::cargo::cargo_bin("gptoss");
        let mut all = vec![("GPTOSS", program.to_str().unwrap())];
        all.extend(variables);
        Self::spawn(command, home, &all)
    }

    fn spawn(mut command: CommandBuilder, home: &Path, variables: &[(&str, &str)]) -> Self {
        command.cwd(home);
        command.env_clear();
        for (name, value) in environment(home) {
            command.env(name, value);
        }
        for (name, value) in variables {
            command.env(name, value);
        }
        let size = PtySize {
            rows: 24,
            cols: 80,
            ..PtySize::default()
        };
        let pair = native_pty_system().openpty(size).unwrap();
        let child = pair.slave.spawn_command(command).unwrap();
        drop(pair.slave);
        let mut reader = pair.master.try_clone_reader().unwrap();
        let (sender, bytes) = channel();
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(count) = reader.read(&mut buffer) {
                if count == 0 || sender.send(buffer[..count].to_vec()).is_err() {
                    break;
                }
            }
        });
        Self {
            child,
            writer: pair.master.take_writer().unwrap(),
            bytes,
            screen: vt100::Parser::new(
                NonZeroU16::new(24).unwrap(),
                NonZeroU16::new(80).unwrap(),
                1000,
            ),
            log: Vec::new(),
            master: pair.master,
        }
    }

    /// Types.
    pub fn send(&mut self, keys: &str) {
        self.writer.write_all(keys.as_bytes()).unwrap();
        self.writer.flush().unwrap();
    }

    /// Gives the terminal another size.
    pub fn resize(&mut self, columns: u16, rows: u16) {
        let size = PtySize {
            rows,
            cols: columns,
            ..PtySize::default()
        };
        self.master.resize(size).unwrap();
        let some = |cells| NonZeroU16::new(cells).unwrap();
        self.screen.screen_mut().set_size(some(rows), some(columns));
    }

    /// Waits until the screen is as it should be.
    pub fn wait_for(&mut self, what: &str, is_there: impl Fn(&vt100::Screen) -> bool) {
        let deadline = Instant::now() + DEADLINE;
        while !is_there(self.screen.screen()) {
            let left = deadline.saturating_duration_since(Instant::now());
            match self.bytes.recv_timeout(left) {
                Ok(bytes) => self.take(&bytes),
                Err(error) => panic!("no {what} ({error}):\n{}", self.contents()),
            }
        }
    }

    /// Waits for a text on the screen.
    pub fn wait_for_text(&mut self, text: &str) {
        self.wait_for(text, |screen| screen.contents().contains(text));
    }

    /// Waits for the end and gives the exit code.
    pub fn wait(&mut self) -> u32 {
        let deadline = Instant::now() + DEADLINE;
        loop {
            match self
                .bytes
                .recv_timeout(deadline.saturating_duration_since(Instant::now()))
            {
                Ok(bytes) => self.take(&bytes),
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => panic!("it does not end:\n{}", self.contents()),
            }
        }
        self.child.wait().unwrap().exit_code()
    }

    pub fn process_id(&self) -> i32 {
        self.child.process_id().unwrap() as i32
    }

    pub fn screen(&self) -> &vt100::Screen {
        self.screen.screen()
    }

    pub fn contents(&self) -> String {
        self.screen().contents()
    }

    /// Where `text` begins on the screen.
    pub fn find(&self, text: &str) -> Option<(u16, u16)> {
        self.screen()
            .rows(0, self.screen().size().1.get())
            .zip(0..)
            .find_map(|(row, number)| {
                let column = row.split(text).next()?.chars().count();
                row.contains(text).then_some((number, column as u16))
            })
    }

    /// The text is written dim from its first letter to its last.
    pub fn is_dim(&self, text: &str) -> bool {
        let (row, column) = self
            .find(text)
            .unwrap_or_else(|| panic!("no `{text}`:\n{}", self.contents()));
        (column..column + text.chars().count() as u16)
            .all(|column| self.screen().cell(row, column).unwrap().dim())
    }

    fn take(&mut self, bytes: &[u8]) {
        let start = self.log.len().saturating_sub(QUESTION.len() - 1);
        self.log.extend_from_slice(bytes);
        self.screen.process(bytes);
        let fresh = &self.log[start..];
        for _ in fresh.windows(QUESTION.len()).filter(|it| *it == QUESTION) {
            // A program that has ended needs no answer.
            let _ = self.writer.write_all(b"\x1b[?62;22c");
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // A test that failed must not leave its program running.
        let _ = self.child.kill();
    }
}
