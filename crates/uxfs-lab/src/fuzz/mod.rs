//! The bodies of the coverage-guided fuzz targets. They are here, so that kept crashes are replayed, and a slice of random
//! inputs is run, by an ordinary test.
//!
//! | module | holds |
//! |---|---|
//! | [`mod@superblock`] | the first bytes of any file |
//! | [`blocks`] | every block with a header of its own |
//! | [`mod@quota`] | blocks of quota records |
//! | [`mod@log`] | a whole log |
//! | [`mod@repair`] | check and repair of a whole image, undo files, dumps |
//! | [`forms`] | files around an image: partition tables, qcow2 disks, compressed files |
//! | [`mod@image`] | a whole image with damaged fields, read or edited |

pub mod blocks;
pub mod forms;
pub mod image;
pub mod log;
pub mod quota;
pub mod repair;
pub mod superblock;

use uxfs_format::fault::Structure;

use uxfs_testkit::structures::Instance;

/// A fuzz target: its name, and what it runs.
#[derive(Debug, Clone, Copy)]
pub struct Target {
    /// Name of the binary in `fuzz/` and of the folder of its kept crashes.
    pub name: &'static str,
    /// Runs one input. Panics where the promise is broken.
    pub run: fn(&[u8]),
    /// Longest input that makes sense.
    pub input_bytes_max: usize,
    /// The layouts of a target for blocks.
    pub layouts: &'static [blocks::Layout],
}

impl Target {
    /// A sound block of an image as an input of this target, if it is for such blocks.
    pub fn seed(&self, instance: &Instance, bytes: &[u8]) -> Option<Vec<u8>> {
        if self.name == "superblock" && instance.structure == Structure::Superblock {
            return Some(bytes.to_vec());
        }
        blocks::seed(self.layouts, instance.structure, bytes)
    }
}

const fn block_target(name: &'static str, run: fn(&[u8]), layouts: &'static [blocks::Layout]) -> Target {
    Target { name, run, input_bytes_max: 4097, layouts }
}

const fn form_target(name: &'static str, run: fn(&[u8])) -> Target {
    Target { name, run, input_bytes_max: forms::INPUT_BYTES_MAX, layouts: &[] }
}

/// All of them.
pub const TARGETS: [Target; 17] = [
    Target { name: "superblock", run: superblock::superblock, input_bytes_max: 512, layouts: &[] },
    block_target(
        "allocation_group",
        |b| blocks::block(blocks::ALLOCATION_GROUP, b),
        blocks::ALLOCATION_GROUP,
    ),
    block_target("btree", |b| blocks::block(blocks::BTREE, b), blocks::BTREE),
    block_target("inode", |b| blocks::block(blocks::INODE, b), blocks::INODE),
    block_target("directory", |b| blocks::block(blocks::DIRECTORY, b), blocks::DIRECTORY),
    block_target("attribute", |b| blocks::block(blocks::ATTRIBUTE, b), blocks::ATTRIBUTE),
    Target { name: "log", run: log::log, input_bytes_max: log::INPUT_BYTES_MAX, layouts: &[] },
    Target { name: "quota", run: quota::quota, input_bytes_max: 1025, layouts: &[] },
    Target { name: "image", run: image::image, input_bytes_max: 48, layouts: &[] },
    Target { name: "edit", run: image::edit, input_bytes_max: 12, layouts: &[] },
    Target { name: "check", run: repair::check, input_bytes_max: 240, layouts: &[] },
    Target { name: "repair", run: repair::repair, input_bytes_max: 240, layouts: &[] },
    Target { name: "undo_file", run: repair::undo_file, input_bytes_max: 16 << 10, layouts: &[] },
    Target { name: "restore", run: repair::restore_dump, input_bytes_max: 16 << 10, layouts: &[] },
    form_target(forms::NAMES[0], forms::partition_table),
    form_target(forms::NAMES[1], forms::qcow2),
    form_target(forms::NAMES[2], forms::packed),
];
