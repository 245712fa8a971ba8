//! The lies. Each is one that a single changed field does not tell: loops, counts that no device can hold, one block for many, trees that
//! agree with each other and with nothing else.

use anyhow::{Context, Result};
use uxfs_format::{
    directory::name_hash,
    fault::Structure,
    units::{AgNumber, FsBlock, InodeNumber},
};
use uxfs_testkit::structures::{Instance, Owner};

use super::{Liar, long_map};

/// A lie.
#[derive(Debug, Clone, Copy)]
pub struct Lie {
    /// What is said wrongly.
    pub name: &'static str,
    /// Tells it.
    pub tell: fn(&mut Liar) -> Result<()>,
}

const fn lie(name: &'static str, tell: fn(&mut Liar) -> Result<()>) -> Lie {
    Lie { name, tell }
}

/// All of them.
pub const LIES: &[Lie] = &[
    lie("btree/siblings-in-a-loop", siblings_in_a_loop),
    lie("btree/all-children-are-one", all_children_are_one),
    lie("btree/child-is-its-ancestor", child_is_its_ancestor),
    lie("btree/full-of-nothing", full_of_nothing),
    lie("group/levels-and-counts", levels_and_counts),
    lie("group/free-list-is-one-block", free_list_is_one_block),
    lie("group/unlinked-in-a-loop", unlinked_in_a_loop),
    lie("group/inode-count", inode_count),
    lie("group/chunks-overlap", chunks_overlap),
    lie("group/owners-of-everything", owners_of_everything),
    lie("group/references-without-end", references_without_end),
    lie("superblock/groups-without-end", groups_without_end),
    lie("superblock/one-large-group", one_large_group),
    lie("superblock/log-without-end", log_without_end),
    lie("superblock/log-over-metadata", log_over_metadata),
    lie("inode/extents-without-end", extents_without_end),
    lie("inode/sizes-without-end", sizes_without_end),
    lie("inode/root-of-the-map-is-deep", root_of_the_map_is_deep),
    lie("inode/many-extents-of-one", long_map::many_extents_of_one),
    lie("inode/symlinks-without-end", symlinks_without_end),
    lie("directory/counts", directory_counts),
    lie("directory/tree-is-deep", directory_tree_is_deep),
    lie("directory/node-in-a-loop", directory_node_in_a_loop),
    lie("directory/below-itself", directory_below_itself),
    lie("directory/all-entries-are-one", all_entries_are_one),
    lie("directory/all-entries-are-the-root", all_entries_are_the_root),
    lie("attribute/one-value-for-all", one_value_for_all),
    lie("attribute/tree-is-deep", attribute_tree_is_deep),
    lie("attribute/leaves-in-a-loop", attribute_leaves_in_a_loop),
    lie("attribute/pointers-to-everything", pointers_to_everything),
    lie("log/records-without-end", log_records_without_end),
];

const TREES: [Structure; 7] = [
    Structure::FreeSpaceByBlock,
    Structure::FreeSpaceByLength,
    Structure::InodeIndex,
    Structure::FreeInodeIndex,
    Structure::ReverseMap,
    Structure::ReferenceCount,
    Structure::ExtentMap,
];

/// The number by which siblings and parents name a block.
fn number_of(liar: &Liar, instance: &Instance) -> u64 {
    let block = FsBlock::new(instance.fs_block.unwrap_or(0));
    match (instance.owner, liar.geometry.split_fs_block(block)) {
        (Owner::Group(_), Some((_, block))) => block.get().into(),
        _ => block.get(),
    }
}

pub(super) fn is_node(liar: &Liar, instance: &Instance) -> bool {
    liar.get(instance, "level").is_some_and(|level| level > 0)
}

/// Every block of every btree is its own neighbour on both sides; of every second one, a neighbour's neighbour.
fn siblings_in_a_loop(liar: &mut Liar) -> Result<()> {
    for structure in TREES {
        for (index, instance) in liar.all(structure).iter().enumerate() {
            let own = number_of(liar, instance);
            let left = liar.get(instance, "leftsib").unwrap_or(own);
            liar.set(instance, &[("rightsib", if index % 2 == 0 { own } else { left }), ("leftsib", own)])?;
        }
    }
    Ok(())
}

