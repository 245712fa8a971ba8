//! `uxfs get`: files of the image to the host, as cp would copy them.

use std::{
    collections::HashMap,
    ffi::{OsStr, OsString},
    fs::File,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

use uxfs_extract::{
    directory::{DirectoryOptions, DirectorySink},
    report::{Counts, Observer},
    walk::{ExtractOptions, Start},
};
use uxfs_volume::volume::Volume;
use uxfs_volume::{
    error::{Error, OperationError},
    inode::FileType,
};

use crate::{
    commands::{Context, cat, extract},
    destination::{self, Taker},
    edit::session::last_name,
    failure::{About, Complaints, Failure, Outcome},
    glob::{self, GlobArguments},
    kind::Kind,
    overwrite,
    progress::QuietArgument,
    target::Target,
};

/// Arguments of `uxfs get`.
#[derive(Debug, clap::Args)]
#[command(after_help = format!("Examples: uxfs get disk.img /etc/passwd /etc/group .\n          \
                  uxfs get -r disk.img /etc etc-of-the-image\n          \
                  uxfs get disk.img /etc/passwd - | sort\n          \
                  uxfs get disk.img '/var/log/*.log' logs\n\
                  Owners, permissions, times, attributes and holes come along, as with extract; files that are there are \
                  replaced.\n{}", glob::HELP))]
pub struct Arguments {
    /// Files in the image, then the target: a directory or name on the host, or - for standard output
    #[arg(value_name = "PATH... TARGET", required = true, num_args = 2..)]
    paths: Vec<OsString>,
    #[command(flatten)]
    globs: GlobArguments,
    /// Directories with all that they hold
    #[arg(short, long, visible_short_alias = 'R')]
    recursive: bool,
    /// Do not overwrite existing files, and report them
    #[arg(short, long)]
    no_clobber: bool,
    #[command(flatten)]
    quiet: QuietArgument,
}

/// Runs the command.
pub fn run(filesystem: &Volume, arguments: &Arguments, context: &Context) -> Outcome {
    let Some((target, sources)) = arguments.paths.split_last() else {
        return Err(Failure::usage("PATH or TARGET is missing"));
    };
    if target == "-" {
        return cat::copy_all(filesystem, sources, arguments.globs, context);
    }
    let target = Path::new(target);
    let is_directory = target.is_dir();
    let mut complaints = Complaints::default();
    let taker = if is_directory || arguments.no_clobber { None } else { destination::taker(target)? };
    if taker == Some(Taker::StandardOutput) {
        return cat::copy_all(filesystem, sources, arguments.globs, context);
    }
    let sources = context.targets(filesystem, sources, arguments.globs, &mut complaints)?;
    if sources.len() > 1 && !is_directory {
        return Err(Failure::refused(Kind::NotADirectory, "several files need an existing directory")
            .about_host(target));
    }
    let mut tally = extract::Tally::new(context, None, arguments.quiet);
    if let (Some(Taker::At(place)), [(_, source)]) = (&taker, &sources[..]) {
        if let Some(image) = &context.image {
            overwrite::refuse(target, &[overwrite::Input::image(image)])?;
        }
        let written_bytes = write_into(filesystem, source, target, place)?;
        tally.progress(&Counts { files: 1, data_bytes: written_bytes, ..Counts::default() });
        return Ok(tally.finish(false)?.max(complaints.exit()));
    }
    // Names that sources have got below the target; a directory may take the contents of another one.
    let mut names: HashMap<Vec<u8>, bool> = HashMap::new();
    for (source, named) in &sources {
        let start = start_of(filesystem, arguments, (target, is_directory), (source, named), &mut names)
            .and_then(|(start, folder)| {
                if !arguments.no_clobber {
                    must_spare_image(filesystem, &start, &folder, context)?;
                }
                Ok((start, folder))
            });
        match start {
            Ok((start, folder)) => {
                let options = DirectoryOptions { overwrite: !arguments.no_clobber };
                let sink = DirectorySink::create(&folder, options)
                    .map_err(|error| Failure::from(error).at_host_tree(&folder))?;
                extract::carry_out(filesystem, &start, &ExtractOptions::default(), sink, &mut tally)
                    .map_err(|failure| failure.at_host_tree(&folder))?;
            }
            Err(failure) => complaints.tell(&failure),
        }
    }
    Ok(tally.finish(false)?.max(complaints.exit()))
}

/// Writes the contents of a file into a device or pipe of the host, as cp would. Returns their bytes.
fn write_into(filesystem: &Volume, source: &Target, target: &Path, place: &Path) -> Result<u64, Failure> {
    let inode = source.find(filesystem, true).about_target(source)?;
    let mut output = File::options().write(true).open(place).about_host(target)?;
    cat::copy(filesystem, &inode, &mut output).about_host(target)?.about_target(source)?;
    Ok(inode.size_bytes())
}

/// What is copied of a source, and the directory into which. `names` are those that sources have got.
fn start_of(
    filesystem: &Volume,
    arguments: &Arguments,
    (target, is_directory): (&Path, bool),
    (source, named): (&OsStr, &Target),
    names: &mut HashMap<Vec<u8>, bool>,
) -> Result<(Start, PathBuf), Failure> {
    let inode = named.find(filesystem, true).about_target(named)?;
    let is_tree = inode.file_type() == Some(FileType::Directory);
    if is_tree && !arguments.recursive {
        let failure = Failure::from(Error::from(OperationError::IsADirectory));
        return Err(failure.with_remedy("-r gets directories").about_target(named));
    }
    if !is_tree && !is_directory && names_directory(target) {
        return Err(Failure::refused(Kind::NotADirectory, "not a directory").about_host(target));
    }
    let (folder, name) = place(target, is_directory, named, source)?;
    if let Some(name) = &name
        && names.insert(name.clone(), is_tree).is_some_and(|was_tree| !(was_tree && is_tree))
    {
        let failure = Failure::refused(
            Kind::Exists,
            "not replaced: another source of the same name has just been put there",
        );
        return Err(failure.about_host(&folder.join(OsStr::from_bytes(name))));
    }
    Ok((Start { inode: inode.number, name }, folder))
}

/// Whether only a directory can have this path. What makes it so is not in the last name of the path.
fn names_directory(path: &Path) -> bool {
    let path = path.as_os_str().as_bytes();
    path.ends_with(b"/") || path.ends_with(b"/.")
}

/// Refuses a source that would take the place of the image.
fn must_spare_image(
    filesystem: &Volume,
    start: &Start,
    folder: &Path,
    context: &Context,
) -> Result<(), Failure> {
    if let (Some(image), Some(name)) = (&context.image, &start.name) {
        overwrite::refuse(&folder.join(OsStr::from_bytes(name)), &[overwrite::Input::image(image)])?;
    }
    extract::spare_image(filesystem, start, folder, context)
}

/// The directory into which it is copied, and its name there; without a name if only the contents of a directory are copied.
fn place(
    target: &Path,
    is_directory: bool,
    named: &Target,
    source: &OsStr,
) -> Result<(PathBuf, Option<Vec<u8>>), Failure> {
    if is_directory {
        let name = match (named, last_name(source.as_bytes())) {
            (Target::Inode(number), _) => Some(number.to_string().into_bytes()),
            (_, b"" | b"." | b"..") => None,
            (_, name) => Some(name.to_vec()),
        };
        return Ok((target.to_owned(), name));
    }
    let name = target.file_name().ok_or_else(|| Failure::usage("TARGET has no name"))?;
    let folder = target.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new("."));
    if !folder.is_dir() {
        return Err(Failure::refused(Kind::NotFound, "no such directory").about_host(folder));
    }
    Ok((folder.to_owned(), Some(name.as_bytes().to_vec())))
}
