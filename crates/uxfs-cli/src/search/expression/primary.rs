//! Tests, actions and options by name.

use uxfs_volume::inode::FileType;

use super::{
    Node,
    action::Action,
    format::Format,
    number::{self, AgeTest, Comparison, DAY, MINUTE, SizeTest},
    parse::Parser,
    refused,
    test::{PermissionMatch, PermissionTest, Test, Time},
};
use crate::{
    edit::mode::ModeChange,
    glob::pattern::Pattern,
    search::regular::{self, Syntax},
    text,
};

/// Reads a test, an action or an option, whose word has been taken already.
///
/// # Errors
/// A message that names the word that is wrong.
pub fn parse(parser: &mut Parser<'_, '_>, word: &[u8]) -> Result<Node, String> {
    let Ok(name) = std::str::from_utf8(word) else { return Err(unknown(&text::escaped(word))) };
    if let Some(done) = option(parser, name)? {
        return Ok(Node::Test(Test::Constant(done)));
    }
    if let Some(action) = action(parser, name)? {
        return Ok(Node::Action(action));
    }
    let test = match name {
        "-name" | "-iname" => Test::Name(Pattern::parse_fnmatch(parser.argument(name)?, name == "-iname")),
        "-path" | "-wholename" => Test::Path(Pattern::parse_fnmatch(parser.argument(name)?, false)),
        "-ipath" | "-iwholename" => Test::Path(Pattern::parse_fnmatch(parser.argument(name)?, true)),
        "-lname" | "-ilname" => {
            Test::Target(Pattern::parse_fnmatch(parser.argument(name)?, name == "-ilname"))
        }
        "-xattr" => Test::Attribute(Pattern::parse_fnmatch(parser.argument(name)?, false)),
        "-acl" => Test::AccessControlList,
        "-regex" | "-iregex" => {
            let pattern = parser.argument(name)?;
            let regex = regular::compile(pattern, parser.syntax, name == "-iregex");
            Test::Regex(regex.map_err(|error| format!("{name}: {error}"))?)
        }
        "-type" => Test::Type(types(parser.text(name)?)?),
        "-empty" => Test::Empty,
        "-perm" => Test::Permissions(permissions(parser.text(name)?)?),
        "-size" => {
            let argument = parser.text(name)?;
            Test::Size(SizeTest::parse(argument).ok_or_else(|| {
                format!("-size: `{argument}` is not a size such as 5, +10k or -2M; the units are c, w, b, k, M and G")
            })?)
        }
        "-links" => Test::Links(numeric(parser, name)?),
        "-inum" => Test::Inode(numeric(parser, name)?),
        "-uid" => Test::User(numeric(parser, name)?),
        "-gid" => Test::Group(numeric(parser, name)?),
        _ => return by_lookup(parser, name).map(Node::Test),
    };
    Ok(Node::Test(test))
}

fn unknown(name: &str) -> String {
    match refused::reason(name) {
        Some(reason) => format!("`{name}`: {reason}"),
        None if name.starts_with('-') => format!("`{name}` is no test, action or option of find"),
        None => format!("`{name}`: paths come before the expression"),
    }
}

/// Options for the whole walk, and for the words that follow. All are true.
fn option(parser: &mut Parser<'_, '_>, name: &str) -> Result<Option<bool>, String> {
    match name {
        "-maxdepth" | "-mindepth" => {
            let argument = parser.text(name)?;
            let is_number = argument.bytes().all(|byte| byte.is_ascii_digit());
            let levels = argument.parse().ok().filter(|_| is_number);
            let levels = levels.ok_or_else(|| format!("{name}: `{argument}` is not a number of levels"))?;
            match name {
                "-maxdepth" => parser.settings.most_levels = levels,
                _ => parser.settings.least_levels = levels,
            }
        }
        "-depth" | "-d" => parser.settings.is_depth_first = true,
        "-daystart" => parser.count_from_end_of_day(),
        "-regextype" => parser.syntax = Syntax::parse(parser.argument(name)?)?,
        // An image is one file system, read once; links are never followed.
        "-xdev"
        | "-mount"
        | "-noleaf"
        | "-warn"
        | "-nowarn"
        | "-P"
        | "-ignore_readdir_race"
        | "-noignore_readdir_race" => {}
        _ => return Ok(None),
    }
    Ok(Some(true))
}

fn action(parser: &mut Parser<'_, '_>, name: &str) -> Result<Option<Action>, String> {
    let action = match name {
        "-prune" => Action::Prune,
        "-true" => Action::True,
        "-false" => Action::False,
        "-quit" => Action::Quit,
        "-print" => Action::Print,
        "-print0" => Action::PrintZero,
        "-ls" => Action::List(parser.lookup.names()),
        "-printf" => {
            let format = parser.argument(name)?;
            let format = Format::parse(format, parser.lookup).map_err(|error| format!("-printf: {error}"))?;
            Action::Format(format)
        }
        _ => return Ok(None),
    };
    parser.prints |= !matches!(action, Action::Prune | Action::True | Action::False);
    Ok(Some(action))
}

