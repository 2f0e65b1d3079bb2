//! Calls of code that panics where a driver fails.

use std::any::Any;
use std::panic::{AssertUnwindSafe, PanicHookInfo, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};

use crate::engine::one_line;

/// One attempt at a time: each puts the panic hook back that it found.
static ATTEMPT: Mutex<()> = Mutex::new(());

/// What `call` gives; where it panics, the message, of which nothing is printed. Not to be nested.
///
/// # Errors
/// The message of the panic.
pub fn attempt<T>(call: impl FnOnce() -> T) -> Result<T, String> {
    let _alone = ATTEMPT.lock().unwrap_or_else(PoisonError::into_inner);
    let before: Arc<dyn Fn(&PanicHookInfo<'_>) + Send + Sync> = Arc::from(std::panic::take_hook());
    let others = Arc::clone(&before);
    let here = std::thread::current().id();
    std::panic::set_hook(Box::new(move |panic| {
        if std::thread::current().id() != here {
            others(panic);
        }
    }));
    let result = catch_unwind(AssertUnwindSafe(call));
    std::panic::set_hook(Box::new(move |panic| before(panic)));
    result.map_err(|panic| message(panic.as_ref()))
}

/// What a panic says, on one line.
fn message(panic: &(dyn Any + Send)) -> String {
    let text = panic
        .downcast_ref::<String>()
        .map(String::as_str)
        .or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("the driver gave no reason");
    one_line(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_becomes_its_message() {
        assert_eq!(attempt(|| 7), Ok(7));
        let number = 7;
        let failed: Result<(), _> = attempt(|| panic!("no device\n  of number {number}"));
        assert_eq!(failed, Err("no device of number 7".to_owned()));
        let failed: Result<(), _> = attempt(|| std::panic::panic_any(7));
        assert_eq!(failed, Err("the driver gave no reason".to_owned()));
    }
}
