//! `uxfs owner`: which file or structure has a block, a sector or a byte of the image.

use std::io::Write;

use serde_json::{Value as Json, json};
use uxfs_format::{
    geometry::Geometry,
    inode::Fork,
    units::{AgBlock, AgNumber, FsBlock, InodeNumber, SECTOR_SIZE_BYTES, Sector},
};
use uxfs_volume::volume::Volume;

use crate::{
    block_owner::{BlockOwner, owners_of, paths_of},
    commands::{Context, check::report::paths_of as documents_of_paths, put_image},
    failure::{Exit, Failure, Outcome},
    kind::Kind,
    output::Output,
    text::parse_number,
};

/// Arguments of `uxfs owner`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  uxfs owner disk.img --sector 123456\n  uxfs owner disk.img --byte 0x3c000 --byte 0x40000\n\
    Sectors have 512 bytes and begin at the file system, as smartctl, the kernel's messages and ddrescue count them in a \
    partition. Blocks are numbered as xfs_db and `uxfs map` number them. Without a reverse map all inodes are read."
)]
pub struct Arguments {
    #[command(flatten)]
    places: Places,
}

#[derive(Debug, clap::Args)]
#[group(required = true, multiple = true)]
struct Places {
    /// A block of the file system
    #[arg(long, value_name = "BLOCK", value_parser = parse_place)]
    block: Vec<u64>,
    /// A sector of 512 bytes
    #[arg(long, value_name = "SECTOR", value_parser = parse_place)]
    sector: Vec<u64>,
    /// A byte
    #[arg(long, value_name = "BYTE", value_parser = parse_place)]
    byte: Vec<u64>,
}

fn parse_place(text: &str) -> Result<u64, String> {
    parse_number(text).ok_or_else(|| "give a number, in hexadecimal after 0x".to_owned())
}

/// Runs the command.
pub fn run(volume: &Volume, arguments: &Arguments, context: &Context) -> Outcome {
    let geometry = volume.geometry();
    let Places { block, sector, byte } = &arguments.places;
    let of_block = |block: &u64| {
        let sector = geometry.sector_of_block(FsBlock::new(*block));
        sector
            .map(Geometry::byte_of_sector)
            .ok_or_else(|| Failure::refused(Kind::Invalid, format!("the file system has no block {block}")))
    };
    let of_sector = |sector: &u64| {
        sector.checked_mul(SECTOR_SIZE_BYTES).ok_or_else(|| {
            let words = format!("sector {sector} lies behind the end of the file system");
            Failure::refused(Kind::Invalid, words)
        })
    };
    let mut bytes = block.iter().map(of_block).collect::<Result<Vec<_>, _>>()?;
    bytes.extend(sector.iter().map(of_sector).collect::<Result<Vec<_>, _>>()?);
    bytes.extend(byte);
    let mut output = Output::new();
    bytes.into_iter().try_for_each(|byte| show(volume, byte, context, &mut output))?;
    output.finish()?;
    Ok(Exit::Success)
}

/// A byte of the file system, and where it lies.
struct Place {
    byte: u64,
    sector: u64,
    block: FsBlock,
    group: AgNumber,
    group_block: AgBlock,
}

/// Shows the owners of the block in which a byte of the file system lies.
pub(crate) fn show(
    volume: &Volume,
    byte: u64,
    context: &Context,
    output: &mut Output,
) -> Result<(), Failure> {
    let sector = byte / SECTOR_SIZE_BYTES;
    let geometry = volume.geometry();
    let place = geometry.block_of_sector(Sector::new(sector)).and_then(|(group, group_block, _)| {
        Some(Place { byte, sector, block: geometry.fs_block(group, group_block)?, group, group_block })
    });
    let Some(place) = place else {
        let words = format!("byte {byte} lies behind the end of the file system");
        return Err(Failure::refused(Kind::Invalid, words));
    };
    for owner in owners_of(volume, place.group, place.group_block)? {
        let inode = match owner {
            BlockOwner::File { inode, .. } => Some(inode),
            _ => None,
        };
        let paths = inode.map(|inode| paths_of(volume, inode)).unwrap_or_default();
        let in_block = byte % u64::from(geometry.block_size_bytes);
        let offset_bytes = match owner {
            BlockOwner::File { file_block: Some(block), .. } => block
                .checked_mul(geometry.block_size_bytes.into())
                .and_then(|start| start.checked_add(in_block)),
            _ => None,
        };
        if context.json {
            let mut document = document(&place, owner, offset_bytes, &paths);
            put_image(&mut document, context);
            output.json(&document)?;
            continue;
        }
        let Place { block, group, group_block, .. } = &place;
        write!(
            output,
            "byte {byte}, sector {sector}, block {block} (group {group}, block {group_block}): {}",
            owner.words()
        )?;
        match offset_bytes {
            Some(offset_bytes) => writeln!(output, " (byte {offset_bytes})")?,
            None => writeln!(output)?,
        }
        for path in &paths {
            output.write_all(b"    ")?;
            output.name(path)?;
            output.write_all(b"\n")?;
        }
        if let Some(inode) = inode.filter(|_| paths.is_empty()) {
            writeln!(
                output,
                "    no parent pointer says its path: uxfs find IMAGE / -inum {inode} looks for it"
            )?;
        }
    }
    Ok(())
}

fn document(place: &Place, owner: BlockOwner, offset_bytes: Option<u64>, paths: &[Vec<u8>]) -> Json {
    let (inode, fork, file_block, is_unwritten) = match owner {
        BlockOwner::File { inode, fork, file_block, is_unwritten } => {
            (Some(inode), Some(fork), file_block, is_unwritten)
        }
        _ => (None, None, None, false),
    };
    let paths: Vec<_> = inode.map(|inode| (inode, paths.to_vec())).into_iter().collect();
    json!({
        "byte": place.byte,
        "sector": place.sector,
        "block": place.block.get(),
        "group": place.group.get(),
        "group_block": place.group_block.get(),
        "owner": owner.name(),
        "inode": inode.map(InodeNumber::get),
        "fork": fork.map(|fork| if fork == Fork::Attribute { "attribute" } else { "data" }),
        "file_block": file_block,
        "offset_bytes": offset_bytes,
        "unwritten": is_unwritten,
        "paths": documents_of_paths(&paths),
    })
}
