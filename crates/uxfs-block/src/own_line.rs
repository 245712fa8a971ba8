//! Values with lines of the processor's cache of their own.
//!
//! A value that many threads write must not lie beside one that they only read: every write would take the line away from
//! all others. And what one operation writes at once lies together, so that one line comes instead of several.

use std::ops::{Deref, DerefMut};

/// A value that shares its lines with nothing else: two, since processors fetch them in pairs.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct OwnLine<T>(pub T);

impl<T> Deref for OwnLine<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> DerefMut for OwnLine<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        &mut self.0
    }
}
