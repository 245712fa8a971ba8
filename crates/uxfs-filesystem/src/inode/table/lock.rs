//! Locking several inodes.

use super::{InodeHandle, InodeWriteGuard};

/// Locks up to `N` inodes for changes, in ascending order of their numbers, which is the order that all keep. Gives the
/// locks in the order of the handles: `None` for a handle that is missing, and for one of an inode that an earlier handle
/// has.
pub fn lock_in_order<const N: usize>(handles: [Option<&InodeHandle>; N]) -> [Option<InodeWriteGuard<'_>>; N] {
    let mut order: [usize; N] = std::array::from_fn(|index| index);
    order.sort_unstable_by_key(|index| (number_of(&handles, *index), *index));
    let mut guards = [const { None }; N];
    let mut last: Option<&InodeHandle> = None;
    for index in order {
        let Some(handle) = handles.get(index).copied().flatten() else { continue };
        if last.is_some_and(|last| last.is_same(handle)) {
            continue;
        }
        if let Some(guard) = guards.get_mut(index) {
            *guard = Some(handle.write());
        }
        last = Some(handle);
    }
    guards
}

fn number_of<const N: usize>(handles: &[Option<&InodeHandle>; N], index: usize) -> Option<u64> {
    handles.get(index).copied().flatten().map(|handle| handle.number().get())
}
