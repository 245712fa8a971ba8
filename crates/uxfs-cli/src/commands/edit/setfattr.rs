//! `uxfs setfattr`: extended attributes. `uxfs xattr` shows them.

use std::{ffi::OsString, os::unix::ffi::OsStrExt};

use uxfs_engine::attribute::SetMode;

use crate::{
    commands::edit::Edit,
    edit::session::{Session, explained},
    failure::Failure,
    glob::{self, GlobArguments},
};

/// Arguments of `uxfs setfattr`.
#[derive(Debug, clap::Args)]
#[command(
    disable_help_flag = true,
    after_help = format!("Examples: uxfs setfattr -n user.comment -v 'a value' disk.img /etc/motd\n          \
                  uxfs setfattr -n security.capability \\\n            -v 0x0100000200200000000000000000000000000000 disk.img /usr/bin/ping\n          \
                  uxfs setfattr -x user.comment disk.img /etc/motd\n\
                  Access control lists are system.posix_acl_access and system.posix_acl_default, in the form that getxattr \
                  gives.\n{}", glob::HELP)
)]
pub struct Arguments {
    /// Paths in the image
    #[arg(value_name = "PATH", required = true)]
    paths: Vec<OsString>,
    #[command(flatten)]
    globs: GlobArguments,
    /// Attribute to set, such as user.comment
    #[arg(short, long, value_name = "NAME", required_unless_present = "remove")]
    name: Option<OsString>,
    /// Value: text, 0x and hexadecimal digits, or 0s and base64; empty by default
    #[arg(short, long, value_name = "VALUE", requires = "name", allow_hyphen_values = true)]
    value: Option<OsString>,
    /// Attribute to remove
    #[arg(short = 'x', long, value_name = "NAME", conflicts_with = "name")]
    remove: Option<OsString>,
    /// Fail if the attribute exists
    #[arg(long, requires = "name")]
    create: bool,
    /// Fail if the attribute does not exist
    #[arg(long, requires = "name", conflicts_with = "create")]
    replace: bool,
    /// Change symbolic links themselves, not their targets
    #[arg(short = 'h', long)]
    no_dereference: bool,
    /// Report each file
    #[arg(long)]
    verbose: bool,
    /// Print help
    #[arg(long, action = clap::ArgAction::Help)]
    help: Option<bool>,
}

impl Edit for Arguments {
    fn run(&self, session: &mut Session) -> Result<(), Failure> {
        session.report.is_verbose = self.verbose;
        let value = match &self.value {
            Some(value) => parse_value(value.as_bytes()).map_err(Failure::usage)?,
            None => Vec::new(),
        };
        for path in &session.paths(&self.paths, self.globs)? {
            let changed = self.change(session, path, &value);
            session.report.check(changed);
        }
        Ok(())
    }
}

impl Arguments {
    fn change(&self, session: &mut Session, path: &[u8], value: &[u8]) -> Result<(), Failure> {
        let file = session.find(path, !self.no_dereference)?;
        let filesystem = session.filesystem();
        let mode = match (self.create, self.replace) {
            (true, _) => SetMode::Create,
            (_, true) => SetMode::Replace,
            _ => SetMode::Upsert,
        };
        let (name, changed) = match (&self.name, &self.remove) {
            (_, Some(name)) => (name, filesystem.remove_xattr(&file, name.as_bytes())),
            (Some(name), None) => (name, filesystem.set_xattr(&file, name.as_bytes(), value, mode)),
            (None, None) => return Err(Failure::usage("--name or --remove is missing")),
        };
        let name = name.as_bytes();
        changed.map_err(|error| explained(error).about(crate::text::escaped(name)).about_path(path))?;
        let action = if self.remove.is_some() { "removed attribute of" } else { "set attribute of" };
        session.report.done_with(action, path, Some((":", name)));
        Ok(())
    }
}

/// Text (also in quotes), `0x…` or `0s…`.
fn parse_value(text: &[u8]) -> Result<Vec<u8>, String> {
    if let Some(digits) = text.strip_prefix(b"0x").or_else(|| text.strip_prefix(b"0X")) {
        return from_hexadecimal(digits)
            .ok_or_else(|| "the digits after 0x are not pairs of hexadecimal digits".to_owned());
    }
    if let Some(digits) = text.strip_prefix(b"0s").or_else(|| text.strip_prefix(b"0S")) {
        return from_base64(digits).ok_or_else(|| "the text after 0s is not base64".to_owned());
    }
    match text {
        [b'"', middle @ .., b'"'] => Ok(middle.to_vec()),
        _ => Ok(text.to_vec()),
    }
}

fn from_hexadecimal(digits: &[u8]) -> Option<Vec<u8>> {
    let nibble = |digit: u8| char::from(digit).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    if !digits.len().is_multiple_of(2) {
        return None;
    }
    digits.chunks_exact(2).map(|pair| Some(nibble(pair[0])? << 4 | nibble(pair[1])?)).collect()
}

fn from_base64(digits: &[u8]) -> Option<Vec<u8>> {
    let digits = digits.strip_suffix(b"==").or_else(|| digits.strip_suffix(b"=")).unwrap_or(digits);
    let (mut bytes, mut bits, mut held) = (Vec::new(), 0_u32, 0);
    for digit in digits {
        let value = match digit {
            b'A'..=b'Z' => digit - b'A',
            b'a'..=b'z' => digit - b'a' + 26,
            b'0'..=b'9' => digit - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return None,
        };
        bits = (bits << 6 | u32::from(value)) & 0xffff;
        held += 6;
        if held >= 8 {
            held -= 8;
            bytes.push((bits >> held) as u8);
        }
    }
    // One digit alone is no byte.
    (held < 6).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values() {
        for (text, value) in [
            ("plain", Ok(&b"plain"[..])),
            ("\"quoted\"", Ok(b"quoted")),
            ("0x00fF", Ok(b"\x00\xff")),
            ("0sAAH/", Ok(b"\x00\x01\xff")),
            ("0sYQ==", Ok(b"a")),
            ("0sYWI=", Ok(b"ab")),
            ("", Ok(b"")),
        ] {
            assert_eq!(
                parse_value(text.as_bytes()).as_deref(),
                value.map_err(|(): ()| panic!()).as_ref().map(|value| *value),
                "{text}"
            );
        }
        assert!(parse_value(b"0x0").is_err() && parse_value(b"0s!").is_err() && parse_value(b"0sY").is_err());
    }
}
