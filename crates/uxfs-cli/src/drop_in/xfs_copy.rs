//! `xfs_copy`: a copy of a whole file system.

use std::{ffi::OsString, fs, path::PathBuf};

use clap::Parser;

use crate::{
    commands::{Context, copy},
    failure::{About, Failure, Outcome},
    image::ImageArguments,
    progress::QuietArgument,
};

/// All that goes wrong.
const FAILED: u8 = 1;

/// Copy an XFS file system to files or devices, only what is in use, as xfs_copy does
#[derive(Debug, Parser)]
#[command(
    name = "xfs_copy",
    disable_version_flag = true,
    args_override_self = true,
    max_term_width = 100,
    after_help = "This is uxfs, called as xfs_copy: uxfs copy --help tells what it does. Targets are overwritten without a question. A dirty log \
    is refused without -d.\n\
    Exit codes: 0 all targets are copied, 1 some are not.\nExample: xfs_copy disk.img copy.img"
)]
pub struct Arguments {
    /// Image file or block device
    #[arg(value_name = "SOURCE", required_unless_present = "version")]
    source: Option<PathBuf>,
    /// Files or block devices that become copies
    #[arg(value_name = "TARGET", required_unless_present = "version")]
    targets: Vec<PathBuf>,
    /// Use the page cache: this is done without the option
    #[arg(short = 'b')]
    is_buffered: bool,
    /// Keep the uuid
    #[arg(short = 'd')]
    duplicate: bool,
    /// A file that gets the outcome, beside standard error; without the option none is written
    #[arg(short = 'L', value_name = "LOGFILE")]
    log: Option<PathBuf>,
    /// Print the version and exit
    #[arg(short = 'V', id = "version")]
    version: bool,
}

/// Runs the tool and gives its exit code.
pub(crate) fn run(arguments: &[OsString]) -> u8 {
    match super::parse::<Arguments>(arguments, FAILED) {
        Ok(arguments) if arguments.version => super::print_version(),
        Ok(arguments) => super::code_of(arguments.run(), FAILED, FAILED),
        Err(exit) => exit,
    }
}

impl Arguments {
    fn run(self) -> Outcome {
        let arguments = copy::Arguments {
            image: ImageArguments { image: self.source.unwrap_or_default(), ..ImageArguments::default() },
            targets: self.targets,
            duplicate: self.duplicate,
            force: true,
            quiet: QuietArgument { quiet: true },
        };
        let Some(log) = self.log else { return copy::run(&arguments, &Context::default()) };
        let write =
            |words: &str| fs::write(&log, words).map_err(|error| Failure::caused_by(&error)).about_host(&log);
        // It is made before anything is overwritten.
        write("")?;
        let outcome = copy::run(&arguments, &Context::default());
        let mut said = None;
        write(match &outcome {
            Ok(crate::failure::Exit::Success) => "all copies are complete\n",
            Ok(_) => "not all copies are complete\n",
            Err(failure) => said.insert(failure.parts().map(|(_, _, message)| message).unwrap_or_default()),
        })?;
        outcome
    }
}
