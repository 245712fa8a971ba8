//! Whether each pattern of `--only` matched something.

use std::{ffi::OsString, os::unix::ffi::OsStrExt};

use uxfs_rescue::choice::Choice;

use crate::{
    failure::{Exit, Failure},
    kind::Kind,
};

/// Patterns that have matched nothing so far.
#[derive(Debug, Default)]
pub(super) struct Wanted {
    patterns: Vec<(OsString, Choice)>,
}

impl Wanted {
    pub fn new(patterns: &[OsString]) -> Self {
        let patterns = patterns.iter().map(|text| (text.clone(), Choice::new([text.as_bytes()])));
        Self { patterns: patterns.collect() }
    }

    /// Something with this path was found.
    pub fn meet(&mut self, path: &[u8]) {
        self.patterns.retain(|(_, choice)| !choice.has(path));
    }

    /// Names the patterns that matched nothing.
    pub fn tell(&self, is_json: bool) -> Exit {
        let told = self.patterns.iter().map(|(pattern, _)| {
            let failure = Failure::refused(Kind::NoMatch, "nothing in the image matches")
                .about_path(pattern.as_encoded_bytes());
            failure.about("--only").tell(is_json)
        });
        told.max().unwrap_or(Exit::Success)
    }
}
