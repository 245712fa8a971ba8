//! Sources by their names: `oci:DIR:TAG`.

use std::{
    ffi::OsStr,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

use crate::error::{ContainerFault, Shown, SourceError};

/// How an image is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// `oci:`, a directory.
    Layout,
    /// `oci-archive:`, a tar archive of such a directory.
    LayoutArchive,
    /// `docker-archive:`, what `docker save` writes.
    Docker,
}

const FORMS: [(&[u8], Form); 3] =
    [(b"oci:", Form::Layout), (b"oci-archive:", Form::LayoutArchive), (b"docker-archive:", Form::Docker)];

/// The name of an image of a container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reference {
    /// How it is kept.
    pub form: Form,
    /// The directory or the archive; `-` for an archive from standard input.
    pub path: PathBuf,
    /// Which of several images: a tag, a name with a tag, a digest, or `@` and a number.
    pub name: Option<String>,
}

impl Reference {
    /// The image that a source names; `None` for other sources. As with skopeo the first colon ends the path, unless the
    /// whole is the path of something.
    pub fn parse(source: &Path) -> Option<Self> {
        let (form, path, name) = split(source)?;
        let name = name.map(|name| String::from_utf8_lossy(name).into_owned());
        Some(Self { form, path: path.to_path_buf(), name })
    }

    /// Whether it comes from standard input.
    pub fn is_standard_input(&self) -> bool {
        self.form != Form::Layout && self.path.as_os_str() == "-"
    }

    pub(crate) fn shown(&self) -> Shown {
        match self.is_standard_input() {
            true => Shown::from(b"standard input".as_slice()),
            false => Shown::from(self.path.as_os_str().as_bytes()),
        }
    }
}

fn split(source: &Path) -> Option<(Form, &Path, Option<&[u8]>)> {
    let text = source.as_os_str().as_bytes();
    let (form, rest) = FORMS.iter().find_map(|(prefix, form)| Some((*form, text.strip_prefix(*prefix)?)))?;
    let path = |bytes| Path::new(OsStr::from_bytes(bytes));
    let colon = rest.iter().position(|byte| *byte == b':').filter(|_| !path(rest).exists());
    let (place, name) = match colon {
        Some(colon) => (rest.get(..colon).unwrap_or_default(), rest.get(colon + 1..)),
        None => (rest, None),
    };
    Some((form, path(place), name.filter(|name| !name.is_empty())))
}

/// The path on the host that a source names: that of an image of a container, or the source itself.
pub fn path_of(source: &Path) -> &Path {
    split(source).map_or(source, |(_, path, _)| path)
}

/// Refuses a directory that is an OCI image layout: its user may mean the image or its files. With `/.` at its end the
/// path means the files.
///
/// # Errors
/// It is one.
pub fn refuse_layout(directory: &Path) -> Result<(), SourceError> {
    let name = directory.as_os_str().as_bytes();
    let is_layout = !name.ends_with(b"/.")
        && directory.join("oci-layout").is_file()
        && directory.join("index.json").is_file();
    if !is_layout {
        return Ok(());
    }
    let short = name.strip_suffix(b"/").filter(|short| !short.is_empty()).unwrap_or(name);
    Err(SourceError::Container {
        image: Shown::from(name),
        fault: ContainerFault::IsLayout(Shown::from(short)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_images() {
        let parse = |text: &str| Reference::parse(Path::new(text));
        for (text, form, path, name) in [
            ("oci:dir", Form::Layout, "dir", None),
            ("oci:dir:1.0", Form::Layout, "dir", Some("1.0")),
            ("oci:/a/b:sha256:00", Form::Layout, "/a/b", Some("sha256:00")),
            ("oci:dir:", Form::Layout, "dir", None),
            ("oci:-", Form::Layout, "-", None),
            ("oci-archive:a.tar:x", Form::LayoutArchive, "a.tar", Some("x")),
            ("docker-archive:-:busybox:latest", Form::Docker, "-", Some("busybox:latest")),
        ] {
            let expected = Reference { form, path: path.into(), name: name.map(str::to_owned) };
            assert_eq!(parse(text), Some(expected), "{text}");
        }
        for text in ["dir", "./oci:dir", "/oci:dir", "-", "ocidir", "docker:busybox", "oci"] {
            assert_eq!(parse(text), None, "{text}");
        }
        assert!(parse("docker-archive:-").unwrap().is_standard_input());
        assert!(!parse("oci:-").unwrap().is_standard_input());
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("with:colon");
        std::fs::create_dir(&place).unwrap();
        let found = parse(&format!("oci:{}", place.display())).unwrap();
        assert_eq!((found.path, found.name), (place, None));
    }
}
