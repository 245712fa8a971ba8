//! What a mount for reading refuses.
//!
//! The kernel refuses changes of a mount that it knows as read-only; but mount(2) can make it writable at any time, without a word to the server.
//! This server then still works on an overlay, which is thrown away in the end: nothing may be accepted that would be lost.

use super::{file_system_ioctls, ioctls};
use crate::protocol::{flags::AccessMode, request::Operation};

/// Whether an operation changes something, or prepares for that. All are named: one that comes later must be placed.
pub fn is_change(operation: &Operation<'_>) -> bool {
    use Operation as O;
    match operation {
        O::SetAttributes(_)
        | O::SymbolicLink(_)
        | O::MakeNode(_)
        | O::MakeDirectory(_)
        | O::Create(_)
        | O::TemporaryFile(_)
        | O::Link(_)
        | O::Unlink(_)
        | O::RemoveDirectory(_)
        | O::Rename(_)
        | O::Rename2(_)
        | O::Write(_)
        | O::Fallocate(_)
        | O::CopyFileRange(_)
        | O::CopyFileRange64(_)
        | O::SetExtendedAttribute(_)
        | O::RemoveExtendedAttribute(_) => true,
        O::Open(open) => AccessMode::of(open.flags).can_write(),
        O::Ioctl(ioctl) => {
            ioctls::CHANGES.contains(&ioctl.command) || file_system_ioctls::CHANGES.contains(&ioctl.command)
        }
        O::Initialize(_)
        | O::Lookup(_)
        | O::GetAttributes(_)
        | O::Statx(_)
        | O::StatFileSystem
        | O::ReadLink
        | O::OpenDirectory(_)
        | O::Read(_)
        | O::Release(_)
        | O::ReleaseDirectory(_)
        | O::Fsync(_)
        | O::FsyncDirectory(_)
        | O::SyncFileSystem
        | O::Seek(_)
        | O::ReadDirectory(_)
        | O::ReadDirectoryPlus(_)
        | O::GetExtendedAttribute(_)
        | O::ListExtendedAttributes(_)
        | O::Destroy
        | O::GetLock(_)
        | O::SetLock(_)
        | O::SetLockWait(_)
        | O::Access(_)
        | O::Flush(_)
        | O::Poll(_)
        | O::BlockMap(_)
        | O::Interrupt(_)
        | O::Forget(_)
        | O::BatchForget(_)
        | O::NotifyReply(_)
        | O::Unknown(..) => false,
    }
}
