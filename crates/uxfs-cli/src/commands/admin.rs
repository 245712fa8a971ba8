//! `uxfs admin`: label and uuid, as xfs_admin changes them.

use std::{ffi::OsString, io::Write, os::unix::ffi::OsStrExt};

use serde_json::json;
use uxfs_filesystem::identity::{self, IdentityChange, LABEL_BYTES_MAX, UuidChange};
use uxfs_format::superblock::Superblock;
use uxfs_mkfs::{identity::random_uuid, options::parse_uuid};

use crate::{
    commands::Context,
    edit::session::EditArguments,
    failure::{About, Exit, Failure, Outcome},
    image::not_for_changes,
    output::{JsonName, Output},
    output::{put_path, set_image},
};

/// Arguments of `uxfs admin`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples: uxfs admin --label data disk.img\n          \
    uxfs admin --uuid random clone.img\n\
    Without options, shows label and uuid. A dirty log is replayed first. `restore` brings back the uuid that the file system \
    was made with, which its metadata still carries.")]
pub struct Arguments {
    #[command(flatten)]
    image: EditArguments,
    /// New label, up to 12 bytes
    #[arg(short = 'L', long, value_name = "LABEL", value_parser = parse_label)]
    label: Option<OsString>,
    /// Remove the label
    #[arg(long, conflicts_with = "label")]
    clear_label: bool,
    /// New uuid, or `random`, or `restore`
    #[arg(short = 'U', long, value_name = "UUID", value_parser = NewUuid::parse)]
    uuid: Option<NewUuid>,
}

/// The new uuid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NewUuid(pub UuidChange);

impl NewUuid {
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        Ok(Self(match text {
            "random" | "generate" => UuidChange::To(random_uuid()),
            "restore" => UuidChange::Restore,
            "nil" => return Err("Linux does not mount a file system with a nil uuid".to_owned()),
            text => UuidChange::To(parse_uuid(text).map_err(|error| error.to_string())?),
        }))
    }
}

pub(crate) fn parse_label(text: &str) -> Result<OsString, String> {
    if text.len() > LABEL_BYTES_MAX {
        return Err(format!("a label has at most {LABEL_BYTES_MAX} bytes, this one {}", text.len()));
    }
    Ok(text.into())
}

/// Runs the command.
pub fn run(arguments: &Arguments, context: &Context) -> Outcome {
    set_image(&arguments.image.image);
    arguments.run(context).about_image(&arguments.image.image)
}

/// Makes a change of label and uuid, or none, and gives the superblock.
pub(crate) fn changed(image: &EditArguments, change: &IdentityChange<'_>) -> Result<Superblock, Failure> {
    if *change == IdentityChange::default() {
        return identity::superblock_of(&*image.device_for_reading()?).map_err(|error| image.not_read(error));
    }
    let device = image.clean_device()?;
    identity::change(&*device, change).map_err(not_for_changes)?;
    Ok(identity::superblock_of(&*device)?)
}

impl Arguments {
    fn run(&self, context: &Context) -> Outcome {
        let label = match &self.label {
            Some(label) => Some(label.as_bytes()),
            None => self.clear_label.then_some(&b""[..]),
        };
        let change = IdentityChange { label, uuid: self.uuid.map(|NewUuid(change)| change) };
        let superblock = changed(&self.image, &change)?;
        let mut output = Output::new();
        if context.json {
            let label = JsonName::new(superblock.label());
            let mut document = json!({
                "label": label.text(),
                "label_hex": label.hex(),
                "uuid": superblock.uuid.to_string(),
                "metadata_uuid": superblock.effective_metadata_uuid().to_string(),
            });
            put_path(&mut document, "image", &self.image.image);
            output.json(&document)?;
        } else {
            write!(output, "label = \"")?;
            output.name(superblock.label())?;
            writeln!(output, "\"\nUUID = {}", superblock.uuid)?;
        }
        output.finish()?;
        Ok(Exit::Success)
    }
}
