//! `uxfs cp`: copies within the image.

use std::os::unix::ffi::OsStrExt;

use uxfs_filesystem::{inode::table::InodeHandle, operations::live::Status};
use uxfs_volume::{
    error::OperationError,
    inode::{FileType, InodeFlags, set::InodeSet},
};

use crate::{
    commands::edit::{
        Edit,
        operands::{Goal, Operands},
    },
    edit::{
        contents::{self, Source},
        copies::Copies,
        deposit::{Deposit, Kept, Kind, Overwriting, kept_of_image},
        labels::LabelArguments,
        people::Owner,
        session::{Place, Session},
        walk::{Found, Level, Met},
    },
    failure::Failure,
    kind,
    listing::PATH_BYTES_MAX,
    search::walk::push_name,
};

/// Arguments of `uxfs cp`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: uxfs cp -a disk.img /etc /etc.before\n\
                  Copies share blocks with their originals where the file system supports it; holes stay holes.")]
pub struct Arguments {
    #[command(flatten)]
    operands: Operands,
    /// Directories with all that they hold
    #[arg(short, long, visible_short_alias = 'R')]
    recursive: bool,
    /// Like -r, and keep owners, permissions, times, attributes, ACLs and hard links
    #[arg(short, long)]
    archive: bool,
    /// Keep owners, permissions with ACLs, and times
    #[arg(short)]
    preserve: bool,
    /// Copy symbolic links themselves, and keep hard links among the copies
    #[arg(short = 'd')]
    links: bool,
    /// Follow symbolic links
    #[arg(short = 'L', long, conflicts_with_all = ["links", "archive"])]
    dereference: bool,
    #[command(flatten)]
    labels: LabelArguments,
    /// Do not overwrite existing files
    #[arg(short, long)]
    no_clobber: bool,
    /// Share blocks with the original: where possible, always (or fail), or never
    #[arg(long, value_name = "WHEN", value_enum, default_value_t, num_args = 0..=1, require_equals = true, default_missing_value = "always")]
    reflink: Reflink,
    /// Report each file
    #[arg(short, long)]
    verbose: bool,
}

/// When copies share blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
enum Reflink {
    #[default]
    Auto,
    Always,
    Never,
}

impl Edit for Arguments {
    fn run(&self, session: &mut Session) -> Result<(), Failure> {
        session.begin_labels(&self.labels)?;
        session.report.is_verbose = self.verbose;
        if self.reflink == Reflink::Always && !contents::shares(session.filesystem()) {
            return Err(Failure::refused(
                kind::Kind::MissingFeature,
                "this file system cannot share blocks (made without reflink)",
            ));
        }
        let (sources, goal) = self.operands.split(session)?;
        session.just_made.begin(sources.len());
        let mut copying = Copying { arguments: self, copies: Copies::default() };
        for source in sources {
            let copied = copying.operand(session, source.as_bytes(), &goal);
            session.report.check(copied);
        }
        Ok(())
    }
}

struct Copying<'a> {
    arguments: &'a Arguments,
    /// Copies of files with several names, by the inodes of these.
    copies: Copies,
}

/// A directory that is being copied.
struct Directory {
    source: Level,
    copy: InodeHandle,
    /// Length of the copy's path in bytes.
    path_length: usize,
    kept: Kept,
}

