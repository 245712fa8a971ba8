//! The 512-byte header of a POSIX (ustar) archive member.

/// Everything in an archive comes in blocks of this size.
pub const BLOCK_BYTES: usize = 512;
/// Longest name or link name that fits the header.
pub const MAX_NAME_BYTES: usize = 100;

/// Kinds of archive members.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum TypeFlag {
    /// Regular file.
    File = b'0',
    /// Another name of an earlier member.
    HardLink = b'1',
    /// Symbolic link.
    Symlink = b'2',
    /// Character device.
    CharacterDevice = b'3',
    /// Block device.
    BlockDevice = b'4',
    /// Directory.
    Directory = b'5',
    /// Named pipe.
    Fifo = b'6',
    /// Records about the next member.
    Extended = b'x',
}

/// The fields of a header. Names longer than [`MAX_NAME_BYTES`] are cut, numbers that do not fit become 0: the caller
/// puts the truth into an extended header.
#[derive(Debug, Clone, Copy)]
pub struct Header<'a> {
    /// In up to three pieces, joined.
    pub name: [&'a [u8]; 3],
    /// Kind.
    pub type_flag: TypeFlag,
    /// Permissions and set-ID bits.
    pub mode: u16,
    /// Owner.
    pub user: u64,
    /// Group.
    pub group: u64,
    /// Bytes that follow the header.
    pub size_bytes: u64,
    /// Seconds since 1970.
    pub modified: u64,
    /// Target of a link.
    pub link_name: &'a [u8],
    /// Device numbers.
    pub device: (u64, u64),
}

/// Largest number in an octal field of `width` bytes, the last of which is NUL.
pub const fn octal_max(width: u32) -> u64 {
    (1 << (3 * (width - 1))) - 1
}

/// Width of the owner, group, mode and device fields.
pub const ID_WIDTH: u32 = 8;
/// Width of the size and time fields.
pub const SIZE_WIDTH: u32 = 12;

impl Header<'_> {
    /// Writes the header into `block`, which is [`BLOCK_BYTES`] long.
    pub fn write(&self, block: &mut [u8]) {
        block.fill(0);
        put_pieces(block, 0, MAX_NAME_BYTES, &self.name);
        put_octal(block, 100, ID_WIDTH, u64::from(self.mode));
        put_octal(block, 108, ID_WIDTH, self.user);
        put_octal(block, 116, ID_WIDTH, self.group);
        put_octal(block, 124, SIZE_WIDTH, self.size_bytes);
        put_octal(block, 136, SIZE_WIDTH, self.modified);
        put_pieces(block, 148, 8, &[b"        "]);
        put_pieces(block, 156, 1, &[&[self.type_flag as u8]]);
        put_pieces(block, 157, MAX_NAME_BYTES, &[self.link_name]);
        put_pieces(block, 257, 8, &[b"ustar\x0000"]);
        if matches!(self.type_flag, TypeFlag::CharacterDevice | TypeFlag::BlockDevice) {
            put_octal(block, 329, ID_WIDTH, self.device.0);
            put_octal(block, 337, ID_WIDTH, self.device.1);
        }
        let sum = block.iter().map(|byte| u32::from(*byte)).sum::<u32>();
        put_octal(block, 148, 7, u64::from(sum));
        put_pieces(block, 154, 1, &[b"\0"]);
    }
}

fn put_pieces(block: &mut [u8], offset: usize, width: usize, pieces: &[&[u8]]) {
    let Some(mut field) = block.get_mut(offset..offset + width) else { return };
    for piece in pieces {
        let length = piece.len().min(field.len());
        let (here, rest) = field.split_at_mut(length);
        here.copy_from_slice(piece.get(..length).unwrap_or_default());
        field = rest;
    }
}

fn put_octal(block: &mut [u8], offset: usize, width: u32, value: u64) {
    let mut rest = if value > octal_max(width) { 0 } else { value };
    let Some(field) = block.get_mut(offset..offset + width as usize - 1) else { return };
    for digit in field.iter_mut().rev() {
        *digit = b'0' + (rest & 7) as u8;
        rest >>= 3;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_lie_where_posix_says() {
        let header = Header {
            name: [b"a/", b"b", b""],
            type_flag: TypeFlag::CharacterDevice,
            mode: 0o4755,
            user: 1000,
            group: octal_max(ID_WIDTH) + 1,
            size_bytes: 0,
            modified: 0o14_567_012_345,
            link_name: b"",
            device: (5, 1),
        };
        let mut block = [0xff; BLOCK_BYTES];
        header.write(&mut block);
        assert_eq!(&block[..4], b"a/b\0");
        assert_eq!(&block[100..108], b"0004755\0");
        assert_eq!(&block[108..116], b"0001750\0");
        assert_eq!(&block[116..124], b"0000000\0");
        assert_eq!(&block[136..148], b"14567012345\0");
        assert_eq!(&block[154..157], b"\0 3");
        assert_eq!(&block[257..265], b"ustar\x0000");
        assert_eq!(&block[329..345], b"0000005\x000000001\0");
        let sum: u32 = block
            .iter()
            .enumerate()
            .map(|(i, b)| if (148..156).contains(&i) { 32 } else { u32::from(*b) })
            .sum();
        assert_eq!(std::str::from_utf8(&block[148..154]).unwrap(), format!("{sum:06o}"));
    }
}
