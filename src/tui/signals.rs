//! Signals, as messages.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;

use super::Incoming;

/// The terminal is somebody else's, and so is its Ctrl-C, although this process is told of it too.
static LENT: AtomicBool = AtomicBool::new(false);

/// A signal has come that ends the chat.
static ENDING: AtomicBool = AtomicBool::new(false);

/// Whether a signal has come that ends the chat.
pub fn is_ending() -> bool {
    ENDING.load(Ordering::SeqCst)
}

/// Says whether the terminal is lent.
pub fn set_lent(lent: bool) {
    LENT.store(lent, Ordering::SeqCst);
}

/// What a signal asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// Leave, with this exit code.
    End(u8),
    /// What Ctrl-C does.
    Interrupt,
    /// The terminal may have been given to somebody else in between.
    Continue,
    /// The terminal has another size.
    Resize,
}

/// Exit code of a process that `signal` ended, as shells count.
const fn exit_code(signal: i32) -> u8 {
    128 + signal as u8
}

/// The signals of this process, until it is dropped.
#[derive(Debug)]
pub struct Signals {
    #[cfg(unix)]
    handle: signal_hook::iterator::Handle,
}

#[cfg(unix)]
impl Signals {
    /// Starts to listen. The second SIGTERM or SIGHUP ends the process at once.
    pub fn listen(sender: Sender<Incoming>) -> io::Result<Self> {
        use signal_hook::consts::{SIGCONT, SIGHUP, SIGINT, SIGTERM, SIGWINCH};
        let mut signals =
            signal_hook::iterator::Signals::new([SIGTERM, SIGHUP, SIGINT, SIGCONT, SIGWINCH])?;
        let handle = signals.handle();
        std::thread::Builder::new()
            .name("signals".to_owned())
            .spawn(move || {
                let mut ending = false;
                for signal in signals.forever() {
                    let message = match signal {
                        SIGINT if LENT.load(Ordering::SeqCst) => continue,
                        SIGINT => Signal::Interrupt,
                        SIGCONT => Signal::Continue,
                        SIGWINCH => Signal::Resize,
                        _ if ending => {
                            let _ = super::terminal::leave();
                            std::process::exit(exit_code(signal).into());
                        }
                        _ => {
                            ending = true;
                            ENDING.store(true, Ordering::SeqCst);
                            Signal::End(exit_code(signal))
                        }
                    };
                    if sender.send(Incoming::Signal(message)).is_err() {
                        break;
                    }
                }
            })?;
        Ok(Self { handle })
    }
}

#[cfg(not(unix))]
impl Signals {
    /// Elsewhere the system's own handling stands.
    pub fn listen(_sender: Sender<Incoming>) -> io::Result<Self> {
        Ok(Self {})
    }
}

#[cfg(unix)]
impl Drop for Signals {
    fn drop(&mut self) {
        self.handle.close();
    }
}

/// Stops the whole process group, as the terminal's own Ctrl-Z does, until it is continued.
#[cfg(unix)]
pub fn suspend() -> io::Result<()> {
    use nix::sys::signal::{Signal, kill};
    use nix::unistd::Pid;
    kill(Pid::from_raw(0), Signal::SIGTSTP).map_err(io::Error::from)
}

/// There is no shell to go back to.
#[cfg(not(unix))]
pub fn suspend() -> io::Result<()> {
    Ok(())
}
