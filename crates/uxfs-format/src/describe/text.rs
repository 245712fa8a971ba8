//! A description as `xfs_db print` writes it: one `name = value` a line, arrays on one line, records one a line.

use std::fmt::{self, Write};

use super::{
    Content, Description, Format, Node, Place,
    value::{Value, Written, column_place, is_left_out, read},
};
use crate::field_table::{Field, FieldFormat};

/// Writes `description` of `bytes`.
///
/// # Errors
/// The sink's.
pub fn write(description: &Description, bytes: &[u8], sink: &mut dyn Write) -> fmt::Result {
    write_nodes(&description.nodes, bytes, "", sink)
}

/// Whether a value is printed at all.
pub(super) fn is_shown(format: Format) -> bool {
    format != Format::Table(FieldFormat::Padding)
}

fn write_nodes(nodes: &[Node], bytes: &[u8], prefix: &str, sink: &mut dyn Write) -> fmt::Result {
    nodes.iter().try_for_each(|node| write_node(node, bytes, prefix, sink))
}

fn write_node(node: &Node, bytes: &[u8], prefix: &str, sink: &mut dyn Write) -> fmt::Result {
    let name = &node.name;
    match &node.content {
        Content::Field(place) if !is_shown(place.format) => Ok(()),
        Content::Field(place) => write_field(prefix, name, bytes, place, sink),
        Content::Array { first, .. } if !is_shown(first.format) => Ok(()),
        Content::Array { first_index, count, first } => {
            write_heading(prefix, name, *first_index, *count, sink)?;
            write_array(bytes, (*first_index, *count), first, sink)
        }
        Content::Table { first_index, count, bit_offset, stride_bits, columns } => {
            write_heading(prefix, name, *first_index, *count, sink)?;
            write_column_names(columns, sink)?;
            for index in 0..*count {
                let record = bit_offset.wrapping_add(stride_bits.wrapping_mul(index));
                write!(sink, "\n{}:", first_index.wrapping_add(index))?;
                write_record(bytes, record, columns, sink)?;
                sink.write_str(if index.wrapping_add(1) < *count { " " } else { "\n" })?;
            }
            Ok(())
        }
        Content::Struct(children) => write_nodes(children, bytes, &format!("{prefix}{name}."), sink),
        Content::List(elements) => elements.iter().enumerate().try_for_each(|(index, children)| {
            write_nodes(children, bytes, &format!("{prefix}{name}[{index}]."), sink)
        }),
        Content::Empty => writeln!(sink, "{prefix}{name} = (empty)"),
    }
}

fn write_field(prefix: &str, name: &str, bytes: &[u8], place: &Place, sink: &mut dyn Write) -> fmt::Result {
    let Some(value) = read(bytes, place) else { return Ok(()) };
    if let (Value::Time { nanoseconds, .. }, Format::Time { .. } | Format::Table(FieldFormat::Timestamp)) =
        (value, place.format)
    {
        writeln!(sink, "{prefix}{name}.sec = {}", Written(value, place.format))?;
        return writeln!(sink, "{prefix}{name}.nsec = {nanoseconds}");
    }
    if is_left_out(&value, place.format) {
        return writeln!(sink, "{prefix}{name} = ");
    }
    writeln!(sink, "{prefix}{name} = {}", Written(value, place.format))
}

/// `name[first-last] = `, or `name[first] = ` of a single element.
fn write_heading(prefix: &str, name: &str, first: u32, count: u32, sink: &mut dyn Write) -> fmt::Result {
    if count > 1 {
        let last = first.wrapping_add(count).wrapping_sub(1);
        return write!(sink, "{prefix}{name}[{first}-{last}] = ");
    }
    write!(sink, "{prefix}{name}[{first}] = ")
}

fn write_array(bytes: &[u8], (base, count): (u32, u32), first: &Place, sink: &mut dyn Write) -> fmt::Result {
    for index in 0..count {
        let bit_offset = first.bit_offset.wrapping_add(first.bit_length.wrapping_mul(index));
        let Some(value) = read(bytes, &Place { bit_offset, ..*first }) else { break };
        if is_left_out(&value, first.format) {
            continue;
        }
        if count > 1 {
            write!(sink, "{}:", base.wrapping_add(index))?;
        }
        write!(sink, "{}", Written(value, first.format))?;
        if index.wrapping_add(1) < count {
            sink.write_str(" ")?;
        }
    }
    sink.write_str("\n")
}

/// The columns that are printed.
pub(super) fn shown_columns(columns: &[Field]) -> impl Iterator<Item = &Field> {
    columns.iter().filter(|column| column.format != FieldFormat::Padding)
}

fn write_column_names(columns: &[Field], sink: &mut dyn Write) -> fmt::Result {
    let mut separator = '[';
    for column in shown_columns(columns) {
        write!(sink, "{separator}{}", column.name)?;
        separator = ',';
    }
    sink.write_str("] ")
}

fn write_record(bytes: &[u8], record: u32, columns: &[Field], sink: &mut dyn Write) -> fmt::Result {
    let mut separator = '[';
    for column in shown_columns(columns) {
        sink.write_char(separator)?;
        separator = ',';
        let value = column_place(record, column).and_then(|place| Some((read(bytes, &place)?, place.format)));
        if let Some((value, format)) = value {
            write!(sink, "{}", Written(value, format))?;
        }
    }
    sink.write_str("]")
}