fn for_each_node(liar: &mut Liar, tell: impl Fn(&mut Liar, &Instance, u64) -> Result<()>) -> Result<()> {
    for structure in TREES {
        for instance in liar.all(structure) {
            if is_node(liar, &instance) {
                let count = liar.get(&instance, "numrecs").unwrap_or(0);
                tell(liar, &instance, count)?;
            }
        }
    }
    Ok(())
}

fn all_children_are_one(liar: &mut Liar) -> Result<()> {
    for_each_node(liar, |liar, instance, count| {
        let first = liar.get(instance, "ptrs[1]").context("a node without children")?;
        (2..=count).try_for_each(|index| liar.set(instance, &[(&format!("ptrs[{index}]"), first)]))
    })
}

/// Nodes are their own children, and leaves say that they are nodes of the same level.
fn child_is_its_ancestor(liar: &mut Liar) -> Result<()> {
    for_each_node(liar, |liar, instance, count| {
        let own = number_of(liar, instance);
        (1..=count).try_for_each(|index| liar.set(instance, &[(&format!("ptrs[{index}]"), own)]))
    })
}

/// As many records as the field can say.
fn full_of_nothing(liar: &mut Liar) -> Result<()> {
    TREES.iter().try_for_each(|structure| liar.set_all(*structure, &[("numrecs", 0xffff)]))
}

fn levels_and_counts(liar: &mut Liar) -> Result<()> {
    const MOST: u64 = 0xffff_ffff;
    let space = [
        ("bnolevel", 9),
        ("cntlevel", 9),
        ("rmaplevel", 9),
        ("refcntlevel", 9),
        ("freeblks", MOST),
        ("longest", MOST),
        ("btreeblks", MOST),
        ("rmapblocks", MOST),
        ("refcntblocks", MOST),
        ("flcount", MOST),
    ];
    liar.set_all(Structure::FreeSpaceHeader, &space)?;
    let inodes =
        [("level", 9), ("free_level", 9), ("count", MOST), ("freecount", MOST), ("ino_blocks", MOST)];
    liar.set_all(Structure::InodeHeader, &inodes)
}

/// All places of the free list name the root of the btree of free space by block.
fn free_list_is_one_block(liar: &mut Liar) -> Result<()> {
    for (list, header) in liar.all(Structure::FreeList).iter().zip(liar.all(Structure::FreeSpaceHeader)) {
        let root = liar.get(&header, "bnoroot").context("no root")?;
        let names: Vec<String> = (0..).map(|index| format!("bno[{index}]")).take(1000).collect();
        let known: Vec<&String> = names.iter().take_while(|name| liar.get(list, name).is_some()).collect();
        let count = known.len() as u64;
        let fields: Vec<(&str, u64)> = known.iter().map(|name| (name.as_str(), root)).collect();
        liar.set(list, &fields)?;
        liar.set(&header, &[("flfirst", 0), ("fllast", count - 1), ("flcount", count)])?;
    }
    Ok(())
}

/// A regular file whose number fits into the lists of group 0.
fn file_of_group(liar: &Liar, group: u32, after: u64) -> Result<(Instance, u64, u64)> {
    let found = liar.find(Structure::Inode, |liar, instance| {
        let Owner::Inode(number) = instance.owner else { return false };
        let place = liar.geometry.split_inode_number(InodeNumber::new(number));
        let mode = liar.get(instance, "core.mode").unwrap_or(0);
        number > after && mode & 0o170_000 == 0o100_000 && place.is_some_and(|(of, _)| of.get() == group)
    })?;
    let Owner::Inode(number) = found.owner else { anyhow::bail!("no inode") };
    let (_, inode) = liar.geometry.split_inode_number(InodeNumber::new(number)).context("a number")?;
    Ok((found, number, inode.get().into()))
}

