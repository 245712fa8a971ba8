//! Why a transaction was given up.
//!
//! An error that ends an operation goes to its caller; the transaction, dropped on the way, does not get to see it. All
//! later callers are to be told why the journal was shut down, though. So an error that comes into being in a thread that
//! holds a transaction is noted, and the last one before the transaction is dropped was the cause.

use std::{
    cell::{Cell, RefCell},
    fmt::{self, Display},
};

thread_local! {
    static HELD: Cell<u32> = const { Cell::new(0) };
    static LAST: RefCell<Option<Cause>> = const { RefCell::new(None) };
}

/// The error that ended a transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cause {
    /// Its words.
    pub text: String,
    /// It was damage in the image.
    pub is_corruption: bool,
}

impl Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
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
pub fn last() -> Option<Cause> {
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
pub fn note(error: &dyn Display, is_corruption: bool) {
    if HELD.get() > 0 {
        keep(error, is_corruption);
    }
}

#[cold]
fn keep(error: &dyn Display, is_corruption: bool) {
    LAST.set(Some(Cause { text: error.to_string(), is_corruption }));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_error_in_a_transaction_is_kept() {
        note(&"before", false);
        begin();
        assert_eq!(last(), None);
        note(&"tried without success", false);
        note(&"the cause", true);
        assert_eq!(last(), Some(Cause { text: "the cause".into(), is_corruption: true }));
        end();
        note(&"behind", false);
        assert_eq!(last(), None);
    }
}
