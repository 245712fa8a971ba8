//! The fields of one inode as `xfs_db` prints them: which of them there are, and how they are read, depends on the
//! inode's own flags. The table of [`InodeCore`] itself has each field of the disk once, for the fuzzer.

use std::mem::offset_of;

use crate::{
    field_table::{Field, FieldFormat, bits},
    inode::{core::InodeCore, flags::InodeFlags2},
};

/// A field of `length` bits, `bit` bits after byte `offset` of the core.
const fn field(name: &'static str, offset: usize, bit: u32, length: u32, format: FieldFormat) -> Field {
    Field {
        name,
        // Offsets in a structure of 176 bytes.
        bit_offset: bits(offset).wrapping_add(bit),
        bit_length: length,
        count: 1,
        format,
        little_endian: matches!(format, FieldFormat::Checksum),
    }
}

macro_rules! whole {
    ($($name:literal $field:ident $length:literal $format:ident;)*) => {
        &[$(field($name, offset_of!(InodeCore, $field), 0, $length, FieldFormat::$format)),*]
    };
}

/// `number` counts from the least significant bit of a word of `word` bits.
macro_rules! flags {
    ($field:ident $word:literal: $($name:literal $number:literal;)*) => {
        &[$(field($name, offset_of!(InodeCore, $field), $word - 1 - $number, 1, FieldFormat::Decimal)),*]
    };
}

const HEAD: &[Field] = whole! {
    "core.magic" magic 16 Hexadecimal;
    "core.mode" mode 16 Octal;
    "core.version" version 8 Decimal;
    "core.format" format 8 InodeFormat;
};
const OLD_LINK_COUNT: &[Field] = whole! { "core.onlink" metadata_type 16 Decimal; };
const METADATA_TYPE: &[Field] = whole! { "core.metatype" metadata_type 16 MetadataType; };
const OWNER: &[Field] = whole! {
    "core.uid" uid 32 Decimal;
    "core.gid" gid 32 Decimal;
    "core.nlinkv2" link_count 32 Decimal;
    "core.projid_lo" project_id_low 16 Decimal;
    "core.projid_hi" project_id_high 16 Decimal;
};
const LARGE_EXTENT_COUNT: &[Field] = whole! { "core.nextents" large_extent_count 64 Decimal; };
const TIMES: &[Field] = whole! {
    "core.atime" access_time 64 Timestamp;
    "core.mtime" modification_time 64 Timestamp;
    "core.ctime" change_time 64 Timestamp;
};
const SIZES: &[Field] = whole! {
    "core.size" size_bytes 64 SignedDecimal;
    "core.nblocks" blocks 64 Decimal;
    "core.extsize" extent_size_blocks 32 Decimal;
};
const LARGE_ATTRIBUTE_EXTENT_COUNT: &[Field] = whole! { "core.naextents" extent_count 32 Decimal; };
const SMALL_EXTENT_COUNTS: &[Field] = whole! {
    "core.nextents" extent_count 32 Decimal;
    "core.naextents" attribute_extent_count 16 Decimal;
};
const FORKS: &[Field] = whole! {
    "core.forkoff" fork_offset 8 Decimal;
    "core.aformat" attribute_format 8 InodeFormat;
    "core.dmevmask" dmapi_event_mask 32 Hexadecimal;
    "core.dmstate" dmapi_state 16 Hexadecimal;
};
const FLAGS: &[Field] = flags! { flags 16:
    "core.newrtbm" 2;
    "core.prealloc" 1;
    "core.realtime" 0;
    "core.immutable" 3;
    "core.append" 4;
    "core.sync" 5;
    "core.noatime" 6;
    "core.nodump" 7;
    "core.rtinherit" 8;
    "core.projinherit" 9;
    "core.nosymlinks" 10;
    "core.extsz" 11;
    "core.extszinherit" 12;
    "core.nodefrag" 13;
    "core.filestream" 14;
};
const VERSION_3: &[Field] = whole! {
    "core.gen" generation 32 Decimal;
    "next_unlinked" next_unlinked 32 DecimalOrNull;
    "v3.crc" checksum 32 Checksum;
    "v3.change_count" change_count 64 Decimal;
    "v3.lsn" lsn 64 Hexadecimal;
    "v3.flags2" flags2 64 Hexadecimal;
    "v3.cowextsize" cow_extent_size_blocks 32 Decimal;
};
const CREATION_TIME: &[Field] = whole! { "v3.crtime" creation_time 64 Timestamp; };
const IDENTITY: &[Field] = whole! {
    "v3.inumber" number 64 Decimal;
    "v3.uuid" uuid 128 Uuid;
};
const FLAGS2: &[Field] = flags! { flags2 64:
    "v3.reflink" 1;
    "v3.cowextsz" 2;
    "v3.dax" 0;
    "v3.bigtime" 3;
    "v3.nrext64" 4;
    "v3.metadata" 5;
};

impl InodeCore {
    /// Its fields as `xfs_db` prints them, in that order. Times are one field each.
    pub fn print_fields(&self) -> impl Iterator<Item = &'static Field> + use<> {
        let has = |flag| self.flags2().contains(flag);
        let is_large = has(InodeFlags2::LARGE_EXTENT_COUNTS);
        let parts: [&'static [Field]; 13] = [
            HEAD,
            if has(InodeFlags2::METADATA) { METADATA_TYPE } else { OLD_LINK_COUNT },
            OWNER,
            if is_large { LARGE_EXTENT_COUNT } else { &[] },
            TIMES,
            SIZES,
            if is_large { LARGE_ATTRIBUTE_EXTENT_COUNT } else { SMALL_EXTENT_COUNTS },
            FORKS,
            FLAGS,
            VERSION_3,
            CREATION_TIME,
            IDENTITY,
            FLAGS2,
        ];
        parts.into_iter().flatten()
    }
}

/// The name that `xfs_db` gives a metadata type.
pub const fn metadata_type_name(metadata_type: u16) -> Option<&'static str> {
    Some(match metadata_type {
        0 => "unknown",
        1 => "dir",
        2 => "usrquota",
        3 => "grpquota",
        4 => "prjquota",
        5 => "rtbitmap",
        6 => "rtsummary",
        7 => "rtrmap",
        8 => "rtrefcount",
        _ => return None,
    })
}

#[cfg(test)]
#[path = "fields_tests.rs"]
mod tests;
