//! Times of files that are not those of the source.

use uxfs_populate::adjust::TimeRule;
use uxfs_source::entry::Timestamp;

use crate::{
    edit::time::parse_date,
    failure::{About, Failure},
};

/// Options for times.
#[derive(Debug, clap::Args)]
pub struct TimeArguments {
    /// Set times of files that are later than TIME to TIME: 2026-11-20, "2026-11-20 13:00:14 +0100", @SECONDS [default:
    /// SOURCE_DATE_EPOCH, where that is set]
    #[arg(
        long,
        value_name = "TIME",
        requires = "from",
        allow_hyphen_values = true,
        conflicts_with = "all_time"
    )]
    clamp_mtime: Option<String>,
    /// Set all times of files to TIME
    #[arg(
        long,
        value_name = "TIME",
        requires = "from",
        allow_hyphen_values = true,
        conflicts_with = "atime"
    )]
    all_time: Option<String>,
}

impl TimeArguments {
    /// The rule. `epoch` is what SOURCE_DATE_EPOCH says; an option says more.
    ///
    /// # Errors
    /// A text is no time.
    pub fn rule(&self, epoch: Option<Timestamp>, now: Timestamp) -> Result<TimeRule, Failure> {
        let parse = |text: &str, option| -> Result<Timestamp, Failure> {
            let now = uxfs_volume::inode::Timestamp { seconds: now.seconds, nanoseconds: now.nanoseconds };
            let time = parse_date(text, now).map_err(Failure::usage).about(option)?;
            Ok(Timestamp { seconds: time.seconds, nanoseconds: time.nanoseconds })
        };
        Ok(match (&self.clamp_mtime, &self.all_time) {
            (Some(text), _) => TimeRule::Clamp(parse(text, "--clamp-mtime")?),
            (None, Some(text)) => TimeRule::All(parse(text, "--all-time")?),
            (None, None) => epoch.map_or(TimeRule::Keep, TimeRule::Clamp),
        })
    }

    /// Whether access times are set too.
    pub fn sets_all(&self) -> bool {
        self.all_time.is_some()
    }
}
