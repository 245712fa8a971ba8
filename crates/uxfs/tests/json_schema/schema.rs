//! The schema, as far as it is used: a keyword that is not known here fails the test.

use std::collections::BTreeSet;

use regex::Regex;
use serde_json::{Map, Value};

/// The schema, and the documents and fields that were seen.
pub struct Schema {
    root: Value,
    pub seen: BTreeSet<String>,
}

impl Schema {
    pub fn new() -> Self {
        Self { root: serde_json::from_str(uxfs_cli::schema::JSON_SCHEMA).unwrap(), seen: BTreeSet::new() }
    }

    pub fn definitions(&self) -> &Map<String, Value> {
        self.root["$defs"].as_object().unwrap()
    }

    /// The documents that a command prints.
    fn documents_of(&self, command: &str) -> Vec<String> {
        let has = |definition: &Value| {
            let commands = definition["commands"].as_array();
            commands.is_some_and(|commands| commands.iter().any(|one| one == command))
        };
        let found = self.definitions().iter().filter(|(_, definition)| has(definition));
        found.map(|(name, _)| name.clone()).collect()
    }

    /// Whether a command may print this line; else why not.
    pub fn judge(&mut self, command: &str, line: &str) -> Result<(), String> {
        let instance: Value = serde_json::from_str(line).map_err(|error| format!("no JSON: {error}"))?;
        let documents = self.documents_of(command);
        if documents.is_empty() {
            return Err("no document of the schema is of this command".to_owned());
        }
        let mut reasons = Vec::new();
        for document in documents {
            let mut seen = Vec::new();
            let reference = serde_json::json!({ "$ref": format!("#/$defs/{document}") });
            match self.check(&reference, &instance, "", &mut seen) {
                Ok(()) => {
                    self.seen.extend(seen);
                    return Ok(());
                }
                Err(reason) => reasons.push(format!("{document}: {reason}")),
            }
        }
        Err(reasons.join("\n  "))
    }

    fn check(
        &self,
        schema: &Value,
        instance: &Value,
        definition: &str,
        seen: &mut Vec<String>,
    ) -> Result<(), String> {
        for (keyword, value) in schema.as_object().unwrap() {
            self.check_keyword((keyword, value), schema, instance, definition, seen).map_err(|reason| {
                if definition.is_empty() { reason } else { format!("{definition}: {reason}") }
            })?;
        }
        Ok(())
    }

    fn check_keyword(
        &self,
        (keyword, value): (&str, &Value),
        schema: &Value,
        instance: &Value,
        definition: &str,
        seen: &mut Vec<String>,
    ) -> Result<(), String> {
        let is = |is_right: bool| {
            if is_right { Ok(()) } else { Err(format!("{instance} is against {keyword}: {value}")) }
        };
        match keyword {
            "description" | "commands" => Ok(()),
            "$ref" => {
                let name = value.as_str().unwrap().strip_prefix("#/$defs/").unwrap();
                seen.push(name.to_owned());
                self.check(&self.definitions()[name], instance, name, seen)
            }
            "type" => is(match value {
                Value::Array(types) => types.iter().any(|one| is_of_type(instance, one)),
                one => is_of_type(instance, one),
            }),
            "enum" => is(value.as_array().unwrap().contains(instance)),
            "const" => is(instance == value),
            "minimum" => is(instance.as_f64().is_none_or(|number| number >= value.as_f64().unwrap())),
            "maximum" => is(instance.as_f64().is_none_or(|number| number <= value.as_f64().unwrap())),
            "minItems" => {
                is(instance.as_array().is_none_or(|list| list.len() as u64 >= value.as_u64().unwrap()))
            }
            "maxItems" => {
                is(instance.as_array().is_none_or(|list| list.len() as u64 <= value.as_u64().unwrap()))
            }
            "pattern" => {
                let pattern = Regex::new(value.as_str().unwrap()).unwrap();
                is(instance.as_str().is_none_or(|text| pattern.is_match(text)))
            }
            "required" => {
                let mut names = value.as_array().unwrap().iter();
                is(names.all(|name| instance.get(name.as_str().unwrap()).is_some()))
            }
            "items" => {
                let items = instance.as_array().map_or(&[][..], Vec::as_slice);
                items.iter().try_for_each(|item| self.check(value, item, definition, seen))
            }
            "properties" => {
                for (name, field) in instance.as_object().into_iter().flatten() {
                    if let Some(schema) = value.get(name) {
                        seen.push(format!("{definition}.{name}"));
                        self.check(schema, field, definition, seen)
                            .map_err(|reason| format!("{name}: {reason}"))?;
                    }
                }
                Ok(())
            }
            "additionalProperties" => {
                let known =
                    |name: &String| schema.get("properties").is_some_and(|known| known.get(name).is_some());
                let others = instance.as_object().into_iter().flatten().filter(|(name, _)| !known(name));
                for (name, field) in others {
                    match value {
                        Value::Bool(false) => return Err(format!("{name} is not in the schema")),
                        value => self.check(value, field, definition, seen)?,
                    }
                }
                Ok(())
            }
            _ => panic!("the keyword {keyword} is not known here"),
        }
    }

    /// Documents, and fields that are not always there, that were not seen.
    pub fn unseen(&self) -> BTreeSet<String> {
        let mut unseen = BTreeSet::new();
        for (name, definition) in self.definitions() {
            if !self.seen.contains(name) {
                unseen.insert(name.clone());
                continue;
            }
            let required = definition["required"].as_array().unwrap();
            for property in definition["properties"].as_object().unwrap().keys() {
                let full = format!("{name}.{property}");
                if !required.iter().any(|one| one == property) && !self.seen.contains(&full) {
                    unseen.insert(full);
                }
            }
        }
        unseen
    }

    /// Each document is one of the root, each other definition part of a document, and each field is described.
    pub fn is_in_order(&self) {
        let listed: BTreeSet<_> =
            self.root["anyOf"].as_array().unwrap().iter().map(|one| one["$ref"].as_str()).collect();
        let text = self.root["$defs"].to_string();
        for (name, definition) in self.definitions() {
            let reference = format!("#/$defs/{name}");
            match definition.get("commands") {
                Some(_) => assert!(listed.contains(&Some(reference.as_str())), "{name} is not in anyOf"),
                None => assert!(text.contains(&format!("\"{reference}\"")), "{name} is part of nothing"),
            }
            assert_eq!(definition["additionalProperties"], false, "{name}");
            assert!(definition["description"].is_string(), "{name} is not described");
            for (field, schema) in definition["properties"].as_object().unwrap() {
                let is_described = schema.get("description").is_some() || schema.get("$ref").is_some();
                assert!(is_described, "{name}.{field} is not described");
            }
        }
    }
}

fn is_of_type(instance: &Value, name: &Value) -> bool {
    match name.as_str().unwrap() {
        "object" => instance.is_object(),
        "array" => instance.is_array(),
        "string" => instance.is_string(),
        "integer" => instance.is_i64() || instance.is_u64(),
        "number" => instance.is_number(),
        "boolean" => instance.is_boolean(),
        "null" => instance.is_null(),
        name => panic!("the type {name} is not known here"),
    }
}
