//! What is wrong with a compiled file of SELinux labels.

use thiserror::Error;

use super::{Shown, TextFault};

/// Faults of a compiled `file_contexts`.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum CompiledFault {
    /// Made on a machine of the other byte order.
    #[error("is a compiled file_contexts of a machine with the other byte order")]
    ByteOrder,
    /// A form that is not read.
    #[error("is a compiled file_contexts of version {0}; only versions 5 and 6 can be read")]
    Version(u32),
    /// Expressions are stored in another way.
    #[error(
        "is a compiled file_contexts with expressions of PCRE {0}; only those of PCRE2 (10.x) can be read"
    )]
    Expressions(Shown),
    /// Ends too early.
    #[error("is a compiled file_contexts that ends within {0}")]
    Truncated(&'static str),
    /// Goes on behind its last rule.
    #[error("is a compiled file_contexts with data behind its last rule")]
    Behind,
    /// A length or count that is none.
    #[error("is a compiled file_contexts with {what} of {found}, at most {limit}")]
    TooMuch {
        /// Of what.
        what: &'static str,
        /// Claimed.
        found: u32,
        /// Allowed.
        limit: u32,
    },
    /// A rule that means nothing.
    #[error("is a compiled file_contexts whose rule {number} is wrong: {fault}")]
    Rule {
        /// From 1.
        number: u32,
        /// The fault.
        fault: TextFault,
    },
    /// A context that is none.
    #[error("is a compiled file_contexts whose context {number} is wrong: {fault}")]
    Context {
        /// From 1.
        number: u32,
        /// The fault.
        fault: TextFault,
    },
    /// A rule that means nothing beside the others, or one too many.
    #[error("is a compiled file_contexts with a wrong rule: {0}")]
    Rules(TextFault),
    /// Other rules than the head says.
    #[error("is a compiled file_contexts with {found} rules, but its header says {claimed}")]
    RuleCount {
        /// Read.
        found: u32,
        /// Told.
        claimed: u64,
    },
    /// A tree of folders that is none.
    #[error("is a compiled file_contexts with {0}")]
    Folder(&'static str),
    /// Nothing in it.
    #[error("is a compiled file_contexts without any rule")]
    NoRules,
}
