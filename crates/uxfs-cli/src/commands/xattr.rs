//! `uxfs xattr`: extended attributes and ACLs.

use std::{
    ffi::OsString,
    io::{self, Write},
    ops::ControlFlow,
    os::unix::ffi::OsStrExt,
};

use serde_json::json;
use uxfs_format::attribute::posix_acl::{AclTag, PosixAcl};
use uxfs_volume::{
    attribute::xattr::XattrView,
    error::{Error, Result},
    inode::Inode,
    volume::Volume,
};

use crate::{
    attribute_text::{self, Encoding},
    commands::Context,
    failure::{Complaints, Failure, Outcome},
    glob::{self, GlobArguments},
    output::{self, JsonName, Output, put_name},
    text,
};

/// Bytes of names and values that are kept to be sorted. What one file has beyond that is shown in the order in which it is stored.
const SORTED_BYTES_MAX: usize = 16 << 20;

/// Arguments of `uxfs xattr`.
#[derive(Debug, clap::Args)]
#[command(after_help = format!("Examples: uxfs xattr disk.img /usr/bin/ping\n          \
    uxfs xattr -d disk.img /etc/passwd > attributes && cd tree &&\n            setfattr --restore=../attributes\n          \
    uxfs xattr --only-values -n security.selinux disk.img /etc/passwd\n\
    Attributes are printed as getfattr prints them: values that are not plain text in base64, unless -e says otherwise. ACLs follow in the \
    format of getfacl.\n{}", glob::HELP))]
pub struct Arguments {
    /// Paths in the image, or inode numbers
    #[arg(value_name = "PATH", required = true)]
    targets: Vec<OsString>,
    #[command(flatten)]
    globs: GlobArguments,
    /// Show this attribute only, such as user.comment
    #[arg(short, long)]
    name: Option<OsString>,
    /// Show all values as text, in hexadecimal, or in base64
    #[arg(short, long, value_enum)]
    encoding: Option<Encoding>,
    /// Show attributes only, as setfattr --restore takes them: ACLs are not shown in the format of getfacl
    #[arg(short, long)]
    dump: bool,
    /// Write the bytes of the values, without names, one behind the other
    #[arg(long, conflicts_with = "encoding")]
    only_values: bool,
    /// Follow a symbolic link at the end of the path
    #[arg(short = 'L', long)]
    dereference: bool,
    /// Show everything that Linux lists for root: ACLs also under their trusted. names
    #[arg(short, long)]
    all: bool,
}

/// Runs the command.
pub fn run(filesystem: &Volume, arguments: &Arguments, context: &Context) -> Outcome {
    if arguments.only_values {
        if context.json {
            return Err(Failure::usage("--only-values writes bytes as they are: there is no --json"));
        }
        output::must_be_open()?;
    }
    let mut complaints = Complaints::default();
    let targets = context.targets(filesystem, &arguments.targets, arguments.globs, &mut complaints)?;
    let mut shown = Shown { arguments, json: context.json, output: Output::new() };
    for (path, target) in &targets {
        let found = target.find(filesystem, arguments.dereference);
        let done = match found {
            Ok(inode) => shown.file(filesystem, path.as_bytes(), &inode, &mut |error| {
                complaints.add_target(target, error);
            })?,
            Err(error) => Err(error),
        };
        if let Err(error) = done {
            complaints.add_target(target, &error);
        }
    }
    shown.output.finish()?;
    Ok(complaints.exit())
}

/// What is printed of all files.
struct Shown<'a> {
    arguments: &'a Arguments,
    json: bool,
    output: Output,
}

/// Attributes of a file that wait to be sorted.
#[derive(Default)]
struct Waiting {
    attributes: Vec<(Vec<u8>, Vec<u8>)>,
    bytes: usize,
    /// There are more than are kept: all are printed as they come.
    is_full: bool,
}

impl Shown<'_> {
    /// Prints the attributes of a file and its ACLs.
    ///
    /// # Errors
    /// The output fails; within, the file cannot be read, and others can be.
    fn file(
        &mut self,
        filesystem: &Volume,
        path: &[u8],
        inode: &Inode,
        complain: &mut dyn FnMut(&Error),
    ) -> io::Result<Result<()>> {
        let mut printer = Printer { shown: self, path, is_begun: false };
        let read = match &printer.shown.arguments.name {
            Some(name) => {
                let name = name.as_bytes();
                match filesystem.attributes(inode).and_then(|attributes| attributes.xattr(name)) {
                    Ok(value) => printer.attribute(name, &value).map(Ok)?,
                    Err(error) => Err(error),
                }
            }
            None => printer.all(filesystem, inode)?,
        };
        let Arguments { name, dump, only_values, .. } = printer.shown.arguments;
        if name.is_none() && !dump && !only_values && !printer.shown.json && read.is_ok() {
            printer.acls(filesystem, inode, complain)?;
        }
        printer.end()?;
        Ok(read)
    }
}

/// Prints the attributes of one file.
struct Printer<'s, 'a> {
    shown: &'s mut Shown<'a>,
    path: &'s [u8],
    is_begun: bool,
}

