//! Why a transaction was given up.
//!
//! An error that ends an operation goes to its caller; the transaction, dropped on the way, does not get to see it. All
//! later callers are to be told why the journal was shut down, though. So an error that comes into being in a thread that
//! holds a transaction is noted, and the last one before the transaction is dropped was the cause.

use std::{
    cell::{Cell, RefCell},
    fmt::Display,
};

thread_local! {
    static HELD: Cell<u32> = const { Cell::new(0) };
    static LAST: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// A transaction begins in this thread.
pub fn begin() {
    if HELD.replace(HELD.get() + 1) == 0 {
        LAST.take();
    }
}

/// One ends.
pub fn end() {
    HELD.set(HELD.get().saturating_sub(1));
}

/// The error before its end.
pub fn last() -> Option<String> {
    LAST.take()
}

/// Errors that come into being in `work` are no cause of anything.
pub fn aside<T>(work: impl FnOnce() -> T) -> T {
    let last = LAST.take();
    let done = work();
    LAST.set(last);
    done
}

/// An error has come into being.
#[inline]
pub fn note(error: &dyn Display) {
    if HELD.get() > 0 {
        keep(error);
    }
}

#[cold]
fn keep(error: &dyn Display) {
    LAST.set(Some(error.to_string()));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_error_in_a_transaction_is_kept() {
        note(&"before");
        begin();
        assert_eq!(last(), None);
        note(&"tried without success");
        note(&"the cause");
        assert_eq!(last().as_deref(), Some("the cause"));
        end();
        note(&"behind");
        assert_eq!(last(), None);
    }
}
