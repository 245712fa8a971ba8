//! Problems with single objects that do not end the command.

use std::{collections::BTreeMap, fmt::Display, io};

use uxfs_volume::error::Error;

use crate::{
    failure::{Exit, Failure},
    kind::Note,
    output::{is_json, message, notice, say},
    target::Target,
};

/// Problems that a command prints one by one. A damaged image may have millions: the others are counted by kind.
pub const TOLD_MAX: u64 = 100;

/// Problems with single objects: the first [`TOLD_MAX`] are printed on standard error at once, the number of others
/// when this is dropped, and the worst one decides the exit code.
#[derive(Debug, Default)]
pub struct Complaints {
    worst: Option<Exit>,
    told: u64,
    /// Problems that were not printed.
    others: BTreeMap<&'static str, u64>,
}

impl Complaints {
    /// Reports a problem.
    pub fn add(&mut self, subject: impl Display, error: &Error) {
        self.tell(&Failure::from(error).about(subject));
    }

    /// Reports a problem with a path in the image.
    pub fn add_path(&mut self, path: &[u8], error: &Error) {
        self.tell(&Failure::from(error).about_path(path));
    }

    /// Reports a problem with a file that the command line names.
    pub fn add_target(&mut self, target: &Target, error: &Error) {
        self.tell(&Failure::from(error).about_target(target));
    }

    /// Reports a problem whose message exists already.
    pub fn tell(&mut self, failure: &Failure) {
        let Some((counted_as, exit, message)) = failure.parts() else { return };
        self.raise(exit);
        if self.told >= TOLD_MAX {
            *self.others.entry(counted_as).or_default() += 1;
            return;
        }
        self.told += 1;
        match is_json() {
            true => message!("{}", failure.document("problem")),
            false => say!("{message}"),
        }
    }

    /// Reports that the command did not do all of its work, which is always printed.
    pub fn conclude(&mut self, exit: Exit, message: impl Display) {
        self.raise(exit);
        notice!(Note::Incomplete, "{message}");
    }

    /// Makes the exit code at least as bad as `exit`.
    pub fn raise(&mut self, exit: Exit) {
        // Corruption outranks the others: it is what the caller must act on.
        let rank = |exit: Exit| match exit {
            Exit::Success => 0,
            Exit::Failed => 1,
            Exit::Unsupported => 2,
            Exit::Usage => 3,
            Exit::Corruption => 4,
        };
        if self.worst.is_none_or(|worst| rank(worst) < rank(exit)) {
            self.worst = Some(exit);
        }
    }

    /// The exit code.
    pub fn exit(&self) -> Exit {
        self.worst.unwrap_or(Exit::Success)
    }

    /// The exit code of work that is done, when its output has ended like this: a closed pipe changes nothing, any
    /// other error is reported.
    pub fn exit_after(&mut self, output: io::Result<()>, json: bool) -> Exit {
        if let Err(error) = output {
            let exit = Failure::from(error).tell(json);
            if exit != Exit::Success {
                self.raise(exit);
            }
        }
        self.exit()
    }

    /// The number of problems that were not printed, by kind; `None` if all were.
    fn rest(&self) -> Option<String> {
        let total = self.others.values().fold(0_u64, |sum, count| sum.saturating_add(*count));
        let kinds: Vec<String> = match self.others.len() {
            1 => self.others.keys().map(ToString::to_string).collect(),
            _ => self.others.iter().map(|(kind, count)| format!("{kind}: {count}")).collect(),
        };
        (total > 0).then(|| format!("{total} more problems like these ({})", kinds.join(", ")))
    }
}

impl Drop for Complaints {
    fn drop(&mut self) {
        if let Some(rest) = self.rest() {
            notice!(Note::MoreProblems, "{rest}");
        }
    }
}

#[cfg(test)]
mod tests {
    use uxfs_volume::error::OperationError;

    use super::*;

    #[test]
    fn what_is_not_told_is_counted_by_kind() {
        let mut complaints = Complaints::default();
        for number in 0..TOLD_MAX {
            complaints.add(number, &OperationError::NotFound.into());
        }
        assert_eq!((complaints.rest(), complaints.exit()), (None, Exit::Failed));
        complaints.tell(&Failure::failed("one"));
        complaints.tell(&Failure::corruption("two").counted_as("loop"));
        complaints.tell(&Failure::failed("three").counted_as("loop"));
        let rest = complaints.rest();
        assert_eq!(rest.as_deref(), Some("3 more problems like these (failed: 1, loop: 2)"));
        assert_eq!(complaints.exit(), Exit::Corruption);
    }
}
