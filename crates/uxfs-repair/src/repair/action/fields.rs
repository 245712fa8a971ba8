//! All that the sentence of a change says, by name, for programs.

use uxfs_format::units::{InodeNumber, Sector};

use super::{Action, ChangedField, InodeSource, Rejection};
use crate::finding::fields::{Fields, Value};

/// How the value is called that a field of an inode had before.
const fn found_name(name: &str) -> &'static str {
    match name.as_bytes() {
        b"owner" => "found_owner",
        b"group" => "found_group",
        b"project" => "found_project",
        b"type" => "found_type",
        b"permissions" => "found_permissions",
        b"flags" => "found_flags",
        b"flags2" => "found_flags2",
        b"generation" => "found_generation",
        b"size" => "found_size",
        _ => "found",
    }
}

impl Action {
    /// All that the sentence says, by name.
    pub fn fields(&self) -> Fields {
        let mut fields = Fields::new();
        let mut put = |name, value: Value| fields.push((name, value));
        match self {
            Self::SuperblockCopy { group } => put("group", (*group).into()),
            Self::SuperblockLog { start, length_blocks } => {
                put("start_block", start.get().into());
                put("length_blocks", (*length_blocks).into());
            }
            Self::SuperblockRoot { inode, is_metadata } => {
                put("inode", (*inode).into());
                put("is_metadata", (*is_metadata).into());
            }
            Self::LogReplayed { transactions } => put("transactions", (*transactions).into()),
            Self::LogReplayedInPart { transactions, intents } => {
                put("transactions", (*transactions).into());
                put("intents", (*intents).into());
            }
            Self::LsnCleared { structure, sector } => {
                put("structure", structure.name().into());
                put("sector", sector.get().into());
            }
            Self::BitFlippedBack { structure, inode, sector, bit } => {
                put("structure", structure.name().into());
                put("inode", inode.map(InodeNumber::get).into());
                put("sector", sector.map(Sector::get).into());
                put("bit", (*bit as u64).into());
            }
            Self::ProvedByChecksum { structure, inode, sector, fields, bits, is_guess } => {
                put("structure", structure.name().into());
                put("inode", inode.map(InodeNumber::get).into());
                put("sector", sector.map(Sector::get).into());
                put("fields", (*fields as u64).into());
                put("first_bit", bits.first().map(|bit| *bit as u64).into());
                put("bits", (bits.len() as u64).into());
                put("is_guess", (*is_guess).into());
            }
            Self::NewLog { cycle, is_unread } => {
                put("cycle", (*cycle).into());
                put("is_unread", (*is_unread).into());
            }
            Self::Group { group, chunks_without_index } => {
                put("group", (*group).into());
                put("chunks_without_index", (*chunks_without_index).into());
            }
            Self::InodeChunk { group, first } => {
                put("group", (*group).into());
                put("first_inode_of_group", (*first).into());
            }
            _ => return self.fields_of_block(),
        }
        fields
    }

    fn fields_of_block(&self) -> Fields {
        let mut fields = Fields::new();
        let mut put = |name, value: Value| fields.push((name, value));
        match self {
            Self::BlockFromLog { structure, inode, sector }
            | Self::BlockChecksum { structure, inode, sector }
            | Self::OlderKept { structure, inode, sector } => {
                put("structure", structure.name().into());
                put("inode", (*inode).into());
                put("sector", sector.get().into());
            }
            Self::BlockMoved { structure, inode, sector, from } => {
                put("structure", structure.name().into());
                put("inode", (*inode).into());
                put("sector", sector.get().into());
                put("from_sector", from.get().into());
            }
            Self::BlockField { structure, inode, sector, removed, guessed } => {
                put("structure", structure.name().into());
                put("inode", (*inode).into());
                put("sector", sector.get().into());
                put("attributes_removed", (*removed).into());
                put("values_guessed", (*guessed).into());
            }
            _ => return self.fields_of_map(),
        }
        fields
    }

    fn fields_of_map(&self) -> Fields {
        let mut fields = Fields::new();
        let mut put = |name, value: Value| fields.push((name, value));
        match self {
            Self::ExtentMap { inode, fork, extents } => {
                put("inode", (*inode).into());
                put("fork", (*fork).into());
                put("extents", (*extents).into());
            }
            Self::ExtentMapOverruled { inode, fork, extents, by } => {
                put("inode", (*inode).into());
                put("fork", (*fork).into());
                put("extents", (*extents).into());
                put("by", by.name().into());
            }
            Self::ExtentMapKept { inode, fork } => {
                put("inode", (*inode).into());
                put("fork", (*fork).into());
            }
            Self::BlocksGivenUp { inode, fork, group, start, blocks, kept_by, is_chosen } => {
                put("inode", (*inode).into());
                put("fork", (*fork).into());
                put("group", (*group).into());
                put("start_block", (*start).into());
                put("length_blocks", (*blocks).into());
                put("kept_by", (*kept_by).into());
                put("is_chosen", (*is_chosen).into());
            }
            Self::InodeUnproved { inode, fields: changed } => {
                put("inode", (*inode).into());
                for ChangedField { name, found, now } in changed {
                    put(name, (*now).into());
                    put(found_name(name), (*found).into());
                }
            }
            _ => return self.fields_of_inode(),
        }
        fields
    }

