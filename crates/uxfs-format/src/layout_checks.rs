//! Sizes and offsets of every on-disk structure, checked when the crate is compiled. The numbers are facts of the
//! format, written down independently of the declarations they check.
#![allow(clippy::wildcard_imports)]

use std::mem::offset_of;

use crate::{
    allocation_group::{
        free_list::{FreeListHeader, FreeListSlot},
        free_space_header::FreeSpaceHeader,
        inode_header::InodeHeader,
    },
    attribute::{
        leaf as attribute_leaf, parent_pointer::ParentRecord, posix_acl, remote,
        shortform as attribute_shortform,
    },
    btree::{
        block_header::{LongBlockHeader, ShortBlockHeader},
        extent_map::{ExtentMapKey, ExtentRecord, RootHeader},
        free_space::FreeSpaceRecord,
        inode_index::{FullInodeIndexRecord, InodeIndexKey, InodeIndexRecord},
        reference_count::{ReferenceCountKey, ReferenceCountRecord},
        reverse_map::{ReverseMapKey, ReverseMapRecord},
    },
    directory::{block, data, free_index, header::DirectoryBlockHeader, leaf as directory_leaf, shortform},
    inode::{InodeCore, symlink::SymlinkHeader},
    log,
    name_tree::{header::BlockHeader, node},
    quota::QuotaRecord,
    realtime::{
        block::{BitmapWord, RealtimeBlockHeader, SummaryWord},
        group_superblock::RealtimeSuperblock,
    },
    superblock::Superblock,
};

macro_rules! layout {
    ($type:ty, $size:literal $(, $field:ident @ $offset:literal)* $(,)?) => {
        const _: () = assert!(size_of::<$type>() == $size);
        const _: () = assert!(align_of::<$type>() == 1);
        $( const _: () = assert!(offset_of!($type, $field) == $offset); )*
    };
}

layout!(
    Superblock, 304, block_size_bytes @ 4, uuid @ 32, log_start @ 48, ag_blocks @ 84, version_number @ 100,
    label @ 108, block_log @ 120, in_progress @ 126, inode_count @ 128, user_quota_inode @ 160,
    inode_alignment_blocks @ 180, directory_block_log @ 192, log_stripe_unit_bytes @ 196, features2 @ 200,
    checksum @ 224, lsn @ 240, metadata_uuid @ 248, metadata_directory_inode @ 264, realtime_start @ 288,
);
layout!(
    InodeCore, 176, mode @ 2, version @ 4, format @ 5, metadata_type @ 6, uid @ 8, gid @ 12, link_count @ 16,
    project_id_low @ 20, project_id_high @ 22, large_extent_count @ 24, access_time @ 32, modification_time @ 40,
    change_time @ 48, size_bytes @ 56, blocks @ 64, extent_size_blocks @ 72, extent_count @ 76,
    attribute_extent_count @ 80, fork_offset @ 82, attribute_format @ 83, dmapi_event_mask @ 84, dmapi_state @ 88,
    flags @ 90, generation @ 92, next_unlinked @ 96, checksum @ 100, change_count @ 104, lsn @ 112, flags2 @ 120,
    cow_extent_size_blocks @ 128, creation_time @ 144, number @ 152, uuid @ 160,
);
layout!(
    SymlinkHeader, 56, offset_bytes @ 4, length_bytes @ 8, checksum @ 12, uuid @ 16, owner @ 32, sector @ 40,
    lsn @ 48,
);

layout!(
    ShortBlockHeader, 56, level @ 4, record_count @ 6, left_sibling @ 8, right_sibling @ 12, sector @ 16, lsn @ 24,
    uuid @ 32, owner @ 48, checksum @ 52,
);
layout!(
    LongBlockHeader, 72, level @ 4, record_count @ 6, left_sibling @ 8, right_sibling @ 16, sector @ 24, lsn @ 32,
    uuid @ 40, owner @ 56, checksum @ 64, padding @ 68,
);
layout!(ExtentRecord, 16);
layout!(ExtentMapKey, 8);
layout!(RootHeader, 4, record_count @ 2);
layout!(BlockHeader, 56, backward @ 4, magic @ 8, checksum @ 12, sector @ 16, lsn @ 24, uuid @ 32, owner @ 48);
layout!(node::NodeHeader, 64, count @ 56, level @ 58);
layout!(node::NodeEntry, 8, child @ 4);

layout!(DirectoryBlockHeader, 48, checksum @ 4, sector @ 8, lsn @ 16, uuid @ 24, owner @ 40);
layout!(data::DataHeader, 64, best_free @ 48);
layout!(data::BestFree, 4, length_bytes @ 2);
layout!(data::EntryHead, 9, name_length @ 8);
layout!(data::FreeHead, 4, length_bytes @ 2);
layout!(block::BlockTail, 8, stale @ 4);
layout!(directory_leaf::LeafHeader, 64, count @ 56, stale @ 58);
layout!(directory_leaf::LeafEntry, 8, address @ 4);
layout!(directory_leaf::LeafTail, 4);
layout!(free_index::FreeIndexHeader, 64, first_data_block @ 48, valid @ 52, used @ 56);
layout!(shortform::ShortformHeader, 6, large_count @ 1, parent @ 2);
layout!(shortform::ShortformLargeHeader, 10, large_count @ 1, parent @ 2);
layout!(shortform::ShortformEntryHead, 3, data_offset @ 1);

