//! `uxfs xattr`: extended attributes and ACLs.

use std::{ffi::OsString, io::Write, ops::ControlFlow, os::unix::ffi::OsStrExt};

use serde_json::json;
use uxfs_volume::volume::Volume;
use uxfs_volume::{attribute::xattr::XattrView, error::Error, inode::Inode};

use crate::{
    commands::Context,
    failure::{About, Complaints, Failure, Outcome},
    glob::{self, GlobArguments},
    output::{JsonName, Output},
    text,
};

/// Arguments of `uxfs xattr`.
#[derive(Debug, clap::Args)]
#[command(after_help = format!("Example: uxfs xattr disk.img /usr/bin/ping\n\
    Values that are not plain text are shown in hexadecimal; ACLs also in the format of getfacl.\n{}", glob::HELP))]
pub struct Arguments {
    /// Paths in the image, or inode numbers
    #[arg(value_name = "PATH", required = true)]
    targets: Vec<OsString>,
    #[command(flatten)]
    globs: GlobArguments,
    /// Write only the value of this attribute, such as user.comment
    #[arg(short, long)]
    name: Option<OsString>,
    /// Follow a symbolic link at the end of the path
    #[arg(short = 'L', long)]
    dereference: bool,
    /// Show everything that Linux lists for root: ACLs also under their trusted. names
    #[arg(short, long)]
    all: bool,
}

/// Runs the command.
pub fn run(filesystem: &Volume, arguments: &Arguments, context: &Context) -> Outcome {
    let mut complaints = Complaints::default();
    let targets = context.targets(filesystem, &arguments.targets, arguments.globs, &mut complaints)?;
    let mut output = Output::new();
    let has_headings = arguments.targets.len() > 1 || targets.len() > 1;
    for (index, (path, target)) in targets.iter().enumerate() {
        let inode = target.find(filesystem, arguments.dereference).about(target)?;
        if let Some(name) = &arguments.name {
            let value = filesystem.attributes(&inode).about(target)?.xattr(name.as_bytes()).about(target)?;
            output.write_all(&value)?;
            continue;
        }
        if has_headings && !context.json {
            write!(output, "{}# file: ", if index > 0 { "\n" } else { "" })?;
            output.name(path.as_bytes())?;
            output.write_all(b"\n")?;
        }
        let view = if arguments.all { XattrView::Root } else { XattrView::Copy };
        let path = context.json.then(|| path.as_bytes());
        list(filesystem, &inode, view, path, &mut output).map_err(|failure| failure.about(target))?;
        if !context.json {
            print_acls(filesystem, &inode, &mut output, |error| complaints.add(target, error))?;
        }
    }
    output.finish()?;
    Ok(complaints.exit())
}

fn list(
    filesystem: &Volume,
    inode: &Inode,
    view: XattrView,
    json: Option<&[u8]>,
    output: &mut Output,
) -> Result<(), Failure> {
    // An error of standard output ends the visit, and is reported as such.
    let mut failed = None;
    filesystem.attributes(inode)?.visit_xattrs(view, |name, value| -> Result<_, Error> {
        let written = match json {
            Some(path) => print_json(path, name, value, output),
            None => print_text(name, value, output),
        };
        if let Err(failure) = written {
            failed = Some(failure);
            return Ok(ControlFlow::Break(()));
        }
        Ok(ControlFlow::Continue(()))
    })?;
    failed.map_or(Ok(()), Err)
}

fn print_json(path: &[u8], name: &[u8], value: &[u8], output: &mut Output) -> Result<(), Failure> {
    let (path, name) = (JsonName::new(path), JsonName::new(name));
    let mut document =
        json!({"path": path.text(), "name": name.text(), "value_hex": text::hexadecimal(value)});
    if let Some(hex) = path.hex() {
        document["path_hex"] = hex.into();
    }
    if let Some(hex) = name.hex() {
        document["name_hex"] = hex.into();
    }
    if let Ok(text) = std::str::from_utf8(value) {
        document["value"] = text.into();
    }
    output.json(&document)?;
    Ok(())
}

fn print_text(name: &[u8], value: &[u8], output: &mut Output) -> Result<(), Failure> {
    output.write_all(text::escaped(name).as_bytes())?;
    let is_text = std::str::from_utf8(value).is_ok_and(|value| !value.chars().any(char::is_control));
    if is_text {
        output.write_all(b"=\"")?;
        output.write_all(value)?;
        output.write_all(b"\"\n")?;
    } else {
        writeln!(output, "=0x{}", text::hexadecimal(value))?;
    }
    Ok(())
}

/// A list that cannot be read costs neither the other list nor the attributes.
fn print_acls(
    filesystem: &Volume,
    inode: &Inode,
    output: &mut Output,
    mut complain: impl FnMut(&Error),
) -> Result<(), Failure> {
    let reader = filesystem.attributes(inode)?;
    for (name, acl) in [("access", reader.access_acl()), ("default", reader.default_acl())] {
        match acl {
            Ok(Some(acl)) => {
                writeln!(output, "# {name} ACL")?;
                writeln!(output, "{acl}")?;
            }
            Ok(None) => {}
            Err(error) => complain(&error),
        }
    }
    Ok(())
}
