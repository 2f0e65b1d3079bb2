//! Panics: the screen is given back before one of the drawing thread is printed; one of any other thread
//! is kept as text, for the chat to show.

use std::backtrace::Backtrace;
use std::panic::PanicHookInfo;
use std::sync::{Arc, Mutex, PoisonError};

use super::terminal;

type Hook = dyn Fn(&PanicHookInfo<'_>) + Send + Sync;

/// What the last panic outside the drawing thread said.
static LAST: Mutex<Option<String>> = Mutex::new(None);

/// The hook in place; the one before comes back when this is dropped.
pub struct Guard {
    before: Option<Arc<Hook>>,
}

/// Puts the hook in place. The calling thread is the one that draws.
pub fn install() -> Guard {
    let before: Arc<Hook> = Arc::from(std::panic::take_hook());
    let drawing = std::thread::current().id();
    let next = Arc::clone(&before);
    std::panic::set_hook(Box::new(move |panic| {
        if std::thread::current().id() == drawing {
            // The message matters more than what stops the terminal from being restored.
            let _ = terminal::leave();
            next(panic);
        } else {
            let backtrace = Backtrace::capture();
            let text = match backtrace.status() {
                std::backtrace::BacktraceStatus::Captured => format!("{panic}\n{backtrace}"),
                _ => panic.to_string(),
            };
            *LAST.lock().unwrap_or_else(PoisonError::into_inner) = Some(text);
        }
    }));
    Guard {
        before: Some(before),
    }
}

/// What the last panic outside the drawing thread said; once.
pub fn take() -> Option<String> {
    LAST.lock().unwrap_or_else(PoisonError::into_inner).take()
}

impl Drop for Guard {
    fn drop(&mut self) {
        // A panicking thread may not change the hook.
        if let Some(before) = self.before.take().filter(|_| !std::thread::panicking()) {
            std::panic::set_hook(Box::new(move |panic| before(panic)));
        }
    }
}
