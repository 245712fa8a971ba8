use super::*;
use crate::{
    edit::DirtyMap,
    fault::{Fault, Structure},
    name_tree::{
        TreeKind,
        golden::{geometry, golden},
        header_edit::{copy_block, neighbours, set_next, set_previous},
    },
    units::{InodeNumber, Sector},
    verify::VerifyContext,
};
use proptest::prelude::*;

/// A block in memory, with what its verifier says once it is sealed.
struct Block {
    bytes: Vec<u8>,
    dirty: DirtyMap,
}

const SECTOR: Sector = Sector::new(4096);

impl Block {
    fn node(level: u16) -> Self {
        let geometry = geometry();
        let mut block =
            Self { bytes: vec![0; geometry.directory_block_size_bytes as usize], dirty: DirtyMap::clean() };
        let identity = BlockIdentity::new(&geometry, SECTOR, InodeNumber::new(99));
        NodeEdit::init(block.edit(), &identity, level);
        block
    }

    fn edit(&mut self) -> Edit<'_> {
        Edit::new(&mut self.bytes, &mut self.dirty)
    }

    fn node_edit(&mut self) -> NodeEdit<'_> {
        NodeEdit::new(self.edit())
    }

    fn verify(&self) -> Result<(), Fault> {
        let geometry = geometry();
        let mut bytes = self.bytes.clone();
        crate::seal::seal(&mut bytes, None, &geometry);
        Ok(NodeBlock::verify(&bytes, TreeKind::Directory, &VerifyContext::new(&geometry, SECTOR))?)
    }

    fn entries(&self) -> Vec<(u32, u64)> {
        let node = NodeBlock::parse(&self.bytes).unwrap();
        node.entries.iter().map(|entry| (entry.hash.get(), entry.child.get().into())).collect()
    }
}

fn child(number: u64) -> FileBlock {
    FileBlock::new(geometry().directory_leaf_start().get() + number * 4)
}

#[test]
fn a_new_node_becomes_valid_with_its_first_child() {
    let mut block = Block::node(1);
    assert!(block.verify().is_err(), "without children");
    block.node_edit().insert(0, 7, child(1));
    assert_eq!(block.verify(), Ok(()));
    let mut edit = block.edit();
    set_next(&mut edit, Some(child(2)));
    set_previous(&mut edit, Some(child(3)));
    assert_eq!(neighbours(&block.bytes), (Some(child(2)), Some(child(3))));
    assert_eq!(block.verify(), Ok(()));
}

#[test]
fn a_copy_differs_in_its_place_alone() {
    let source = golden(Structure::DirectoryNode);
    let mut block = Block::node(2);
    copy_block(&mut block.edit(), &source.bytes, SECTOR);
    assert_eq!(block.verify(), Ok(()));
    let differing = source.bytes.iter().zip(&block.bytes).filter(|(one, other)| one != other).count();
    assert!(differing <= 8, "{differing} bytes differ");
}

#[test]
fn a_full_node_splits_and_joins_again() {
    let mut left = Block::node(3);
    for index in 0..504 {
        assert!(!left.node_edit().is_full());
        left.node_edit().insert(index, index as u32, child(index as u64 + 1));
    }
    assert!(left.node_edit().is_full());
    let all = left.entries();
    let mut right = Block::node(3);
    left.node_edit().split_off(252, &mut right.node_edit());
    assert_eq!((left.verify(), right.verify()), (Ok(()), Ok(())));
    assert_eq!([left.entries(), right.entries()].concat(), all);
    let mut joined = Block::node(3);
    joined.node_edit().take_all(&right.bytes, MoveSide::Back);
    joined.node_edit().take_all(&left.bytes, MoveSide::Front);
    assert_eq!(joined.entries(), all);
}

#[test]
fn thresholds_leave_room_between_splitting_and_joining() {
    assert!(wants_join(186, 504) && !wants_join(187, 504));
    assert!(may_join(200, 178, 504) && !may_join(200, 179, 504));
}

proptest! {
    #[test]
    fn changes_keep_the_order_and_the_verifier_content(steps in prop::collection::vec((any::<bool>(), any::<u32>()), 1..200)) {
        let mut block = Block::node(1);
        let mut model: Vec<(u32, u64)> = vec![(u32::MAX, child(1).get())];
        block.node_edit().insert(0, u32::MAX, child(1));
        for (number, (is_removal, hash)) in steps.into_iter().enumerate() {
            let index = block.node_edit().view().unwrap().index_for(hash);
            if is_removal && model.len() > 1 {
                block.node_edit().remove(index);
                model.remove(index);
            } else if model[index].0 >= hash {
                let place = child(number as u64 + 2);
                block.node_edit().insert(index, hash, place);
                model.insert(index, (hash, place.get()));
            } else {
                block.node_edit().set_hash(index, hash);
                model[index].0 = hash;
            }
            prop_assert_eq!(block.verify(), Ok(()));
            prop_assert_eq!(block.entries(), model.clone());
        }
    }
}
