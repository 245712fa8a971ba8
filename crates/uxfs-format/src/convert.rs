//! The few integer conversions that cannot fail on the targets uxfs supports (64-bit), in one place.
#![allow(clippy::as_conversions)]

#[cfg(not(target_pointer_width = "64"))]
compile_error!("uxfs supports 64-bit targets only");

/// A 32-bit count or offset as a slice index.
#[inline]
pub const fn to_usize(value: u32) -> usize {
    value as usize
}

/// A 64-bit count or offset as a slice index.
#[inline]
pub const fn long_to_usize(value: u64) -> usize {
    value as usize
}

/// A slice length or index as a 64-bit number.
#[inline]
pub const fn to_u64(value: usize) -> u64 {
    value as u64
}

/// The low 32 bits.
#[inline]
pub const fn low_u32(value: u64) -> u32 {
    value as u32
}

/// The low 16 bits.
#[inline]
pub const fn low_u16(value: u64) -> u16 {
    value as u16
}

/// The low 8 bits.
#[inline]
pub const fn low_u8(value: u64) -> u8 {
    value as u8
}
