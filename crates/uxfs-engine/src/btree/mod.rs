//! Changing any btree.
//!
//! | module | holds |
//! |---|---|
//! | [`cursor`] | [`EditCursor`]: a place in a tree; lookups, steps, and the three changes |
//! | [`storage`] | [`BtreeStorage`]: where a tree's root lies and where its blocks come from |
//! | `blocks` | reading and changing the nodes on the cursor's way, wherever they lie |
//! | `path` | the way from the root to a leaf, and the hint that keeps it between cursors |
//! | `insert` | making room: shifting, splitting, growing the root |
//! | `remove` | filling up: borrowing, joining, shrinking the root |
//! | `keys` | keeping the keys in the nodes true |
//! | `overlap` | lookups where records overlap |
//!
//! Invariants, cited by the tests:
//! 1. **In order.** Records and keys ascend in every block and over the blocks of a level, as the kind of tree says.
//! 2. **True keys.** The key of a node entry is that of its child: its first key, and in the reverse map also how far
//!    anything below reaches. It is so after each operation, at every level.
//! 3. **Filled.** Every block but the root holds at least the fewest entries of its kind, and so does the only
//!    child of a root in an inode count as a root. A block root above the leaves has at least two children.
//! 4. **Linked.** The siblings of each level name each other in the order in which their parents do.
//! 5. **Neighbours of one parent.** Entries move, and blocks join, only between children of one node; a node that is
//!    not the root always has such a neighbour because of 3.
//! 6. **Nothing twice.** A cursor holds at most one block of each level of one tree, plus one neighbour during a change; a
//!    home takes blocks from, and gives them to, other trees than its own.
//! 7. **One cursor.** At most one `EditCursor` of a tree exists, because it borrows the home. What it remembers of
//!    its way (the hint) is therefore true until the next cursor.
//! 8. **Damage ends.** Levels fall by one from parent to child, and steps along the leaves must ascend, so that every
//!    seek and walk ends on any image; what cannot be is a corruption. After an error the cursor is nowhere.

mod blocks;
pub mod cursor;
mod insert;
mod keys;
mod overlap;
mod path;
mod remove;
pub mod storage;

pub use cursor::EditCursor;
pub use path::CursorHint;
pub use storage::{BtreeStorage, InlineRoot, NoInlineRoot, TreeOwner, TreeRoot};
