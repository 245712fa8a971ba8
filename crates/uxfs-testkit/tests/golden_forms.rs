//! The golden images hold what they are said to hold: were a form missing, the tests that read them would prove less
//! than they seem to.

use anyhow::Result;
use uxfs_block::engine::sync::SyncDevice;
use uxfs_format::fault::Structure;
use uxfs_testkit::{
    golden::{DIRTY_LOG, GoldenImage},
    matrix::GoldenSpec,
    structures,
};

/// Structures in blocks of their own that every image has that the recipe filled through the kernel.
const EVERYWHERE: [Structure; 17] = [
    Structure::Superblock,
    Structure::FreeSpaceHeader,
    Structure::InodeHeader,
    Structure::FreeList,
    Structure::FreeSpaceByBlock,
    Structure::FreeSpaceByLength,
    Structure::InodeIndex,
    Structure::ExtentMap,
    Structure::DirectoryBlock,
    Structure::DirectoryData,
    Structure::DirectoryLeaf,
    Structure::DirectoryLeafNode,
    Structure::DirectoryNode,
    Structure::DirectoryFreeIndex,
    Structure::AttributeLeaf,
    Structure::AttributeNode,
    Structure::AttributeRemoteValue,
];

fn kinds(image: &GoldenImage) -> Result<Vec<Structure>> {
    let device = SyncDevice::open_read_only(&image.unpacked()?, 0)?;
    let (_, instances) = structures::list(&device)?;
    Ok(instances.into_iter().map(|instance| instance.structure).collect())
}

#[test]
fn every_image_holds_every_form() {
    for image in GoldenImage::all().unwrap() {
        let judge = image.manifest().unwrap().header.judge;
        let kinds = kinds(&image).unwrap();
        let missing = |kind: &&Structure| !kinds.contains(kind);
        if judge.starts_with("Linux") {
            let missing: Vec<_> = EVERYWHERE.iter().filter(missing).collect();
            assert!(missing.is_empty(), "{}: no {missing:?}", image.name());
        }
        if image.name() == "default" {
            let more = [
                Structure::FreeInodeIndex,
                Structure::ReverseMap,
                Structure::ReferenceCount,
                Structure::Symlink,
            ];
            let missing: Vec<_> = more.iter().filter(missing).collect();
            assert!(missing.is_empty(), "no {missing:?}");
        }
    }
}

#[test]
fn every_image_of_the_matrix_is_there() {
    for spec in GoldenSpec::all() {
        assert!(GoldenImage::named(spec.name).is_ok_and(|image| image.packed().exists()), "{}", spec.name);
    }
    assert!(GoldenImage::all().unwrap().iter().all(|image| image.name() != DIRTY_LOG));
}
