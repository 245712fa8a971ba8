//! Version 1: index blocks, each followed by the blocks of 512 bytes that it names. An index block that is not full is the last.

use uxfs_format::units::SECTOR_SIZE_BYTES;

use super::{RestoreError, Restored, Target, stream::Stream};
use crate::format::{IndexHeader, MAGIC_V1};

const INDEX: &str = "an index block";
const BLOCK: &str = "a block";
/// All blocks of such dumps have 512 bytes.
const BLOCK_LOG: u8 = 9;

pub(super) fn restore(
    stream: &mut Stream<'_>,
    first: IndexHeader,
    target: &mut dyn Target,
    progress: &mut dyn FnMut(u64),
) -> Result<Restored, RestoreError> {
    let (mut index, mut restored) = (first, None);
    loop {
        if index.block_log != BLOCK_LOG {
            return Err(RestoreError::Header("its blocks do not have 512 bytes"));
        }
        let (count, capacity) = (usize::from(index.count), index.capacity());
        if count > capacity {
            return Err(RestoreError::Header("an index block names more blocks than fit"));
        }
        let mut places = vec![0; capacity * 8];
        stream.fill(&mut places, INDEX)?;
        let places =
            places.chunks_exact(8).map(|place| place.first_chunk().copied().map_or(0, u64::from_be_bytes));
        let places: Vec<u64> = places.take(count).collect();
        restore_blocks(stream, &places, &mut restored, target)?;
        progress(restored.as_ref().map_or(0, |restored| restored.bytes));
        if count < capacity {
            break;
        }
        let Some(magic) = stream.next_array::<4>(INDEX)? else { break };
        if u32::from_be_bytes(magic) != MAGIC_V1 {
            return Err(RestoreError::Header("an index block has another magic number"));
        }
        index = IndexHeader::decode(&stream.array(INDEX)?);
    }
    restored.ok_or(RestoreError::NoSuperblock("it has no blocks"))
}

/// The blocks that one index block names.
fn restore_blocks(
    stream: &mut Stream<'_>,
    places: &[u64],
    restored: &mut Option<Restored>,
    target: &mut dyn Target,
) -> Result<(), RestoreError> {
    let mut bytes = vec![0; places.len() << BLOCK_LOG];
    stream.fill(&mut bytes, BLOCK)?;
    let mut rest = places.iter().zip(bytes.chunks_exact(1 << BLOCK_LOG));
    let restored = match restored {
        Some(restored) => restored,
        None => {
            // Sectors may be longer than blocks of a dump: those that follow each other belong together.
            let count = (0_u64..).zip(places).take_while(|(expected, place)| expected == *place).count();
            if count == 0 {
                return Err(RestoreError::NoSuperblock("the first block lies elsewhere"));
            }
            let length = count << BLOCK_LOG;
            rest = places
                .get(count..)
                .unwrap_or_default()
                .iter()
                .zip(bytes.get(length..).unwrap_or_default().chunks_exact(1 << BLOCK_LOG));
            let begun = Restored::begin(bytes.get(..length).unwrap_or_default(), target)?;
            let restored = restored.insert(begun);
            restored.extents = count as u64;
            restored
        }
    };
    for (place, block) in rest {
        let start_bytes = place.saturating_mul(SECTOR_SIZE_BYTES);
        restored.check(start_bytes, block.len() as u64)?;
        restored.extents += 1;
        restored.put(start_bytes, block, target)?;
    }
    Ok(())
}
