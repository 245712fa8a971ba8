//! Reading a field's bits and writing them for people.

use std::fmt;

use super::{Format, Place};
use crate::{
    checksum,
    convert::{long_to_usize, low_u16, to_u64, to_usize},
    field_table::{Field, FieldFormat},
    inode::fields::metadata_type_name,
    units::Uuid,
};

/// Seconds from 1901-12-13 20:45:52, where bigtime begins, to 1970.
const BIG_TIME_EPOCH_SECONDS: u64 = 1 << 31;
const NANOSECONDS: u64 = 1_000_000_000;
/// Names of inode formats, by their code.
const INODE_FORMATS: [&str; 6] = ["dev", "local", "extents", "btree", "uuid", "meta_btree"];

/// The value of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Value<'a> {
    /// A number, and whether it is the "none" of a field that has one.
    Unsigned {
        /// The number.
        number: u64,
        /// All ones, in a format that writes `null` then.
        is_null: bool,
    },
    /// A number with a sign.
    Signed(i64),
    /// A checksum as its bytes stand (the most significant first), and whether it fits the contents.
    Checksum {
        /// As stored.
        number: u32,
        /// Over all bytes described.
        correct: bool,
    },
    /// A uuid.
    Uuid(Uuid),
    /// Text or other bytes.
    Bytes(&'a [u8]),
    /// A moment or length of time.
    Time {
        /// Since 1970.
        seconds: i64,
        /// And nanoseconds.
        nanoseconds: u32,
    },
}

/// Reads up to 64 bits, most significant first. `None` where they do not lie within `bytes`.
pub fn read_bits(bytes: &[u8], bit_offset: u32, bit_length: u32) -> Option<u64> {
    if bit_length == 0 || bit_length > 64 {
        return None;
    }
    let end = bit_offset.checked_add(bit_length)?;
    let covering = bytes.get(to_usize(bit_offset >> 3)..to_usize(end.div_ceil(8)))?;
    // At most 9 bytes cover 64 bits.
    let wide = covering.iter().fold(0u128, |sum, byte| sum.wrapping_shl(8) | u128::from(*byte));
    let below = end.div_ceil(8).wrapping_mul(8).wrapping_sub(end);
    let mask = u64::MAX.wrapping_shr(64u32.wrapping_sub(bit_length));
    u64::try_from(wide.wrapping_shr(below) & u128::from(mask)).ok()
}

/// Reads the number at a place, in its byte order.
fn read_number(bytes: &[u8], place: &Place) -> Option<u64> {
    let number = read_bits(bytes, place.bit_offset, place.bit_length)?;
    if !place.little_endian {
        return Some(number);
    }
    Some(number.swap_bytes().wrapping_shr(64u32.wrapping_sub(place.bit_length)))
}

/// Replaces up to 64 bits. `false`, and nothing changed, where they do not lie within `bytes`.
pub fn write_bits(bytes: &mut [u8], bit_offset: u32, bit_length: u32, value: u64) -> bool {
    let inside = bit_offset
        .checked_add(bit_length)
        .is_some_and(|end| u64::from(end) <= to_u64(bytes.len()).wrapping_mul(8));
    if !inside || bit_length > 64 {
        return false;
    }
    for index in 0..bit_length {
        let position = bit_offset.wrapping_add(index);
        let bit = value.wrapping_shr(bit_length.wrapping_sub(1).wrapping_sub(index)) & 1;
        let mask = 0x80u8.wrapping_shr(position & 7);
        if let Some(byte) = bytes.get_mut(to_usize(position >> 3)) {
            *byte = if bit == 1 { *byte | mask } else { *byte & !mask };
        }
    }
    true
}

/// Reads one value. `None` where it does not lie within `bytes`, or is no whole number of bytes where it must be.
pub fn read<'a>(bytes: &'a [u8], place: &Place) -> Option<Value<'a>> {
    let number = || read_number(bytes, place);
    let format = match place.format {
        Format::Time { bigtime } => return Some(inode_time(number()?, bigtime)),
        Format::QuotaTimer { bigtime, .. } => return Some(quota_time(number()?, bigtime)),
        Format::Table(format) => format,
    };
    match format {
        FieldFormat::Uuid => Some(Value::Uuid(Uuid(byte_range(bytes, place)?.try_into().ok()?))),
        FieldFormat::Text | FieldFormat::Bytes => Some(Value::Bytes(byte_range(bytes, place)?)),
        FieldFormat::Padding if place.bit_length > 64 => Some(Value::Bytes(byte_range(bytes, place)?)),
        FieldFormat::Checksum => Some(Value::Checksum {
            // As the bytes stand, whatever their order: so does `xfs_db`.
            number: u32::try_from(read_bits(bytes, place.bit_offset, place.bit_length)?).ok()?,
            correct: checksum::check(bytes, place.bit_offset >> 3).is_ok(),
        }),
        FieldFormat::SignedDecimal | FieldFormat::TimestampSeconds => {
            Some(Value::Signed(sign_extended(number()?, place.bit_length)))
        }
        FieldFormat::Timestamp => Some(inode_time(number()?, false)),
        FieldFormat::QuotaTimer => Some(quota_time(number()?, false)),
        format => {
            let number = number()?;
            let has_null = matches!(
                format,
                FieldFormat::DecimalOrNull
                    | FieldFormat::DecimalUnlessNull
                    | FieldFormat::DecimalOrNullUnlessZero
            );
            let all_ones = number.count_ones() == place.bit_length;
            Some(Value::Unsigned { number, is_null: has_null && all_ones })
        }
    }
}

