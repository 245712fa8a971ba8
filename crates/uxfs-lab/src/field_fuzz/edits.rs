//! Edits of every kind, around a few files that exist.

use uxfs_engine::{attribute::SetMode, bulk::create::NewKind};
use uxfs_filesystem::{
    file::{Touch, exchange::ExchangeRange, share::CloneRange, space::SizeChange},
    filesystem::FileSystem,
    inode::table::InodeHandle,
    operations::{create::NewFile, rename::RenameOptions, set_attributes::AttributeChanges},
};
use uxfs_volume::{
    error::{Error, OperationError, Result},
    inode::FileType,
};

/// A file or directory that exists and may be changed: its path.
pub type Victim = Vec<u8>;

/// One edit of a victim; `number` makes its new names different.
pub type Edit = fn(&FileSystem, &Target<'_>) -> Result<()>;

/// Target of an edit.
#[derive(Debug)]
pub struct Target<'a> {
    /// The path.
    pub path: &'a [u8],
    /// Of new names.
    pub number: usize,
}

/// All of them, in the order in which they are made: what removes a victim comes last.
pub const EDITS: &[(&str, Edit)] = &[
    ("create beside", create_beside),
    ("write to a new file", write_new),
    ("make a tree", make_tree),
    ("set an attribute", set_attribute),
    ("set a large attribute", set_large_attribute),
    ("change permissions", change_permissions),
    ("long symbolic link", symlink),
    ("overwrite", overwrite),
    ("append", append),
    ("allocate", allocate),
    ("punch", punch),
    ("zero", zero),
    ("insert and collapse", insert_and_collapse),
    ("clone", clone_whole),
    ("replace", replace),
    ("link", link),
    ("rename and back", rename_and_back),
    ("rename over", rename_over),
    ("exchange names", exchange_names),
    ("truncate", truncate),
    ("fill a directory", fill_directory),
    ("remove an attribute", remove_attribute),
    ("remove a child", remove_child),
    ("remove", remove),
    ("remove new ones", remove_new),
];

/// Beginning of all names that edits make.
pub const NEW: &[u8] = b"fuzz-";

fn name(target: &Target<'_>, what: &str) -> Vec<u8> {
    [NEW, what.as_bytes(), b"-", target.number.to_string().as_bytes()].concat()
}

fn now(filesystem: &FileSystem) -> Touch {
    Touch::at(filesystem.now())
}

fn split(path: &[u8]) -> (&[u8], &[u8]) {
    let slash = path.iter().rposition(|byte| *byte == b'/').unwrap_or(0);
    (&path[..slash], path.get(slash + 1..).unwrap_or_default())
}

fn open(filesystem: &FileSystem, path: &[u8]) -> Result<InodeHandle> {
    let mut at = filesystem.open_root()?;
    for name in path.split(|byte| *byte == b'/').filter(|name| !name.is_empty()) {
        at = filesystem.find(&at, name)?;
    }
    Ok(at)
}

fn parent(filesystem: &FileSystem, target: &Target<'_>) -> Result<InodeHandle> {
    open(filesystem, split(target.path).0)
}

/// The target if it is a directory, or else its directory.
fn directory(filesystem: &FileSystem, target: &Target<'_>) -> Result<InodeHandle> {
    let found = open(filesystem, target.path)?;
    match filesystem.stat(&found)?.file_type {
        FileType::Directory => Ok(found),
        _ => parent(filesystem, target),
    }
}

fn regular(filesystem: &FileSystem, target: &Target<'_>) -> Result<InodeHandle> {
    open(filesystem, target.path)
}

const FILE: NewFile<'static> = NewFile::new(NewKind::Regular, 0o600);

fn create_beside(filesystem: &FileSystem, target: &Target<'_>) -> Result<()> {
    filesystem.create(&directory(filesystem, target)?, &name(target, "new"), &FILE).map(drop)
}

fn write_new(filesystem: &FileSystem, target: &Target<'_>) -> Result<()> {
    let file = filesystem.create(&directory(filesystem, target)?, &name(target, "data"), &FILE)?;
    filesystem.write(&file, 0, &[0xa5; 300_000], now(filesystem))?;
    filesystem.write(&file, 2_000_000, &[0x5a; 70_000], now(filesystem))?;
    filesystem.free_preallocation(&file)
}

