//! Reading entries, parent pointers and attributes of all inodes in use. What is damaged is passed over.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::ControlFlow,
};

use uxfs_format::{
    inode::{FileType, Fork, ForkFormat, InodeFlags2},
    units::InodeNumber,
};
use uxfs_volume::{
    attribute::{AttributeValue, Namespace},
    inode::{
        Inode,
        scan::{ScanEvent, ScanOptions, ScannedInode},
    },
    tolerant::passed_over_by_this_thread,
    volume::Volume,
};

use super::{
    facts::{Facts, InodeFact, Link, Witnesses},
    table::Table,
};
use crate::{
    attribute::access_list::{self, Mended},
    directory::MOST_FAULTS,
    metadata_directory,
    repair::{action::Action, work::Work},
};

/// An attribute of an inode whose attribute fork is rebuilt.
#[derive(Debug, Clone)]
pub(crate) struct KeptAttribute {
    pub namespace: Namespace,
    pub name: Box<[u8]>,
    pub value: Vec<u8>,
}

/// All that is known of names, and the attributes of damaged attribute forks.
#[derive(Debug, Default)]
pub(crate) struct Gathered {
    pub facts: Facts,
    pub attributes: BTreeMap<InodeNumber, Vec<KeptAttribute>>,
    /// Inodes of these that had more attributes than could be read.
    pub lossy: BTreeSet<InodeNumber>,
    /// Access control lists among these that Linux refuses.
    pub access_lists: Vec<Action>,
}

/// Reads everything.
pub(crate) fn gather(volume: &Volume, work: &Work, scan: ScanOptions) -> Gathered {
    let _damaged = volume.metadata().remember_damaged();
    let geometry = volume.geometry();
    let superblock = volume.superblock();
    let mut gathered = Gathered {
        facts: Facts {
            root: geometry.root_inode,
            metadata_root: metadata_directory::root(volume),
            has_parent_pointers: geometry.features.has_parent_pointers(),
            damaged_directories: work.directories.clone(),
            ..Facts::default()
        },
        ..Gathered::default()
    };
    let internal = superblock.internal_inodes();
    let (_, parts) = volume.scan_inodes(&scan, Part::default, |part, event| {
        if let ScanEvent::Inode(ScannedInode { bytes, core: Ok(core), .. }) = event
            && let Some(inode) = Inode::decode(bytes, core, geometry)
        {
            let is_internal = internal.contains(&inode.number.get());
            part.add_inode(volume, &inode, is_internal, work);
        }
        ControlFlow::<()>::Continue(())
    });
    gathered.join(parts);
    gathered.find_places(volume);
    gathered
}

/// What one thread has read.
#[derive(Debug, Default)]
struct Part {
    inodes: Vec<(InodeNumber, InodeFact)>,
    /// Each link once for its entry and once for its parent pointer.
    links: Vec<(Link, Witnesses)>,
    attributes: Vec<(InodeNumber, Vec<KeptAttribute>)>,
    access_lists: Vec<(InodeNumber, Vec<Action>)>,
    lossy: Vec<InodeNumber>,
}

impl Part {
    fn add_inode(&mut self, volume: &Volume, inode: &Inode, is_internal: bool, work: &Work) {
        let Some(file_type) = inode.file_type() else { return };
        let mut fact = InodeFact {
            file_type,
            generation: inode.generation(),
            link_count: inode.link_count(),
            dot_dot: None,
            has_unread_entries: false,
            has_hashed_entries: is_hashed(inode, Fork::Data),
            has_hashed_pointers: is_hashed(inode, Fork::Attribute),
            is_internal: is_internal || inode.flags2().contains(InodeFlags2::METADATA),
        };
        if file_type == FileType::Directory {
            (fact.dot_dot, fact.has_unread_entries) = self.add_entries(volume, inode);
        }
        self.inodes.push((inode.number, fact));
        if work.attributes.contains(&inode.number) {
            let (mut kept, mut lists) = (Vec::new(), Vec::new());
            if keep_attributes(volume, inode, &mut kept) {
                self.lossy.push(inode.number);
            }
            mend_access_lists(inode, &mut kept, &mut lists);
            self.attributes.push((inode.number, kept));
            self.access_lists.push((inode.number, lists));
        }
        self.add_pointers(volume, inode);
    }

    /// Gives what `..` names, and whether any entry could not be read.
    fn add_entries(&mut self, volume: &Volume, directory: &Inode) -> (Option<InodeNumber>, bool) {
        let mut dot_dot = None;
        let passed_over_before = passed_over_by_this_thread();
        let Ok(mut reader) = volume.open_directory(directory, 0) else { return (None, true) };
        // Blocks that cannot be read: the walk has moved ahead of each.
        let mut faults = 0;
        while faults < MOST_FAULTS {
            match reader.next_entry() {
                Ok(Some(entry)) if entry.name == b".." => dot_dot = Some(entry.inode),
                Ok(Some(entry)) if entry.name == b"." => {}
                Ok(Some(entry)) => {
                    let link =
                        Link { directory: directory.number, name: entry.name.into(), inode: entry.inode };
                    let entry_type = entry.file_type;
                    self.links
                        .push((link, Witnesses { has_entry: true, entry_type, ..Witnesses::default() }));
                }
                Ok(None) => break,
                Err(_) => faults += 1,
            }
        }
        let is_map_whole = volume.lost_extents(directory, Fork::Data).is_none();
        (dot_dot, faults > 0 || !is_map_whole || passed_over_by_this_thread() != passed_over_before)
    }