/// The same for one column of the record that begins at `record_bit_offset`.
pub fn read_column<'a>(bytes: &'a [u8], record_bit_offset: u32, column: &Field) -> Option<Value<'a>> {
    read(bytes, &column_place(record_bit_offset, column)?)
}

/// Where a column of the record that begins at `record_bit_offset` lies.
pub fn column_place(record_bit_offset: u32, column: &Field) -> Option<Place> {
    let bit_offset = record_bit_offset.checked_add(column.bit_offset)?;
    Some(Place {
        bit_offset,
        bit_length: column.bit_length,
        format: column.format.into(),
        little_endian: column.little_endian,
    })
}

fn byte_range<'a>(bytes: &'a [u8], place: &Place) -> Option<&'a [u8]> {
    let end = place.bit_offset.checked_add(place.bit_length)?;
    let aligned = place.bit_offset & 7 == 0 && end & 7 == 0;
    if !aligned {
        return None;
    }
    bytes.get(to_usize(place.bit_offset >> 3)..to_usize(end >> 3))
}

fn sign_extended(number: u64, bit_length: u32) -> i64 {
    let unused = 64u32.wrapping_sub(bit_length);
    number.wrapping_shl(unused).cast_signed().wrapping_shr(unused)
}

fn inode_time(number: u64, bigtime: bool) -> Value<'static> {
    if bigtime {
        let seconds = number.wrapping_div(NANOSECONDS).cast_signed();
        let nanoseconds = u32::try_from(number.wrapping_rem(NANOSECONDS)).unwrap_or(0);
        return Value::Time {
            seconds: seconds.wrapping_sub(BIG_TIME_EPOCH_SECONDS.cast_signed()),
            nanoseconds,
        };
    }
    let nanoseconds = crate::convert::low_u32(number);
    Value::Time { seconds: sign_extended(number.wrapping_shr(32), 32), nanoseconds }
}

fn quota_time(number: u64, bigtime: bool) -> Value<'static> {
    let seconds = if bigtime { number.wrapping_shl(2) } else { number };
    Value::Time { seconds: seconds.cast_signed(), nanoseconds: 0 }
}

/// Whether a format leaves this value out of arrays (and writes nothing for a plain field).
pub fn is_left_out(value: &Value<'_>, format: Format) -> bool {
    let (Value::Unsigned { number, is_null }, Format::Table(format)) = (value, format) else { return false };
    match format {
        FieldFormat::DecimalUnlessNull => *is_null,
        FieldFormat::DecimalOrNullUnlessZero | FieldFormat::HexadecimalUnlessZero => *number == 0,
        _ => false,
    }
}

/// A value with its format, to be written as `xfs_db` writes it.
#[derive(Debug, Clone, Copy)]
pub struct Written<'a>(pub Value<'a>, pub Format);

impl fmt::Display for Written<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.0, self.1) {
            (Value::Unsigned { is_null: true, .. }, _) => f.write_str("null"),
            (Value::Unsigned { number, .. }, Format::Table(format)) => write_number(f, *number, format),
            (Value::Unsigned { number, .. }, _) => write!(f, "{number}"),
            (Value::Signed(number), Format::Table(FieldFormat::TimestampSeconds)) => write_date(f, *number),
            (Value::Signed(number), _) => write!(f, "{number}"),
            (Value::Checksum { number, correct }, _) => {
                write_number(f, u64::from(*number), FieldFormat::Hexadecimal)?;
                f.write_str(if *correct { " (correct)" } else { " (bad)" })
            }
            (Value::Uuid(uuid), _) => write!(f, "{uuid}"),
            (Value::Bytes(text), Format::Table(FieldFormat::Text)) => write_text(f, text),
            (Value::Bytes(raw), _) => raw.iter().try_for_each(|byte| write!(f, "{byte:02x}")),
            (Value::Time { seconds, .. }, Format::QuotaTimer { period, .. }) if period || *seconds == 0 => {
                write!(f, "{seconds}")
            }
            (Value::Time { seconds, .. }, _) => write_date(f, *seconds),
        }
    }
}