/// Three files without links name each other; all lists of their group begin with one of them.
fn unlinked_in_a_loop(liar: &mut Liar) -> Result<()> {
    let (one, number, first) = file_of_group(liar, 0, 200)?;
    let (two, number, second) = file_of_group(liar, 0, number)?;
    let (three, _, third) = file_of_group(liar, 0, number)?;
    for (inode, next) in [(one, second), (two, third), (three, first)] {
        liar.set(&inode, &[("next_unlinked", next), ("core.nlinkv2", 0)])?;
    }
    let header = liar.find(Structure::InodeHeader, |_, header| header.owner == Owner::Group(0))?;
    for index in 0..64 {
        liar.set(&header, &[(&format!("unlinked[{index}]"), [first, second, third][index % 3])])?;
    }
    Ok(())
}

fn inode_count(liar: &mut Liar) -> Result<()> {
    liar.set_all(Structure::InodeHeader, &[("count", 0xffff_ffc0), ("newino", 0xffff_ffc0)])?;
    liar.set_all(Structure::Superblock, &[("icount", 1 << 62), ("ifree", 1 << 62), ("fdblocks", u64::MAX)])
}

/// All chunks of a group begin within the first one.
fn chunks_overlap(liar: &mut Liar) -> Result<()> {
    for structure in [Structure::InodeIndex, Structure::FreeInodeIndex] {
        for leaf in liar.all(structure) {
            let Some(first) = liar.get(&leaf, "recs[1].startino") else { continue };
            let count = liar.get(&leaf, "numrecs").unwrap_or(0);
            for index in 2..=count {
                let record = format!("recs[{index}]");
                let fields = [(&*format!("{record}.startino"), first + (index - 1) * 16)];
                liar.set(&leaf, &fields)?;
                liar.set(&leaf, &[(&format!("{record}.freecount"), 0), (&format!("{record}.free"), 0)])?;
            }
        }
    }
    Ok(())
}

/// Every record of the reverse map covers the group to its end, as blocks of the extent map of one inode.
fn owners_of_everything(liar: &mut Liar) -> Result<()> {
    let (inode, number, _) = file_of_group(liar, 0, 200)?;
    for leaf in liar.all(Structure::ReverseMap) {
        if is_node(liar, &leaf) {
            continue;
        }
        let Owner::Group(group) = leaf.owner else { continue };
        let length = liar.geometry.group_length_blocks(AgNumber::new(group)).unwrap_or(0);
        for index in 1..=liar.get(&leaf, "numrecs").unwrap_or(0) {
            let record = format!("recs[{index}]");
            let start = liar.get(&leaf, &format!("{record}.startblock")).unwrap_or(0);
            if start < 8 {
                continue;
            }
            let length = u64::from(length).saturating_sub(start);
            liar.set(
                &leaf,
                &[
                    (&format!("{record}.blockcount"), length),
                    (&format!("{record}.owner"), number),
                    (&format!("{record}.offset"), 0),
                    (&format!("{record}.bmbtblock"), index % 2),
                ],
            )?;
        }
    }
    // Its own map is asked for, and cannot be read.
    liar.set(&inode, &[("core.nextents", 3)]).or_else(|_| liar.set(&inode, &[("core.big_nextents", 3)]))
}

fn references_without_end(liar: &mut Liar) -> Result<()> {
    for leaf in liar.all(Structure::ReferenceCount) {
        for index in 1..=liar.get(&leaf, "numrecs").unwrap_or(0) {
            let record = format!("recs[{index}]");
            if liar.get(&leaf, &format!("{record}.refcount")).is_some() {
                liar.set(
                    &leaf,
                    &[
                        (&format!("{record}.refcount"), 0xffff_fffe),
                        (&format!("{record}.blockcount"), 0x7fff_ffff),
                    ],
                )?;
            }
        }
    }
    Ok(())
}

/// All superblocks agree.
fn groups_without_end(liar: &mut Liar) -> Result<()> {
    let superblock = liar.find(Structure::Superblock, |_, _| true)?;
    let blocks = liar.get(&superblock, "agblocks").context("agblocks")?;
    let count = 1 << 24;
    liar.set_all(Structure::Superblock, &[("agcount", count), ("dblocks", count * blocks)])
}

