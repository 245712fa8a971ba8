//! A [self-check](crate::self_checks): no thread reads or writes file contents while it holds a transaction.
//!
//! A transaction holds the commit lock, and mostly allocation groups. A checkpoint waits for the commit lock, and all other
//! threads wait for the checkpoint: contents are slow to move, so they move before a transaction, after it, or between two of its
//! steps. The journal marks a thread as long as the thread holds a place in the checkpoint that is being filled; every function
//! that moves contents calls [`assert_outside_transaction`]. Both are no-ops when self-checks are off.

use std::marker::PhantomData;

use crate::self_checks;

mod held {
    use std::cell::Cell;

    thread_local! {
        /// Marks of this thread.
        static COUNT: Cell<u32> = const { Cell::new(0) };
    }

    pub fn add() {
        COUNT.set(COUNT.get().saturating_add(1));
    }

    pub fn remove() {
        COUNT.set(COUNT.get().saturating_sub(1));
    }

    pub fn count() -> u32 {
        COUNT.get()
    }
}

/// The thread holds a transaction as long as this lives.
#[derive(Debug)]
pub struct TransactionMark {
    /// It belongs to its thread.
    _thread: PhantomData<*const ()>,
}

impl TransactionMark {
    /// Marks the calling thread.
    #[inline]
    #[expect(clippy::new_without_default, reason = "marking a thread is no default")]
    pub fn new() -> Self {
        if self_checks::are_on() {
            held::add();
        }
        Self { _thread: PhantomData }
    }
}

impl Drop for TransactionMark {
    #[inline]
    fn drop(&mut self) {
        if self_checks::are_on() {
            held::remove();
        }
    }
}

/// Panics if self-checks are on and the calling thread holds a transaction. `action` says what it was about to do.
#[inline]
#[track_caller]
pub fn assert_outside_transaction(action: &str) {
    crate::self_check!(held::count() == 0, "a thread that holds a transaction {action}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_is_marked_as_long_as_any_mark_lives() {
        let first = TransactionMark::new();
        let second = TransactionMark::new();
        drop(first);
        assert!(std::panic::catch_unwind(|| assert_outside_transaction("reads")).is_err());
        std::thread::scope(|scope| {
            scope.spawn(|| assert_outside_transaction("reads in another thread"));
        });
        drop(second);
        assert_outside_transaction("reads");
    }
}
