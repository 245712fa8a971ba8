//! The document of a name that differs. `docs/json.md` describes it; change both together.

use serde_json::{Map, Value, json};

use super::{
    both::Side,
    compare::{Difference, Kind},
    facts::Facts,
    field::{Field, Fields},
};
use crate::{
    document::{JsonTime, type_name},
    output::JsonName,
};

/// The document of a difference.
pub(super) fn document(difference: &Difference) -> Value {
    let mut document = Map::new();
    name_into(&mut document, "path", &difference.path);
    document.insert("change".to_owned(), difference.kind.word().into());
    let fields = match difference.kind {
        Kind::Fields(fields) => fields,
        _ => Fields::default(),
    };
    let words: Vec<&str> = fields.iter().map(Field::word).collect();
    document.insert("fields".to_owned(), words.into());
    for (side, name) in [(Side::First, "first"), (Side::Second, "second")] {
        if let Some(facts) = difference.facts.at(side) {
            let target = difference.targets.at(side).as_deref();
            document.insert(name.to_owned(), side_document(facts, fields, target));
        }
    }
    let (told, others) = &difference.attributes;
    if !told.is_empty() {
        let attributes = told.iter().map(|(name, change)| {
            let mut attribute = Map::new();
            name_into(&mut attribute, "name", name);
            attribute.insert("change".to_owned(), change.word().into());
            Value::Object(attribute)
        });
        document.insert("attributes".to_owned(), attributes.collect());
        document.insert("other_attributes".to_owned(), (*others).into());
    }
    Value::Object(document)
}

fn name_into(document: &mut Map<String, Value>, field: &str, bytes: &[u8]) {
    let name = JsonName::new(bytes);
    document.insert(field.to_owned(), name.text().into());
    if let Some(hex) = name.hex() {
        document.insert(format!("{field}_hex"), hex.into());
    }
}

/// The fields of one side that differ.
fn side_document(facts: &Facts, fields: Fields, target: Option<&[u8]>) -> Value {
    let mut document = Map::new();
    document.insert("type".to_owned(), facts.file_type.map_or("unknown", type_name).into());
    for field in fields.iter() {
        let time = |time| json!(JsonTime::from(time));
        let (name, value) = match field {
            Field::Size => ("size_bytes", facts.size_bytes.into()),
            Field::Mode => ("mode", format!("{:04o}", facts.permissions).into()),
            Field::Owner => ("uid", facts.uid.into()),
            Field::Group => ("gid", facts.gid.into()),
            Field::Device => ("device", json!({"major": facts.device.0, "minor": facts.device.1})),
            Field::Project => ("project_id", facts.in_image.map(|more| more.project_id).into()),
            Field::Flags => ("flags", facts.flag_names().into()),
            Field::Mtime => ("modification_time", time(facts.modification_time)),
            Field::Atime => ("access_time", time(facts.access_time)),
            Field::Ctime => ("change_time", time(facts.change_time)),
            Field::Btime => {
                ("creation_time", json!(facts.in_image.map(|more| JsonTime::from(more.creation_time))))
            }
            Field::Target | Field::Contents | Field::Links | Field::Xattr | Field::Acl => continue,
        };
        document.insert(name.to_owned(), value);
    }
    if let Some(target) = target {
        name_into(&mut document, "target", target);
    }
    Value::Object(document)
}
