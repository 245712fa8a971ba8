//! What a finding means to the owner of the file system.

/// How bad a finding is, the least first. Programs may rely on the order and on [`name`](Self::name).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// Left over from work that was cut off: only space is wasted.
    Leftover,
    /// A fact that follows from others is recorded wrongly. Nothing is lost yet; changing the file system may make it worse.
    Inconsistent,
    /// Something cannot be read, or two witnesses of names or contents contradict each other: files, names or attributes may be lost.
    Damaged,
}

impl Severity {
    /// One word.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Leftover => "leftover",
            Self::Inconsistent => "inconsistent",
            Self::Damaged => "damaged",
        }
    }
}