layout!(attribute_shortform::ShortformHeader, 4, count @ 2);
layout!(attribute_shortform::ShortformEntryHead, 3, value_length @ 1, flags @ 2);
layout!(attribute_leaf::LeafHeader, 80, count @ 56, used_bytes @ 58, first_used @ 60, has_holes @ 62, free_map @ 64);
layout!(attribute_leaf::LeafEntry, 8, name_offset @ 4, flags @ 6);
layout!(attribute_leaf::LocalHead, 3, name_length @ 2);
layout!(attribute_leaf::RemoteHead, 9, value_length @ 4, name_length @ 8);
layout!(
    remote::RemoteHeader, 56, offset_bytes @ 4, length_bytes @ 8, checksum @ 12, uuid @ 16, owner @ 32, sector @ 40,
    lsn @ 48,
);
layout!(ParentRecord, 12, generation @ 8);

layout!(
    FreeSpaceHeader, 224, group @ 8, length_blocks @ 12, by_block_root @ 16, by_length_root @ 20,
    reverse_map_root @ 24, by_block_levels @ 28, free_list_first @ 40, free_list_last @ 44, free_list_count @ 48,
    free_blocks @ 52, longest_blocks @ 56, btree_blocks @ 60, uuid @ 64, reverse_map_blocks @ 80,
    reference_count_blocks @ 84, reference_count_root @ 88, reference_count_levels @ 92, lsn @ 208, checksum @ 216,
);
layout!(
    InodeHeader, 344, group @ 8, length_blocks @ 12, count @ 16, root @ 20, levels @ 24, free_count @ 28,
    newest_inode @ 32, directory_inode @ 36, unlinked @ 40, uuid @ 296, checksum @ 312, lsn @ 320, free_root @ 328,
    free_levels @ 332, blocks @ 336, free_blocks @ 340,
);
layout!(FreeListHeader, 36, group @ 4, uuid @ 8, lsn @ 24, checksum @ 32);
layout!(FreeListSlot, 4);
layout!(FreeSpaceRecord, 8, length_blocks @ 4);
layout!(InodeIndexRecord, 16, hole_mask @ 4, count @ 6, free_count @ 7, free @ 8);
layout!(FullInodeIndexRecord, 16, free_count @ 4, free @ 8);
layout!(InodeIndexKey, 4);
layout!(ReverseMapRecord, 24, length_blocks @ 4, owner @ 8, offset @ 16);
layout!(ReverseMapKey, 40, low_owner @ 4, low_offset @ 12, high_start @ 20, high_owner @ 24, high_offset @ 32);
layout!(ReferenceCountRecord, 12, length_blocks @ 4, count @ 8);
layout!(ReferenceCountKey, 4);
layout!(posix_acl::AclHeader, 4);
layout!(posix_acl::AclEntryRecord, 12, id @ 4, permissions @ 8);

layout!(
    QuotaRecord, 136, id @ 4, block_hard_limit @ 8, blocks @ 40, inode_timer @ 56, block_timer @ 60,
    realtime_hard_limit @ 72, realtime_timer @ 96, checksum @ 108, lsn @ 112, uuid @ 120,
);
layout!(RealtimeBlockHeader, 48, checksum @ 4, owner @ 8, sector @ 16, lsn @ 24, uuid @ 32);
layout!(BitmapWord, 4);
layout!(SummaryWord, 4);
layout!(RealtimeSuperblock, 56, checksum @ 4, padding @ 8, label @ 12, uuid @ 24, metadata_uuid @ 40);

layout!(
    log::record::RecordHeader, 512, cycle @ 4, length_bytes @ 12, lsn @ 16, tail_lsn @ 24, checksum @ 32,
    operation_count @ 40, cycle_data @ 44, format @ 300, uuid @ 304, buffer_size_bytes @ 320,
);
layout!(log::record::ExtensionHeader, 512, cycle_data @ 4, padding @ 260);
layout!(log::operation::OperationHeader, 12, length_bytes @ 4, client @ 8, flags @ 9);
layout!(log::operation::UnmountRecord, 8);
layout!(log::transaction::TransactionHeader, 16, region_count @ 12);
layout!(log::item::ItemHeader, 4);
layout!(log::intent::IntentHeader, 16, extent_count @ 4, id @ 8);
layout!(log::intent::DoneHeader, 16, intent_id @ 8);
layout!(log::intent::MapExtent, 32, length_blocks @ 24, flags @ 28);
layout!(log::intent::PhysicalExtent, 16, flags @ 12);
layout!(log::free_extent::FreedExtent, 16);
layout!(log::free_extent::PackedFreedExtent, 12);
layout!(log::attribute::AttributeFormat, 40, id @ 8, inode @ 16, operation @ 24, name_bytes @ 28, filter @ 36);
layout!(log::exchange::ExchangeIntent, 88, first_inode @ 16, first_generation @ 32, flags @ 64, second_size_bytes @ 80);
layout!(log::inode_create_item::InodeCreateItem, 28, group @ 4, generation @ 24);
layout!(log::quota_item::QuotaFormat, 24, buffer_sector @ 8, offset_bytes @ 20);
layout!(log::quota_item::QuotaOffItem, 20);
layout!(log::buffer_item::BufferFormat, 20, length_sectors @ 6, sector @ 8, map_words @ 16);
layout!(log::inode_item::InodeFormat, 56, inode @ 16, device @ 24, buffer_sector @ 40, buffer_offset_bytes @ 52);
layout!(log::inode_item::PackedInodeFormat, 52, inode @ 12, device @ 20, buffer_sector @ 36);
layout!(
    log::inode_item::LoggedInodeCore, 176, link_count @ 16, large_data_extents @ 24, access_time @ 32, size_bytes @ 56,
    data_extents @ 76, fork_offset @ 82, flags @ 90, next_unlinked @ 96, change_count @ 104, flags2 @ 120,
    creation_time @ 144, inode @ 152, uuid @ 160,
);
