//! From the body of a request to an operation of an open file, or to one that is unknown.

use rustix::fs::OFlags;

use super::{
    body::Body,
    fault::RequestFault,
    operation::{
        BlockMap, CopyFileRange, Fallocate, Flush, Fsync, Ioctl, Lock, LockKind, LockRequest, Open,
        Operation, Poll, Read, Release, Seek, SeekTarget, Write,
    },
};
use crate::protocol::{
    flags::{
        FallocateMode, FsyncFlags, IoctlFlags, LockFlags, OpenRequestFlags, PollFlags, ReadFlags,
        ReleaseFlags, WriteFlags,
    },
    opcode::Opcode,
    wire::{
        files::{
            BlockMapIn, CopyFileRangeIn, FallocateIn, FlushIn, FsyncIn, OpenIn, ReadIn, ReleaseIn, SeekIn,
            SyncfsIn, WriteIn,
        },
        ioctl::{IoctlIn, PollIn},
        locks::{LockIn, LockRecord},
    },
};

const WHENCE_DATA: u32 = 3;
const WHENCE_HOLE: u32 = 4;

pub(super) fn operation(opcode: Opcode, body: Body<'_>) -> Result<Operation<'_>, RequestFault> {
    Ok(match opcode {
        Opcode::Read => Operation::Read(read(body)?),
        Opcode::Write => Operation::Write(write(body)?),
        Opcode::ReadDirectory => Operation::ReadDirectory(read(body)?),
        Opcode::ReadDirectoryPlus => Operation::ReadDirectoryPlus(read(body)?),
        Opcode::Open => Operation::Open(open(body)?),
        Opcode::OpenDirectory => Operation::OpenDirectory(open(body)?),
        Opcode::Release => Operation::Release(release(body)?),
        Opcode::ReleaseDirectory => Operation::ReleaseDirectory(release(body)?),
        Opcode::Flush => {
            let FlushIn { handle, lock_owner, .. } = body.only_structure()?;
            Operation::Flush(Flush { handle, lock_owner })
        }
        Opcode::Fsync => Operation::Fsync(fsync(body)?),
        Opcode::FsyncDirectory => Operation::FsyncDirectory(fsync(body)?),
        Opcode::SyncFileSystem => {
            body.only_structure::<SyncfsIn>()?;
            Operation::SyncFileSystem
        }
        Opcode::Fallocate => Operation::Fallocate(fallocate(body)?),
        Opcode::Seek => Operation::Seek(seek(body)?),
        Opcode::CopyFileRange => Operation::CopyFileRange(copy_file_range(body)?),
        Opcode::CopyFileRange64 => Operation::CopyFileRange64(copy_file_range(body)?),
        Opcode::BlockMap => {
            let BlockMapIn { block, block_size_bytes, .. } = body.only_structure()?;
            Operation::BlockMap(BlockMap { block, block_size_bytes })
        }
        Opcode::GetLock => Operation::GetLock(lock(body)?),
        Opcode::SetLock => Operation::SetLock(lock(body)?),
        Opcode::SetLockWait => Operation::SetLockWait(lock(body)?),
        Opcode::Ioctl => Operation::Ioctl(ioctl(body)?),
        Opcode::Poll => Operation::Poll(poll(body)?),
        other => Operation::Unknown(other, body.before_extensions()),
    })
}

fn open(body: Body<'_>) -> Result<Open, RequestFault> {
    let OpenIn { flags, open_flags } = body.only_structure()?;
    Ok(Open {
        flags: OFlags::from_bits_retain(flags),
        request_flags: OpenRequestFlags::from_bits_retain(open_flags),
    })
}

fn read(body: Body<'_>) -> Result<Read, RequestFault> {
    let wire: ReadIn = body.only_structure()?;
    let read_flags = ReadFlags::from_bits_retain(wire.read_flags);
    Ok(Read {
        handle: wire.handle,
        offset_bytes: wire.offset_bytes,
        size_bytes: wire.size_bytes,
        lock_owner: read_flags.contains(ReadFlags::LOCK_OWNER).then_some(wire.lock_owner),
        flags: OFlags::from_bits_retain(wire.flags),
    })
}

fn write(mut body: Body<'_>) -> Result<Write<'_>, RequestFault> {
    let wire: WriteIn = body.structure()?;
    let write_flags = WriteFlags::from_bits_retain(wire.write_flags);
    Ok(Write {
        handle: wire.handle,
        offset_bytes: wire.offset_bytes,
        data: body.data(wire.size_bytes)?,
        write_flags,
        lock_owner: write_flags.contains(WriteFlags::LOCK_OWNER).then_some(wire.lock_owner),
        flags: OFlags::from_bits_retain(wire.flags),
    })
}

fn release(body: Body<'_>) -> Result<Release, RequestFault> {
    let ReleaseIn { handle, flags, release_flags, lock_owner } = body.only_structure()?;
    Ok(Release {
        handle,
        flags: OFlags::from_bits_retain(flags),
        release_flags: ReleaseFlags::from_bits_retain(release_flags),
        lock_owner,
    })
}

fn fsync(body: Body<'_>) -> Result<Fsync, RequestFault> {
    let FsyncIn { handle, flags, .. } = body.only_structure()?;
    Ok(Fsync { handle, flags: FsyncFlags::from_bits_retain(flags) })
}

fn fallocate(body: Body<'_>) -> Result<Fallocate, RequestFault> {
    let FallocateIn { handle, offset_bytes, size_bytes, mode, .. } = body.only_structure()?;
    Ok(Fallocate { handle, offset_bytes, size_bytes, mode: FallocateMode::from_bits_retain(mode) })
}

fn seek(body: Body<'_>) -> Result<Seek, RequestFault> {
    let SeekIn { handle, offset_bytes, whence, .. } = body.only_structure()?;
    let target = match whence {
        WHENCE_DATA => SeekTarget::Data,
        WHENCE_HOLE => SeekTarget::Hole,
        whence => return Err(RequestFault::Whence { whence }),
    };
    Ok(Seek { handle, offset_bytes, target })
}

fn copy_file_range(body: Body<'_>) -> Result<CopyFileRange, RequestFault> {
    let wire: CopyFileRangeIn = body.only_structure()?;
    Ok(CopyFileRange {
        source_handle: wire.source_handle,
        source_offset_bytes: wire.source_offset_bytes,
        target_node_id: wire.target_node_id,
        target_handle: wire.target_handle,
        target_offset_bytes: wire.target_offset_bytes,
        size_bytes: wire.size_bytes,
        flags: wire.flags,
    })
}

fn lock(body: Body<'_>) -> Result<LockRequest, RequestFault> {
    let LockIn { handle, owner, lock, flags, .. } = body.only_structure()?;
    let LockRecord { start_bytes, last_bytes, kind, process_id } = lock;
    let kind = LockKind::from_number(kind).ok_or(RequestFault::LockType { kind })?;
    Ok(LockRequest {
        handle,
        owner,
        lock: Lock { start_bytes, last_bytes, kind, process_id },
        flags: LockFlags::from_bits_retain(flags),
    })
}

fn ioctl(mut body: Body<'_>) -> Result<Ioctl<'_>, RequestFault> {
    let IoctlIn { handle, flags, command, argument, input_bytes, output_bytes } = body.structure()?;
    let input = body.data(input_bytes)?;
    let flags = IoctlFlags::from_bits_retain(flags);
    Ok(Ioctl { handle, flags, command, argument, input, output_bytes })
}

fn poll(body: Body<'_>) -> Result<Poll, RequestFault> {
    let PollIn { handle, poll_handle, flags, events } = body.only_structure()?;
    Ok(Poll { handle, poll_handle, flags: PollFlags::from_bits_retain(flags), events })
}
