//! How long answering a request may take, told from its first bytes.

use zerocopy::FromBytes;

use crate::{
    protocol::{
        opcode::Opcode,
        wire::{attributes::SetAttributesIn, files::ReadIn, header::InHeader},
    },
    transport::turns::Effort,
};

/// Copying more data than this takes longer than waking another thread.
const LONG_BYTES: u32 = 64 << 10;

/// Of any request, also one that is not understood.
#[must_use]
pub fn of(request: &[u8]) -> Effort {
    use Opcode as O;
    let Ok((header, body)) = InHeader::read_from_prefix(request) else { return Effort::Short };
    match Opcode::from_number(header.opcode) {
        O::Fsync | O::FsyncDirectory | O::SyncFileSystem | O::Fallocate | O::Ioctl | O::Destroy => {
            Effort::Waits
        }
        O::CopyFileRange | O::CopyFileRange64 | O::SetLockWait => Effort::Waits,
        // They may wait for the kernel, which writes what it has cached.
        O::Seek => Effort::Waits,
        O::SetAttributes if is_without_changes(body) => Effort::Waits,
        O::Write if header.size_bytes > LONG_BYTES => Effort::Long,
        O::Read if ReadIn::read_from_prefix(body).is_ok_and(|(read, _)| read.size_bytes > LONG_BYTES) => {
            Effort::Long
        }
        _ => Effort::Short,
    }
}

fn is_without_changes(body: &[u8]) -> bool {
    SetAttributesIn::read_from_prefix(body).is_ok_and(|(asked, _)| asked.valid == 0)
}
