//! Why a set of options is refused.

use thiserror::Error;

/// A mistake in one option or among several.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum OptionError {
    /// No such sub-option.
    #[error("-{letter} has no sub-option `{name}`")]
    Unknown {
        /// Of the group.
        letter: char,
        /// As given.
        name: String,
    },
    /// A value is missing.
    #[error("{option} needs a value")]
    NoValue {
        /// Which.
        option: String,
    },
    /// Given twice.
    #[error("{option} is given more than once")]
    Respecified {
        /// Which.
        option: String,
    },
    /// Two that exclude each other.
    #[error("{first} and {second} exclude each other")]
    Conflict {
        /// One.
        first: String,
        /// The other.
        second: String,
    },
    /// Not a number at all.
    #[error("`{value}` is not a number")]
    NotANumber {
        /// As given.
        value: String,
    },
    /// A number with something behind it.
    #[error("`{value}` must be a number without a unit")]
    UnitNotAllowed {
        /// As given.
        value: String,
    },
    /// Not a size.
    #[error("`{value}` is not a size such as 4096, 64k, 1g, 100b (blocks) or 8s (sectors)")]
    NotASize {
        /// As given.
        value: String,
    },
    /// A number out of range.
    #[error("{value} is out of range: {min} to {max}")]
    OutOfRange {
        /// As given.
        value: String,
        /// Smallest.
        min: u64,
        /// Largest.
        max: u64,
    },
    /// Not a power of two.
    #[error("{value} is not a power of two")]
    NotAPowerOfTwo {
        /// As given.
        value: String,
    },
    /// Known to mkfs.xfs, not to us.
    #[error("{option}: {feature} is not supported")]
    Unsupported {
        /// Which.
        option: String,
        /// The feature that it needs.
        feature: &'static str,
    },
    /// Too long a label, or one that cannot be.
    #[error("label `{label}` is longer than 12 bytes")]
    Label {
        /// As given.
        label: String,
    },
    /// Not a uuid.
    #[error("`{value}` is not a uuid such as 2bb12d1c-de6c-4cc7-b627-b175caacdd4d")]
    Uuid {
        /// As given.
        value: String,
    },
    /// All zeros.
    #[error("the uuid must not be all zeros: Linux refuses to mount such a file system")]
    NilUuid,
    /// A line of a configuration file.
    #[error("line {line}: {problem}")]
    ConfigLine {
        /// Counted from 1.
        line: usize,
        /// The problem.
        problem: String,
    },
    /// Which option an error is about.
    #[error("{option}: {source}")]
    About {
        /// Which.
        option: String,
        /// What.
        source: Box<OptionError>,
    },
}

impl OptionError {
    /// Says which option the error is about.
    #[must_use]
    pub fn about(self, option: impl Into<String>) -> Self {
        Self::About { option: option.into(), source: Box::new(self) }
    }

    /// Whether the options are sound but ask for something that uxfs does not have.
    pub fn is_unsupported(&self) -> bool {
        match self {
            Self::Unsupported { .. } => true,
            Self::About { source, .. } => source.is_unsupported(),
            _ => false,
        }
    }
}
