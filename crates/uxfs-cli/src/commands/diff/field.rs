//! What is compared of two files.

/// Something that two files of one type can differ in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
#[value(rename_all = "lower")]
pub enum Field {
    /// The bytes of regular files; holes are zeros
    Contents,
    /// The length of regular files
    Size,
    /// The target of symbolic links
    Target,
    /// The numbers of devices
    Device,
    /// Permissions
    Mode,
    /// The owner's number
    Owner,
    /// The group's number
    Group,
    /// The modification time
    Mtime,
    /// The access time (not by default)
    Atime,
    /// The change time (not by default)
    Ctime,
    /// The creation time (not by default)
    Btime,
    /// Extended attributes but ACLs
    Xattr,
    /// Access control lists
    Acl,
    /// Which names are one file
    Links,
    /// Flags, as chattr changes them
    Flags,
    /// The project's number
    Project,
}

impl Field {
    /// All, in the order in which they are told.
    pub(super) const ALL: [Self; 16] = [
        Self::Contents,
        Self::Size,
        Self::Target,
        Self::Device,
        Self::Links,
        Self::Mode,
        Self::Owner,
        Self::Group,
        Self::Acl,
        Self::Xattr,
        Self::Flags,
        Self::Project,
        Self::Mtime,
        Self::Atime,
        Self::Ctime,
        Self::Btime,
    ];

    /// The word for it.
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Contents => "contents",
            Self::Size => "size",
            Self::Target => "target",
            Self::Device => "device",
            Self::Mode => "mode",
            Self::Owner => "owner",
            Self::Group => "group",
            Self::Mtime => "mtime",
            Self::Atime => "atime",
            Self::Ctime => "ctime",
            Self::Btime => "btime",
            Self::Xattr => "xattr",
            Self::Acl => "acl",
            Self::Links => "links",
            Self::Flags => "flags",
            Self::Project => "project",
        }
    }

    fn bit(self) -> u64 {
        1 << (self as u32)
    }
}

/// A set of fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Fields(u64);

impl Fields {
    /// Those that are compared unless something else is asked for.
    pub fn usual() -> Self {
        let rare = Self::from_iter([Field::Atime, Field::Ctime, Field::Btime]);
        Self(Self::from_iter(Field::ALL).0 & !rare.0)
    }

    /// As [`bits`](Self::bits) gave it.
    pub fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    /// As a number.
    pub fn bits(self) -> u64 {
        self.0
    }

    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    pub fn has(self, field: Field) -> bool {
        self.0 & field.bit() != 0
    }

    pub fn add(&mut self, field: Field) {
        self.0 |= field.bit();
    }

    #[must_use]
    pub fn without(self, others: Self) -> Self {
        Self(self.0 & !others.0)
    }

    #[must_use]
    pub fn with(self, others: Self) -> Self {
        Self(self.0 | others.0)
    }

    /// Its fields, in the order in which they are told.
    pub fn iter(self) -> impl Iterator<Item = Field> {
        Field::ALL.into_iter().filter(move |field| self.has(*field))
    }

    /// Whether a file differs in more than its metadata.
    pub fn is_of_contents(self) -> bool {
        [Field::Contents, Field::Size, Field::Target, Field::Device].into_iter().any(|field| self.has(field))
    }
}

impl FromIterator<Field> for Fields {
    fn from_iter<I: IntoIterator<Item = Field>>(fields: I) -> Self {
        let mut set = Self::default();
        fields.into_iter().for_each(|field| set.add(field));
        set
    }
}
