//! Numbers of the ioctls of `/dev/fuse`. Their encoding differs between processors.

use rustix::ioctl::{Opcode, opcode};

/// Group of all ioctls of FUSE.
#[doc(alias = "FUSE_DEV_IOC_MAGIC")]
const GROUP: u8 = 229;

/// Connects a descriptor that was just opened to the mount of another one. The argument points to a `u32`: the other descriptor.
#[doc(alias = "FUSE_DEV_IOC_CLONE")]
pub const CLONE: Opcode = opcode::read::<u32>(GROUP, 0);

/// Makes mount(2) wait for the reply to INIT; before the mount, on the descriptor that will be mounted. No argument. Since Linux 6.18.
#[doc(alias = "FUSE_DEV_IOC_SYNC_INIT")]
pub const SYNC_INIT: Opcode = opcode::none(GROUP, 3);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64"))]
    fn numbers_are_those_of_the_usual_processors() {
        assert_eq!(CLONE, 0x8004_e500);
        assert_eq!(SYNC_INIT, 0xe503);
    }
}
