//! `uxfs repair`: rebuilds what contradicts something else.
//!
//! | module | holds |
//! |---|---|
//! | here | the arguments |
//! | [`job`] | one repair, from the image to what became of it; the drop-ins use it as well |
//! | [`losses`] | files lost in whole or in part |
//! | [`next`] | what to do next |
//! | [`page`] | actions, remaining findings and the summary as text |
//! | [`plan`] | `--plan`: what a repair would write, kept in a file |
//! | [`report`] | the same as JSON |
//! | [`undo_files`] | the undo files beside the image |

pub(crate) mod job;
mod losses;
mod next;
mod page;
pub(crate) mod plan;
mod report;
pub(crate) mod undo_files;

use std::path::PathBuf;

use self::job::{Done, Ended, Job, UndoPlace};
use crate::{
    commands::Context,
    counted_kinds::Amount,
    ddrescue_map::MapArgument,
    failure::{Exit, Failure, Outcome},
    image::ImageArguments,
    output::set_image,
};

/// Arguments of `uxfs repair`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Each damaged structure is rebuilt from what else says the same: groups from inodes and their extents, \
    directories from their entries and from the parent pointers of their files. The repaired file system is checked before \
    anything is written; where something would be left, nothing is. A dirty log is replayed first. What is written \
    over is kept in an undo file: uxfs undo takes the repair back.\n\
    The first ten actions of each kind are shown, and the rest counted; --all shows every one, --json always does.\n\
    Where two witnesses contradict each other, or none is left, the repair guesses: the line below says what else may be true.\n\
    Exits with 0 where the image is sound afterwards, and with 3 where it could not be repaired, or where files were lost with it: \
    given up, empty at their paths, or in part in lost+found. The summary counts and names them. With --dry-run it exits with 3 where \
    there is anything to repair; with 1 where there is no file system, or the repair failed. Where standard output is full, it exits with 1 \
    instead of 0, and standard error says whether the image was repaired, and how to take that back. Through a link named fsck.uxfs, fsck.xfs or xfs_repair it takes the options of that tool, and \
    has its exit codes.\n\
    Examples:\n  uxfs repair --dry-run disk.img\n  uxfs repair --map copy.map copy.img\n  uxfs repair disk.img\n  uxfs repair --undo /var/tmp/sda1.undo /dev/sda1\n  \
    uxfs repair --dry-run --plan disk.plan disk.img\n  uxfs ls --repaired=disk.plan disk.img /etc\n  uxfs repair --plan disk.plan disk.img\n  \
    uxfs repair --dry-run --json disk.img | jq 'select(.certainty == \"guess\")'",
    mut_arg("image", |argument| argument
        .help("Image file or block device; with --dry-run also a compressed image or a qcow2 disk, which is not changed")),
    mut_arg("tolerant", |argument| argument.hide(true)),
    mut_arg("superblock", |argument| argument
        .help("Use the superblock of allocation group N, or of the first one with a sound superblock")),
    mut_arg("repaired", |argument| argument.hide(true)),
    mut_arg("ignore_log", |argument| argument.hide(true)),
    mut_arg("no_lock", |argument| argument.hide(true)),
)]
pub struct Arguments {
    #[command(flatten)]
    image: ImageArguments,
    #[command(flatten)]
    map: MapArgument,
    /// Print what would be done, and write nothing
    #[arg(short = 'n', long)]
    dry_run: bool,
    /// A plan. With --dry-run, save in FILE what the repair would write: --repaired=FILE of reading commands shows it. Without, carry
    /// out the plan in FILE and do not search for damage again; refused if the image has changed since
    #[arg(long, value_name = "FILE")]
    plan: Option<PathBuf>,
    /// Keep what is written over in this file, for uxfs undo and for a repair that is cut off. The undo file of an earlier repair is
    /// replaced [default: IMAGE.uxfs-undo, or the next of IMAGE.uxfs-undo.1 and so on]
    #[arg(long, value_name = "FILE", conflicts_with = "no_undo")]
    undo: Option<PathBuf>,
    /// Keep nothing: the repair cannot be undone, and one that is cut off may lose more
    #[arg(long)]
    no_undo: bool,
    /// Use no older copies of metadata that the log holds, where another program changed the file system without writing its log
    #[arg(long)]
    no_log_copies: bool,
    /// Print every action, not only the first ten of each kind
    #[arg(short, long, conflicts_with = "quiet")]
    all: bool,
    /// Print no single actions and no progress, only the summary and remaining findings
    #[arg(short, long)]
    quiet: bool,
    /// Do not look for the paths of inodes
    #[arg(long)]
    no_paths: bool,
}

impl Arguments {
    /// Refuses what decides about a repair where a plan has decided.
    fn check_plan(&self) -> Result<(), Failure> {
        let decides = self.map.path().is_some() || self.image.names_superblock() || self.no_log_copies;
        match self.plan.is_some() && !self.dry_run && decides {
            true => Err(Failure::usage(
                "--map, --superblock and --no-log-copies belong to the dry run that makes the plan",
            )),
            false => Ok(()),
        }
    }
}

/// Runs the command.
pub fn run(arguments: &Arguments, context: &Context) -> Outcome {
    set_image(&arguments.image.image);
    let undo = match &arguments.undo {
        _ if arguments.no_undo => UndoPlace::None,
        Some(path) => UndoPlace::At(path.clone()),
        None => UndoPlace::BesideImage,
    };
    arguments.check_plan()?;
    let job = Job {
        image: &arguments.image,
        plan: arguments.plan.as_deref(),
        map: Some(&arguments.map),
        is_dry_run: arguments.dry_run,
        undo,
        ignore_log_copies: arguments.no_log_copies,
        keeps_unread_log: false,
        amount: if arguments.all { Amount::All } else { Amount::First },
        is_quiet: arguments.quiet,
        is_command: true,
        has_paths: !arguments.no_paths,
    };
    match job.run(context)? {
        Ended { unprinted: Some(failure), .. } => Err(failure),
        Ended { done: Done::Repaired { .. }, has_lost_files: true, .. } => Ok(Exit::Corruption),
        Ended { done: Done::Clean | Done::Repaired { .. }, .. } => Ok(Exit::Success),
        Ended { done: Done::Planned | Done::Left | Done::LogNeeded, .. } => Ok(Exit::Corruption),
    }
}
