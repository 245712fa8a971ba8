use proptest::prelude::*;

use super::*;
use crate::{
    directory::{
        edit_testing::{TestBlock, geometry},
        free_index::{FreeIndexBlock, most_bests},
    },
    fault::Structure,
};

proptest! {
    #[test]
    fn bests_equal_the_model(steps in prop::collection::vec((0_usize..480, prop::option::of(0_u16..100)), 1..200)) {
        let geometry = geometry(0);
        let mut block = TestBlock::new(&geometry);
        let identity = block.identity();
        FreeIndexEdit::init(block.edit(), &identity, most_bests(1024) * 3);
        let mut model: Vec<u16> = Vec::new();
        for (index, best) in steps {
            let best = best.map_or(NO_DATA_BLOCK, |best| best * 8);
            if index >= model.len() {
                model.resize(index + 1, NO_DATA_BLOCK);
            }
            model[index] = best;
            let mut edit = FreeIndexEdit::new(block.edit());
            edit.set_best(index, best);
            if best == NO_DATA_BLOCK {
                edit.trim();
                while model.last() == Some(&NO_DATA_BLOCK) {
                    model.pop();
                }
            }
            prop_assert_eq!(block.verify(), Ok(Structure::DirectoryFreeIndex));
            let view = FreeIndexBlock::parse(&block.bytes, &geometry).unwrap();
            prop_assert_eq!(view.bests.iter().map(|best| best.get()).collect::<Vec<_>>(), model.clone());
        }
    }
}
