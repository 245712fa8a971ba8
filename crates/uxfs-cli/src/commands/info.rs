//! `uxfs info`: geometry in the layout of xfs_info, features, counters.

use std::io::Write;

use serde_json::json;
use uxfs_core::filesystem::FileSystem;
use uxfs_format::features::{Features2, Incompatible, RoCompatible, VersionBits};

use crate::{
    commands::Context,
    failure::{Exit, Failure, Outcome},
    image::ImageArguments,
    output::{JsonName, Output},
};

/// Arguments of `uxfs info`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: uxfs info disk.img")]
pub struct Arguments {
    #[command(flatten)]
    image: ImageArguments,
}

/// Runs the command.
pub fn run(arguments: &Arguments, context: &Context) -> Outcome {
    let filesystem = arguments.image.open()?;
    let mut output = Output::new();
    if context.json {
        output.json(&document(&filesystem))?;
    } else {
        print(&filesystem, &arguments.image.image.display().to_string(), &mut output)?;
    }
    output.finish()?;
    Ok(Exit::Success)
}

/// The feature switches, by the names mkfs.xfs gives them.
fn switches(filesystem: &FileSystem) -> [(&'static str, bool); 15] {
    let words = filesystem.superblock().feature_words();
    let ro = |bit| words.ro_compatible.contains(bit);
    let incompat = |bit| words.incompatible.contains(bit);
    [
        ("crc", words.features2.contains(Features2::CHECKSUMS)),
        ("projid32bit", words.features2.contains(Features2::PROJECT_ID_32)),
        ("lazy-count", words.features2.contains(Features2::LAZY_COUNTERS)),
        ("finobt", ro(RoCompatible::FREE_INODE_BTREE)),
        ("rmapbt", ro(RoCompatible::REVERSE_MAP_BTREE)),
        ("reflink", ro(RoCompatible::REFLINK)),
        ("inobtcount", ro(RoCompatible::INODE_BTREE_COUNTS)),
        ("sparse", incompat(Incompatible::SPARSE_INODES)),
        ("bigtime", incompat(Incompatible::BIG_TIME)),
        ("nrext64", incompat(Incompatible::LARGE_EXTENT_COUNTS)),
        ("exchange", incompat(Incompatible::EXCHANGE_RANGE)),
        ("metadir", incompat(Incompatible::METADATA_DIRECTORY)),
        ("ftype", incompat(Incompatible::FILE_TYPE)),
        ("parent", incompat(Incompatible::PARENT_POINTERS)),
        ("ascii-ci", words.version_bits.contains(VersionBits::ASCII_CASE_INSENSITIVE)),
    ]
}

fn document(filesystem: &FileSystem) -> serde_json::Value {
    let superblock = filesystem.superblock();
    let geometry = filesystem.geometry();
    let label = JsonName::new(superblock.label());
    let features: serde_json::Map<_, _> =
        switches(filesystem).into_iter().map(|(name, on)| (name.to_owned(), on.into())).collect();
    json!({
        "label": label.text(),
        "label_hex": label.hex(),
        "uuid": superblock.uuid.to_string(),
        "block_size_bytes": geometry.block_size_bytes,
        "sector_size_bytes": geometry.sector_size_bytes,
        "inode_size_bytes": geometry.inode_size_bytes,
        "directory_block_size_bytes": geometry.directory_block_size_bytes,
        "data_blocks": geometry.data_blocks,
        "group_count": geometry.ag_count,
        "group_blocks": geometry.ag_blocks,
        "inode_max_percent": superblock.inode_max_percent,
        "stripe_unit_blocks": superblock.stripe_unit_blocks.get(),
        "stripe_width_blocks": superblock.stripe_width_blocks.get(),
        "log": {
            "is_internal": geometry.log_start.is_some(),
            "blocks": geometry.log_blocks,
            "sector_size_bytes": log_sector_size_bytes(filesystem),
            "stripe_unit_bytes": log_stripe_unit_bytes(filesystem),
        },
        "realtime": {
            "blocks": superblock.realtime_blocks.get(),
            "extents": superblock.realtime_extents.get(),
            "extent_size_blocks": superblock.realtime_extent_size_blocks.get(),
            "group_count": superblock.realtime_group_count.get(),
            "group_extents": superblock.realtime_group_extents.get(),
        },
        "features": features,
        "counters": {
            "inodes_allocated": superblock.inode_count.get(),
            "inodes_free": superblock.free_inodes.get(),
            "data_blocks_free": superblock.free_data_blocks.get(),
            "realtime_extents_free": superblock.free_realtime_extents.get(),
        },
    })
}

fn log_sector_size_bytes(filesystem: &FileSystem) -> u16 {
    match filesystem.superblock().log_sector_size_bytes.get() {
        0 => 512,
        size => size,
    }
}

fn log_stripe_unit_bytes(filesystem: &FileSystem) -> u32 {
    match filesystem.superblock().log_stripe_unit_bytes.get() {
        1 => 0,
        size => size,
    }
}

/// What continues a line of the layout.
const SECOND: &str = "         =                      ";

/// Prints the layout that users of xfs_info know, then label, uuid and counters.
fn print(filesystem: &FileSystem, name: &str, output: &mut Output) -> Result<(), Failure> {
    let switches = switches(filesystem);
    let on = |name: &str| u8::from(switches.iter().any(|(switch, on)| *switch == name && *on));
    print_metadata(filesystem, name, on, output)?;
    print_data(filesystem, on, output)?;
    print_log(filesystem, on, output)?;
    print_realtime(filesystem, output)?;
    print_identity(filesystem, output)
}

fn print_metadata(
    filesystem: &FileSystem,
    name: &str,
    on: impl Fn(&str) -> u8,
    output: &mut Output,
) -> Result<(), Failure> {
    let geometry = filesystem.geometry();
    let inode_size = geometry.inode_size_bytes;
    let (ag_count, ag_blocks) = (geometry.ag_count, geometry.ag_blocks);
    let sector = geometry.sector_size_bytes;
    writeln!(
        output,
        "meta-data={name:<22} isize={inode_size:<6} agcount={ag_count}, agsize={ag_blocks} blks"
    )?;
    writeln!(output, "{SECOND} sectsz={sector:<5} attr=2, projid32bit={}", on("projid32bit"))?;
    writeln!(
        output,
        "{SECOND} crc={:<8} finobt={}, sparse={}, rmapbt={}",
        on("crc"),
        on("finobt"),
        on("sparse"),
        on("rmapbt")
    )?;
    writeln!(
        output,
        "{SECOND} reflink={:<4} bigtime={} inobtcount={} nrext64={}",
        on("reflink"),
        on("bigtime"),
        on("inobtcount"),
        on("nrext64")
    )?;
    writeln!(output, "{SECOND} exchange={:<3} metadir={}", on("exchange"), on("metadir"))?;
    Ok(())
}

fn print_data(filesystem: &FileSystem, on: impl Fn(&str) -> u8, output: &mut Output) -> Result<(), Failure> {
    let (superblock, geometry) = (filesystem.superblock(), filesystem.geometry());
    writeln!(
        output,
        "data     =                       bsize={:<6} blocks={}, imaxpct={}",
        geometry.block_size_bytes, geometry.data_blocks, superblock.inode_max_percent
    )?;
    writeln!(
        output,
        "{SECOND} sunit={:<6} swidth={} blks",
        superblock.stripe_unit_blocks, superblock.stripe_width_blocks
    )?;
    writeln!(
        output,
        "naming   =version 2              bsize={:<6} ascii-ci={}, ftype={}, parent={}",
        geometry.directory_block_size_bytes,
        on("ascii-ci"),
        on("ftype"),
        on("parent")
    )?;
    Ok(())
}

fn print_log(filesystem: &FileSystem, on: impl Fn(&str) -> u8, output: &mut Output) -> Result<(), Failure> {
    let geometry = filesystem.geometry();
    let log = if geometry.log_start.is_some() { "internal log" } else { "external" };
    writeln!(
        output,
        "log      ={log:<22} bsize={:<6} blocks={}, version=2",
        geometry.block_size_bytes, geometry.log_blocks
    )?;
    writeln!(
        output,
        "{SECOND} sectsz={:<5} sunit={} blks, lazy-count={}",
        log_sector_size_bytes(filesystem),
        log_stripe_unit_bytes(filesystem) / geometry.block_size_bytes,
        on("lazy-count")
    )?;
    Ok(())
}

fn print_realtime(filesystem: &FileSystem, output: &mut Output) -> Result<(), Failure> {
    let (superblock, geometry) = (filesystem.superblock(), filesystem.geometry());
    let extent_size =
        u64::from(superblock.realtime_extent_size_blocks.get()) * u64::from(geometry.block_size_bytes);
    let is_zoned = superblock.feature_words().incompatible.contains(Incompatible::ZONED);
    let realtime = match (superblock.realtime_blocks.get(), superblock.realtime_start.get()) {
        (0, _) => "none",
        (_, 0) => "external",
        _ => "internal",
    };
    writeln!(
        output,
        "realtime ={realtime:<22} extsz={extent_size:<6} blocks={}, rtextents={}",
        superblock.realtime_blocks, superblock.realtime_extents
    )?;
    writeln!(
        output,
        "{SECOND} rgcount={:<4} rgsize={} extents",
        superblock.realtime_group_count, superblock.realtime_group_extents
    )?;
    writeln!(
        output,
        "{SECOND} zoned={:<6} start={} reserved={}",
        u8::from(is_zoned),
        superblock.realtime_start,
        superblock.realtime_reserved
    )?;
    Ok(())
}

fn print_identity(filesystem: &FileSystem, output: &mut Output) -> Result<(), Failure> {
    let superblock = filesystem.superblock();
    write!(output, "label    =")?;
    output.name(superblock.label())?;
    writeln!(output)?;
    writeln!(output, "uuid     ={}", superblock.uuid)?;
    writeln!(
        output,
        "counters =                       inodes={}, free inodes={}, free blocks={}",
        superblock.inode_count, superblock.free_inodes, superblock.free_data_blocks
    )?;
    Ok(())
}