fn make_tree(filesystem: &FileSystem, target: &Target<'_>) -> Result<()> {
    let kind = NewFile::new(NewKind::Directory, 0o700);
    let made = filesystem.create(&directory(filesystem, target)?, &name(target, "tree"), &kind)?;
    for number in 0..70 {
        filesystem.create(&made, format!("a file of the tree, number {number}").as_bytes(), &FILE)?;
    }
    let below = filesystem.create(&made, b"below", &kind)?;
    filesystem.create(&below, b"file", &FILE).map(drop)
}

fn set_attribute(filesystem: &FileSystem, target: &Target<'_>) -> Result<()> {
    filesystem.set_xattr(&open(filesystem, target.path)?, b"trusted.fuzz", b"value", SetMode::Upsert)
}

fn set_large_attribute(filesystem: &FileSystem, target: &Target<'_>) -> Result<()> {
    let file = open(filesystem, target.path)?;
    filesystem.set_xattr(&file, b"trusted.middle", &[7; 900], SetMode::Upsert)?;
    filesystem.set_xattr(&file, b"trusted.large", &[8; 40_000], SetMode::Upsert)
}

fn remove_attribute(filesystem: &FileSystem, target: &Target<'_>) -> Result<()> {
    let file = open(filesystem, target.path)?;
    filesystem.remove_xattr(&file, b"trusted.large")?;
    filesystem.remove_xattr(&file, b"trusted.fuzz")
}

fn change_permissions(filesystem: &FileSystem, target: &Target<'_>) -> Result<()> {
    let changes = AttributeChanges { permissions: Some(0o751), uid: Some(77), ..AttributeChanges::default() };
    filesystem.set_attributes(&open(filesystem, target.path)?, &changes)
}

fn symlink(filesystem: &FileSystem, target: &Target<'_>) -> Result<()> {
    let kind = NewFile::new(NewKind::Symlink(&[b'x'; 1000]), 0o777);
    filesystem.create(&directory(filesystem, target)?, &name(target, "link"), &kind).map(drop)
}

fn overwrite(filesystem: &FileSystem, target: &Target<'_>) -> Result<()> {
    filesystem.write(&regular(filesystem, target)?, 100, &[1; 20_000], now(filesystem)).map(drop)
}

fn append(filesystem: &FileSystem, target: &Target<'_>) -> Result<()> {
    let file = regular(filesystem, target)?;
    filesystem.append(&file, &[2; 30_000], now(filesystem))?;
    filesystem.free_preallocation(&file)
}

fn allocate(filesystem: &FileSystem, target: &Target<'_>) -> Result<()> {
    let file = regular(filesystem, target)?;
    filesystem.allocate_range(&file, 0, 200_000, SizeChange::Keep, now(filesystem))
}

fn punch(filesystem: &FileSystem, target: &Target<'_>) -> Result<()> {
    filesystem.punch_range(&regular(filesystem, target)?, 5_000, 9_000, now(filesystem))
}

fn zero(filesystem: &FileSystem, target: &Target<'_>) -> Result<()> {
    let file = regular(filesystem, target)?;
    filesystem.zero_range(&file, 16_384, 33_000, SizeChange::Keep, now(filesystem))
}

fn insert_and_collapse(filesystem: &FileSystem, target: &Target<'_>) -> Result<()> {
    let file = regular(filesystem, target)?;
    filesystem.insert_range(&file, 65_536, 65_536, now(filesystem))?;
    filesystem.collapse_range(&file, 65_536, 65_536, now(filesystem))
}

fn clone_whole(filesystem: &FileSystem, target: &Target<'_>) -> Result<()> {
    let file = regular(filesystem, target)?;
    let copy = filesystem.create(&parent(filesystem, target)?, &name(target, "clone"), &FILE)?;
    let all = CloneRange { source_bytes: 0, target_bytes: 0, length_bytes: 0 };
    filesystem.clone_range(&file, &copy, &all, now(filesystem))?;
    // Both are copied on write from now on.
    filesystem.write(&file, 0, &[3; 5_000], now(filesystem))?;
    filesystem.write(&copy, 4_096, &[4; 5_000], now(filesystem)).map(drop)
}

