//! A file system's numbers in the words that users of mkfs.xfs and xfs_info know.

use std::fmt;

use uxfs_format::{
    features::{Features2, Incompatible, RoCompatible, VersionBits},
    superblock::Superblock,
};

/// Begins a line that continues the one before.
const SECOND: &str = "         =                      ";

/// The feature switches, by the names mkfs.xfs gives them.
pub fn switches(superblock: &Superblock) -> [(&'static str, bool); 15] {
    let words = superblock.feature_words();
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

/// The log's sector size in bytes; the superblock says 0 for 512.
pub fn log_sector_bytes(superblock: &Superblock) -> u16 {
    match superblock.log_sector_size_bytes.get() {
        0 => 512,
        size => size,
    }
}

/// The log's stripe unit in bytes, 0 for none; the superblock says 1 for that.
pub fn log_stripe_unit_bytes(superblock: &Superblock) -> u32 {
    match superblock.log_stripe_unit_bytes.get() {
        1 => 0,
        size => size,
    }
}

/// The block of lines that mkfs.xfs and xfs_info print.
#[derive(Debug, Clone, Copy)]
pub struct Summary<'a> {
    /// Where the numbers come from.
    pub superblock: &'a Superblock,
    /// The device's name.
    pub name: &'a str,
}

impl Summary<'_> {
    fn on(&self, name: &str) -> u8 {
        u8::from(switches(self.superblock).iter().any(|(switch, on)| *switch == name && *on))
    }

    fn write_metadata(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let superblock = self.superblock;
        writeln!(
            f,
            "meta-data={:<22} isize={:<6} agcount={}, agsize={} blks",
            self.name,
            superblock.inode_size_bytes.get(),
            superblock.ag_count.get(),
            superblock.ag_blocks.get()
        )?;
        writeln!(
            f,
            "{SECOND} sectsz={:<5} attr=2, projid32bit={}",
            superblock.sector_size_bytes.get(),
            self.on("projid32bit")
        )?;
        writeln!(
            f,
            "{SECOND} crc={:<8} finobt={}, sparse={}, rmapbt={}",
            self.on("crc"),
            self.on("finobt"),
            self.on("sparse"),
            self.on("rmapbt")
        )?;
        writeln!(
            f,
            "{SECOND} reflink={:<4} bigtime={} inobtcount={} nrext64={}",
            self.on("reflink"),
            self.on("bigtime"),
            self.on("inobtcount"),
            self.on("nrext64")
        )?;
        writeln!(f, "{SECOND} exchange={:<3} metadir={}", self.on("exchange"), self.on("metadir"))
    }

    fn write_data(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let superblock = self.superblock;
        let block_bytes = superblock.block_size_bytes.get();
        writeln!(
            f,
            "data     =                       bsize={block_bytes:<6} blocks={}, imaxpct={}",
            superblock.data_blocks.get(),
            superblock.inode_max_percent
        )?;
        writeln!(
            f,
            "{SECOND} sunit={:<6} swidth={} blks",
            superblock.stripe_unit_blocks.get(),
            superblock.stripe_width_blocks.get()
        )?;
        writeln!(
            f,
            "naming   =version 2              bsize={:<6} ascii-ci={}, ftype={}, parent={}",
            block_bytes.wrapping_shl(superblock.directory_block_log.into()),
            self.on("ascii-ci"),
            self.on("ftype"),
            self.on("parent")
        )
    }

    fn write_log(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let superblock = self.superblock;
        let block_bytes = superblock.block_size_bytes.get();
        let log = if superblock.log_start.get() == 0 { "external" } else { "internal log" };
        writeln!(
            f,
            "log      ={log:<22} bsize={block_bytes:<6} blocks={}, version=2",
            superblock.log_blocks.get()
        )?;
        writeln!(
            f,
            "{SECOND} sectsz={:<5} sunit={} blks, lazy-count={}",
            log_sector_bytes(superblock),
            log_stripe_unit_bytes(superblock) / block_bytes.max(1),
            self.on("lazy-count")
        )
    }

    fn write_realtime(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let superblock = self.superblock;
        let extent_bytes = u64::from(superblock.realtime_extent_size_blocks.get())
            * u64::from(superblock.block_size_bytes.get());
        let is_zoned = superblock.feature_words().incompatible.contains(Incompatible::ZONED);
        let place = match (superblock.realtime_blocks.get(), superblock.realtime_start.get()) {
            (0, _) => "none",
            (_, 0) => "external",
            _ => "internal",
        };
        writeln!(
            f,
            "realtime ={place:<22} extsz={extent_bytes:<6} blocks={}, rtextents={}",
            superblock.realtime_blocks.get(),
            superblock.realtime_extents.get()
        )?;
        writeln!(
            f,
            "{SECOND} rgcount={:<4} rgsize={} extents",
            superblock.realtime_group_count.get(),
            superblock.realtime_group_extents.get()
        )?;
        writeln!(
            f,
            "{SECOND} zoned={:<6} start={} reserved={}",
            u8::from(is_zoned),
            superblock.realtime_start.get(),
            superblock.realtime_reserved.get()
        )
    }
}

impl fmt::Display for Summary<'_> {
    /// All lines, each ended.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write_metadata(f)?;
        self.write_data(f)?;
        self.write_log(f)?;
        self.write_realtime(f)
    }
}
