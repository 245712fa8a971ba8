//! The tree of many paths: found by sorting in temporary files instead of by a table in memory, with the same outcome.
//!
//! 1. Each item becomes events: its path, its time, and what it does there. A hard link also becomes a query at its target,
//!    for the file that has that path at that time.
//! 2. Sorted by path and time, they are swept through once. A path comes before all below it, so the histories of the
//!    directories on the way are all that is needed to say what each event meets, and what remains at the end.
//! 3. The answers to hard links may name other links: they are followed until they name files.
//! 4. What remains is sorted by directory and name, each directory before those below it.
//!
//! Memory is needed for the history of the directories on the way, and for buffers.
//!
//! | module | holds |
//! |---|---|
//! | [`events`] | events and their keys |
//! | [`sweep`] | from events to what remains |
//! | [`links`] | from hard links to files |
//! | [`remains`] | what remains, in order |

mod events;
mod links;
mod remains;
mod sweep;

pub(super) use events::Events;
pub(super) use remains::{LaterReader, Remaining, RemainingReader, Remains};
