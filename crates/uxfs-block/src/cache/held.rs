//! The lock of a changed buffer, held together with the buffer.
//!
//! An [`ArcMutexGuard`](parking_lot::ArcMutexGuard) would need a count of its own for the state beside that of the buffer:
//! two more atomic operations for each change of each block, which are the hottest there are.
#![allow(unsafe_code)]

use std::{
    ops::{Deref, DerefMut},
    sync::Arc,
};

use parking_lot::MutexGuard;

use super::edit::{Dirty, DirtyState};

/// A changed buffer whose lock this holds.
pub(super) struct Held {
    dirty: Arc<Dirty>,
    /// Locks belong to threads: this stays where it was made.
    _not_send: std::marker::PhantomData<MutexGuard<'static, ()>>,
}

impl Held {
    /// Locks `dirty` by `lock`. `None` where that gives no guard.
    #[inline]
    pub fn new(
        dirty: Arc<Dirty>,
        lock: impl for<'d> FnOnce(&'d Dirty) -> Option<MutexGuard<'d, DirtyState>>,
    ) -> Result<Self, Arc<Dirty>> {
        let is_own = match lock(&dirty) {
            Some(guard) => {
                let is_own = std::ptr::eq(MutexGuard::mutex(&guard), &raw const dirty.state);
                if is_own {
                    // Unlocked when this is dropped.
                    std::mem::forget(guard);
                }
                is_own
            }
            None => false,
        };
        if is_own { Ok(Self { dirty, _not_send: std::marker::PhantomData }) } else { Err(dirty) }
    }

    /// The buffer.
    #[inline]
    pub fn dirty(&self) -> &Arc<Dirty> {
        &self.dirty
    }

    /// Both at once.
    #[inline]
    pub fn parts(&mut self) -> (&Arc<Dirty>, &mut DirtyState) {
        // SAFETY: this holds the lock of this very state, and the reference lives no longer than the exclusive borrow.
        let state = unsafe { &mut *self.dirty.state.data_ptr() };
        (&self.dirty, state)
    }
}

impl Deref for Held {
    type Target = DirtyState;

    #[inline]
    fn deref(&self) -> &DirtyState {
        // SAFETY: this holds the lock of this very state; changing the state through this borrows this exclusively.
        unsafe { &*self.dirty.state.data_ptr() }
    }
}

impl DerefMut for Held {
    #[inline]
    fn deref_mut(&mut self) -> &mut DirtyState {
        self.parts().1
    }
}

impl Drop for Held {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: this holds the lock since `new` forgot its guard, on the same thread.
        unsafe { self.dirty.state.force_unlock() };
    }
}
