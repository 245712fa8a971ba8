//! One file per command: its arguments, its help with an example, and what it prints.

pub mod admin;
pub mod bench;
pub mod cat;
pub mod check;
pub mod completions;
pub mod copy;
pub mod df;
pub mod diff;
pub mod du;
pub mod edit;
pub mod extract;
pub mod find;
pub mod freespace;
pub mod get;
pub mod grep;
pub mod help;
pub mod info;
pub mod inodes;
pub mod inspect;
pub mod ls;
pub mod map;
pub mod mdrestore;
pub mod metadump;
pub mod mkfs;
pub mod mount;
pub mod owner;
pub mod parents;
pub mod repair;
pub mod replay;
pub mod rescue;
pub mod shell;
pub mod stat;
pub mod stats;
pub mod tree;
pub mod umount;
pub mod undo;
pub mod xattr;

use std::{
    ffi::{OsStr, OsString},
    os::unix::ffi::OsStringExt,
    path::PathBuf,
};

use uxfs_volume::volume::Volume;

use self::edit::InImage;
use crate::{
    failure::{Complaints, Failure, Outcome},
    glob::{GlobArguments, Globs, no_match},
    image::ImageArguments,
    output::{put_path, set_image},
    remedy::{Purpose, set_purpose},
    target::Target,
};

/// Context of every command, besides its arguments.
#[derive(Debug, Clone, Default)]
pub struct Context {
    /// Print JSON.
    pub json: bool,
    /// Where paths without a slash in front begin; the root without one. Of the shell.
    pub directory: Option<Vec<u8>>,
    /// The image, which nothing may be written over.
    pub image: Option<PathBuf>,
    /// Patterns in paths have been expanded, by the shell.
    pub is_expanded: bool,
}

impl Context {
    /// The file named by an argument of a reading command.
    pub fn target(&self, argument: &OsStr) -> Target {
        self.seen_from_directory(Target::parse(argument))
    }

    /// The files named by arguments of a reading command, each as it was written; for a pattern all that fit. Patterns
    /// that nothing fits are complained of.
    ///
    /// # Errors
    /// Too many fit.
    pub fn targets(
        &self,
        volume: &Volume,
        arguments: &[OsString],
        globs: GlobArguments,
        complaints: &mut Complaints,
    ) -> Result<Vec<(OsString, Target)>, Failure> {
        let directory = self.directory.as_deref();
        let globs = Globs { volume, directory, is_on: !globs.no_glob && !self.is_expanded };
        let mut targets = Vec::with_capacity(arguments.len());
        for argument in arguments {
            let before = complaints.exit();
            let found = globs.paths(argument, &mut |path, error| complaints.add_path(path, error))?;
            if found.is_empty() && before == complaints.exit() {
                complaints.tell(&no_match(argument));
            }
            for target in found {
                let name = match &target {
                    Target::Path(path) => OsString::from_vec(path.clone()),
                    Target::Inode(_) => argument.clone(),
                };
                targets.push((name, self.seen_from_directory(target)));
            }
        }
        Ok(targets)
    }

    fn seen_from_directory(&self, target: Target) -> Target {
        match &self.directory {
            Some(directory) => target.from_directory(directory),
            None => target,
        }
    }

    /// The default path.
    pub fn default_path(&self) -> &OsStr {
        OsStr::new(if self.directory.is_some() { "." } else { "/" })
    }
}

/// Adds the image of a reading command to a document about it.
pub(crate) fn put_image(document: &mut serde_json::Value, context: &Context) {
    if let Some(image) = &context.image {
        put_path(document, "image", image);
    }
}

/// The arguments of a reading command, behind those that say in which image.
#[derive(Debug, clap::Args)]
pub struct OnImage<T: clap::Args> {
    #[command(flatten)]
    image: ImageArguments,
    #[command(flatten)]
    arguments: T,
}

impl<T: clap::Args> OnImage<T> {
    fn run(&self, context: &Context, command: fn(&Volume, &T, &Context) -> Outcome) -> Outcome {
        set_image(&self.image.image);
        let image = self.image.open()?;
        let context = Context { image: Some(self.image.image.clone()), ..context.clone() };
        let outcome = command(&image, &self.arguments, &context);
        image.conclude(outcome.map_err(|failure| failure.in_image(&self.image.image)))
    }
}