fn write_number(f: &mut fmt::Formatter<'_>, number: u64, format: FieldFormat) -> fmt::Result {
    match format {
        FieldFormat::Hexadecimal | FieldFormat::HexadecimalUnlessZero | FieldFormat::Padding
            if number != 0 =>
        {
            write!(f, "{number:#x}")
        }
        FieldFormat::Octal if number != 0 => write!(f, "0{number:o}"),
        FieldFormat::InodeFormat => match INODE_FORMATS.get(long_to_usize(number)) {
            Some(name) => write!(f, "{number} ({name})"),
            None => write!(f, "{number}"),
        },
        FieldFormat::MetadataType => match metadata_type_name(low_u16(number)) {
            Some(name) => write!(f, "{number} ({name})"),
            None => write!(f, "{number}"),
        },
        _ => write!(f, "{number}"),
    }
}

/// In quotes, with the escapes of C.
fn write_text(f: &mut fmt::Formatter<'_>, text: &[u8]) -> fmt::Result {
    f.write_str("\"")?;
    for byte in text {
        let letter = char::from(*byte);
        match *byte {
            b'\\' | b'\'' | b'"' | b'?' => write!(f, "\\{letter}")?,
            b' '..=b'~' => write!(f, "{letter}")?,
            7 => f.write_str("\\a")?,
            8 => f.write_str("\\b")?,
            9 => f.write_str("\\t")?,
            10 => f.write_str("\\n")?,
            11 => f.write_str("\\v")?,
            12 => f.write_str("\\f")?,
            13 => f.write_str("\\r")?,
            byte => write!(f, "\\{byte:03o}")?,
        }
    }
    f.write_str("\"")
}

/// A moment as `Fri Nov 20 11:50:59 2026`, in UTC.
fn write_date(f: &mut fmt::Formatter<'_>, seconds: i64) -> fmt::Result {
    const WEEKDAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let days = seconds.wrapping_div_euclid(86400);
    let time = seconds.wrapping_rem_euclid(86400);
    let weekday = usize::try_from(days.wrapping_rem_euclid(7)).unwrap_or(0);
    let (year, month, day) = civil_date(days);
    let (hour, minute) = (time.wrapping_div(3600), time.wrapping_div(60).wrapping_rem(60));
    let month = usize::try_from(month.wrapping_sub(1)).unwrap_or(0);
    let weekday = WEEKDAYS.get(weekday).copied().unwrap_or_default();
    let month = MONTHS.get(month).copied().unwrap_or_default();
    write!(f, "{weekday} {month} {day:2} {hour:02}:{minute:02}:{:02} {year}", time.wrapping_rem(60))
}

/// Year, month (1 to 12) and day of the month of a day counted from 1970-01-01, in the Gregorian calendar.
fn civil_date(days: i64) -> (i64, i64, i64) {
    // Counted from 0000-03-01, so that the leap day is the last of a year, in cycles of 400 years.
    let days = days.wrapping_add(719_468);
    let cycle = days.wrapping_div_euclid(146_097);
    let day = days.wrapping_rem_euclid(146_097);
    let leaps =
        day.wrapping_div(1460).wrapping_sub(day.wrapping_div(36_524)).wrapping_add(day.wrapping_div(146_096));
    let year_in_cycle = day.wrapping_sub(leaps).wrapping_div(365);
    let before = year_in_cycle
        .wrapping_mul(365)
        .wrapping_add(year_in_cycle.wrapping_div(4))
        .wrapping_sub(year_in_cycle.wrapping_div(100));
    let day_of_year = day.wrapping_sub(before);
    // Months of 31 and 30 days alternate from March so that this line through them hits each.
    let month_from_march = day_of_year.wrapping_mul(5).wrapping_add(2).wrapping_div(153);
    let month_start = month_from_march.wrapping_mul(153).wrapping_add(2).wrapping_div(5);
    let month = if month_from_march < 10 {
        month_from_march.wrapping_add(3)
    } else {
        month_from_march.wrapping_sub(9)
    };
    let year = cycle.wrapping_mul(400).wrapping_add(year_in_cycle).wrapping_add(i64::from(month <= 2));
    (year, month, day_of_year.wrapping_sub(month_start).wrapping_add(1))
}
