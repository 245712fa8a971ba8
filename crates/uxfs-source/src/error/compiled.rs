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
    #[error("is a compiled file_contexts of version {0}; only version 5 can be read")]
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
}