    fn fields_of_inode(&self) -> Fields {
        let mut fields = Fields::new();
        let mut put = |name, value: Value| fields.push((name, value));
        match self {
            Self::InodeChecksum { inode }
            | Self::InodePerhapsOlder { inode }
            | Self::FilePartial { inode }
            | Self::FreeInode { inode }
            | Self::InodeTimes { inode }
            | Self::BigTimes { inode }
            | Self::InodeLsn { inode }
            | Self::InodeShares { inode }
            | Self::SymlinkBlocks { inode }
            | Self::ExtentsWritten { inode }
            | Self::ExtentsUnwritten { inode }
            | Self::SymlinkLost { inode }
            | Self::RealtimeInode { inode }
            | Self::UnlinkedFreed { inode } => put("inode", (*inode).into()),
            Self::InodeRebuilt { inode, source, fault } => {
                put("inode", (*inode).into());
                put("fault", fault.map(|fault| fault.to_string()).into());
                put("from_inode", source.place().into());
                if let InodeSource::Inferred(made_up) = source {
                    put("file_type", made_up.file_type.into());
                    put("type_from", made_up.type_from.word().into());
                    put("owner_from", made_up.owner_from.into());
                    put("size_bytes", made_up.size_bytes.into());
                }
            }
            Self::InodeLost { inode, fault } | Self::InodeMended { inode, fault } => {
                put("inode", (*inode).into());
                put("fault", fault.to_string().into());
            }
            Self::MetadataFlags { inode, is_metadata } => {
                put("inode", (*inode).into());
                put("is_metadata", (*is_metadata).into());
            }
            Self::InodeFlags { inode, flags, flags2 } => {
                put("inode", (*inode).into());
                put("flags", (*flags).into());
                put("flags2", (*flags2).into());
            }
            Self::SizeOfSpecialFile { inode, found } => {
                put("inode", (*inode).into());
                put("found", (*found).into());
            }
            Self::InodeBlocks { inode, found, expected }
            | Self::DirectorySize { inode, found, expected }
            | Self::SymlinkSize { inode, found, expected, .. } => {
                put("inode", (*inode).into());
                put("found", (*found).into());
                put("expected", (*expected).into());
            }
            Self::LinkCount { inode, found, expected } => {
                put("inode", (*inode).into());
                put("found", (*found).into());
                put("expected", (*expected).into());
            }
            Self::Attributes { inode, attributes, is_any_lost } => {
                put("inode", (*inode).into());
                put("attributes", (*attributes).into());
                put("is_any_lost", (*is_any_lost).into());
            }
            _ => return self.fields_of_name(),
        }
        fields
    }

    fn fields_of_name(&self) -> Fields {
        let mut fields = Fields::new();
        let mut put = |name, value: Value| fields.push((name, value));
        match self {
            Self::AccessList { inode, removed } => {
                put("inode", (*inode).into());
                put("removed", (*removed).into());
            }
            Self::Directory { inode, names, from_parent_pointers, removed, is_any_unread } => {
                put("inode", (*inode).into());
                put("names", (*names).into());
                put("from_parent_pointers", (*from_parent_pointers).into());
                put("removed", (*removed).into());
                put("is_any_unread", (*is_any_unread).into());
            }
            Self::NameRemoved { directory, name, inode, .. }
            | Self::NameAdded { directory, name, inode }
            | Self::NameFromBlock { directory, name, inode }
            | Self::ParentPointerSet { directory, name, inode, .. }
            | Self::ParentPointerRemoved { directory, name, inode, .. } => {
                put("directory", (*directory).into());
                put("name", name.into());
                put("inode", (*inode).into());
            }
            Self::LostAndFound { inode, folder, name } => {
                put("inode", (*inode).into());
                put("folder", folder.into());
                put("name", name.into());
            }
            Self::QuotaRecord { inode, quota, id, source } => {
                put("inode", (*inode).into());
                put("quota", quota.name().into());
                put("id", (*id).into());
                put("source", source.word().into());
            }
            Self::QuotaCounts { quota } => put("quota", quota.name().into()),
            Self::QuotaInodeSize { inode, found } => {
                put("inode", (*inode).into());
                put("found", (*found).into());
            }
            Self::QuotaInode { inode, quota } => {
                put("inode", (*inode).into());
                put("quota", quota.name().into());
            }
            // Without fields.
            _ => {}
        }
        if let Self::NameRemoved { because: Some(because), .. }
        | Self::ParentPointerRemoved { because: Some(because), .. } = self
        {
            fields.extend(fields_of_rejection(because));
        }
        fields
    }
}

fn fields_of_rejection(because: &Rejection) -> Fields {
    let mut fields: Fields = vec![("because", because.word().into())];
    match because {
        Rejection::OtherInode { kept, kept_by, rejected_by } => {
            fields.push(("kept_inode", (*kept).into()));
            fields.push(("kept_by", kept_by.word().into()));
            fields.push(("rejected_by", rejected_by.word().into()));
        }
        Rejection::OtherName { directory, name, kept_by, rejected_by, .. } => {
            fields.push(("kept_directory", (*directory).into()));
            fields.push(("kept_name", name.into()));
            fields.push(("kept_by", kept_by.word().into()));
            fields.push(("rejected_by", rejected_by.word().into()));
        }
        Rejection::NoInode
        | Rejection::NoDirectory
        | Rejection::ImpossibleName
        | Rejection::Incomplete
        | Rejection::Circle
        | Rejection::OfRoot
        | Rejection::OfOtherTree
        | Rejection::OfItself => {}
    }
    fields
}
