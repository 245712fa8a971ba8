//! Classes of damage, as the README and its picture have them.

/// The classes, in order, each with the first parts of the names of its kinds.
pub const CLASSES: [(&str, &[&str]); 11] = [
    (
        "superblocks and headers of groups",
        &["superblock", "superblock-copy", "agf", "agi", "agfl", "headers", "headers-and-btrees"],
    ),
    (
        "btrees of groups",
        &[
            "bnobt-root",
            "bnobt",
            "cntbt-root",
            "cntbt",
            "bnobt-and-cntbt",
            "inobt-root",
            "inobt",
            "finobt-root",
            "finobt",
            "inobt-and-finobt",
            "rmapbt-root",
            "rmapbt",
            "refcountbt-root",
            "refcountbt",
        ],
    ),
    (
        "inodes",
        &["inode-cluster", "root-inode", "directory-inode", "file-inode", "symlink-inode", "special-inode"],
    ),
    (
        "the root, a large or a third of all directories",
        &["root-directory-lost", "large-directory-lost", "third-of-directories-lost"],
    ),
    ("extent maps", &["bmbt"]),
    (
        "directory blocks",
        &[
            "directory-block",
            "directory-data",
            "directory-leaf",
            "directory-leafn",
            "directory-node",
            "directory-free",
        ],
    ),
    (
        "attributes, targets of symbolic links",
        &["attribute-leaf", "attribute-node", "attribute-remote", "symlink-remote"],
    ),
    ("first or last MiB of the image or a group", &["first-mib", "last-mib", "group-first-mib"]),
    ("1 to 200 blocks of any kind", &["any-block"]),
    ("all metadata, or every byte, of a group", &["group-metadata", "whole-group"]),
    (
        "stretches of the device: torn, stale, moved, overwritten",
        &[
            "stretch-4k",
            "stretch-64k",
            "stretch-1024k",
            "every-37th-of-4096",
            "every-101th-of-512",
            "every-3th-of-65536",
            "every-5th-of-65536",
            "every-4th-of-262144",
            "log",
            "device",
            "group",
            "sector-headers",
            "torn-blocks",
            "torn-sectors",
            "bits",
            "other-file-system",
        ],
    ),
];

/// The class of a kind of damage.
pub fn class_of(kind: &str) -> &'static str {
    let object = part(kind, 0);
    let class = CLASSES.iter().find(|(_, objects)| objects.contains(&object));
    class.map_or("other", |(class, _)| *class)
}

/// A part of a kind's name: 0 is the object, 1 the change, 2 how many.
pub fn part(kind: &str, index: usize) -> &str {
    kind.split('/').nth(index).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::super::catalogue;
    use super::*;

    #[test]
    fn every_kind_has_a_class() {
        for kind in catalogue::full() {
            assert_ne!(class_of(&kind.name), "other", "{}", kind.name);
        }
        assert_eq!(part("agf/zero/1", 1), "zero");
    }
}
