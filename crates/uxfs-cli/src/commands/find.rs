//! `uxfs find`: files by an expression.

use std::{
    ffi::OsString,
    os::unix::ffi::OsStrExt,
    time::{SystemTime, UNIX_EPOCH},
};

use uxfs_volume::{
    inode::{FileType, Timestamp},
    volume::Volume,
};

use crate::{
    commands::Context,
    failure::{Complaints, Failure, Outcome},
    output::Output,
    search::{
        expression::{
            Actor, Halt, Node, Outline,
            action::Printer,
            lookup::Lookup,
            parse::{self, Parsed, Settings},
        },
        subject::Subject,
        walk::{Coming, Step, Walk},
    },
};

/// Arguments of `uxfs find`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Options such as --partition come before IMAGE. What follows it is read as find(1) does: paths, up to the first word that \
    begins with `-` or is `(` or `!`, and an expression. Paths are printed as they were given, with what lies below; symbolic links are not \
    followed.\n\
    Tests: -name -iname -path -ipath -lname -ilname GLOB, -regex -iregex PATTERN (-regextype first), -type f,d,l,p,s,c,b, -size N[cwbkMG], \
    -empty, -perm [-/]MODE, -user -group NAME, -uid -gid -links -inum N, -nouser -nogroup, -mtime -atime -ctime -Btime DAYS, -mmin -amin \
    -cmin -Bmin MINUTES, -newer FILE, -newerXY FILE (X and Y of a, B, c, m; or t for Y: a time as `touch -d` takes it), -samefile FILE, \
    -xattr GLOB, -acl, -true, -false. N is a number, +N more, -N less.\n\
    Operators: ( ) ! -a -o and the comma. Options: -maxdepth -mindepth LEVELS, -depth, -daystart.\n\
    Actions: -print -print0 -ls -printf FORMAT -prune -quit.\n\
    Names are bytes, times UTC, and users and groups those of the image's own /etc.\n\
    Examples: uxfs find disk.img /etc -name '*.conf' -newermt 2026-11-01\n          \
    uxfs find disk.img -type f -size +100M -printf '%s %p\\n'\n          \
    uxfs find disk.img / -perm /6000 -o -xattr security.capability\n          \
    uxfs find disk.img /var/tmp -type f -mtime +30 -print0 |\n            xargs -0 -r uxfs rm disk.img"
)]
pub struct Arguments {
    /// Paths in the image, or inode numbers, and an expression
    #[arg(value_name = "PATH|EXPRESSION", trailing_var_arg = true, allow_hyphen_values = true)]
    words: Vec<OsString>,
}

/// Runs the command.
pub fn run(filesystem: &Volume, arguments: &Arguments, context: &Context) -> Outcome {
    let now = now();
    let (paths, words) = parse::split(&arguments.words);
    let lookup = Lookup::new(filesystem, context, now);
    let parsed = parse::parse(words, &lookup);
    let parsed = parsed.map_err(|message| lookup.trouble().unwrap_or_else(|| Failure::usage(message)));
    let Parsed { expression, settings } = parsed?;
    let documents = context.json.then(|| lookup.names());
    let printer = Printer { output: Output::new(), documents, now, is_pruned: false };
    let mut search = Search {
        walk: Walk::new(filesystem),
        needs_inodes: expression.may_need_inode(&printer),
        expression,
        settings,
        printer,
        complaints: Complaints::default(),
    };
    let everything = [context.default_path().to_owned()];
    let paths = if paths.is_empty() { &everything[..] } else { paths };
    for path in paths {
        let target = context.target(path);
        match target.find(filesystem, false) {
            Ok(inode) => {
                search.walk.begin(path.as_bytes(), inode);
                if !search.tree()? {
                    break;
                }
            }
            Err(error) => search.complaints.add_target(&target, &error),
        }
    }
    search.printer.output.finish()?;
    Ok(search.complaints.exit())
}

/// The moment at which the command began.
fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp { seconds: since.as_secs().cast_signed(), nanoseconds: since.subsec_nanos() }
}

struct Search<'v> {
    walk: Walk<'v>,
    expression: Node,
    settings: Settings,
    /// The expression can come to a test or an action that needs an inode.
    needs_inodes: bool,
    printer: Printer,
    complaints: Complaints,
}

/// What follows the evaluation for a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    GoOn,
    Quit,
}

impl Search<'_> {
    /// Walks through one tree; `false` where the whole search is over.
    fn tree(&mut self) -> Result<bool, Failure> {
        let mut path = Vec::new();
        loop {
            let Self { walk, expression, settings, needs_inodes, printer, complaints } = self;
            let ahead = |coming: Coming<'_>| {
                let is_directory = coming.file_type.is_none_or(|known| known == FileType::Directory);
                if is_directory && coming.depth < settings.most_levels {
                    return true;
                }
                if !*needs_inodes || coming.depth < settings.least_levels {
                    return false;
                }
                coming.path_into(&mut path);
                let outline = Outline { path: &path, name: coming.last_name(), file_type: coming.file_type };
                expression.outlook(&outline, printer).is_none()
            };
            let Some(step) = walk.next(ahead, complaints) else { return Ok(true) };
            if self.file(step)? == Next::Quit {
                return Ok(false);
            }
        }
    }

    /// Comes to a file, or leaves a directory.
    fn file(&mut self, step: Step) -> Result<Next, Failure> {
        let Some(subject) = self.walk.subject() else { return Ok(Next::GoOn) };
        let settings = self.settings;
        let is_wanted = subject.depth >= settings.least_levels;
        self.printer.is_pruned = false;
        let is_its_turn = settings.is_depth_first == (step == Step::Left);
        if is_its_turn && is_wanted {
            let done = evaluate(&self.expression, &subject, &mut self.printer, &mut self.complaints)?;
            if done == Next::Quit {
                return Ok(Next::Quit);
            }
        }
        if step == Step::Left || (self.printer.is_pruned && !settings.is_depth_first) {
            return Ok(Next::GoOn);
        }
        let may_be_directory = subject.entry_type.is_none_or(|known| known == FileType::Directory);
        if subject.depth < settings.most_levels && may_be_directory {
            match subject.inode() {
                Ok(inode) => {
                    let inode = std::sync::Arc::clone(inode);
                    drop(subject);
                    if self.walk.descend(inode, &mut self.complaints) {
                        return Ok(Next::GoOn);
                    }
                }
                Err(error) => {
                    self.complaints.add_path(subject.path, &error);
                    return Ok(Next::GoOn);
                }
            }
        }
        // Nothing lies in it, so its turn is now.
        let Some(subject) = self.walk.subject() else { return Ok(Next::GoOn) };
        match settings.is_depth_first && is_wanted {
            true => evaluate(&self.expression, &subject, &mut self.printer, &mut self.complaints),
            false => Ok(Next::GoOn),
        }
    }
}

fn evaluate(
    expression: &Node,
    subject: &Subject<'_>,
    printer: &mut impl Actor,
    complaints: &mut Complaints,
) -> Result<Next, Failure> {
    match expression.evaluate(subject, printer) {
        Ok(_) => Ok(Next::GoOn),
        Err(Halt::Quit) => Ok(Next::Quit),
        Err(Halt::Command(failure)) => Err(failure),
        Err(Halt::File(error)) => {
            complaints.add_path(subject.path, &error);
            Ok(Next::GoOn)
        }
    }
}
