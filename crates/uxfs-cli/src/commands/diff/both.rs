//! One thing of each side.

/// A side of the comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    /// IMAGE.
    First,
    /// OTHER.
    Second,
}

/// One thing of each side.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Both<T> {
    pub first: T,
    pub second: T,
}

impl<T> Both<T> {
    /// Made side by side.
    pub fn of(mut make: impl FnMut(Side) -> T) -> Self {
        Self { first: make(Side::First), second: make(Side::Second) }
    }

    /// As [`of`](Self::of); the first error ends it.
    pub fn try_of<E>(mut make: impl FnMut(Side) -> Result<T, E>) -> Result<Self, E> {
        Ok(Self { first: make(Side::First)?, second: make(Side::Second)? })
    }

    /// That of one side.
    pub fn at(&self, side: Side) -> &T {
        match side {
            Side::First => &self.first,
            Side::Second => &self.second,
        }
    }

    /// That of one side.
    pub fn at_mut(&mut self, side: Side) -> &mut T {
        match side {
            Side::First => &mut self.first,
            Side::Second => &mut self.second,
        }
    }
}
