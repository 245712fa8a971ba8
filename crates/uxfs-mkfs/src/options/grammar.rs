//! The sub-options: their names, what values they take, and which exclude each other.

/// A group of sub-options: one letter on the command line, one section in a configuration file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Group {
    /// `-b`, `[block]`.
    Block,
    /// `-c`.
    Config,
    /// `-d`, `[data]`.
    Data,
    /// `-i`, `[inode]`.
    Inode,
    /// `-l`, `[log]`.
    Log,
    /// `-m`, `[metadata]`.
    Metadata,
    /// `-n`, `[naming]`.
    Naming,
    /// `-p`, `[proto]`.
    Proto,
    /// `-r`, `[realtime]`.
    Realtime,
    /// `-s`, `[sector]`.
    Sector,
}

impl Group {
    /// Every group.
    pub const ALL: [Self; 10] = [
        Self::Block,
        Self::Config,
        Self::Data,
        Self::Inode,
        Self::Log,
        Self::Metadata,
        Self::Naming,
        Self::Proto,
        Self::Realtime,
        Self::Sector,
    ];

    /// Its letter on the command line.
    pub fn letter(self) -> char {
        match self {
            Self::Block => 'b',
            Self::Config => 'c',
            Self::Data => 'd',
            Self::Inode => 'i',
            Self::Log => 'l',
            Self::Metadata => 'm',
            Self::Naming => 'n',
            Self::Proto => 'p',
            Self::Realtime => 'r',
            Self::Sector => 's',
        }
    }

    /// Its section in a configuration file; none for what only the command line can say.
    pub fn section(self) -> Option<&'static str> {
        Some(match self {
            Self::Block => "block",
            Self::Config => return None,
            Self::Data => "data",
            Self::Inode => "inode",
            Self::Log => "log",
            Self::Metadata => "metadata",
            Self::Naming => "naming",
            Self::Proto => "proto",
            Self::Realtime => "realtime",
            Self::Sector => "sector",
        })
    }
}

/// Values that a sub-option takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A whole number without a unit.
    Number {
        /// Smallest.
        min: u64,
        /// Largest.
        max: u64,
        /// Its value where none is given, if that is allowed.
        bare: Option<u64>,
    },
    /// A number of bytes, with a unit if one likes. Units `b` and `s` depend on other options, so that it can only be
    /// evaluated once all are known.
    Size {
        /// Smallest.
        min: u64,
        /// Largest.
        max: u64,
        /// Whether it must be a power of two.
        power_of_two: bool,
    },
    /// Any text.
    Text,
    /// As [`Number`](Self::Number), or a word from a list that the user of the value knows.
    NumberOrWord {
        /// Smallest number.
        min: u64,
        /// Largest number.
        max: u64,
        /// Its value where none is given.
        bare: Option<u64>,
        /// The words.
        words: &'static [&'static str],
    },
    /// Known to mkfs.xfs, not supported here; with the one value that asks for nothing, where there is one.
    Refused {
        /// The feature that it needs, for the message.
        feature: &'static str,
        /// A value that switches it off.
        harmless: Option<&'static str>,
    },
}

const SWITCH: Kind = Kind::Number { min: 0, max: 1, bare: Some(1) };
const ANY_U32: Kind = Kind::Number { min: 0, max: 0xffff_ffff, bare: None };
const SECTOR_SIZE: Kind = Kind::Size { min: 512, max: 32768, power_of_two: true };
const CONCURRENCY: Kind = Kind::NumberOrWord { min: 0, max: 0x7fff_ffff, bare: Some(1), words: &["nr_cpus"] };
const REALTIME: Kind = Kind::Refused { feature: "a realtime section", harmless: None };
const QUOTA: Kind = Kind::Refused {
    feature: "quota set up at format time (it needs the metadata directory tree)",
    harmless: Some("0"),
};

/// The largest log in bytes.
pub const MAX_LOG_BYTES: u64 = (2 << 30) - (10 << 20);

