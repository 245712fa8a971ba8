//! `uxfs grep`: lines in files.
//!
//! | module | holds |
//! |---|---|
//! | [`arguments`] | the options, and the pattern |
//! | `files` | going through paths and directories |
//! | `contents` | a file as a stream |
//! | `names` | `--include` and `--exclude` |
//! | `printer` | what is printed of a file |

pub mod arguments;
mod contents;
mod files;
mod names;
mod printer;

use std::ffi::OsString;

use uxfs_volume::volume::Volume;

pub use self::arguments::{Arguments, InShell};
use self::{arguments::Options, files::Search};
use crate::{
    commands::Context,
    failure::{Exit, Failure, Outcome},
    output::set_image,
};

/// Runs the command.
pub fn run(arguments: &Arguments, context: &Context) -> Outcome {
    let done = || {
        let (image, pattern, paths) = arguments.split()?;
        // A wrong pattern is told before an image is opened.
        let matcher = arguments.options.matcher(pattern.as_ref())?;
        set_image(&image.image);
        let opened = image.open()?;
        if arguments.options.selects_nothing(pattern.as_ref()) {
            return opened.conclude(Ok(Exit::Failed));
        }
        let context = Context { image: Some(image.image.clone()), ..context.clone() };
        let found = Search::new(&opened, &arguments.options, &matcher, &context).run(&paths, &context);
        if matches!(found, Ok(Exit::Failed)) {
            arguments.options.tell_other_dialect(pattern.as_ref());
        }
        opened.conclude(found)
    };
    done().map_err(Failure::into_trouble)
}

/// Runs the command of the shell.
pub fn run_in_shell(volume: &Volume, arguments: &InShell, context: &Context) -> Outcome {
    let done = || {
        let (pattern, paths): (Option<OsString>, _) = arguments.split()?;
        let options: &Options = &arguments.options;
        let matcher = options.matcher(pattern.as_ref())?;
        if options.selects_nothing(pattern.as_ref()) {
            return Ok(Exit::Failed);
        }
        Search::new(volume, options, &matcher, context).run(&paths, context)
    };
    done().map_err(Failure::into_trouble)
}

/// The exit code of a search.
fn exit_of(is_found: bool, worst: Exit) -> Exit {
    match worst {
        Exit::Success if is_found => Exit::Success,
        Exit::Success => Exit::Failed,
        // 1 would say that nothing was found.
        Exit::Failed | Exit::Usage => Exit::Usage,
        worst => worst,
    }
}
