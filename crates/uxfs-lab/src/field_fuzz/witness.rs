//! Fields whose value nothing else on the image tells: a change of one that leaves a possible value cannot be found, and one that is found
//! cannot be undone. Copies in the log are not counted: whether they are there is chance.

use uxfs_format::{fault::Structure, geometry::Geometry};

/// Why the value of a field is lost with it; `None` where something else tells it. `field` is without indices, and of an inode begins
/// with its file type.
pub fn missing(structure: Structure, field: &str, geometry: &Geometry) -> Option<&'static str> {
    use Structure as S;
    match structure {
        S::Inode => of_inode(field.split_once(' ').map_or(field, |(_, name)| name), field, geometry),
        S::Symlink if field == "data" => Some("targets are stored once"),
        S::AttributeRemoteValue if field == "data" => Some("values are stored once"),
        S::AttributeLeaf => of_attribute(field),
        _ => None,
    }
}

fn of_inode(name: &str, whole: &str, geometry: &Geometry) -> Option<&'static str> {
    let is_entry = name.starts_with("u3.sfdir3.list[]");
    match name {
        "core.uid" | "core.gid" | "core.projid_lo" | "core.projid_hi" => Some("owners are stored once"),
        "core.mode" => Some("permissions are stored once"),
        "core.atime" | "core.mtime" | "core.ctime" | "v3.crtime" => Some("times are stored once"),
        // Whether times are one number, and extents are shared or counted at length, follows from others.
        "v3.bigtime" | "v3.reflink" | "v3.nrext64" | "v3.metadata" => None,
        _ if FLAGS.contains(&name.split_once('.').map_or(name, |(_, flag)| flag)) => {
            Some("flags are stored once")
        }
        "core.size" if whole.starts_with("regular") => {
            Some("where a file ends within its extents is stored once")
        }
        "core.extsize" | "v3.cowextsize" => Some("hints are stored once"),
        "u3.dev" => Some("device numbers are stored once"),
        "u3.symlink" => Some("targets are stored once"),
        _ if is_entry && !geometry.features.has_parent_pointers() => Some("names are stored once"),
        _ => name.strip_prefix("a.sfattr.").and_then(of_attribute),
    }
}

/// Flags of inodes, as fields.
const FLAGS: [&str; 18] = [
    "flags",
    "flags2",
    "realtime",
    "prealloc",
    "newrtbm",
    "immutable",
    "append",
    "sync",
    "noatime",
    "nodump",
    "rtinherit",
    "projinherit",
    "nosymlinks",
    "extsz",
    "extszinherit",
    "nodefrag",
    "filestream",
    "dax",
];

fn of_attribute(name: &str) -> Option<&'static str> {
    let end = name.rsplit('.').next().unwrap_or(name);
    ["name", "value", "root", "secure", "incomplete"].contains(&end).then_some("attributes are stored once")
}