impl Copying<'_> {
    fn is_recursive(&self) -> bool {
        self.arguments.recursive || self.arguments.archive
    }

    fn overwriting(&self) -> Overwriting {
        Overwriting {
            keeps_existing: self.arguments.no_clobber,
            divides_links: self.keeps_links(),
            ..Overwriting::default()
        }
    }

    fn keeps_links(&self) -> bool {
        self.arguments.archive || self.arguments.links
    }

    /// Whether symbolic links are copied as what they lead to.
    fn follows(&self) -> bool {
        self.arguments.dereference || !(self.is_recursive() || self.arguments.links)
    }

    fn operand(&mut self, session: &mut Session, path: &[u8], goal: &Goal) -> Result<(), Failure> {
        let handle = session.find(path, self.follows())?;
        let file_type = session.status(&handle)?.file_type;
        let met = Met { handle: &handle, file_type, path };
        if met.file_type == FileType::Directory && !self.is_recursive() {
            let failure = Failure::from(uxfs_volume::error::Error::from(OperationError::IsADirectory));
            return Err(failure.with_remedy("-r copies directories").about_path(path));
        }
        if met.file_type.is_special() && !self.is_recursive() {
            return Err(Failure::refused(kind::Kind::WrongFileType, "a special file (use -r to copy it)")
                .about_path(path));
        }
        let place = goal.place(session, path)?;
        if met.file_type == FileType::Directory && is_within(session, &place.directory, met.handle)? {
            return Err(Failure::refused(kind::Kind::Invalid, "a directory cannot be copied into itself")
                .about_path(path));
        }
        let mut levels = Vec::new();
        let mut seen = InodeSet::default();
        let (mut from, mut to) = (path.to_vec(), place.path.clone());
        self.copy(session, &mut levels, &mut seen, met, place)?;
        while let Some(level) = levels.last_mut() {
            from.truncate(level.source.path_length);
            to.truncate(level.path_length);
            match level.source.next(session.filesystem(), &from) {
                Ok(Some(name)) => {
                    push_name(&mut from, &name);
                    push_name(&mut to, &name);
                    let place = Place::below(&level.copy, &name, to.clone());
                    let found = self.meet(session, level, &name, &from);
                    let copied = found.and_then(|Found { handle, file_type }| {
                        let met = Met { handle: &handle, file_type, path: &from };
                        self.copy(session, &mut levels, &mut seen, met, place)
                    });
                    session.report.check(copied);
                }
                Ok(None) => {
                    // Filling it has changed its times.
                    if let Some(done) = levels.pop() {
                        let kept = session.keep(&done.copy, &done.kept);
                        session.report.check(kept.map_err(|failure| failure.about_path(&to)));
                    }
                }
                Err(failure) => {
                    session.report.complain(&failure);
                    levels.pop();
                }
            }
        }
        Ok(())
    }

    fn meet(&self, session: &Session, level: &Directory, name: &[u8], path: &[u8]) -> Result<Found, Failure> {
        let found = session.meet(&level.source.directory, name, path)?;
        if found.file_type != FileType::SymbolicLink || !self.arguments.dereference {
            return Ok(found);
        }
        let handle = session.find(path, true)?;
        let file_type = session.status(&handle)?.file_type;
        Ok(Found { handle, file_type })
    }

    fn copy(
        &mut self,
        session: &mut Session,
        levels: &mut Vec<Directory>,
        seen: &mut InodeSet,
        met: Met<'_>,
        place: Place,
    ) -> Result<(), Failure> {
        let status = session.status(met.handle)?;
        if let Some(existing) = session.at(&place)? {
            if existing.is_same(met.handle) {
                return Err(same_file(&place));
            }
            if status.file_type == FileType::Regular
                && session.find_if_there(&place.path, true)?.is_some_and(|other| other.is_same(met.handle))
            {
                return Err(same_file(&place));
            }
        }
        let has_names = self.keeps_links() && status.link_count > 1 && met.file_type != FileType::Directory;
        let original = (met.handle.number().get(), 0);
        if has_names && let Some(copy) = self.copies.find(session.filesystem(), original)? {
            return self.link(session, &copy, &place);
        }
        let mut kept = self.kept(session, met.handle)?;
        let target;
        let kind = match met.file_type {
            FileType::Directory => Kind::Directory,
            FileType::Regular => {
                Kind::Regular(self.contents(session, met.handle, &status)?, status.size_bytes)
            }
            FileType::SymbolicLink => {
                target = session.filesystem().read_link(met.handle)?;
                Kind::Symlink(&target)
            }
            _ => Kind::Special(met.file_type, status.device),
        };
        let mask = match met.file_type {
            FileType::Directory => 0o1777,
            FileType::Regular => 0o777,
            _ => 0o7777,
        };
        let is_directory = met.file_type == FileType::Directory;
        let deposit = Deposit {
            kind,
            permissions: status.mode & mask,
            owner: Owner::default(),
            kept: if is_directory { kept.before_filling() } else { kept.clone() },
        };
        let Some(copy) = session.deposit_over(&place, deposit, self.overwriting())? else { return Ok(()) };
        session.report.done_with("copied", met.path, Some(("->", &place.path)));
        if is_directory {
            if !seen.insert(met.handle.number()) {
                let failure =
                    Failure::refused(kind::Kind::Damage, "this directory was reached a second time");
                return Err(failure.about_path(met.path));
            }
            if met.path.len() > PATH_BYTES_MAX {
                return Err(Failure::refused(kind::Kind::NameTooLong, "too deep").about_path(met.path));
            }
            if kept.attributes.is_some() {
                kept.label = session.label_of_existing(&place, FileType::Directory)?;
            }
            let source = Level::new(met.handle.clone(), met.path.len());
            levels.push(Directory { source, copy, path_length: place.path.len(), kept });
        } else if has_names {
            self.copies.add(original, &copy)?;
        }
        Ok(())
    }

    /// A further name for what was copied already.
    fn link(&self, session: &mut Session, copy: &InodeHandle, place: &Place) -> Result<(), Failure> {
        if let Some(existing) = session.at(place)? {
            if self.arguments.no_clobber || existing.is_same(copy) {
                return Ok(());
            }
            if session.status(&existing)?.file_type == FileType::Directory {
                return Err(place.failure(OperationError::IsADirectory));
            }
            session.just_made.refuse(&existing, place)?;
            drop(existing);
            session.remove_name(place, false)?;
        }
        let linked = session.filesystem().link(copy, &place.directory, &place.name);
        linked.map_err(|error| place.failure(error))
    }

    fn kept(&self, session: &Session, handle: &InodeHandle) -> Result<Kept, Failure> {
        if self.arguments.archive || self.arguments.preserve {
            kept_of_image(session, handle, self.arguments.archive)
        } else {
            Ok(Kept::default())
        }
    }

    fn contents(
        &self,
        session: &Session,
        file: &InodeHandle,
        status: &Status,
    ) -> Result<Source<'static>, Failure> {
        let can_share =
            contents::shares(session.filesystem()) && !status.flags.contains(InodeFlags::REALTIME);
        Ok(match self.arguments.reflink {
            Reflink::Always => Source::Clone(file.clone()),
            Reflink::Auto if can_share => Source::Clone(file.clone()),
            Reflink::Auto | Reflink::Never => Source::Image(file.clone()),
        })
    }
}

/// Whether a directory is another or lies below it.
fn is_within(session: &Session, directory: &InodeHandle, above: &InodeHandle) -> Result<bool, Failure> {
    let root = session.filesystem().geometry().root_inode;
    let mut at = directory.clone();
    // The directories of a damaged image may form a loop.
    for _ in 0..PATH_BYTES_MAX {
        if at.is_same(above) {
            return Ok(true);
        }
        if at.number() == root {
            return Ok(false);
        }
        at = session.filesystem().find(&at, b"..")?;
    }
    Err(Failure::refused(kind::Kind::Damage, "the parent directories form a loop"))
}

fn same_file(place: &Place) -> Failure {
    Failure::refused(kind::Kind::SameFile, "both are the same file").about_path(&place.path)
}