fn one_large_group(liar: &mut Liar) -> Result<()> {
    let blocks = (1_u64 << 40) / u64::from(liar.geometry.block_size_bytes) - 1;
    let fields = [("agcount", 1), ("agblocks", blocks), ("agblklog", 30), ("dblocks", blocks)];
    liar.set_all(Structure::Superblock, &fields)
}

fn log_without_end(liar: &mut Liar) -> Result<()> {
    liar.set_all(
        Structure::Superblock,
        &[("logblocks", (1 << 31) / u64::from(liar.geometry.block_size_bytes))],
    )
}

/// The log begins at the first inode.
fn log_over_metadata(liar: &mut Liar) -> Result<()> {
    let root = liar.geometry.root_inode;
    let place = liar.geometry.inode_place(root).context("a root directory")?;
    let block = liar.geometry.fs_block(place.group, place.block).context("its block")?;
    liar.set_all(Structure::Superblock, &[("logstart", block.get())])
}

/// Files of one type.
pub(super) fn inodes_of(liar: &Liar, file_type: u64, format: u64) -> Vec<Instance> {
    let mut all = liar.all(Structure::Inode);
    all.retain(|instance| {
        liar.get(instance, "core.mode").unwrap_or(0) & 0o170_000 == file_type
            && liar.get(instance, "core.format") == Some(format)
    });
    all
}

pub(super) const REGULAR: u64 = 0o100_000;
const DIRECTORY: u64 = 0o040_000;
const SYMLINK: u64 = 0o120_000;
/// Formats of forks.
const LOCAL: u64 = 1;
const EXTENTS: u64 = 2;
pub(super) const BTREE: u64 = 3;

/// Some files count 2^48 extents, and as many blocks.
fn extents_without_end(liar: &mut Liar) -> Result<()> {
    for inode in
        inodes_of(liar, REGULAR, BTREE).iter().chain(inodes_of(liar, REGULAR, EXTENTS).iter().take(50))
    {
        let count = if liar.get(inode, "core.big_nextents").is_some() {
            ("core.big_nextents", (1 << 48) - 1)
        } else {
            ("core.nextents", (1 << 31) - 1)
        };
        liar.set(inode, &[count, ("core.nblocks", (1 << 52) - 1)])?;
    }
    Ok(())
}

fn sizes_without_end(liar: &mut Liar) -> Result<()> {
    let files = inodes_of(liar, REGULAR, EXTENTS).into_iter().chain(inodes_of(liar, REGULAR, BTREE));
    for inode in files.chain(inodes_of(liar, DIRECTORY, EXTENTS)) {
        liar.set(&inode, &[("core.size", i64::MAX as u64)])?;
    }
    Ok(())
}

fn root_of_the_map_is_deep(liar: &mut Liar) -> Result<()> {
    for inode in inodes_of(liar, REGULAR, BTREE) {
        liar.set(&inode, &[("u3.bmbt.level", 9)])?;
    }
    Ok(())
}

fn symlinks_without_end(liar: &mut Liar) -> Result<()> {
    for inode in inodes_of(liar, SYMLINK, EXTENTS) {
        liar.set(&inode, &[("core.size", 1 << 31)])?;
    }
    liar.set_all(Structure::Symlink, &[("bytes", 0xffff_ffff)])
}

fn directory_counts(liar: &mut Liar) -> Result<()> {
    liar.set_all(Structure::DirectoryBlock, &[("btail.count", 0xffff_ffff), ("btail.stale", 0xffff_fffe)])?;
    for leaf in liar.all(Structure::DirectoryLeaf) {
        liar.set(&leaf, &[("lhdr.count", 0xffff), ("lhdr.stale", 0xffff)])?;
    }
    for index in liar.all(Structure::DirectoryFreeIndex) {
        liar.set(&index, &[("fhdr.nvalid", 0xffff_ffff), ("fhdr.nused", 0xffff_ffff)])?;
    }
    Ok(())
}

fn directory_tree_is_deep(liar: &mut Liar) -> Result<()> {
    liar.set_all(Structure::DirectoryNode, &[("nhdr.level", 0xffff)])
}

