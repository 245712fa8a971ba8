use crate::{
    field_table::{Field, FieldFormat, OnDisk, bits},
    inode::{ForkFormat, InodeCore, fields::metadata_type_name, golden},
};

/// The lines that `xfs_db` prints for one field.
fn lines(core: &InodeCore, field: &Field, bytes: &[u8]) -> Vec<(String, Option<String>)> {
    let mut value = 0u128;
    for bit in field.bit_offset..field.bit_offset + field.bit_length {
        let byte = bytes[(bit / 8) as usize];
        value = value << 1 | u128::from(byte >> (7 - bit % 8) & 1);
    }
    let text = match field.format {
        FieldFormat::Decimal | FieldFormat::SignedDecimal => value.to_string(),
        FieldFormat::Hexadecimal if value == 0 => "0".into(),
        FieldFormat::Hexadecimal => format!("{value:#x}"),
        FieldFormat::Octal if value == 0 => "0".into(),
        FieldFormat::Octal => format!("0{value:o}"),
        FieldFormat::DecimalOrNull if value == u128::from(u32::MAX) => "null".into(),
        FieldFormat::DecimalOrNull => value.to_string(),
        // xfs_db prints the bytes in the order in which they lie, as if the number were big-endian.
        FieldFormat::Checksum => format!("{value:#x} (correct)"),
        FieldFormat::InodeFormat => {
            format!("{value} ({})", ForkFormat::from_code(value as u8).unwrap().name())
        }
        FieldFormat::MetadataType => format!("{value} ({})", metadata_type_name(value as u16).unwrap()),
        FieldFormat::Uuid => core.uuid.to_string(),
        FieldFormat::Timestamp => {
            let time = core.time(crate::inode::timestamp::DiskTimestamp((value as u64).into()));
            // The date depends on the time zone.
            let seconds = (format!("{}.sec", field.name), None);
            return vec![seconds, (format!("{}.nsec", field.name), Some(time.nanoseconds.to_string()))];
        }
        other => panic!("{other:?} is not printed for inodes"),
    };
    vec![(field.name.into(), Some(text))]
}

#[test]
fn fields_are_those_that_xfs_db_prints() {
    for golden in golden::ALL {
        let core = InodeCore::prefix_of(golden.bytes).unwrap();
        let ours: Vec<_> = core.print_fields().flat_map(|field| lines(core, field, golden.bytes)).collect();
        let theirs: Vec<_> = golden.text.lines().filter_map(|line| line.split_once(" = ")).collect();
        for ((name, value), (their_name, their_value)) in ours.iter().zip(&theirs) {
            assert_eq!(name, their_name, "{}", golden.name);
            if let Some(value) = value {
                assert_eq!(value, their_value, "{}: {name}", golden.name);
            }
        }
        assert_eq!(ours.len(), theirs.len(), "{}", golden.name);
    }
}

#[test]
fn the_table_covers_the_core_without_gap_or_overlap() {
    let mut next_bit = 0;
    for field in InodeCore::FIELDS {
        assert_eq!(field.bit_offset, next_bit, "{}", field.name);
        next_bit += field.bit_length * field.count;
    }
    assert_eq!(next_bit, bits(InodeCore::SIZE_BYTES));
}
