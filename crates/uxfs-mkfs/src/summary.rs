//! The summary of a layout in the words that users of mkfs.xfs and xfs_info know.

use std::fmt;

use crate::layout::Layout;

/// What continues a line.
const SECOND: &str = "         =                      ";

/// The numbers of the summary. Who reads a file system back fills it as well as who makes one.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs)] // Each is what the summary calls it.
pub struct Summary {
    pub name: String,
    pub inode_bytes: u32,
    pub group_count: u64,
    pub group_blocks: u64,
    pub sector_bytes: u32,
    pub has_project_id_32: bool,
    pub has_checksums: bool,
    pub has_free_inode_btree: bool,
    pub has_sparse_inodes: bool,
    pub has_reverse_map: bool,
    pub has_reflink: bool,
    pub has_big_time: bool,
    pub has_inode_btree_counts: bool,
    pub has_large_extent_counts: bool,
    pub has_exchange_range: bool,
    pub has_metadata_directory: bool,
    pub block_bytes: u32,
    pub data_blocks: u64,
    pub inode_max_percent: u8,
    pub stripe_unit_blocks: u32,
    pub stripe_width_blocks: u32,
    pub directory_block_bytes: u32,
    pub is_case_insensitive: bool,
    pub has_file_types: bool,
    pub has_parent_pointers: bool,
    pub has_internal_log: bool,
    pub log_blocks: u32,
    pub log_sector_bytes: u32,
    pub log_stripe_unit_blocks: u32,
    pub has_lazy_counters: bool,
    pub realtime: Realtime,
}

/// The last three lines.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Realtime {
    pub place: &'static str,
    pub extent_bytes: u64,
    pub blocks: u64,
    pub extents: u64,
    pub group_count: u32,
    pub group_extents: u32,
    pub is_zoned: bool,
    pub start_block: u64,
    pub reserved_blocks: u64,
}

impl Summary {
    /// Of a layout for the device `name`.
    pub fn of(layout: &Layout, name: impl Into<String>) -> Self {
        let (sizes, features) = (&layout.sizes, &layout.features);
        Self {
            name: name.into(),
            inode_bytes: sizes.inode_bytes,
            group_count: layout.groups.count,
            group_blocks: layout.groups.blocks,
            sector_bytes: sizes.sector_bytes,
            has_project_id_32: true,
            has_checksums: true,
            has_free_inode_btree: features.free_inode_btree,
            has_sparse_inodes: features.sparse_inodes,
            has_reverse_map: features.reverse_map,
            has_reflink: features.reflink,
            has_big_time: features.big_time,
            has_inode_btree_counts: features.inode_btree_counts,
            has_large_extent_counts: features.large_extent_counts,
            has_exchange_range: features.exchange_range,
            has_metadata_directory: false,
            block_bytes: sizes.block_bytes,
            data_blocks: layout.groups.data_blocks,
            inode_max_percent: layout.inode_max_percent,
            stripe_unit_blocks: layout.stripe.unit_blocks,
            stripe_width_blocks: layout.stripe.width_blocks,
            directory_block_bytes: sizes.directory_block_bytes,
            is_case_insensitive: features.case_insensitive,
            has_file_types: true,
            has_parent_pointers: features.parent_pointers,
            has_internal_log: true,
            log_blocks: layout.log.blocks,
            log_sector_bytes: sizes.sector_bytes,
            log_stripe_unit_blocks: layout.log.stripe_unit_bytes / sizes.block_bytes,
            has_lazy_counters: true,
            realtime: Realtime {
                place: "none",
                extent_bytes: u64::from(layout.realtime_extent_blocks) * u64::from(sizes.block_bytes),
                blocks: 0,
                extents: 0,
                group_count: 0,
                group_extents: 0,
                is_zoned: false,
                start_block: 0,
                reserved_blocks: 0,
            },
        }
    }

    fn write_metadata(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let on = u8::from;
        writeln!(
            f,
            "meta-data={:<22} isize={:<6} agcount={}, agsize={} blks",
            self.name, self.inode_bytes, self.group_count, self.group_blocks
        )?;
        writeln!(
            f,
            "{SECOND} sectsz={:<5} attr=2, projid32bit={}",
            self.sector_bytes,
            on(self.has_project_id_32)
        )?;
        writeln!(
            f,
            "{SECOND} crc={:<8} finobt={}, sparse={}, rmapbt={}",
            on(self.has_checksums),
            on(self.has_free_inode_btree),
            on(self.has_sparse_inodes),
            on(self.has_reverse_map)
        )?;
        writeln!(
            f,
            "{SECOND} reflink={:<4} bigtime={} inobtcount={} nrext64={}",
            on(self.has_reflink),
            on(self.has_big_time),
            on(self.has_inode_btree_counts),
            on(self.has_large_extent_counts)
        )?;
        writeln!(
            f,
            "{SECOND} exchange={:<3} metadir={}",
            on(self.has_exchange_range),
            on(self.has_metadata_directory)
        )
    }

    fn write_data(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "data     =                       bsize={:<6} blocks={}, imaxpct={}",
            self.block_bytes, self.data_blocks, self.inode_max_percent
        )?;
        writeln!(
            f,
            "{SECOND} sunit={:<6} swidth={} blks",
            self.stripe_unit_blocks, self.stripe_width_blocks
        )?;
        writeln!(
            f,
            "naming   =version 2              bsize={:<6} ascii-ci={}, ftype={}, parent={}",
            self.directory_block_bytes,
            u8::from(self.is_case_insensitive),
            u8::from(self.has_file_types),
            u8::from(self.has_parent_pointers)
        )
    }

    fn write_log(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let log = if self.has_internal_log { "internal log" } else { "external" };
        writeln!(
            f,
            "log      ={log:<22} bsize={:<6} blocks={}, version=2",
            self.block_bytes, self.log_blocks
        )?;
        writeln!(
            f,
            "{SECOND} sectsz={:<5} sunit={} blks, lazy-count={}",
            self.log_sector_bytes,
            self.log_stripe_unit_blocks,
            u8::from(self.has_lazy_counters)
        )
    }
}

impl fmt::Display for Summary {
    /// All lines, each ended.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write_metadata(f)?;
        self.write_data(f)?;
        self.write_log(f)?;
        let realtime = &self.realtime;
        writeln!(
            f,
            "realtime ={:<22} extsz={:<6} blocks={}, rtextents={}",
            realtime.place, realtime.extent_bytes, realtime.blocks, realtime.extents
        )?;
        writeln!(
            f,
            "{SECOND} rgcount={:<4} rgsize={} extents",
            realtime.group_count, realtime.group_extents
        )?;
        writeln!(
            f,
            "{SECOND} zoned={:<6} start={} reserved={}",
            u8::from(realtime.is_zoned),
            realtime.start_block,
            realtime.reserved_blocks
        )
    }
}
