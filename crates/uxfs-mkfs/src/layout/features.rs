//! Which features the file system has.

use uxfs_format::features::{
    FeatureWords, Features2, Incompatible, LogIncompatible, RoCompatible, VersionBits,
};

use super::{LayoutError, Warning};
use crate::options::{Options, grammar::Setting};

/// The switches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)] // Each is the feature bit of that name.
pub struct Features {
    pub free_inode_btree: bool,
    pub reverse_map: bool,
    pub reflink: bool,
    pub inode_btree_counts: bool,
    pub sparse_inodes: bool,
    pub big_time: bool,
    pub large_extent_counts: bool,
    pub exchange_range: bool,
    pub parent_pointers: bool,
    pub case_insensitive: bool,
}

impl Features {
    /// Takes the switches from the options.
    ///
    /// # Errors
    /// One that version 5 does not leave open, or one without another that it needs.
    pub fn resolve(options: &Options, warnings: &mut Vec<Warning>) -> Result<Self, LayoutError> {
        refuse_old_forms(options)?;
        let free_inode_btree = options.switch(Setting::MetadataFreeInodeBtree, true);
        let wants_counts = options.switch(Setting::MetadataInodeBtreeCounts, free_inode_btree);
        if wants_counts && !free_inode_btree {
            return Err(needs("-m inobtcount", "the free inode btree (-m finobt)"));
        }
        let features = Self {
            free_inode_btree,
            reverse_map: options.switch(Setting::MetadataReverseMap, true),
            reflink: options.switch(Setting::MetadataReflink, true),
            inode_btree_counts: wants_counts,
            sparse_inodes: options.switch(Setting::InodeSparse, true),
            big_time: options.switch(Setting::MetadataBigTime, true),
            large_extent_counts: options.switch(Setting::InodeLargeExtentCounts, true),
            exchange_range: options.switch(Setting::InodeExchange, true),
            parent_pointers: options.switch(Setting::NamingParent, true),
            case_insensitive: options.text(Setting::NamingVersion) == Some("ci"),
        };
        for (setting, option) in [
            (Setting::DataCowExtentSize, "-d cowextsize"),
            (Setting::InodeMaxAtomicWrite, "-i max_atomic_write"),
        ] {
            if options.has(setting) && !features.reflink {
                return Err(needs(option, "shared extents (-m reflink)"));
            }
        }
        if features.case_insensitive {
            warnings.push(Warning::CaseInsensitive);
        }
        Ok(features)
    }

    /// As the superblock says them. A stripe, large sectors and the presence of an attribute have bits there too.
    pub fn words(&self, has_stripe: bool, has_large_sectors: bool, has_attribute: bool) -> FeatureWords {
        let mut version_bits = self.version_bits();
        version_bits.set(VersionBits::STRIPE_ALIGNMENT, has_stripe);
        version_bits.set(VersionBits::SECTOR, has_large_sectors);
        version_bits.set(VersionBits::ATTRIBUTES, self.parent_pointers || has_attribute);
        FeatureWords {
            version_bits,
            features2: Features2::LAZY_COUNTERS
                | Features2::ATTRIBUTES_V2
                | Features2::PROJECT_ID_32
                | Features2::CHECKSUMS,
            compatible: 0,
            ro_compatible: self.ro_compatible(),
            incompatible: self.incompatible(),
            log_incompatible: LogIncompatible::empty(),
        }
    }

    fn version_bits(&self) -> VersionBits {
        let mut bits = VersionBits::LINK_COUNT
            | VersionBits::ALIGNMENT
            | VersionBits::LOG_V2
            | VersionBits::EXTENT_FLAG
            | VersionBits::DIRECTORY_V2
            | VersionBits::MORE_BITS;
        bits.set(VersionBits::ASCII_CASE_INSENSITIVE, self.case_insensitive);
        bits
    }

    fn ro_compatible(&self) -> RoCompatible {
        let mut bits = RoCompatible::empty();
        bits.set(RoCompatible::FREE_INODE_BTREE, self.free_inode_btree);
        bits.set(RoCompatible::REVERSE_MAP_BTREE, self.reverse_map);
        bits.set(RoCompatible::REFLINK, self.reflink);
        bits.set(RoCompatible::INODE_BTREE_COUNTS, self.inode_btree_counts);
        bits
    }

    fn incompatible(&self) -> Incompatible {
        let mut bits = Incompatible::FILE_TYPE;
        bits.set(Incompatible::SPARSE_INODES, self.sparse_inodes);
        bits.set(Incompatible::BIG_TIME, self.big_time);
        bits.set(Incompatible::LARGE_EXTENT_COUNTS, self.large_extent_counts);
        bits.set(Incompatible::EXCHANGE_RANGE, self.exchange_range);
        bits.set(Incompatible::PARENT_POINTERS, self.parent_pointers);
        bits
    }
}

fn needs(option: &'static str, feature: &'static str) -> LayoutError {
    LayoutError::Needs { option, feature }
}

/// Version 4 and what only it could leave out.
fn refuse_old_forms(options: &Options) -> Result<(), LayoutError> {
    if !options.switch(Setting::MetadataChecksums, true) {
        return Err(LayoutError::OldVersion);
    }
    let always = [
        (Setting::InodeAlign, 1, "-i align=0", "aligned inode chunks"),
        (Setting::InodeAttributes, 2, "-i attr", "version 2 attributes"),
        (Setting::InodeProjectId32, 1, "-i projid32bit=0", "32-bit project ids"),
        (Setting::LogLazyCount, 1, "-l lazy-count=0", "lazy counters"),
        (Setting::NamingFileType, 1, "-n ftype=0", "file types in directories"),
    ];
    for (setting, only, option, feature) in always {
        if options.number(setting).is_some_and(|number| number != only) {
            return Err(LayoutError::AlwaysOn { option, feature });
        }
    }
    // A log stripe unit asks for version 2 by itself; mkfs.xfs lets it overrule the version.
    let has_log_stripe = options.has(Setting::LogStripeUnit) || options.has(Setting::LogStripeUnitBytes);
    if options.number(Setting::LogVersion) == Some(1) && !has_log_stripe {
        return Err(LayoutError::AlwaysOn { option: "-l version=1", feature: "version 2 logs" });
    }
    Ok(())
}