fn numeric(parser: &mut Parser<'_, '_>, name: &str) -> Result<Comparison<u64>, String> {
    let argument = parser.text(name)?;
    number::parse(argument).ok_or_else(|| format!("{name}: `{argument}` is not a number such as 5, +5 or -5"))
}

/// Tests whose argument names something of the image, or a time.
fn by_lookup(parser: &mut Parser<'_, '_>, name: &str) -> Result<Test, String> {
    let about = |error: String| format!("{name}: {error}");
    Ok(match name {
        "-user" => {
            let user = parser.argument(name)?;
            Test::User(Comparison::equal(parser.lookup.user(user).map_err(about)?.into()))
        }
        "-group" => {
            let group = parser.argument(name)?;
            Test::Group(Comparison::equal(parser.lookup.group(group).map_err(about)?.into()))
        }
        "-nouser" => Test::NoUser(parser.lookup.all_names()?),
        "-nogroup" => Test::NoGroup(parser.lookup.all_names()?),
        "-samefile" => {
            let file = parser.argument(name)?;
            Test::Inode(Comparison::equal(parser.lookup.file(file).map_err(about)?.number.get()))
        }
        _ => match (age(name), newer(name)) {
            (Some((time, unit)), _) => {
                let argument = parser.text(name)?;
                let test = AgeTest::parse(argument, unit, parser.now)
                    .ok_or_else(|| format!("{name}: `{argument}` is not a number such as 5, +5 or -5"))?;
                Test::Age(time, test)
            }
            (None, Some((time, of_file))) => {
                let than = match of_file {
                    Some(of_file) => {
                        let file = parser.argument(name)?;
                        of_file.of(parser.lookup.file(file).map_err(about)?.as_ref())
                    }
                    None => parser.lookup.time(parser.text(name)?).map_err(about)?,
                };
                Test::Newer(time, than)
            }
            (None, None) => return Err(unknown(name)),
        },
    })
}

/// `-mtime`, `-amin` and the like: which time, and the unit of the age.
fn age(name: &str) -> Option<(Time, i128)> {
    let rest = name.strip_prefix('-')?;
    let (letter, unit) = match (rest.strip_suffix("time"), rest.strip_suffix("min")) {
        (Some(letter), _) => (letter, DAY),
        (None, Some(letter)) => (letter, MINUTE),
        (None, None) => return None,
    };
    match letter.as_bytes() {
        [letter] => Some((Time::of_letter(*letter)?, unit)),
        _ => None,
    }
}

/// `-newer`, `-anewer`, `-cnewer` and `-newerXY`: which time, and which of the other file; `None` for a time in words.
fn newer(name: &str) -> Option<(Time, Option<Time>)> {
    match name.as_bytes() {
        b"-newer" => Some((Time::Modification, Some(Time::Modification))),
        b"-anewer" => Some((Time::Access, Some(Time::Modification))),
        b"-cnewer" => Some((Time::Change, Some(Time::Modification))),
        [b'-', b'n', b'e', b'w', b'e', b'r', time, b't'] => Some((Time::of_letter(*time)?, None)),
        [b'-', b'n', b'e', b'w', b'e', b'r', time, of] => {
            Some((Time::of_letter(*time)?, Some(Time::of_letter(*of)?)))
        }
        _ => None,
    }
}

fn types(argument: &str) -> Result<Vec<FileType>, String> {
    let wrong = || {
        format!(
            "-type: `{argument}` is not a list of types such as f or f,l; the types are f, d, l, p, s, c and b"
        )
    };
    argument
        .split(',')
        .map(|letter| {
            Ok(match letter {
                "f" => FileType::Regular,
                "d" => FileType::Directory,
                "l" => FileType::SymbolicLink,
                "p" => FileType::Fifo,
                "s" => FileType::Socket,
                "c" => FileType::CharacterDevice,
                "b" => FileType::BlockDevice,
                _ => return Err(wrong()),
            })
        })
        .collect()
}

fn permissions(argument: &str) -> Result<PermissionTest, String> {
    let (how, mode) = match argument.as_bytes().first() {
        Some(b'-') => (PermissionMatch::All, &argument[1..]),
        Some(b'/') => (PermissionMatch::Any, &argument[1..]),
        _ => (PermissionMatch::Exactly, argument),
    };
    // An older find took +MODE for /MODE; in letters it is a mode of its own.
    if argument.starts_with('+') && argument[1..].starts_with(|first: char| first.is_ascii_digit()) {
        return Err(format!("-perm: `{argument}`: write /MODE for any of these permissions"));
    }
    let change = ModeChange::parse(mode).map_err(|error| format!("-perm: {error}"))?;
    let of = |is_directory| change.apply(0, is_directory, 0);
    Ok(PermissionTest { how, of_file: of(false), of_directory: of(true) })
}
