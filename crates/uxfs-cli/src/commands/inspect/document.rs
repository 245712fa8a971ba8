//! A structure as JSON: the names of `xfs_db` as nested objects, arrays and tables as arrays (from index 0, also where
//! `xfs_db` counts from 1), tables of records as arrays of objects.

use serde_json::{Map, Value as Json, json};
use uxfs_format::{
    describe::{
        Content, Description, Format, Node, Place,
        value::{Value, column_place, read},
    },
    field_table::{Field, FieldFormat},
};
use uxfs_volume::inspect::StructureOnDisk;

use crate::output::JsonName;

/// The document of one structure.
pub fn new(found: &StructureOnDisk, description: &Description) -> Json {
    let location = &found.location;
    json!({
        "structure": found.structure.name(),
        "sector": location.sector.map(|sector| sector.get()),
        "group": location.group.map(|group| group.get()),
        "group_block": location.group_block.map(|block| block.get()),
        "inode": location.inode.map(|inode| inode.get()),
        "file_block": location.file_block.map(|block| block.get()),
        "length_bytes": found.bytes.len(),
        "problem": found.problem.as_ref().map(ToString::to_string),
        "fields": nodes(&description.nodes, &found.bytes),
    })
}

/// The fields of one structure alone.
pub fn fields(description: &Description, bytes: &[u8]) -> Json {
    nodes(&description.nodes, bytes)
}

fn nodes(nodes: &[Node], bytes: &[u8]) -> Json {
    let mut object = Json::Object(Map::new());
    for node in nodes {
        if let Some(value) = content(&node.content, bytes) {
            insert(&mut object, &node.name, value);
        }
    }
    object
}

/// Puts a value under a name such as `hdr.bestfree[1].length`.
fn insert(object: &mut Json, name: &str, value: Json) {
    let mut place = object;
    for part in name.split('.') {
        let (key, index) = match part.split_once('[') {
            Some((key, index)) => (key, index.trim_end_matches(']').parse().ok()),
            None => (part, None::<usize>),
        };
        if !place.is_object() {
            *place = Json::Object(Map::new());
        }
        let Json::Object(map) = place else { return };
        place = map.entry(key).or_insert(Json::Null);
        let Some(index) = index else { continue };
        if !place.is_array() {
            *place = Json::Array(Vec::new());
        }
        let Json::Array(list) = place else { return };
        // Indices in names come from field tables, never from the image.
        while list.len() <= index {
            list.push(Json::Null);
        }
        match list.get_mut(index) {
            Some(element) => place = element,
            None => return,
        }
    }
    *place = value;
}

fn content(content: &Content, bytes: &[u8]) -> Option<Json> {
    Some(match content {
        Content::Field(place) => field(bytes, place)?,
        Content::Array { count, first, .. } => {
            let elements = (0..*count).map(|index| {
                let bit_offset = first.bit_offset + first.bit_length * index;
                field(bytes, &Place { bit_offset, ..*first })
            });
            elements.collect::<Option<_>>()?
        }
        Content::Table { count, bit_offset, stride_bits, columns, .. } => {
            (0..*count).map(|index| record(bytes, bit_offset + stride_bits * index, columns)).collect()
        }
        Content::Struct(children) => nodes(children, bytes),
        Content::List(elements) => elements.iter().map(|children| nodes(children, bytes)).collect(),
        Content::Empty => Json::Null,
    })
}

fn record(bytes: &[u8], record_bit_offset: u32, columns: &[Field]) -> Json {
    let values = columns.iter().filter_map(|column| {
        let place = column_place(record_bit_offset, column)?;
        Some((column.name.to_owned(), field(bytes, &place)?))
    });
    Json::Object(values.collect())
}

/// One value; `None` for filler.
fn field(bytes: &[u8], place: &Place) -> Option<Json> {
    if place.format == Format::Table(FieldFormat::Padding) {
        return None;
    }
    Some(match read(bytes, place)? {
        Value::Unsigned { is_null: true, .. } => Json::Null,
        Value::Unsigned { number, .. } => number.into(),
        Value::Signed(number) => number.into(),
        Value::Checksum { number, correct } => json!({"value": number, "correct": correct}),
        Value::Uuid(uuid) => uuid.to_string().into(),
        Value::Bytes(text) => {
            let name = JsonName::new(text);
            match name.hex() {
                Some(hex) => json!({"text": name.text(), "hex": hex}),
                None => name.text().into(),
            }
        }
        Value::Time { seconds, nanoseconds } => json!({"seconds": seconds, "nanoseconds": nanoseconds}),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_with_dots_and_indices_become_nested() {
        let mut object = json!({});
        insert(&mut object, "hdr.magic", 1.into());
        insert(&mut object, "hdr.map[1].size", 2.into());
        insert(&mut object, "hdr.map[0].size", 3.into());
        assert_eq!(object, json!({"hdr": {"magic": 1, "map": [{"size": 3}, {"size": 2}]}}));
    }
}
