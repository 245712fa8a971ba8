//! `uxfs put`: files of the host into the image.

use std::{
    collections::HashMap,
    ffi::OsString,
    fs, io,
    os::unix::{
        ffi::OsStrExt,
        fs::{FileTypeExt, MetadataExt},
    },
    path::Path,
};

use uxfs_block::preload;
use uxfs_filesystem::inode::table::InodeHandle;
use uxfs_source::{
    content::Content,
    directory::{DirectoryOptions, DirectorySource},
    entry::{Attribute, DirectoryId, Entry, Kind as SourceKind, LinkIdentity, Metadata, Times, Timestamp},
    error::SourceError,
    tree::{Batch, Reading, TreeSource},
};
use uxfs_volume::inode::{DeviceNumber, FileType};

use crate::{
    commands::edit::{
        Edit,
        operands::{Goal, Operands},
    },
    edit::{
        contents::Source,
        copies::Copies,
        deposit::{Deposit, Kept, Kind, Overwriting, kept_of_host},
        labels::LabelArguments,
        mode::ModeChange,
        people::Owner,
        session::{Place, Session, join},
        time::parse_date,
    },
    failure::Failure,
    kind, overwrite,
};

/// Arguments of `uxfs put`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples: uxfs put disk.img resolv.conf /etc/\n          \
                  uxfs put -a disk.img rootfs/. /\n          \
                  generate | uxfs put --mode 600 disk.img - /etc/secret\n\
                  New files belong to root. An existing file keeps its owner, permissions and names; its contents are \
                  replaced in one step, after all new contents are written.")]
pub struct Arguments {
    #[command(flatten)]
    operands: Operands,
    /// Directories with all that they hold; where the image has a symbolic link to a directory, into that directory
    #[arg(short, long, visible_short_alias = 'R')]
    recursive: bool,
    /// Like -r, and keep owners, permissions, times, attributes, ACLs and hard links
    #[arg(short, long)]
    archive: bool,
    /// Set the owner of all new files, as chown does
    #[arg(long, value_name = "OWNER")]
    owner: Option<OsString>,
    /// Set the permissions of new files (with X also of directories), as chmod does
    #[arg(long, value_name = "MODE", value_parser = ModeChange::parse)]
    mode: Option<ModeChange>,
    /// Set the modification time, as touch -d does
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    mtime: Option<String>,
    #[command(flatten)]
    labels: LabelArguments,
    /// Do not overwrite existing files
    #[arg(short, long)]
    no_clobber: bool,
    /// Report each file
    #[arg(short, long)]
    verbose: bool,
}

impl Edit for Arguments {
    fn run(&self, session: &mut Session) -> Result<(), Failure> {
        session.begin_labels(&self.labels)?;
        session.report.is_verbose = self.verbose;
        let owner = match &self.owner {
            Some(owner) => session.people().owner(owner.as_bytes()).map_err(Failure::usage)?,
            None => Owner::default(),
        };
        let now = session.filesystem().now();
        let modification = self.mtime.as_ref().map(|time| parse_date(time, now)).transpose();
        let forced = Kept { owner, modification: modification.map_err(Failure::usage)?, ..Kept::default() };
        let (sources, goal) = self.operands.split(session)?;
        session.just_made.begin(sources.len());
        let mut putting = Putting { arguments: self, forced, copies: Copies::default() };
        for source in sources {
            let put = putting.operand(session, Path::new(source), &goal);
            session.report.check(put);
        }
        Ok(())
    }
}

struct Putting<'a> {
    arguments: &'a Arguments,
    /// The metadata that options ask for.
    forced: Kept,
    /// Files with several names that were put, by device and inode of the host.
    copies: Copies,
}

/// A directory of the image that is being filled.
struct Filling {
    handle: InodeHandle,
    kept: Kept,
}