/// Nodes of directories are their own children.
fn directory_node_in_a_loop(liar: &mut Liar) -> Result<()> {
    for (structure, header, entries) in
        [(Structure::DirectoryNode, "nhdr", "nbtree"), (Structure::AttributeNode, "hdr", "btree")]
    {
        for node in liar.all(structure) {
            let own = node.file_block.context("a node of no file")?;
            for index in 0..liar.get(&node, &format!("{header}.count")).unwrap_or(0) {
                liar.set(&node, &[(&format!("{entries}[{index}].before"), own)])?;
            }
        }
    }
    Ok(())
}

/// Directories that lie in their inodes, each with what its first entry names.
fn chain_of_directories(liar: &Liar) -> Vec<(Instance, u64, u64)> {
    let all = inodes_of(liar, DIRECTORY, LOCAL).into_iter();
    let named = all.filter_map(|instance| {
        let Owner::Inode(number) = instance.owner else { return None };
        let child = liar.get(&instance, "u3.sfdir3.list[0].inumber.i4")?;
        (liar.get(&instance, "u3.sfdir3.hdr.count") == Some(1)).then_some((instance, number, child))
    });
    named.collect()
}

/// A chain of directories is closed to a ring, with `..` and parent pointers that agree; the rest of the chain hangs where the ring was.
fn directory_below_itself(liar: &mut Liar) -> Result<()> {
    let chain = chain_of_directories(liar);
    let find = |number: u64| chain.iter().find(|(_, own, _)| *own == number);
    let start = chain.iter().find(|(_, _, child)| {
        let next = find(*child).and_then(|(_, _, child)| find(*child)).and_then(|(_, _, child)| find(*child));
        next.is_some_and(|(_, _, child)| find(*child).is_some())
    });
    let (one, one_number, two_number) = start.context("no chain of directories")?;
    let (two, _, three_number) = find(*two_number).context("a link")?;
    let (three, _, four_number) = find(*three_number).context("a link")?;
    let (four, _, _) = find(*four_number).context("a link")?;
    let generation = |liar: &Liar, inode: &Instance| liar.get(inode, "core.gen").unwrap_or(0);
    // What lies below the ring takes its place, and the ring its own.
    let pairs = [(one, *one_number, four, *four_number), (three, *three_number, two, *two_number)];
    for (directory, number, child, child_number) in pairs {
        let generation = generation(liar, directory);
        liar.set(directory, &[("u3.sfdir3.list[0].inumber.i4", child_number)])?;
        liar.set(child, &[("u3.sfdir3.hdr.parent.i4", number)])?;
        let pointer = [
            ("a.sfattr.list[0].parent_dir.inumber", number),
            ("a.sfattr.list[0].parent_dir.gen", generation),
        ];
        // Without parent pointers there is one thing less to agree with.
        let _ = liar.set(child, &pointer);
    }
    Ok(())
}

fn point_all_entries(liar: &mut Liar, target: u64) -> Result<()> {
    for (structure, entries) in [(Structure::DirectoryBlock, "bu"), (Structure::DirectoryData, "du")] {
        for block in liar.all(structure) {
            let bytes = liar.read(&block)?;
            let names: Vec<String> = liar
                .fields(&block, &bytes)
                .into_iter()
                .map(|leaf| leaf.name)
                .filter(|name| name.starts_with(entries) && name.ends_with(".inumber"))
                .collect();
            let fields: Vec<(&str, u64)> = names.iter().map(|name| (name.as_str(), target)).collect();
            liar.set(&block, &fields)?;
        }
    }
    Ok(())
}

/// All entries of all directories that do not lie in their inodes name one file, `.` and `..` too.
fn all_entries_are_one(liar: &mut Liar) -> Result<()> {
    let (_, number, _) = file_of_group(liar, 0, 200)?;
    point_all_entries(liar, number)
}

fn all_entries_are_the_root(liar: &mut Liar) -> Result<()> {
    point_all_entries(liar, liar.geometry.root_inode.get())
}

