//! Blocks of a value of an attribute are read together, and a finding names the first of them: which of them are damaged.

use uxfs_format::{
    attribute::{MAX_VALUE_BYTES, remote::block_count},
    fault::Structure,
    units::Sector,
};
use uxfs_volume::volume::Volume;

use super::{block_fields::Pieces, identity::is_sound_block_of, log_copies::DamagedBlock, stage::Stage};

/// The damaged blocks, with those that lie behind the first block of a damaged value and are damaged as well.
pub(super) fn with_whole_values(
    volume: &Volume,
    stage: &Stage,
    blocks: &[DamagedBlock],
) -> Vec<DamagedBlock> {
    let mut all = blocks.to_vec();
    let mut values = Pieces::new(volume);
    for first in blocks.iter().filter(|block| block.structure == Structure::AttributeRemoteValue) {
        all.extend(rest_of(&mut values, stage, first));
    }
    all
}

fn rest_of<'b>(
    values: &'b mut Pieces<'_>,
    stage: &'b Stage,
    first: &'b DamagedBlock,
) -> impl Iterator<Item = DamagedBlock> + 'b {
    let geometry = stage.geometry();
    let sectors_per_block = u64::from(geometry.sectors_per_block());
    let sector_of = move |index: u64| first.sector.checked_add(index.saturating_mul(sectors_per_block));
    (1..u64::from(block_count(geometry, MAX_VALUE_BYTES)))
        .map_while(sector_of)
        .map(|sector| DamagedBlock { sector, ..*first })
        .take_while(|block| values.of_value(block).is_some())
        .filter(|block| !is_sound(stage, block, block.sector))
}

fn is_sound(stage: &Stage, block: &DamagedBlock, sector: Sector) -> bool {
    let mut bytes = vec![0; stage.geometry().block_size()];
    stage.read_at(sector, &mut bytes).is_ok()
        && is_sound_block_of(block.inode, block.structure, &bytes, sector, stage.geometry())
}
