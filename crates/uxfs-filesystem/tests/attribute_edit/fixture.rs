//! Images, and what the judges say of them.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    os::unix::fs::{FileExt, MetadataExt, symlink},
    path::{Path, PathBuf},
    process::Command,
};

use rustix::fs::{CWD, FileType, Mode, lgetxattr, llistxattr, makedev, mknodat};
use uxfs_engine::inode::edit::{EditInode, InodeFork};
use uxfs_filesystem::filesystem::FileSystem;
use uxfs_format::{
    attribute::leaf,
    fault::Structure,
    inode::Fork,
    name_tree::{header::magic_of, node},
    units::InodeNumber,
};
use uxfs_testkit::{
    image::TestImage,
    mount::{Access, LoopMount},
    verdict,
};
use uxfs_volume::attribute::xattr::XattrView;

/// The attributes of each file, by the names that Linux has for them.
pub type Model = BTreeMap<String, BTreeMap<Vec<u8>, Vec<u8>>>;

/// An image in a folder of its own.
pub struct Image {
    image: TestImage,
    pub path: PathBuf,
    /// Inode numbers of the files that the kernel made, by name.
    pub files: BTreeMap<String, InodeNumber>,
}

/// Where an inode has its attributes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Form {
    NoFork,
    Empty,
    List,
    Leaf,
    Tree,
}

impl Image {
    /// Makes an image without files.
    pub fn empty(options: &[&str], size_mib: u64) -> Self {
        let image = TestImage::new("attributes", size_mib, options, 0);
        Self { path: image.path.clone(), image, files: BTreeMap::new() }
    }

    /// Lets the kernel make files.
    pub fn populate(&mut self, make: impl FnOnce(&Path)) {
        let mount = LoopMount::new(&self.path, Access::ReadWrite).unwrap();
        make(mount.path());
        for entry in fs::read_dir(mount.path()).unwrap() {
            let entry = entry.unwrap();
            let name = entry.file_name().into_string().unwrap();
            let number = fs::symlink_metadata(entry.path()).unwrap().ino();
            self.files.insert(name, InodeNumber::new(number));
        }
        mount.unmount().unwrap();
    }

    /// Opens it for changes.
    pub fn change(&self) -> FileSystem {
        self.image.mount_bulk()
    }

    /// The image is sound, and the kernel finds the attributes of the model.
    pub fn judge(&self, model: &Model) {
        verdict::repair_is_silent(&self.path).unwrap();
        let mount = LoopMount::new(&self.path, Access::ReadOnly).unwrap();
        for (file, attributes) in model {
            let path = mount.join(file);
            let names = list(&path);
            let expected: BTreeSet<Vec<u8>> = attributes.keys().cloned().collect();
            assert_eq!(names, expected, "names of {file}");
            for (name, value) in attributes {
                let found = get(&path, name);
                assert!(found == *value, "{file}: {}: {} bytes", String::from_utf8_lossy(name), found.len());
            }
        }
        mount.unmount().unwrap();
    }
}

/// One file of each kind that matters for the room that attributes have, without much in it.
pub fn make_files(root: &Path) {
    for name in ["empty", "data", "extents", "btree", "large-btree", "larger-btree"] {
        fs::write(root.join(name), "").unwrap();
    }
    for name in ["directory", "full-directory", "large-directory"] {
        fs::create_dir(root.join(name)).unwrap();
    }
    symlink("target", root.join("link")).unwrap();
    symlink("m".repeat(300), root.join("middle-link")).unwrap();
    symlink("l".repeat(1000), root.join("long-link")).unwrap();
    mknodat(CWD, root.join("device"), FileType::CharacterDevice, Mode::RUSR, makedev(5, 1)).unwrap();
    mknodat(CWD, root.join("fifo"), FileType::Fifo, Mode::RUSR, 0).unwrap();
}

