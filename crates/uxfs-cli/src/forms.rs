//! Images in other forms than the plain one: compressed, or disks of virtual machines. They are read, and not changed.

use std::{os::unix::ffi::OsStrExt, path::Path, sync::Arc};

use uxfs_block::{
    cache::pressure,
    device::BlockDevice,
    engine::{self, OpenOptions},
};
use uxfs_image::{
    error::ImageError,
    form::Form,
    open::{self, Opened, Options},
    qcow2::BackingFiles,
};
use uxfs_volume::error::Error;

use crate::{
    failure::Failure,
    in_use,
    kind::{Kind, Note},
    output::notice,
    text::{escaped, shell_path},
};

/// The form of an image. `None` where it is plain, or cannot be looked at: opening it says why.
pub(crate) fn of(image: &Path) -> Option<Form> {
    Form::of_file(image).ok().flatten()
}

/// Opens an image of a form.
///
/// # Errors
/// It cannot be opened or read, or another program changes it.
pub(crate) fn open(
    form: Form,
    image: &Path,
    options: &OpenOptions,
    follows_files: bool,
) -> Result<Opened, Failure> {
    // The place of the file system is one in what is unpacked.
    let options = OpenOptions { start_bytes: 0, ..*options };
    let file = engine::open(image, &options).map_err(|error| in_use::not_opened_to_read(error, image))?;
    let tell = |path: &Path| {
        notice!(Note::BackingFile, "{} is based on {}", image.display(), escaped(path.as_os_str().as_bytes()))
    };
    let files = if follows_files { BackingFiles::Allowed(&tell) } else { BackingFiles::Refused };
    Ok(open::open(form, &file, image, Options { files, cache_bytes: pressure::default_budget_bytes() })?)
}

/// An image of a form that can be mounted, in the process that serves: it opens no other file. `file` holds its bytes.
///
/// # Errors
/// It cannot be read, or parts of it cannot be read alone.
pub(crate) fn mountable(
    form: Form,
    file: &Arc<dyn BlockDevice>,
    image: &Path,
    cache_bytes: u64,
) -> Result<Arc<dyn BlockDevice>, Failure> {
    match open::open(form, file, image, Options { files: BackingFiles::Refused, cache_bytes })? {
        Opened::Device(device) => Ok(device),
        Opened::Stream(_) => Err(Failure::refused(
            Kind::UnsupportedFeature,
            format!("{} so that parts of it cannot be read alone, and is not mounted", form.name()),
        )
        .with_remedy(&remedy(form, image))),
    }
}

/// How the plain image is had: a command to be pasted.
fn remedy(form: Form, image: &Path) -> String {
    let mut plain = image.as_os_str().to_owned();
    plain.push(".raw");
    let (image, plain) = (shell_path(image), shell_path(Path::new(&plain)));
    match form {
        Form::Qcow2 | Form::Vmdk | Form::Vhdx => format!("{} {image} {plain}", form.remedy()),
        _ => format!("{}c {image} > {plain}", form.remedy()),
    }
}

/// What kind of refusal it is: an image of a form may be read all the same.
fn kind_of(form: Form) -> Kind {
    if form.is_read() { Kind::ReadOnly } else { Kind::NotAFileSystem }
}

/// Why an image of a form is not mounted so.
pub(crate) fn cannot_be_mounted(form: Form, image: &Path) -> Failure {
    let failure = Failure::refused(kind_of(form), format!("{}, and must be raw to be mounted", form.name()));
    let remedy = remedy(form, image);
    match form.is_read() {
        true => failure.with_remedy(&format!(
            "-o ro shows it where parts of it can be read alone; to change it {remedy}"
        )),
        false => failure.with_remedy(&remedy),
    }
}

/// Refuses an image that is not plain, for a command that changes it.
///
/// # Errors
/// It is not.
pub(crate) fn refuse_changes(image: &Path) -> Result<(), Failure> {
    match of(image) {
        Some(form) => Err(cannot_be_changed(form, image)),
        None => Ok(()),
    }
}

/// Why an image of a form is not changed.
fn cannot_be_changed(form: Form, image: &Path) -> Failure {
    let words = format!("an image that is {} cannot be changed", form.name());
    Failure::refused(kind_of(form), words).with_remedy(&remedy(form, image))
}

/// Whether a file that begins with these four bytes holds an image in another form.
pub(crate) fn is_known(magic: u32) -> bool {
    Form::of_beginning(&magic.to_be_bytes()).is_some()
}

/// Why a file that begins with these four bytes is no file system: it holds one in another form. `None` where it has none of these forms.
pub(crate) fn is_no_file_system(magic: u32, image: Option<&Path>) -> Option<Failure> {
    let form = Form::of_beginning(&magic.to_be_bytes())?;
    if let Some((image, outer)) =
        image.and_then(|image| Some((image, of(image)?))).filter(|(_, outer)| *outer != form)
    {
        let failure = format!("{}, and what is in it is {}", outer.name(), form.name());
        let remedy = format!("{}, then the same with what this gives", remedy(outer, image));
        return Some(Failure::refused(Kind::NotAFileSystem, failure).with_remedy(&remedy));
    }
    let words = format!("{}, and must be raw here", form.name());
    let remedy = image.map_or_else(|| form.remedy().to_owned(), |image| remedy(form, image));
    Some(Failure::refused(Kind::NotAFileSystem, words).with_remedy(&remedy))
}

impl From<ImageError> for Failure {
    fn from(error: ImageError) -> Self {
        let remedy = error.remedy();
        let failure = match error {
            ImageError::Device(error) => Error::from(error).into(),
            error => Self::caused_by(&error),
        };
        match remedy {
            Some(remedy) => failure.with_remedy(remedy),
            None => failure,
        }
    }
}
