//! A description as a flat list of its smallest fields, filler included: what the field fuzzer damages.

use super::{Content, Description, Node, Place, value::column_place};

/// One field with its full name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leaf {
    /// As `xfs_db` would name it: `recs[3].startblock`.
    pub name: String,
    /// Where it lies.
    pub place: Place,
}

/// Every field of a description, each element of an array and each column of a record by itself.
pub fn leaves(description: &Description) -> Vec<Leaf> {
    let mut list = Vec::new();
    collect(&description.nodes, "", &mut list);
    list
}

fn collect(nodes: &[Node], prefix: &str, list: &mut Vec<Leaf>) {
    for node in nodes {
        collect_node(node, prefix, list);
    }
}

fn collect_node(node: &Node, prefix: &str, list: &mut Vec<Leaf>) {
    let name = &node.name;
    match &node.content {
        Content::Field(place) => list.push(Leaf { name: format!("{prefix}{name}"), place: *place }),
        Content::Array { first_index, count, first } => list.extend((0..*count).map(|index| {
            let bit_offset = first.bit_offset.wrapping_add(first.bit_length.wrapping_mul(index));
            let name = format!("{prefix}{name}[{}]", first_index.wrapping_add(index));
            Leaf { name, place: Place { bit_offset, ..*first } }
        })),
        Content::Table { first_index, count, bit_offset, stride_bits, columns } => {
            for index in 0..*count {
                let record = bit_offset.wrapping_add(stride_bits.wrapping_mul(index));
                let number = first_index.wrapping_add(index);
                list.extend(columns.iter().filter_map(|column| {
                    let name = format!("{prefix}{name}[{number}].{}", column.name);
                    Some(Leaf { name, place: column_place(record, column)? })
                }));
            }
        }
        Content::Struct(children) => collect(children, &format!("{prefix}{name}."), list),
        Content::List(elements) => {
            for (index, children) in elements.iter().enumerate() {
                collect(children, &format!("{prefix}{name}[{index}]."), list);
            }
        }
        Content::Empty => {}
    }
}
