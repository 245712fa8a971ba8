//! Entries as documents. `docs/json.md` describes them; change both together.

use serde::Serialize;

use crate::{
    document::type_name,
    failure::Failure,
    listing::Listed,
    output::{JsonName, Output},
};

/// One line.
#[derive(Serialize)]
struct JsonEntry<'a> {
    path: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    path_hex: Option<&'a str>,
    inode: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    r#type: Option<&'static str>,
}

/// Prints the document of an entry.
pub fn print_short(output: &mut Output, path: &[u8], listed: Listed) -> Result<(), Failure> {
    let path = JsonName::new(path);
    output.json(&JsonEntry {
        path: path.text(),
        path_hex: path.hex(),
        inode: listed.inode.get(),
        r#type: listed.file_type.map(type_name),
    })?;
    Ok(())
}