/// The commands.
#[derive(Debug, clap::Subcommand)]
pub enum Command {
    /// Make a file system, with the options of mkfs.xfs
    Mkfs(Box<mkfs::Arguments>),
    /// Show sizes, features and counters of a file system
    Info(info::Arguments),
    /// List directories
    Ls(OnImage<ls::Arguments>),
    /// Draw a directory tree
    Tree(OnImage<tree::Arguments>),
    /// Find files by an expression, as find(1) does
    Find(OnImage<find::Arguments>),
    /// Show how much space trees take
    #[command(disable_help_flag = true)]
    Du(OnImage<du::Arguments>),
    /// Show how full file systems are
    #[command(disable_help_flag = true)]
    Df(df::Arguments),
    /// Show all metadata of an inode
    Stat(OnImage<stat::Arguments>),
    /// Write the contents of files to standard output
    Cat(OnImage<cat::Arguments>),
    /// Show extended attributes and ACLs
    Xattr(OnImage<xattr::Arguments>),
    /// Show the extent map of a file
    Map(OnImage<map::Arguments>),
    /// List or count all inodes; each is read and verified
    Inodes(OnImage<inodes::Arguments>),
    /// Show which file or structure has a block, a sector or a byte
    Owner(OnImage<owner::Arguments>),
    /// Show every path of an inode, from its parent pointers only
    Parents(OnImage<parents::Arguments>),
    /// Show a histogram of free extents
    Freespace(OnImage<freespace::Arguments>),
    /// Tell what differs between images, or an image and a directory
    Diff(Box<diff::Arguments>),
    /// Search files for lines, like grep
    Grep(Box<grep::Arguments>),
    /// Copy files out, to a directory or an archive
    Extract(OnImage<extract::Arguments>),
    /// Copy files out, like cp
    Get(OnImage<get::Arguments>),
    /// Copy files from the host into the image
    Put(InImage<edit::put::Arguments>),
    /// Make directories
    Mkdir(InImage<edit::mkdir::Arguments>),
    /// Remove files
    Rm(InImage<edit::rm::Arguments>),
    /// Remove empty directories
    Rmdir(InImage<edit::rm::RmdirArguments>),
    /// Rename files
    Mv(InImage<edit::mv::Arguments>),
    /// Copy files within the image
    Cp(InImage<edit::cp::Arguments>),
    /// Make hard and symbolic links
    Ln(InImage<edit::ln::Arguments>),
    /// Change permissions
    Chmod(InImage<edit::chmod::Arguments>),
    /// Change owners and groups
    Chown(InImage<edit::chown::Arguments>),
    /// Change times; make empty files
    Touch(InImage<edit::touch::Arguments>),
    /// Change sizes
    Truncate(InImage<edit::truncate::Arguments>),
    /// Make special files
    Mknod(InImage<edit::mknod::Arguments>),
    /// Make named pipes
    Mkfifo(InImage<edit::mknod::FifoArguments>),
    /// Change extended attributes
    Setfattr(InImage<edit::setfattr::Arguments>),
    /// Run many commands on an image, at a prompt or as a script
    Shell(shell::Arguments),
    /// Mount an image through FUSE, without root where fusermount3 is
    Mount(mount::Arguments),
    /// Unmount, and wait until the image is whole
    Umount(umount::Arguments),
    /// Show what a running mount counts: requests and their times, cache, journal
    Stats(stats::Arguments),
    /// Show or change label and uuid
    Admin(admin::Arguments),
    /// Show any structure field by field, damaged or not
    Inspect(inspect::Arguments),
    /// Find every inconsistency of a file system; nothing is changed
    Check(check::Arguments),
    /// Mend a file system, from all that is known of it in several places
    Repair(repair::Arguments),
    /// Save files of a damaged image or failing device, and say which are whole
    Rescue(rescue::Arguments),
    /// Take a repair back: restore what it changed, byte for byte
    Undo(undo::Arguments),
    /// Write metadata to a file, without contents and names, as xfs_metadump does
    Metadump(metadump::Arguments),
    /// Make an image of dumped metadata
    Mdrestore(mdrestore::Arguments),
    /// Copy a file system, only what is in use, as xfs_copy does
    Copy(copy::Arguments),
    /// Replay the log of an image that was not unmounted cleanly
    Replay(replay::Arguments),
    /// Run benchmarks on a mounted file system, or in process on an image
    Bench(bench::Arguments),
    /// Show the commands, the help of one, or a topic
    Help(help::Arguments),
    /// Print the completions of a shell
    Completions(completions::Arguments),
}

