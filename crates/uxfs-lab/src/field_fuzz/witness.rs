//! Fields whose value nothing else on the image tells: a change of one that leaves a possible value cannot be found, and one that is found
//! cannot be undone. Copies in the log are not counted: whether they are there is chance.

use uxfs_format::{fault::Structure, field_table::OnDisk, geometry::Geometry, inode::InodeCore};

/// As [`missing`], for a field that had a number and has another now: of a length that is stored rounded up, the last bits are lost.
pub fn missing_of_change(
    structure: Structure,
    field: &str,
    geometry: &Geometry,
    [before, after]: [u64; 2],
) -> Option<&'static str> {
    let is_within_padding = structure == Structure::AttributeLeaf
        && field == "nvlist[].valuelen"
        && before.abs_diff(after) < ATTRIBUTE_ALIGNMENT_BYTES;
    // Behind a target in an inode anything may lie.
    let is_shorter_target = structure == Structure::Inode
        && field == "symlink core.size"
        && before.saturating_add(InodeCore::SIZE_BYTES as u64) <= geometry.inode_size() as u64
        && after < before;
    missing(structure, field, geometry)
        .or(is_shorter_target.then_some("where a target in an inode ends is stored once"))
        .or(is_within_padding.then_some("which bytes at the end are padding is stored once"))
}

/// Names and values in a leaf take multiples of this.
const ATTRIBUTE_ALIGNMENT_BYTES: u64 = 4;

/// Extent map and reverse map have it.
const PLACE_IN_FILE: &str =
    "where blocks lie in a file is stored twice, and nothing else tells which of two is right";

/// The list has it, and the parent pointer. Neither has a hash, unless the inode's attributes lie in blocks.
const NAME_IN_LIST: &str =
    "names in a directory's list are stored twice, and nothing else tells which of two is right";

/// Why the value of a field is lost with it; `None` where something else tells it. `field` is without indices, and of an inode begins
/// with its file type.
pub fn missing(structure: Structure, field: &str, geometry: &Geometry) -> Option<&'static str> {
    use Structure as S;
    match structure {
        S::Inode => of_inode(field.split_once(' ').map_or(field, |(_, name)| name), field, geometry),
        S::ExtentMap if field == "recs[].startoff" => Some(PLACE_IN_FILE),
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
        // Read the other way, times are other ones. Only where those cannot be, others tell.
        "v3.bigtime" => Some("how times are written is stored once"),
        // Whether extents are shared or counted at length follows from others.
        "v3.reflink" | "v3.nrext64" | "v3.metadata" => None,
        _ if FLAGS.contains(&name.split_once('.').map_or(name, |(_, flag)| flag)) => {
            Some("flags are stored once")
        }
        "core.size" if whole.starts_with("regular") => {
            Some("where a file ends within its extents is stored once")
        }
        "u3.bmx[].startoff" => Some(PLACE_IN_FILE),
        "core.extsize" | "v3.cowextsize" => Some("hints are stored once"),
        "u3.dev" => Some("device numbers are stored once"),
        "u3.symlink" => Some("targets are stored once"),
        "u3.sfdir3.list[].name" if geometry.features.has_parent_pointers() => Some(NAME_IN_LIST),
        _ if is_entry && !geometry.features.has_parent_pointers() => Some("names are stored once"),
        // The two lengths add up to what the list has, and nothing between them says where the name ends.
        "a.sfattr.list[].namelen" | "a.sfattr.list[].valuelen" => Some("where a name ends is stored once"),
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
