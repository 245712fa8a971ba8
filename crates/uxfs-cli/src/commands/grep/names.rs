//! `--include` and `--exclude`: which files are searched, by their names. Their order counts, which derived arguments do not keep.

use std::{ffi::OsString, os::unix::ffi::OsStrExt};

use clap::{Arg, ArgAction, ArgMatches, Args, Command, Error, FromArgMatches, value_parser};

use crate::glob::pattern::Pattern;

const INCLUDE: &str = "include";
const EXCLUDE: &str = "exclude";

/// All `--include` and `--exclude`, in their order.
#[derive(Debug, Default)]
pub struct FileNames(Vec<Rule>);

#[derive(Debug)]
struct Rule {
    is_include: bool,
    pattern: Pattern,
}

impl FileNames {
    /// Whether a file is searched whose name `fits` patterns. As in GNU grep the last pattern that fits decides; where none does, a file is
    /// left out if the first option is `--include`.
    pub fn allows(&self, fits: impl Fn(&Pattern) -> bool) -> bool {
        let decisive = self.0.iter().rev().find(|rule| fits(&rule.pattern));
        decisive.map_or_else(|| self.0.first().is_none_or(|rule| !rule.is_include), |rule| rule.is_include)
    }
}

impl Args for FileNames {
    fn augment_args(command: Command) -> Command {
        let argument = |name: &'static str, help: &'static str| {
            let argument = Arg::new(name).long(name).value_name("PATTERN").action(ArgAction::Append);
            argument.value_parser(value_parser!(OsString)).help(help)
        };
        command
            .arg(argument(INCLUDE, "Only files whose names fit this pattern"))
            .arg(argument(EXCLUDE, "No files whose names fit this pattern; the last that fits decides"))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for FileNames {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        let of = |name: &'static str| {
            let places = matches.indices_of(name).into_iter().flatten();
            places.zip(matches.get_many::<OsString>(name).into_iter().flatten()).map(move |(place, text)| {
                (place, Rule { is_include: name == INCLUDE, pattern: Pattern::parse(text.as_bytes()) })
            })
        };
        let mut rules: Vec<(usize, Rule)> = of(INCLUDE).chain(of(EXCLUDE)).collect();
        rules.sort_by_key(|(place, _)| *place);
        Ok(Self(rules.into_iter().map(|(_, rule)| rule).collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allowed(words: &[&str], name: &str) -> bool {
        let command = FileNames::augment_args(Command::new("grep").no_binary_name(true));
        let names = FileNames::from_arg_matches(&command.get_matches_from(words)).unwrap();
        names.allows(|pattern| pattern.fits(name.as_bytes()))
    }

    #[test]
    fn the_last_that_fits_decides_and_the_first_where_none_does() {
        assert!(allowed(&[], "a"));
        assert!(allowed(&["--include=*.c"], "a.c") && !allowed(&["--include=*.c"], "a.h"));
        assert!(!allowed(&["--exclude=*.c"], "a.c") && allowed(&["--exclude=*.c"], "a.h"));
        let excluded_first = ["--exclude=*1*", "--include=*.txt"];
        assert!(allowed(&excluded_first, "1.txt") && allowed(&excluded_first, "a.h"));
        assert!(!allowed(&excluded_first, "1.h"));
        let included_first = ["--include=*.txt", "--exclude=*1*"];
        assert!(!allowed(&included_first, "1.txt") && !allowed(&included_first, "a.h"));
        assert!(allowed(&included_first, "a.txt"));
    }
}