impl Command {
    /// Whether it forks: until then its process has one thread.
    pub fn forks(&self) -> bool {
        matches!(self, Self::Mount(_) | Self::Umount(_))
    }

    fn purpose(&self) -> Purpose {
        match self {
            Self::Mount(_) => Purpose::Mount,
            Self::Check(_) | Self::Repair(_) | Self::Undo(_) => Purpose::Mend,
            Self::Rescue(_) => Purpose::Rescue,
            Self::Put(_)
            | Self::Mkdir(_)
            | Self::Rm(_)
            | Self::Rmdir(_)
            | Self::Mv(_)
            | Self::Cp(_)
            | Self::Ln(_)
            | Self::Chmod(_)
            | Self::Chown(_)
            | Self::Touch(_)
            | Self::Truncate(_)
            | Self::Mknod(_)
            | Self::Mkfifo(_)
            | Self::Setfattr(_)
            | Self::Replay(_)
            | Self::Admin(_) => Purpose::Change,
            _ => Purpose::Read,
        }
    }

    /// Runs the command.
    pub fn run(&self, context: &Context) -> Outcome {
        set_purpose(self.purpose());
        match self {
            Self::Mkfs(arguments) => mkfs::run(arguments, context),
            Self::Info(arguments) => info::run(arguments, context),
            Self::Ls(arguments) => arguments.run(context, ls::run),
            Self::Tree(arguments) => arguments.run(context, tree::run),
            Self::Find(arguments) => arguments.run(context, find::run),
            Self::Du(arguments) => arguments.run(context, du::run),
            Self::Df(arguments) => df::run(arguments, context),
            Self::Stat(arguments) => arguments.run(context, stat::run),
            Self::Cat(arguments) => arguments.run(context, cat::run),
            Self::Xattr(arguments) => arguments.run(context, xattr::run),
            Self::Map(arguments) => arguments.run(context, map::run),
            Self::Inodes(arguments) => arguments.run(context, inodes::run),
            Self::Owner(arguments) => arguments.run(context, owner::run),
            Self::Parents(arguments) => arguments.run(context, parents::run),
            Self::Freespace(arguments) => arguments.run(context, freespace::run),
            Self::Diff(arguments) => diff::run(arguments, context),
            Self::Grep(arguments) => grep::run(arguments, context),
            Self::Extract(arguments) => arguments.run(context, extract::run),
            Self::Mount(arguments) => mount::run(arguments, context),
            Self::Umount(arguments) => umount::run(arguments, context),
            Self::Stats(arguments) => stats::run(arguments, context),
            Self::Check(arguments) => check::run(arguments, context),
            Self::Repair(arguments) => repair::run(arguments, context),
            Self::Rescue(arguments) => rescue::run(arguments, context),
            Self::Undo(arguments) => undo::run(arguments, context),
            Self::Metadump(arguments) => metadump::run(arguments, context),
            Self::Mdrestore(arguments) => mdrestore::run(arguments, context),
            Self::Copy(arguments) => copy::run(arguments, context),
            Self::Replay(arguments) => replay::run(arguments, context),
            Self::Get(arguments) => arguments.run(context, get::run),
            Self::Put(arguments) => arguments.run(context),
            Self::Mkdir(arguments) => arguments.run(context),
            Self::Rm(arguments) => arguments.run(context),
            Self::Rmdir(arguments) => arguments.run(context),
            Self::Mv(arguments) => arguments.run(context),
            Self::Cp(arguments) => arguments.run(context),
            Self::Ln(arguments) => arguments.run(context),
            Self::Chmod(arguments) => arguments.run(context),
            Self::Chown(arguments) => arguments.run(context),
            Self::Touch(arguments) => arguments.run(context),
            Self::Truncate(arguments) => arguments.run(context),
            Self::Mknod(arguments) => arguments.run(context),
            Self::Mkfifo(arguments) => arguments.run(context),
            Self::Setfattr(arguments) => arguments.run(context),
            Self::Shell(arguments) => shell::run(arguments, context),
            Self::Admin(arguments) => admin::run(arguments, context),
            Self::Inspect(arguments) => inspect::run(arguments, context),
            Self::Bench(arguments) => bench::run(arguments, context),
            Self::Help(arguments) => help::run(arguments, context),
            Self::Completions(arguments) => completions::run(arguments, context),
        }
    }
}
