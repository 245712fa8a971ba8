//! Random changes of a file beside a naive model, each block on its own.

use std::collections::BTreeMap;

use uxfs_engine::extent_map::map::Mapping;
use uxfs_format::inode::Fork;
use uxfs_testkit::{image::TestImage, judges::Judge, require, seeds::Random};
use uxfs_volume::extent_map::Extent;

use super::{KINDS, begin, block, finish, read_back};

/// File block to whether it is unwritten.
type Model = BTreeMap<u64, bool>;

fn flattened(extents: &[Extent]) -> Model {
    let blocks = |extent: &Extent| {
        let (start, is_unwritten) = (extent.file_block.get(), extent.is_unwritten);
        (start..start + extent.length_blocks).map(move |block| (block, is_unwritten))
    };
    extents.iter().flat_map(blocks).collect()
}

#[test]
fn random_changes_beside_a_model() {
    require!(Judge::Mkfs, Judge::XfsRepair);
    for (name, size, options) in KINDS {
        let image = TestImage::new(&format!("random changes, {name}"), *size, options, 4);
        let mut models: Vec<Model> = vec![Model::new(); 4];
        let mut random = Random::new(0x5eed_0000 + name.len() as u64);
        for _ in 0..3 {
            let file_system = image.mount_bulk();
            let mut numbers = Vec::new();
            for (index, model) in models.iter_mut().enumerate() {
                let (mut tx, mut inode) = begin(&file_system, index);
                for step in 0..400 {
                    let (start, length) = (random.below(600), 1 + random.below(12));
                    let is_unwritten = random.below(3) == 0;
                    match random.below(10) {
                        0..=4 => {
                            let mapping = Mapping { is_unwritten, hint: None };
                            tx.extent_maps()
                                .map_blocks(&mut inode, Fork::Data, block(start), length, mapping)
                                .unwrap();
                            (start..start + length).for_each(|block| {
                                model.entry(block).or_insert(is_unwritten);
                            });
                        }
                        5..=7 => {
                            tx.extent_maps()
                                .unmap_blocks(&mut inode, Fork::Data, block(start), length)
                                .unwrap();
                            model.retain(|block, _| !(start..start + length).contains(block));
                        }
                        _ => {
                            tx.extent_maps()
                                .convert_blocks(&mut inode, block(start), length, is_unwritten)
                                .unwrap();
                            model
                                .range_mut(start..start + length)
                                .for_each(|(_, state)| *state = is_unwritten);
                        }
                    }
                    assert_eq!(&flattened(&inode.extents(Fork::Data).to_vec()), model, "{name}, step {step}");
                    if step % 16 == 0 {
                        tx.finish_deferred().unwrap();
                    }
                }
                numbers.push((inode.number, inode.extents(Fork::Data).to_vec(), inode.blocks()));
                finish(tx, &mut inode);
            }
            file_system.close().unwrap();
            image.must_be_sound();
            for (number, extents, blocks) in numbers {
                let (found, _, found_blocks) = read_back(&image, number);
                assert_eq!((found, found_blocks), (extents, blocks), "{name}");
            }
        }
    }
}
