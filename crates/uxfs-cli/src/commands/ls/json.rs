//! Entries as documents. `docs/json.md` describes them; change both together.

use serde::Serialize;
use uxfs_volume::inode::Inode;

use crate::{
    document::{JsonInode, type_name},
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

/// One line with `-l`.
#[derive(Serialize)]
struct JsonLongEntry<'a> {
    path: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    path_hex: Option<&'a str>,
    #[serde(flatten)]
    inode: JsonInode,
    #[serde(skip_serializing_if = "Option::is_none")]
    user: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    group: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    context: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    target: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    target_hex: Option<String>,
}

/// What a document has beside the inode.
#[derive(Debug, Default)]
pub struct Beside<'a> {
    /// Name of the owner.
    pub user: Option<&'a str>,
    /// Name of the group.
    pub group: Option<&'a str>,
    /// Security context, where it is wanted and there is one.
    pub context: Option<&'a [u8]>,
    /// Target of a symbolic link.
    pub target: Option<&'a [u8]>,
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

/// Prints the document of an entry with all of its inode.
pub fn print_long(
    output: &mut Output,
    path: &[u8],
    inode: &Inode,
    beside: &Beside<'_>,
) -> Result<(), Failure> {
    let (path, target) = (JsonName::new(path), beside.target.map(JsonName::new));
    output.json(&JsonLongEntry {
        path: path.text(),
        path_hex: path.hex(),
        inode: JsonInode::new(inode),
        user: beside.user,
        group: beside.group,
        context: beside.context.map(|context| String::from_utf8_lossy(context).into_owned()),
        target: target.as_ref().map(|target| target.text().to_owned()),
        target_hex: target.as_ref().and_then(|target| target.hex().map(str::to_owned)),
    })?;
    Ok(())
}