    fn add_pointers(&mut self, volume: &Volume, inode: &Inode) {
        let _ = volume.visit_parent_pointers(inode, |pointer| {
            let link = Link { directory: pointer.parent, name: pointer.name.into(), inode: inode.number };
            let pointer_generation = Some(pointer.generation);
            self.links.push((link, Witnesses { pointer_generation, ..Witnesses::default() }));
            Ok(ControlFlow::Continue(()))
        });
    }
}

impl Gathered {
    /// Puts together what threads have read. What comes out does not depend on their number.
    fn join(&mut self, parts: Vec<Part>) {
        let (mut inodes, mut links, mut lists) = (Vec::new(), Vec::new(), Vec::new());
        for part in parts {
            inodes.extend(part.inodes);
            self.attributes.extend(part.attributes);
            lists.extend(part.access_lists);
            self.lossy.extend(part.lossy);
            match links.is_empty() {
                true => links = part.links,
                false => links.extend(part.links),
            }
        }
        lists.sort_by_key(|(inode, _)| *inode);
        self.access_lists = lists.into_iter().flat_map(|(_, actions)| actions).collect();
        // Stable: of two entries or two pointers that say the same the later one counts, as one thread has read both.
        self.facts.links = Table::of(links, Witnesses::add);
        self.facts.inodes = Table::of(inodes, |fact, later| *fact = *later);
    }

    /// Places of inodes that something names and that are not in use.
    fn find_places(&mut self, volume: &Volume) {
        let facts = &self.facts;
        let mut missing: BTreeSet<InodeNumber> =
            [facts.root].into_iter().chain(facts.metadata_root).collect();
        missing.retain(|root| !facts.inodes.contains_key(root));
        let (mut directory, mut inode) = (0, 0);
        for link in facts.links.keys() {
            let ends = [(link.directory, &mut directory), (link.inode, &mut inode)];
            for (number, near) in ends {
                if facts.inodes.index_near(&number, near).is_none() {
                    missing.insert(number);
                }
            }
        }
        for inode in missing {
            if volume.geometry().split_inode_number(inode).is_none() {
                continue;
            }
            let chunk = volume.groups().inode_chunk_of(inode);
            if let Ok(Some((chunk, index))) = chunk
                && chunk.exists(index)
            {
                self.facts.places.insert(inode);
            }
        }
    }
}

/// Directories and attributes outside the inode have hashes of their names.
fn is_hashed(inode: &Inode, fork: Fork) -> bool {
    inode.fork_format(fork).is_some_and(|format| format != ForkFormat::Local)
}

/// The attributes that can be read, but for parent pointers. Gives whether there were others.
fn keep_attributes(volume: &Volume, inode: &Inode, kept: &mut Vec<KeptAttribute>) -> bool {
    let passed_over_before = passed_over_by_this_thread();
    let Ok(reader) = volume.attributes(inode) else { return true };
    let mut is_any_lost = false;
    let visited = reader.visit(|attribute| {
        if attribute.namespace == Namespace::Parent {
            return Ok(ControlFlow::Continue(()));
        }
        let value = match attribute.value {
            AttributeValue::Local(value) => Some(value.to_vec()),
            AttributeValue::Remote { .. } => reader.value(&attribute.value).ok().map(|value| value.to_vec()),
        };
        if let Some(value) = value {
            kept.push(KeptAttribute { namespace: attribute.namespace, name: attribute.name.into(), value });
        } else {
            is_any_lost = true;
        }
        Ok(ControlFlow::Continue(()))
    });
    let is_map_whole = volume.lost_extents(inode, Fork::Attribute).is_none();
    !is_map_whole || passed_over_by_this_thread() != passed_over_before || visited.is_err() || is_any_lost
}

/// Makes lists such that Linux takes them.
fn mend_access_lists(inode: &Inode, kept: &mut Vec<KeptAttribute>, actions: &mut Vec<Action>) {
    kept.retain_mut(|attribute| {
        if attribute.namespace != Namespace::Trusted || !access_list::is_list(&attribute.name) {
            return true;
        }
        let mended = access_list::mend(&attribute.name, &attribute.value, inode.mode());
        let inode = inode.number;
        match mended {
            Mended::Sound => true,
            Mended::Changed { value, removed } => {
                attribute.value = value;
                actions.push(Action::AccessList { inode, removed: Some(removed) });
                true
            }
            Mended::Dropped => {
                actions.push(Action::AccessList { inode, removed: None });
                false
            }
        }
    });
}