impl Printer<'_, '_> {
    fn all(&mut self, filesystem: &Volume, inode: &Inode) -> io::Result<Result<()>> {
        let view = if self.shown.arguments.all { XattrView::Root } else { XattrView::Copy };
        let mut waiting = Waiting::default();
        // An error of standard output ends the visit, and is reported as such.
        let mut failed = None;
        let visited = filesystem.attributes(inode).and_then(|attributes| {
            attributes.visit_xattrs(view, |name, value| -> Result<_> {
                match self.take(&mut waiting, name, value) {
                    Ok(()) => Ok(ControlFlow::Continue(())),
                    Err(error) => {
                        failed = Some(error);
                        Ok(ControlFlow::Break(()))
                    }
                }
            })
        });
        if let Some(error) = failed {
            return Err(error);
        }
        self.print_waiting(&mut waiting)?;
        Ok(visited)
    }

    fn take(&mut self, waiting: &mut Waiting, name: &[u8], value: &[u8]) -> io::Result<()> {
        waiting.bytes = waiting.bytes.saturating_add(name.len() + value.len() + size_of::<Vec<u8>>() * 2);
        if !waiting.is_full && waiting.bytes <= SORTED_BYTES_MAX {
            waiting.attributes.push((name.to_vec(), value.to_vec()));
            return Ok(());
        }
        waiting.is_full = true;
        self.print_waiting(waiting)?;
        self.attribute(name, value)
    }

    fn print_waiting(&mut self, waiting: &mut Waiting) -> io::Result<()> {
        let mut attributes = std::mem::take(&mut waiting.attributes);
        if !waiting.is_full {
            attributes.sort_unstable();
        }
        attributes.iter().try_for_each(|(name, value)| self.attribute(name, value))
    }

    fn attribute(&mut self, name: &[u8], value: &[u8]) -> io::Result<()> {
        let Shown { arguments, json, output } = &mut *self.shown;
        if *json {
            return print_json(self.path, name, value, output);
        }
        if arguments.only_values {
            return output.write_all(value);
        }
        self.begin()?;
        let Shown { arguments, output, .. } = &mut *self.shown;
        let is_terminal = output.is_terminal();
        attribute_text::write_name(output, name, is_terminal)?;
        output.write_all(b"=")?;
        attribute_text::write_value(output, value, arguments.encoding, is_terminal)?;
        output.write_all(b"\n")
    }

    /// A heading for each file that has something.
    fn begin(&mut self) -> io::Result<()> {
        if self.is_begun {
            return Ok(());
        }
        self.is_begun = true;
        let output = &mut self.shown.output;
        let is_terminal = output.is_terminal();
        output.write_all(b"# file: ")?;
        attribute_text::write_path(output, relative(self.path), is_terminal)?;
        output.write_all(b"\n")
    }

    fn end(&mut self) -> io::Result<()> {
        if self.is_begun { self.shown.output.write_all(b"\n") } else { Ok(()) }
    }

    /// A list that cannot be read costs neither the other list nor the attributes.
    fn acls(
        &mut self,
        filesystem: &Volume,
        inode: &Inode,
        complain: &mut dyn FnMut(&Error),
    ) -> io::Result<()> {
        let reader = match filesystem.attributes(inode) {
            Ok(reader) => reader,
            Err(error) => {
                complain(&error);
                return Ok(());
            }
        };
        for (name, acl) in [("access", reader.access_acl()), ("default", reader.default_acl())] {
            match acl {
                Ok(Some(acl)) => {
                    self.begin()?;
                    writeln!(self.shown.output, "# {name} ACL")?;
                    print_acl(&acl, &mut self.shown.output)?;
                }
                Ok(None) => {}
                Err(error) => complain(&error),
            }
        }
        Ok(())
    }
}

/// As getfacl prints it: where the mask takes something away, with the rights that remain.
fn print_acl(acl: &PosixAcl, output: &mut Output) -> io::Result<()> {
    let mask = acl.entries.iter().find(|entry| entry.tag == AclTag::Mask).map(|entry| entry.permissions);
    for entry in &acl.entries {
        write!(output, "{entry}")?;
        let is_masked = matches!(entry.tag, AclTag::User(_) | AclTag::GroupObject | AclTag::Group(_));
        let left = entry.permissions & mask.unwrap_or(u16::MAX);
        if is_masked && left != entry.permissions {
            let letter = |bit, letter| if left & bit != 0 { letter } else { '-' };
            write!(output, "\t#effective:{}{}{}", letter(4, 'r'), letter(2, 'w'), letter(1, 'x'))?;
        }
        output.write_all(b"\n")?;
    }
    Ok(())
}

fn print_json(path: &[u8], name: &[u8], value: &[u8], output: &mut Output) -> io::Result<()> {
    let mut document = json!({"value_hex": text::hexadecimal(value)});
    put_name(&mut document, "path", path);
    put_name(&mut document, "name", name);
    let value = JsonName::new(value);
    if value.hex().is_none() {
        document["value"] = value.text().into();
    }
    output.json(&document)
}

/// A path from the root directory of the image. What was absolute, `setfattr --restore` would look for on the host.
fn relative(path: &[u8]) -> &[u8] {
    let start = path.iter().position(|byte| *byte != b'/');
    start.and_then(|start| path.get(start..)).unwrap_or(b".")
}
