//! Several damages at once, the repair, and edits of what it made.
//!
//! Promises, for any damage:
//! 1. Check and repair end with a result or an error: no panic, no hang.
//! 2. A repair has nothing to do exactly where the check finds nothing.
//! 3. What a repair calls sound has no findings once it is written, needs no second repair, and `xfs_repair -n` is silent on it.
//! 4. The same bytes come out with one thread and with several.
//! 5. Edits of a repaired image meet no damage, and leave none.
//!
//! | module | holds |
//! |---|---|
//! | [`mod@cuts`] | repairs that are cut off at each write |
//! | [`mod@devices`] | devices that cannot read some ranges, or fail at the n-th write |
//! | [`mod@damages`] | the damages of one case, from a list of bytes |
//! | [`mod@promises`] | the promises, tried on one damaged image |

pub mod cuts;
pub mod damages;
pub mod devices;
pub mod promises;

pub use damages::{Damaged, Fixture};
pub use promises::{Outcome, Promises, check_only};
