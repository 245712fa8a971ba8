//! One file per command: its arguments, its help with an example, and what it prints.

pub mod bench;
pub mod cat;
pub mod extract;
pub mod freespace;
pub mod info;
pub mod inodes;
pub mod inspect;
pub mod ls;
pub mod map;
pub mod mkfs;
pub mod parents;
pub mod stat;
pub mod tree;
pub mod xattr;

use crate::failure::Outcome;

/// What every command knows beside its own arguments.
#[derive(Debug, Clone, Copy)]
pub struct Context {
    /// Print JSON.
    pub json: bool,
}

/// The commands.
#[derive(Debug, clap::Subcommand)]
pub enum Command {
    /// Make a file system, with the options of mkfs.xfs
    Mkfs(Box<mkfs::Arguments>),
    /// Show sizes, features and counters of a file system
    Info(info::Arguments),
    /// List directories
    Ls(ls::Arguments),
    /// Draw a directory tree
    Tree(tree::Arguments),
    /// Show everything an inode says of itself
    Stat(stat::Arguments),
    /// Write the contents of files to standard output
    Cat(cat::Arguments),
    /// Show extended attributes and ACLs
    Xattr(xattr::Arguments),
    /// Show where the contents of a file lie
    Map(map::Arguments),
    /// List or count every inode, each read and verified
    Inodes(inodes::Arguments),
    /// Show every path of an inode, from parent pointers alone
    Parents(parents::Arguments),
    /// Show free extents by length
    Freespace(freespace::Arguments),
    /// Copy files out, to a directory or an archive
    Extract(extract::Arguments),
    /// Show any structure field by field, damaged or not
    Inspect(inspect::Arguments),
    /// Measure file systems: mounted ones, by system calls
    Bench(bench::Arguments),
}

impl Command {
    /// Runs the command.
    pub fn run(&self, context: &Context) -> Outcome {
        match self {
            Self::Mkfs(arguments) => mkfs::run(arguments, context),
            Self::Info(arguments) => info::run(arguments, context),
            Self::Ls(arguments) => ls::run(arguments, context),
            Self::Tree(arguments) => tree::run(arguments, context),
            Self::Stat(arguments) => stat::run(arguments, context),
            Self::Cat(arguments) => cat::run(arguments, context),
            Self::Xattr(arguments) => xattr::run(arguments, context),
            Self::Map(arguments) => map::run(arguments, context),
            Self::Inodes(arguments) => inodes::run(arguments, context),
            Self::Parents(arguments) => parents::run(arguments, context),
            Self::Freespace(arguments) => freespace::run(arguments, context),
            Self::Extract(arguments) => extract::run(arguments, context),
            Self::Inspect(arguments) => inspect::run(arguments, context),
            Self::Bench(arguments) => bench::run(arguments, context),
        }
    }
}