/// All attributes of a full leaf have the same blocks for values of 64 KiB.
fn one_value_for_all(liar: &mut Liar) -> Result<()> {
    let remote = liar.find(Structure::AttributeRemoteValue, |_, _| true)?;
    let leaf = liar.find(Structure::AttributeLeaf, |_, leaf| leaf.owner == remote.owner)?;
    let first = remote.file_block.context("a value of no file")?;
    let block_bytes = liar.geometry.block_size_bytes as usize;
    let count = (block_bytes - 80) / (8 + 16);
    let mut names: Vec<[u8; 5]> = (0..count)
        .map(|number| {
            let digits = format!("n{number:04}");
            digits.as_bytes().try_into().unwrap_or(*b"n0000")
        })
        .collect();
    names.sort_by_key(|name| name_hash::hash(name));
    let mut bytes = liar.read(&leaf)?;
    bytes[80..].fill(0);
    bytes[56..58].copy_from_slice(&(count as u16).to_be_bytes());
    bytes[58..60].copy_from_slice(&((count * 16) as u16).to_be_bytes());
    bytes[60..62].copy_from_slice(&((block_bytes - count * 16) as u16).to_be_bytes());
    bytes[62..76].fill(0);
    for (index, name) in names.iter().enumerate() {
        let place = block_bytes - (index + 1) * 16;
        let entry = 80 + index * 8;
        bytes[entry..entry + 4].copy_from_slice(&name_hash::hash(name).to_be_bytes());
        bytes[entry + 4..entry + 6].copy_from_slice(&(place as u16).to_be_bytes());
        bytes[place..place + 4].copy_from_slice(&(first as u32).to_be_bytes());
        bytes[place + 4..place + 8].copy_from_slice(&(64_u32 << 10).to_be_bytes());
        bytes[place + 8] = name.len() as u8;
        bytes[place + 9..place + 9 + name.len()].copy_from_slice(name);
    }
    liar.put(&leaf, &mut bytes)
}

fn attribute_tree_is_deep(liar: &mut Liar) -> Result<()> {
    liar.set_all(Structure::AttributeNode, &[("hdr.level", 0xffff), ("hdr.count", 0xffff)])
}

fn attribute_leaves_in_a_loop(liar: &mut Liar) -> Result<()> {
    for leaf in liar.all(Structure::AttributeLeaf) {
        let own = leaf.file_block.context("a leaf of no file")?;
        liar.set(&leaf, &[("hdr.info.hdr.forw", own), ("hdr.info.hdr.back", own)])?;
    }
    Ok(())
}

/// All parent pointers name one directory that is none.
fn pointers_to_everything(liar: &mut Liar) -> Result<()> {
    let (_, number, _) = file_of_group(liar, 0, 200)?;
    for structure in [Structure::AttributeLeaf, Structure::Inode] {
        for instance in liar.all(structure) {
            let bytes = liar.read(&instance)?;
            let names: Vec<String> = liar
                .fields(&instance, &bytes)
                .into_iter()
                .map(|leaf| leaf.name)
                .filter(|name| name.ends_with("parent_dir.inumber"))
                .collect();
            if !names.is_empty() {
                let fields: Vec<(&str, u64)> = names.iter().map(|name| (name.as_str(), number)).collect();
                liar.set(&instance, &fields)?;
            }
        }
    }
    Ok(())
}

/// Every sector of the log begins a record that is as long as can be said.
fn log_records_without_end(liar: &mut Liar) -> Result<()> {
    let geometry = liar.geometry.clone();
    let log = geometry.log_start.context("an external log")?;
    let start = geometry.sector_of_block(log).context("its place")?.get() * 512;
    let length = u64::from(geometry.log_blocks) << geometry.block_log;
    let mut sector = [0; 512];
    for offset in (0..length).step_by(512) {
        liar.image.read(start + offset, &mut sector)?;
        let is_header = sector.starts_with(&[0xfe, 0xed, 0xba, 0xbe]);
        if is_header {
            // Length of the record, number of its operations, size of records.
            sector[16..20].copy_from_slice(&0x7fff_fe00_u32.to_be_bytes());
            sector[40..44].copy_from_slice(&u32::MAX.to_be_bytes());
            sector[320..324].copy_from_slice(&0x7fff_fe00_u32.to_be_bytes());
            sector[32..36].fill(0);
            liar.image.write(start + offset, &sector)?;
        }
    }
    Ok(())
}