fn replace(filesystem: &FileSystem, target: &Target<'_>) -> Result<()> {
    let file = regular(filesystem, target)?;
    let fresh = filesystem.create_temporary(&parent(filesystem, target)?, &FILE, false)?;
    filesystem.write(&fresh, 0, &[6; 100_000], now(filesystem))?;
    filesystem.free_preallocation(&fresh)?;
    let all = ExchangeRange { to_end: true, ..ExchangeRange::default() };
    filesystem.exchange_files(&fresh, &file, &all, now(filesystem))
}

fn link(filesystem: &FileSystem, target: &Target<'_>) -> Result<()> {
    let (file, beside) = (open(filesystem, target.path)?, parent(filesystem, target)?);
    filesystem.link(&file, &beside, &name(target, "hard"))?;
    filesystem.link(&file, &filesystem.open_root()?, &name(target, "hard"))?;
    filesystem.unlink(&beside, &name(target, "hard"))
}

fn rename_and_back(filesystem: &FileSystem, target: &Target<'_>) -> Result<()> {
    let (beside, root) = (parent(filesystem, target)?, filesystem.open_root()?);
    let (old, new) = (split(target.path).1, name(target, "moved"));
    filesystem.rename(&beside, old, &root, &new, &RenameOptions::default())?;
    filesystem.rename(&root, &new, &beside, old, &RenameOptions::default())
}

fn rename_over(filesystem: &FileSystem, target: &Target<'_>) -> Result<()> {
    let beside = parent(filesystem, target)?;
    let (from, to) = (name(target, "new"), name(target, "link"));
    filesystem.rename(&beside, &from, &beside, &to, &RenameOptions::default())
}

fn exchange_names(filesystem: &FileSystem, target: &Target<'_>) -> Result<()> {
    let (beside, root) = (parent(filesystem, target)?, filesystem.open_root()?);
    filesystem.create(&root, &name(target, "other"), &FILE)?;
    let options = RenameOptions { exchange: true, ..RenameOptions::default() };
    let (own, other) = (split(target.path).1, name(target, "other"));
    filesystem.rename(&beside, own, &root, &other, &options)?;
    filesystem.rename(&beside, own, &root, &other, &options)
}

fn truncate(filesystem: &FileSystem, target: &Target<'_>) -> Result<()> {
    let file = regular(filesystem, target)?;
    filesystem.set_size(&file, 40_001, now(filesystem))?;
    filesystem.set_size(&file, 10, now(filesystem))
}

fn fill_directory(filesystem: &FileSystem, target: &Target<'_>) -> Result<()> {
    let directory = directory(filesystem, target)?;
    for number in 0..60 {
        let long = format!("{:0>80}", number);
        filesystem.create(&directory, &[NEW, long.as_bytes()].concat(), &FILE)?;
    }
    for number in (0..60).step_by(2) {
        let long = format!("{:0>80}", number);
        filesystem.unlink(&directory, &[NEW, long.as_bytes()].concat())?;
    }
    Ok(())
}

fn remove_child(filesystem: &FileSystem, target: &Target<'_>) -> Result<()> {
    let directory = directory(filesystem, target)?;
    let mut first = None;
    filesystem.read_entries(&directory, 0, |entry| {
        if matches!(entry.name, b"." | b"..") || first.is_some() {
            return std::ops::ControlFlow::Continue(());
        }
        first = entry.name.starts_with(NEW).then(|| entry.name.to_vec());
        std::ops::ControlFlow::Continue(())
    })?;
    let first = first.ok_or(OperationError::NotFound)?;
    remove_any(filesystem, &directory, &first)
}

fn remove_any(filesystem: &FileSystem, directory: &InodeHandle, name: &[u8]) -> Result<()> {
    match filesystem.unlink(directory, name) {
        Err(Error::Operation(OperationError::IsADirectory)) => filesystem.remove_directory(directory, name),
        done => done,
    }
}

fn remove(filesystem: &FileSystem, target: &Target<'_>) -> Result<()> {
    remove_any(filesystem, &parent(filesystem, target)?, split(target.path).1)
}

fn remove_new(filesystem: &FileSystem, target: &Target<'_>) -> Result<()> {
    let directories = [parent(filesystem, target), filesystem.open_root()];
    for directory in directories.into_iter().flatten() {
        for what in ["new", "data", "link", "clone", "hard", "other", "moved"] {
            match remove_any(filesystem, &directory, &name(target, what)) {
                Ok(()) | Err(Error::Operation(_)) => {}
                Err(error) => return Err(error),
            }
        }
    }
    Ok(())
}