/// Fills the files.
pub fn fill_files(root: &Path) {
    fs::write(root.join("data"), vec![7; 5000]).unwrap();
    // More extents than fit beside attributes, than fit at all, and than a small root has children for.
    for (name, extents) in [("extents", 18_u64), ("btree", 150), ("large-btree", 560), ("larger-btree", 1900)]
    {
        let file = fs::File::options().write(true).open(root.join(name)).unwrap();
        for index in 0..extents {
            file.write_all_at(b"x", index * 2 * 65536).unwrap();
        }
        file.sync_all().unwrap();
    }
    for index in 0..20 {
        fs::write(root.join(format!("full-directory/{index:02}name")), "").unwrap();
    }
    for index in 0..300 {
        fs::write(root.join(format!("large-directory/a-longer-name-{index:03}")), "").unwrap();
    }
}

/// What the kernel shows of the files beside their attributes.
pub fn contents(image: &Image) -> BTreeMap<String, String> {
    let mount = LoopMount::new(&image.path, Access::ReadOnly).unwrap();
    let output = Command::new("find")
        .arg(".")
        // The form of a directory may change, and with it its size.
        .args(["(", "-type", "d", "-printf", "%p %y %m %n\n", ")", "-o", "-printf", "%p %y %m %n %s %l\n"])
        .current_dir(mount.path())
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let mut all: BTreeMap<String, String> =
        text.lines().map(|line| (line.split(' ').next().unwrap().to_owned(), line.to_owned())).collect();
    for name in ["data", "extents", "btree"] {
        if let Ok(bytes) = fs::read(mount.join(name)) {
            let sum = bytes.iter().fold(0_u64, |sum, byte| sum.wrapping_mul(31).wrapping_add((*byte).into()));
            all.insert(format!("{name} bytes"), sum.to_string());
        }
    }
    mount.unmount().unwrap();
    all
}

/// All names that the kernel lists, access control lists only under their own.
pub fn list(path: &Path) -> BTreeSet<Vec<u8>> {
    let mut names = vec![0; 1 << 16];
    let length = llistxattr(path, names.as_mut_slice()).unwrap();
    let names = names[..length].split(|byte| *byte == 0).filter(|name| !name.is_empty());
    let is_acl = |name: &[u8]| name.starts_with(b"system.posix_acl");
    names.filter(|name| !is_acl(name)).map(<[u8]>::to_vec).collect()
}

/// A value as the kernel gives it.
pub fn get(path: &Path, name: &[u8]) -> Vec<u8> {
    let mut value = vec![0; 1 << 16];
    let length = lgetxattr(path, name, value.as_mut_slice()).unwrap_or_else(|error| {
        panic!("{}: {}: {error}", path.display(), String::from_utf8_lossy(name));
    });
    value.truncate(length);
    value
}

/// Our own reader finds the attributes of the model, in a file system that is being changed.
pub fn read_back(file_system: &FileSystem, number: InodeNumber, model: &BTreeMap<Vec<u8>, Vec<u8>>) {
    let inode = file_system.inode(number).unwrap();
    let mut found = BTreeMap::new();
    file_system
        .attributes(&inode)
        .unwrap()
        .visit_xattrs(XattrView::Root, |name, value| {
            found.insert(name.to_vec(), value.to_vec());
            Ok(std::ops::ControlFlow::Continue(()))
        })
        .unwrap();
    found.retain(|name, _| !name.starts_with(b"system.posix_acl"));
    assert_eq!(found.keys().collect::<Vec<_>>(), model.keys().collect::<Vec<_>>());
    assert!(found == *model, "values differ");
}

/// Where an inode that is being changed has its attributes.
pub fn form_of(file_system: &FileSystem, inode: &EditInode) -> Form {
    match &inode.attribute {
        None => Form::NoFork,
        Some(InodeFork::Local(_)) => Form::List,
        Some(_) => match inode.extents(Fork::Attribute).first() {
            None => Form::Empty,
            Some(extent) => {
                let geometry = file_system.geometry();
                let sector = geometry.sector_of_block(extent.start).unwrap();
                let root = file_system
                    .metadata()
                    .read(Structure::AttributeAnyIndex, sector, geometry.block_size_bytes)
                    .unwrap();
                match magic_of(&root).unwrap() {
                    node::MAGIC => Form::Tree,
                    magic => {
                        assert_eq!(magic, leaf::MAGIC);
                        Form::Leaf
                    }
                }
            }
        },
    }
}
