//! `xfs_admin`: label and uuid.

use std::{ffi::OsString, io::Write, os::unix::ffi::OsStrExt, path::PathBuf};

use clap::Parser;
use uxfs_filesystem::identity::IdentityChange;

use crate::{
    commands::admin::{NewUuid, changed, parse_label},
    edit::session::EditArguments,
    failure::{About, Exit, Failure, Outcome},
    output::Output,
};

/// The command line was wrong.
const USAGE: u8 = 2;
/// Nothing was changed.
const FAILED: u8 = 1;
/// As a label it means none.
const NO_LABEL: &str = "--";

/// Show or change label and uuid of an XFS file system, as xfs_admin does
#[derive(Debug, Parser)]
#[command(
    name = "xfs_admin",
    disable_version_flag = true,
    args_override_self = true,
    max_term_width = 100,
    after_help = "This is uxfs, called as xfs_admin: uxfs admin tells what it does. A dirty log is replayed first.\n\
    Refused: -j -p -c -e -O -C (changes of features), -r and a log device.\n\
    Exit codes: 0 done, 1 nothing was changed, 2 wrong command line.\nExample: xfs_admin -L data -U generate clone.img"
)]
pub struct Arguments {
    /// Image file or block device
    #[arg(value_name = "DEVICE", required_unless_present = "version")]
    device: Option<PathBuf>,
    /// A device for the log: refused
    #[arg(value_name = "LOGDEV")]
    log_device: Option<PathBuf>,
    /// Print the label
    #[arg(short = 'l')]
    shows_label: bool,
    /// Print the uuid
    #[arg(short = 'u')]
    shows_uuid: bool,
    /// New label, at most 12 bytes; -- for none
    #[arg(short = 'L', value_name = "LABEL", value_parser = parse_label, allow_hyphen_values = true)]
    label: Option<OsString>,
    /// New uuid, or generate, or restore
    #[arg(short = 'U', value_name = "UUID", value_parser = NewUuid::parse)]
    uuid: Option<NewUuid>,
    /// DEVICE is a file: this is seen without the option
    #[arg(short = 'f')]
    is_file: bool,
    /// Print the version and exit
    #[arg(short = 'V', id = "version")]
    version: bool,
    /// Refused: features are not changed here
    #[arg(short = 'c', value_name = "0|1")]
    lazy_counters: Option<String>,
    /// Refused, as -c
    #[arg(short = 'O', value_name = "FEATURE")]
    features: Option<String>,
    /// Refused, as -c
    #[arg(short = 'C', value_name = "FILE")]
    configuration: Option<String>,
    /// Refused, as -c
    #[arg(short = 'e')]
    extended_flag: bool,
    /// Refused, as -c
    #[arg(short = 'j')]
    log_version: bool,
    /// Refused, as -c
    #[arg(short = 'p')]
    project_ids: bool,
    /// A realtime section: refused
    #[arg(short = 'r', value_name = "DEVICE")]
    realtime_device: Option<PathBuf>,
}

/// Runs the tool and gives its exit code.
pub(crate) fn run(arguments: &[OsString]) -> u8 {
    match super::parse::<Arguments>(arguments, USAGE) {
        Ok(arguments) if arguments.version => super::print_version(),
        Ok(arguments) => {
            let device = arguments.device.clone().unwrap_or_default();
            super::code_of(arguments.run(&device).about_host(&device), USAGE, FAILED)
        }
        Err(exit) => exit,
    }
}

impl Arguments {
    fn run(&self, device: &std::path::Path) -> Outcome {
        self.refuse()?;
        let label =
            self.label.as_deref().map(|label| if label == NO_LABEL { &b""[..] } else { label.as_bytes() });
        let change = IdentityChange { label, uuid: self.uuid.map(|NewUuid(change)| change) };
        let superblock = changed(&EditArguments::of(device.to_path_buf()), &change)?;
        let mut output = Output::new();
        for (is_shown, word) in [(self.shows_label, ""), (label.is_some(), "new ")] {
            if is_shown {
                write!(output, "{word}label = \"")?;
                output.name(superblock.label())?;
                writeln!(output, "\"")?;
            }
        }
        for (is_shown, word) in [(self.shows_uuid, ""), (self.uuid.is_some(), "new ")] {
            if is_shown {
                writeln!(output, "{word}UUID = {}", superblock.uuid)?;
            }
        }
        output.finish()?;
        Ok(Exit::Success)
    }

    fn refuse(&self) -> Result<(), Failure> {
        let features = [
            ("-c", self.lazy_counters.is_some()),
            ("-O", self.features.is_some()),
            ("-C", self.configuration.is_some()),
            ("-e", self.extended_flag),
            ("-j", self.log_version),
            ("-p", self.project_ids),
        ];
        if let Some((option, _)) = features.iter().find(|(_, is_given)| *is_given) {
            return Err(Failure::unsupported(format!("option {option}: features are not changed here")));
        }
        match (&self.realtime_device, &self.log_device) {
            (Some(_), _) => Err(Failure::unsupported("option -r: a realtime section is not supported")),
            (_, Some(_)) => Err(Failure::unsupported("an external log is not supported")),
            _ => Ok(()),
        }
    }
}
