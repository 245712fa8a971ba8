//! Trees of an image seen as a whole: what `find`, `du` and `df` share.
//!
//! ```text
//! words ──▶ expression::parse ──▶ Node ─┐
//!                                       ├──▶ evaluate ──▶ actions ──▶ output
//! walk ──▶ Subject: path, type, inode ──┘
//!    └───▶ usage: sums of directories
//! ```
//!
//! | module | holds |
//! |---|---|
//! | [`entries`] | the entries of one directory, some ahead of the walk |
//! | [`walk`] | each file of a tree, without recursion; loops of a damaged image end with a complaint |
//! | [`subject`] | one file of the walk; its inode is read when it is first asked for |
//! | [`regular`] | regular expressions in the syntaxes of POSIX and find; shell patterns are those of `glob` |
//! | [`expression`] | the expressions of find |
//! | [`usage`] | how much space trees take, as du counts it |
//! | [`amount`] | sizes as du and df print them |

pub mod amount;
pub mod entries;
pub mod expression;
pub mod regular;
pub mod subject;
pub mod usage;
pub mod walk;