macro_rules! settings {
    ($($setting:ident = $group:ident $name:literal $kind:expr $(, excludes $($other:ident)+)?;)*) => {
        /// Every sub-option.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        #[allow(missing_docs)] // Named by group and name, which the table says.
        pub enum Setting { $($setting),* }

        impl Setting {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$setting),*];

            /// Its row of the table.
            pub fn rule(self) -> &'static Rule {
                match self {
                    $(Self::$setting => &Rule {
                        group: Group::$group,
                        name: $name,
                        kind: $kind,
                        excludes: &[$($(Self::$other),+)?],
                    }),*
                }
            }
        }
    };
}

/// Rules of one sub-option.
#[derive(Debug, Clone, Copy)]
pub struct Rule {
    /// Where it belongs.
    pub group: Group,
    /// Its name there.
    pub name: &'static str,
    /// Its values.
    pub kind: Kind,
    /// Settings that exclude it.
    pub excludes: &'static [Setting],
}

settings! {
    BlockSize = Block "size" Kind::Size { min: 512, max: 65536, power_of_two: true };

    ConfigOptions = Config "options" Kind::Text;
    ConfigDefaults = Config "defaults" Kind::Text;
    ConfigMake = Config "makecfg" Kind::Text;

    DataAgCount = Data "agcount" Kind::Number { min: 1, max: 0xffff_ffff, bare: None },
        excludes DataAgSize DataConcurrency;
    DataAgSize = Data "agsize" Kind::Size { min: 16 << 20, max: 1 << 40, power_of_two: false },
        excludes DataAgCount DataConcurrency;
    DataConcurrency = Data "concurrency" CONCURRENCY, excludes DataAgCount DataAgSize;
    DataFile = Data "file" SWITCH;
    DataName = Data "name" Kind::Text;
    DataSize = Data "size" Kind::Size { min: 16 << 20, max: i64::MAX as u64, power_of_two: false };
    DataStripeUnit = Data "sunit" ANY_U32, excludes DataNoAlign DataStripeUnitBytes DataStripeWidthUnits;
    DataStripeWidth = Data "swidth" ANY_U32, excludes DataNoAlign DataStripeUnitBytes DataStripeWidthUnits;
    DataStripeUnitBytes = Data "su" Kind::Size { min: 0, max: 0xffff_ffff, power_of_two: false },
        excludes DataNoAlign DataStripeUnit DataStripeWidth;
    DataStripeWidthUnits = Data "sw" ANY_U32, excludes DataNoAlign DataStripeUnit DataStripeWidth;
    DataNoAlign = Data "noalign" SWITCH,
        excludes DataStripeUnit DataStripeWidth DataStripeUnitBytes DataStripeWidthUnits;
    DataSectorSize = Data "sectsize" SECTOR_SIZE, excludes SectorSize;
    DataRealtimeInherit = Data "rtinherit" SWITCH;
    DataProjectInherit = Data "projinherit" ANY_U32;
    DataExtentSizeInherit = Data "extszinherit" ANY_U32;
    DataCowExtentSize = Data "cowextsize" ANY_U32;
    DataDaxInherit = Data "daxinherit" SWITCH;

    InodeSize = Inode "size" Kind::Number { min: 256, max: 2048, bare: None }, excludes InodePerBlock;
    InodePerBlock = Inode "perblock" Kind::Number { min: 2, max: 256, bare: None }, excludes InodeSize;
    InodeAlign = Inode "align" SWITCH;
    InodeMaxPercent = Inode "maxpct" Kind::Number { min: 0, max: 100, bare: None };
    InodeAttributes = Inode "attr" Kind::Number { min: 0, max: 2, bare: None };
    InodeProjectId32 = Inode "projid32bit" SWITCH;
    InodeSparse = Inode "sparse" SWITCH;
    InodeLargeExtentCounts = Inode "nrext64" SWITCH;
    InodeExchange = Inode "exchange" SWITCH;
    InodeMaxAtomicWrite = Inode "max_atomic_write" Kind::Size { min: 1, max: 1 << 30, power_of_two: false };

    LogAgNumber = Log "agnum" ANY_U32;
    LogInternal = Log "internal" SWITCH, excludes LogDevice;
    LogSize = Log "size" Kind::Size { min: 2 << 20, max: MAX_LOG_BYTES, power_of_two: false },
        excludes LogConcurrency;
    LogVersion = Log "version" Kind::Number { min: 1, max: 2, bare: None };
    LogStripeUnit = Log "sunit" Kind::Number { min: 1, max: 512, bare: None }, excludes LogStripeUnitBytes;
    LogStripeUnitBytes = Log "su" Kind::Size { min: 1, max: 256 << 10, power_of_two: false },
        excludes LogStripeUnit;
    LogLazyCount = Log "lazy-count" SWITCH;
    LogSectorSize = Log "sectsize" SECTOR_SIZE;
    LogConcurrency = Log "concurrency" CONCURRENCY, excludes LogSize LogDevice;
    LogFile = Log "file" SWITCH;
    LogDevice = Log "logdev" Kind::Refused { feature: "a log on another device", harmless: None };
    LogName = Log "name" Kind::Refused { feature: "a log on another device", harmless: None };

    MetadataChecksums = Metadata "crc" SWITCH;
    MetadataFreeInodeBtree = Metadata "finobt" SWITCH;
    MetadataUuid = Metadata "uuid" Kind::Text;
    MetadataReverseMap = Metadata "rmapbt" SWITCH;
    MetadataReflink = Metadata "reflink" SWITCH;
    MetadataInodeBtreeCounts = Metadata "inobtcount" SWITCH;
    MetadataBigTime = Metadata "bigtime" SWITCH;
    MetadataAutoFsck = Metadata "autofsck"
        Kind::NumberOrWord { min: 0, max: 1, bare: Some(1), words: &["none", "check", "optimize", "repair"] };
    MetadataDirectory = Metadata "metadir"
        Kind::Refused { feature: "the metadata directory tree", harmless: Some("0") };
    MetadataUserQuota = Metadata "uquota" QUOTA;
    MetadataGroupQuota = Metadata "gquota" QUOTA;
    MetadataProjectQuota = Metadata "pquota" QUOTA;
    MetadataUserQuotaNoEnforce = Metadata "uqnoenforce" QUOTA;
    MetadataGroupQuotaNoEnforce = Metadata "gqnoenforce" QUOTA;
    MetadataProjectQuotaNoEnforce = Metadata "pqnoenforce" QUOTA;

    NamingSize = Naming "size" Kind::Size { min: 4096, max: 65536, power_of_two: true };
    NamingVersion = Naming "version" Kind::NumberOrWord { min: 2, max: 2, bare: None, words: &["ci"] };
    NamingFileType = Naming "ftype" SWITCH;
    NamingParent = Naming "parent" SWITCH;

    ProtoFile = Proto "file" Kind::Text;
    ProtoAccessTime = Proto "atime" SWITCH;
    ProtoSlashesAreSpaces = Proto "slashes_are_spaces" SWITCH;

    RealtimeExtentSize = Realtime "extsize" Kind::Size { min: 4096, max: 1 << 30, power_of_two: false };
    RealtimeNoAlign = Realtime "noalign" SWITCH;
    RealtimeDevice = Realtime "rtdev" REALTIME;
    RealtimeName = Realtime "name" REALTIME;
    RealtimeFile = Realtime "file" REALTIME;
    RealtimeSize = Realtime "size" REALTIME;
    RealtimeGroupCount = Realtime "rgcount" REALTIME;
    RealtimeGroupSize = Realtime "rgsize" REALTIME;
    RealtimeConcurrency = Realtime "concurrency" REALTIME;
    RealtimeZoned = Realtime "zoned" Kind::Refused { feature: "a zoned realtime section", harmless: Some("0") };
    RealtimeStart = Realtime "start" REALTIME;
    RealtimeReserved = Realtime "reserved" REALTIME;

    SectorSize = Sector "size" SECTOR_SIZE, excludes DataSectorSize;
}

impl Setting {
    /// The sub-option of that name in a group.
    pub fn find(group: Group, name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|setting| {
            let rule = setting.rule();
            rule.group == group && rule.name == name
        })
    }
}