impl Putting<'_> {
    fn operand(&mut self, session: &mut Session, source: &Path, goal: &Goal) -> Result<(), Failure> {
        if source == Path::new("-") {
            let Goal::As(target) = goal else {
                return Err(Failure::usage("standard input needs a file name as TARGET, not a directory"));
            };
            if session.is_input_taken {
                return Err(Failure::usage("standard input is already the script"));
            }
            let place = session.place(target)?;
            let metadata = Metadata { mode: 0o666, ..Metadata::default() };
            let kind = Kind::Regular(Source::Stream(io::stdin().lock()), 0);
            return self.put(session, &place, kind, &metadata, false).map(drop);
        }
        let failed = |error: io::Error| Failure::caused_by(&error).about_host(source);
        preload::check().map_err(io::Error::other).map_err(failed)?;
        let is_tree = self.arguments.recursive || self.arguments.archive;
        let found = if is_tree { fs::symlink_metadata(source) } else { fs::metadata(source) };
        let found = found.map_err(failed)?;
        if found.is_dir() {
            if !is_tree {
                return Err(Failure::refused(
                    kind::Kind::IsADirectory,
                    "is a directory (-r puts directories)",
                )
                .about_host(source));
            }
            let place = goal.place(session, source.as_os_str().as_bytes())?;
            return self.tree(session, source, &place);
        }
        if !is_tree && !found.is_file() {
            return Err(Failure::refused(
                kind::Kind::WrongFileType,
                "a special file (use -r to create one like it)",
            )
            .about_host(source));
        }
        if found.is_file() {
            overwrite::refuse(session.image(), &[overwrite::Input::new("source", source)])?;
        }
        let place = goal.place(session, source.as_os_str().as_bytes())?;
        let entry = self.examine(source, &found).map_err(failed)?;
        self.entry(session, &place, &entry).map(drop)
    }

    /// A file that is no directory, as sources of files tell them.
    fn examine(&self, path: &Path, found: &fs::Metadata) -> io::Result<Entry> {
        let file_type = found.file_type();
        let number = || uxfs_source::entry::DeviceNumber {
            major: rustix::fs::major(found.rdev()),
            minor: rustix::fs::minor(found.rdev()),
        };
        let kind = if file_type.is_symlink() {
            SourceKind::Symlink { target: fs::read_link(path)?.as_os_str().as_bytes().into() }
        } else if file_type.is_file() {
            let content = Content::of_host_file(path).map_err(|error| match error {
                // The path comes before.
                SourceError::Io { source, .. } => source,
                error => io::Error::other(error),
            })?;
            SourceKind::Regular { size_bytes: content.0, content: content.1 }
        } else if file_type.is_char_device() {
            SourceKind::CharacterDevice(number())
        } else if file_type.is_block_device() {
            SourceKind::BlockDevice(number())
        } else if file_type.is_fifo() {
            SourceKind::Fifo
        } else {
            SourceKind::Socket
        };
        let time = |seconds, nanoseconds: i64| Timestamp {
            seconds,
            nanoseconds: u32::try_from(nanoseconds).unwrap_or(0),
        };
        let metadata = Metadata {
            mode: (found.mode() & 0o7777) as u16,
            user: found.uid(),
            group: found.gid(),
            times: Times {
                access: time(found.atime(), found.atime_nsec()),
                modification: time(found.mtime(), found.mtime_nsec()),
                change: time(found.ctime(), found.ctime_nsec()),
                creation: None,
            },
            attributes: if self.arguments.archive { attributes_of(path)? } else { Vec::new() },
            link: (found.nlink() > 1).then(|| LinkIdentity {
                device: found.dev(),
                inode: found.ino(),
                links: u32::try_from(found.nlink()).unwrap_or(u32::MAX),
            }),
        };
        Ok(Entry { name: Box::default(), metadata, kind })
    }

    fn tree(&mut self, session: &mut Session, source: &Path, place: &Place) -> Result<(), Failure> {
        let failed = |error: SourceError| Failure::caused_by(&error).at_host(source);
        let mut options = DirectoryOptions::default();
        options.exclude.extend(session.image_identity());
        let mut tree = DirectorySource::open(source, options, Reading::Everything).map_err(failed)?;
        let metadata = tree.root().cloned().unwrap_or_default();
        let root = self.put(session, place, Kind::Directory, &metadata, false)?;
        let Some(root) = root else { return Ok(()) };
        let kept = self.kept_when_full(session, place, &metadata)?;
        let mut filling = HashMap::new();
        filling.insert(DirectoryId::ROOT, Filling { handle: root, kept });
        let ended = loop {
            match tree.next_batch() {
                Ok(Some(batch)) => self.batch(session, &place.path, &mut filling, batch)?,
                Ok(None) => break Ok(()),
                Err(error) => break Err(failed(error)),
            }
        };
        for problem in tree.take_problems() {
            let kind = if problem.reason.is_unreadable() { kind::Kind::Io } else { kind::Kind::Changed };
            session.report.complain(&Failure::refused(kind, problem.to_string()).at_host(source));
        }
        ended
    }

    fn batch(
        &mut self,
        session: &mut Session,
        root: &[u8],
        filling: &mut HashMap<DirectoryId, Filling>,
        batch: Batch,
    ) -> Result<(), Failure> {
        // The failure to create it has been reported.
        let Some(directory) = filling.remove(&batch.directory) else { return Ok(()) };
        let path = if batch.path.is_empty() { root.to_vec() } else { join(root, &batch.path) };
        for entry in &batch.entries {
            let place = Place::below(&directory.handle, &entry.name, join(&path, &entry.name));
            let put = self.entry(session, &place, entry);
            let put = session.report.check(put).flatten();
            if let (SourceKind::Directory(id), Some(handle)) = (&entry.kind, put) {
                let kept = self.kept_when_full(session, &place, &entry.metadata)?;
                filling.insert(*id, Filling { handle, kept });
            }
        }
        if !batch.is_last {
            filling.insert(batch.directory, directory);
            return Ok(());
        }
        // Filling it has changed its times.
        let kept = session.keep(&directory.handle, &directory.kept);
        session.report.check(kept.map_err(|failure| failure.about_path(&path)));
        Ok(())
    }

    fn entry(
        &mut self,
        session: &mut Session,
        place: &Place,
        entry: &Entry,
    ) -> Result<Option<InodeHandle>, Failure> {
        let identity = entry.metadata.link.filter(|_| self.arguments.archive);
        let identity = identity.map(|link| (link.device, link.inode));
        if let Some(identity) = identity
            && let Some(known) = self.copies.find(session.filesystem(), identity)?
        {
            return self.link(session, place, &known).map(|()| None);
        }
        let device = |number: &uxfs_source::entry::DeviceNumber| DeviceNumber {
            major: number.major,
            minor: number.minor,
        };
        let kind = match &entry.kind {
            SourceKind::Directory(_) => Kind::Directory,
            SourceKind::Regular { size_bytes, content } => {
                let source = Source::of(content).map_err(|failure| failure.about_path(&place.path))?;
                Kind::Regular(source, *size_bytes)
            }
            SourceKind::Symlink { target } => Kind::Symlink(target),
            SourceKind::CharacterDevice(number) => Kind::Special(FileType::CharacterDevice, device(number)),
            SourceKind::BlockDevice(number) => Kind::Special(FileType::BlockDevice, device(number)),
            SourceKind::Fifo => Kind::Special(FileType::Fifo, DeviceNumber::default()),
            SourceKind::Socket => Kind::Special(FileType::Socket, DeviceNumber::default()),
            // Only streams have these.
            SourceKind::HardLink { .. } => return Ok(None),
        };
        let put = self.put(session, place, kind, &entry.metadata, identity.is_some())?;
        if let (Some(identity), Some(handle)) = (identity, &put)
            && !matches!(entry.kind, SourceKind::Directory(_))
        {
            self.copies.add(identity, handle)?;
        }
        Ok(put)
    }

    fn link(&self, session: &mut Session, place: &Place, file: &InodeHandle) -> Result<(), Failure> {
        if let Some(existing) = session.at(place)? {
            if self.arguments.no_clobber || existing.is_same(file) {
                return Ok(());
            }
            session.just_made.refuse(&existing, place)?;
            drop(existing);
            session.remove(place, false)?;
        }
        let linked = session.filesystem().link(file, &place.directory, &place.name);
        linked.map_err(|error| place.failure(error))?;
        session.report.done("linked", &place.path);
        Ok(())
    }

    fn put(
        &self,
        session: &mut Session,
        place: &Place,
        kind: Kind<'_>,
        metadata: &Metadata,
        divides_links: bool,
    ) -> Result<Option<InodeHandle>, Failure> {
        let is_directory = matches!(kind, Kind::Directory);
        let permissions = metadata.mode & if is_directory { 0o1777 } else { 0o777 };
        let kept = self.kept(metadata, is_directory);
        let kept = if is_directory { kept.before_filling() } else { kept };
        let deposit = Deposit { kind, permissions, owner: self.forced.owner, kept };
        let overwriting = Overwriting {
            keeps_existing: self.arguments.no_clobber,
            divides_links,
            enters_linked_directories: true,
        };
        let put = session.deposit_over(place, deposit, overwriting)?;
        if put.is_some() {
            session.report.done("put", &place.path);
        }
        Ok(put)
    }

    /// What a directory has once it is full.
    fn kept_when_full(
        &self,
        session: &mut Session,
        place: &Place,
        metadata: &Metadata,
    ) -> Result<Kept, Failure> {
        let mut kept = self.kept(metadata, true);
        if kept.attributes.is_some() {
            kept.label = session.label_of_existing(place, FileType::Directory)?;
        }
        Ok(kept)
    }

    fn kept(&self, metadata: &Metadata, is_directory: bool) -> Kept {
        let mut kept = if self.arguments.archive { kept_of_host(metadata) } else { Kept::default() };
        if let Some(mode) = &self.arguments.mode {
            kept.permissions = Some(mode.apply(metadata.mode & 0o7777, is_directory, 0));
        }
        kept.owner.uid = self.forced.owner.uid.or(kept.owner.uid);
        kept.owner.gid = self.forced.owner.gid.or(kept.owner.gid);
        kept.modification = self.forced.modification.or(kept.modification);
        kept
    }
}

/// The attributes of a host file that may be copied, by name.
fn attributes_of(path: &Path) -> io::Result<Vec<Attribute>> {
    use rustix::fs::{lgetxattr, llistxattr};
    let mut names = vec![0_u8; 64 << 10];
    let length = match llistxattr(path, &mut names[..]) {
        Err(rustix::io::Errno::OPNOTSUPP) => 0,
        length => length?,
    };
    let mut attributes = Vec::new();
    for name in names.get(..length).unwrap_or_default().split(|byte| *byte == 0) {
        if name.is_empty() || name.starts_with(b"trusted.SGI_ACL_") {
            continue;
        }
        let mut value = vec![0_u8; 64 << 10];
        let length = lgetxattr(path, std::ffi::OsStr::from_bytes(name), &mut value[..])?;
        value.truncate(length);
        attributes.push(Attribute { name: name.into(), value: value.into() });
    }
    Ok(attributes)
}
