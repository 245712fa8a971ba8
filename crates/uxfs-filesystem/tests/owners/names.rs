//! Names that we change in directories of Linux', with parent pointers that follow by deferred work.

use std::{collections::BTreeSet, fs};

use uxfs_engine::{directory::NameCheck, transaction::deferred::attribute::ParentChange};
use uxfs_format::inode::FileType;
use uxfs_testkit::mount::{Access, LoopMount};
use uxfs_volume::parent_pointer::ParentPointer;

use super::*;

const DIRECTORIES: usize = 3;
const NAMED_FILES: usize = 20;

/// A name: in which directory, and of which file.
type Name = (usize, String, usize);

struct Namer<'t, 'fs> {
    transaction: &'t mut Transaction<'fs>,
    directories: Vec<InodeNumber>,
    files: Vec<InodeNumber>,
    names: BTreeSet<Name>,
    random: Random,
    count: usize,
}

impl Namer<'_, '_> {
    fn some_name(&mut self) -> Name {
        let index = self.random.below(self.names.len() as u64) as usize;
        self.names.iter().nth(index).unwrap().clone()
    }

    fn new_name(&mut self) -> (usize, String) {
        self.count += 1;
        // Some are long, so that attributes do not stay in the inode.
        let length = if self.count.is_multiple_of(3) { 180 } else { 10 };
        let directory = self.random.below(DIRECTORIES as u64) as usize;
        (directory, format!("{:x>length$}", self.count))
    }

    /// Adds and removes a name of a file; gives the generations of both directories.
    fn change_directories(&mut self, add: Option<&Name>, remove: Option<&Name>) -> [u32; 2] {
        let mut change = |name: Option<&Name>, is_new: bool| {
            let Some((directory, name, file)) = name else { return 0 };
            let mut inode = self.transaction.load_inode(self.directories[*directory]).unwrap();
            if is_new {
                let number = self.files[*file];
                self.transaction
                    .directories()
                    .add_name(&mut inode, name.as_bytes(), number, FileType::Regular, NameCheck::Check)
                    .unwrap();
            } else {
                self.transaction.directories().remove_name(&mut inode, name.as_bytes()).unwrap();
            }
            self.transaction.store_inode(&mut inode).unwrap();
            inode.core.generation.get()
        };
        [change(add, true), change(remove, false)]
    }

    fn change(&mut self, add: Option<Name>, remove: Option<Name>) {
        let generations = self.change_directories(add.as_ref(), remove.as_ref());
        let file = add.as_ref().or(remove.as_ref()).map_or(0, |name| name.2);
        let mut inode = self.transaction.load_inode(self.files[file]).unwrap();
        let links = inode.link_count() + u32::from(add.is_some()) - u32::from(remove.is_some());
        inode.set_link_count(links);
        self.transaction.store_inode(&mut inode).unwrap();
        let directories = self.directories.clone();
        let new = add.as_ref().map(|name| pointer(&directories, name, generations[0]));
        let old = remove.as_ref().map(|name| pointer(&directories, name, generations[1]));
        let change = match (old, new) {
            (Some(old), Some(new)) => ParentChange::Replace { old, new },
            (Some(old), None) => ParentChange::Remove(old),
            (None, Some(new)) => ParentChange::Add(new),
            (None, None) => return,
        };
        self.transaction.defer_parent_pointer(self.files[file], inode.core.generation.get(), change);
        if let Some(old) = &remove {
            self.names.remove(old);
        }
        self.names.extend(add);
    }

    fn step(&mut self) {
        let old = self.some_name();
        let (directory, name) = self.new_name();
        let new = (directory, name, old.2);
        let links = self.names.iter().filter(|name| name.2 == old.2).count();
        match self.random.below(3) {
            0 => self.change(Some(new), None),
            1 if links > 1 => self.change(None, Some(old)),
            _ => self.change(Some(new), Some(old)),
        }
        if self.random.below(3) == 0 {
            self.transaction.commit().unwrap();
        }
    }
}

fn pointer<'n>(directories: &[InodeNumber], name: &'n Name, generation: u32) -> ParentPointer<'n> {
    ParentPointer { parent: directories[name.0], generation, name: name.1.as_bytes() }
}

#[test]
fn parent_pointers_follow_names() {
    require!(Judge::Mkfs, Judge::XfsRepair, Judge::Kernel);
    let image = make(&[]);
    let mount = LoopMount::new(&image.path, Access::ReadWrite).unwrap();
    let mut names = BTreeSet::new();
    for directory in 0..DIRECTORIES {
        fs::create_dir(mount.join(format!("directory-{directory}"))).unwrap();
    }
    for file in 0..NAMED_FILES {
        let directory = file % DIRECTORIES;
        fs::write(mount.join(format!("directory-{directory}/file-{file}")), file.to_string()).unwrap();
        names.insert((directory, format!("file-{file}"), file));
    }
    mount.unmount().unwrap();
    let file_system = open(&image.path);
    let find = |path: String| file_system.resolve(path.as_bytes(), false).unwrap().number;
    let directories = (0..DIRECTORIES).map(|directory| find(format!("/directory-{directory}"))).collect();
    let files =
        names.iter().map(|(directory, name, file)| (*file, find(format!("/directory-{directory}/{name}"))));
    let files: BTreeMap<usize, InodeNumber> = files.collect();
    let files = files.into_values().collect();
    let mut transaction = Transaction::begin(&file_system).unwrap();
    let (random, count) = (Random::new(3), 0);
    let mut namer = Namer { transaction: &mut transaction, directories, files, names, random, count };
    for _ in 0..400 {
        namer.step();
    }
    namer.transaction.commit().unwrap();
    let names = namer.names;
    drop(transaction);
    file_system.close().unwrap();
    repair_is_silent(&image.path).unwrap();
    let mount = LoopMount::new(&image.path, Access::ReadWrite).unwrap();
    let mut found = BTreeSet::new();
    for directory in 0..DIRECTORIES {
        for entry in fs::read_dir(mount.join(format!("directory-{directory}"))).unwrap() {
            let entry = entry.unwrap();
            let file = fs::read_to_string(entry.path()).unwrap().parse().unwrap();
            found.insert((directory, entry.file_name().into_string().unwrap(), file));
        }
    }
    assert_eq!(found, names);
    // Linux finds each parent pointer when it removes the name.
    for directory in 0..DIRECTORIES {
        fs::remove_dir_all(mount.join(format!("directory-{directory}"))).unwrap();
    }
    mount.unmount().unwrap();
    repair_is_silent(&image.path).unwrap();
    judged("kernel", &format!("{} names with parent pointers", names.len()));
}
