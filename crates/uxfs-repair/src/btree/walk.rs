//! Any btree, block by block: what the reader's verifiers do not compare are the keys of nodes with the contents of their children.

use std::ops::ControlFlow;

use uxfs_format::{
    btree::reverse_map::Owner,
    btree::{
        BlockPointer, BtreeKind,
        block::{Address, BtreeBlock, Pointer},
    },
    units::{AgBlock, AgNumber, InodeNumber},
};
use uxfs_volume::{
    btree::{BlockEvent, Tree},
    error::Error,
};

use crate::{
    check::Context,
    finding::Finding,
    observed::groups::{GroupState, GroupSums},
};

/// Whose a btree is.
#[derive(Debug, Clone, Copy)]
pub(crate) enum TreeOwner {
    Group(AgNumber),
    Inode(InodeNumber),
}

/// Result of a walk over a btree.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TreeWalk {
    pub blocks: u64,
    /// No block was left out.
    pub is_complete: bool,
}

/// Visits all blocks of a tree, and the records of its leaves in their order.
pub(crate) fn walk<K: BtreeKind>(
    context: &Context<'_>,
    tree: &Tree<'_, K>,
    owner: TreeOwner,
    on_block: &mut dyn FnMut(Address<K>),
    on_records: &mut dyn FnMut(&[K::Record]),
) -> TreeWalk {
    let mut found = TreeWalk { blocks: 0, is_complete: true };
    let mut fill =
        Fill { context, owner, block_size_bytes: tree.volume().geometry().block_size_bytes, top: None };
    let flow = tree.visit_blocks(&mut |event| {
        match event {
            BlockEvent::Block { address, view, key } => {
                found.blocks += 1;
                if key.is_some_and(|key| key_of(&view) != Some(*key)) {
                    context.sink.add(wrong_key::<K>(owner, address));
                }
                fill.add(address, &view, key.is_none());
                on_block(address);
                on_records(view.records());
            }
            BlockEvent::Damage(error) => {
                found.is_complete = false;
                match owner {
                    TreeOwner::Inode(inode) => context.sink.add_error_of(inode, error),
                    TreeOwner::Group(_) => context.sink.add_error(error),
                }
            }
        }
        context.sink.flow()
    });
    found.is_complete &= flow == ControlFlow::Continue(());
    found
}

/// Gives each sound block of a tree to `take`, without a finding. Gives whether there are no others.
pub(crate) fn visit_sound_blocks<K: BtreeKind>(
    tree: &Tree<'_, K>,
    take: &mut dyn FnMut(BtreeBlock<'_, K>),
) -> bool {
    let mut is_whole = true;
    let _ = tree.visit_blocks(&mut |event| {
        match event {
            BlockEvent::Block { view, .. } => take(view),
            BlockEvent::Damage(_) => is_whole = false,
        }
        ControlFlow::Continue(())
    });
    is_whole
}

/// Compares the records of blocks with the fewest that they may have. The root may have any number, and so may the only child of
/// a root that lies in an inode.
struct Fill<'w, 'c> {
    context: &'w Context<'c>,
    owner: TreeOwner,
    block_size_bytes: u32,
    /// Of a btree whose root is in the inode: the level below it, and what is wrong with the first block there.
    top: Option<(u16, Option<Finding>)>,
}

impl Fill<'_, '_> {
    fn add<K: BtreeKind>(&mut self, address: Address<K>, view: &BtreeBlock<'_, K>, is_root: bool) {
        let least = K::min_entries(self.block_size_bytes, view.level());
        let (group, inode) = self.owner.parts();
        let is_short = !is_root && view.len() < least as usize;
        let finding = is_short.then(|| Finding::BtreeFill {
            structure: K::STRUCTURE,
            group,
            inode,
            block: Pointer::<K>::from_address(address).raw(),
            found: view.len() as u64,
            least,
        });
        match &mut self.top {
            None if inode.is_some() => {
                self.top = Some((view.level(), finding));
            }
            Some((level, held)) if *level == view.level() => {
                held.take().into_iter().chain(finding).for_each(|finding| self.context.sink.add(finding));
            }
            _ => finding.into_iter().for_each(|finding| self.context.sink.add(finding)),
        }
    }
}

impl TreeOwner {
    fn parts(self) -> (Option<AgNumber>, Option<InodeNumber>) {
        match self {
            Self::Group(group) => (Some(group), None),
            Self::Inode(inode) => (None, Some(inode)),
        }
    }
}

/// Visits a btree of a group that only some file systems have. Its blocks belong to `owner`; `on_records` adds what its records
/// say. Gives the number of its blocks; `None` where there is no such btree, or it could not be read to its end.
pub(crate) fn walk_optional<K>(
    context: &Context<'_>,
    group: AgNumber,
    state: &mut GroupState,
    (tree, owner): (Result<Option<Tree<'_, K>>, Error>, Owner),
    mut on_records: impl FnMut(&mut GroupSums, &[K::Record]),
) -> Option<u64>
where
    K: BtreeKind,
    Address<K>: Into<AgBlock>,
{
    let Some(tree) = context.read(tree) else {
        state.is_complete = false;
        return None;
    };
    let (mut own, mut said) = (GroupSums::default(), GroupSums::default());
    let found = walk(
        context,
        &tree?,
        TreeOwner::Group(group),
        &mut |block| own.add_own(context, group, (block.into(), 1), owner),
        &mut |records| on_records(&mut said, records),
    );
    state.sums.merge(&own);
    state.sums.merge(&said);
    state.is_complete &= found.is_complete;
    found.is_complete.then_some(found.blocks)
}

fn wrong_key<K: BtreeKind>(owner: TreeOwner, address: Address<K>) -> Finding {
    let (group, inode) = owner.parts();
    let block = Pointer::<K>::from_address(address).raw();
    Finding::BtreeKey { structure: K::STRUCTURE, group, inode, block }
}

/// The key that leads to a block with these contents.
fn key_of<K: BtreeKind>(block: &BtreeBlock<'_, K>) -> Option<K::Key> {
    let records = block.records().iter().map(K::key_of_record);
    records.chain(block.keys().iter().copied()).reduce(|mut key, other| {
        K::widen_key(&mut key, &other);
        key
    })
}

/// Finds the records of a tree that another tree has otherwise or not at all, by a lookup of each. Both trees could be read to
/// their ends before: an error would come from the device, and was reported.
pub(crate) fn records_without_equal<K, O, R>(
    context: &Context<'_>,
    tree: &Tree<'_, K>,
    other: &Tree<'_, O>,
    is_equal: impl Fn(&R, &R) -> bool,
    mut on_record: impl FnMut(&R),
) where
    K: BtreeKind<Record = R>,
    O: BtreeKind<Record = R>,
{
    let mut cursor = other.cursor();
    for record in tree.records() {
        let Ok(record) = record else { return };
        let found = cursor.at_or_before(O::position_of_record(&record));
        if found.is_ok_and(|found| !found.is_some_and(|found| is_equal(&found, &record))) {
            on_record(&record);
        }
        if context.sink.is_stopped() {
            return;
        }
    }
}
