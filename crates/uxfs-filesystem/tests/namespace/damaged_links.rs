//! Link counts and parent pointers that lie: no file loses a name, or its last one, by them.

use uxfs_engine::{bulk::create::NewKind, options::LogOptions};
use uxfs_filesystem::{
    file::Touch,
    filesystem::FileSystem,
    inode::table::InodeHandle,
    operations::{create::NewFile, rename::RenameOptions},
};
use uxfs_format::{directory::entry_fault::EntryFault, fault::Fault, units::InodeNumber};
use uxfs_testkit::{
    image::{TestImage, file},
    judges::{self, Judge},
    require,
    xfs_db::XfsDb,
};
use uxfs_volume::error::{Error, Result};

use super::free_mask::xfs_db;

const CONTENTS_BYTES: usize = 8 << 20;

/// A file of two names, an empty directory and one in it, a file of one name.
struct Damaged {
    image: TestImage,
    linked: InodeNumber,
    directory: InodeNumber,
    single: InodeNumber,
}

impl Damaged {
    fn new() -> Self {
        let image = TestImage::new("damaged links", 320, &["-n", "parent=1"], 2);
        let fs = image.mount_logged(LogOptions::default());
        let root = fs.open_root().unwrap();
        let (linked, single) = (file(&fs, 0), file(&fs, 1));
        fs.link(&fs.open(linked).unwrap(), &root, b"other").unwrap();
        // Pieces between holes: more than goes with a last name at once.
        let single_handle = fs.open(single).unwrap();
        for offset in (0..CONTENTS_BYTES as u64).step_by(8192) {
            fs.write(&single_handle, offset, &[7; 4096], Touch::NOTHING).unwrap();
        }
        let directory = fs.create(&root, b"directory", &NewFile::new(NewKind::Directory, 0o755)).unwrap();
        let number = directory.number();
        drop((root, directory, single_handle));
        fs.close().unwrap();
        Self { image, linked, directory: number, single }
    }

    /// Damages an inode, and gives the error of what is done then. Nothing may have changed, and the file system goes on.
    fn refuses(
        &self,
        inode: InodeNumber,
        damage: &str,
        change: impl Fn(&FileSystem, &InodeHandle) -> Result<()>,
    ) -> EntryFault {
        xfs_db(&self.image, &[format!("inode {inode}"), damage.to_owned()]);
        let fs = self.image.mount_logged(LogOptions::default());
        let root = fs.open_root().unwrap();
        let error = change(&fs, &root).unwrap_err();
        let Error::Corrupt(corruption) = &error else { panic!("{damage}: {error}") };
        let Fault::Entry(fault) = corruption.fault else { panic!("{damage}: {error}") };
        // A damaged link count is not believed when the last handle goes, either.
        assert!(fs.inactivate_pending().is_ok());
        fs.create(&root, b"new", &NewFile::new(NewKind::Regular, 0o600)).unwrap();
        fs.unlink(&root, b"new").unwrap();
        drop(root);
        fs.close().unwrap();
        judges::judged("xfs_db", &format!("{damage}: {error}"));
        fault
    }
}

#[test]
fn a_link_count_that_is_too_low_takes_no_file_away() {
    require!(Judge::Mkfs, Judge::XfsDb);
    let damaged = Damaged::new();
    let fault = damaged.refuses(damaged.linked, "write core.nlinkv2 1", |fs, root| fs.unlink(root, b"other"));
    assert_eq!(fault, EntryFault::MoreParentPointers { inode: damaged.linked, links: 1 });
    let fault =
        damaged.refuses(damaged.single, "write core.nlinkv2 0", |fs, root| fs.unlink(root, b"file-1"));
    assert_eq!(fault, EntryFault::LinkCount { inode: damaged.single, links: 0 });
}

#[test]
fn the_link_count_of_a_directory_must_be_right_before_it_goes() {
    require!(Judge::Mkfs, Judge::XfsDb);
    for links in [1, 3] {
        let damaged = Damaged::new();
        let damage = format!("write core.nlinkv2 {links}");
        let fault =
            damaged.refuses(damaged.directory, &damage, |fs, root| fs.remove_directory(root, b"directory"));
        assert_eq!(fault, EntryFault::LinkCount { inode: damaged.directory, links });
    }
}

/// The superblock of a hostile image can count very many inodes: the number of steps up must not depend on it.
#[test]
fn directories_that_lie_above_themselves_get_no_others_below_them() {
    require!(Judge::Mkfs, Judge::XfsDb);
    let damaged = Damaged::new();
    let number = damaged.directory;
    let damage = format!("write u3.sfdir3.hdr.parent.i4 {number}");
    let fault = damaged.refuses(number, &damage, |fs, root| {
        let moved = NewFile::new(NewKind::Directory, 0o755);
        drop(fs.create(root, b"moved", &moved)?);
        fs.rename(root, b"moved", &fs.open(number)?, b"moved", &RenameOptions::default())
    });
    assert_eq!(fault, EntryFault::AboveItself { inode: number });
}

#[test]
fn a_name_that_the_inode_has_already_is_not_added() {
    require!(Judge::Mkfs, Judge::XfsDb);
    let damaged = Damaged::new();
    let root = damaged.image.mount().superblock().root_inode.get();
    // The entry of the single file gets another name; the file's parent pointer keeps the old one.
    let fields = XfsDb::new(&damaged.image.path).print(&[format!("inode {root}")]).unwrap();
    let field = fields.iter().find(|field| field.value == "\"file-1\"").unwrap();
    let damage = &format!("write {} \"file-9\"", field.name);
    let fault = damaged.refuses(InodeNumber::new(root), damage, |fs, root| {
        fs.link(&fs.open(damaged.single)?, root, b"file-1")
    });
    assert_eq!(
        fault,
        EntryFault::ParentPointerExists { inode: damaged.single, directory: InodeNumber::new(root) }
    );
}
