//! SELinux labels of new files.
//!
//! Where an option says so, they come from the path: the real one, for a policy knows `/usr/lib/x` and not `/lib/x`. Else a copy
//! that keeps attributes keeps the label of its source, and no other file has one: which label Linux would give depends on the
//! loaded policy and on the program, which are not here. An unlabelled file in a labelled tree can keep a system from booting,
//! so uxfs warns once.

use uxfs_filesystem::inode::table::InodeHandle;
use uxfs_source::entry::SELINUX_LABEL;
use uxfs_volume::{
    error::{Error, OperationError},
    inode::FileType,
    resolve::{MAX_SYMLINKS, first_name},
};

use crate::{
    edit::{
        labels::{LabelArguments, Labelling, Rules},
        session::{Place, Session, explained, last_name},
    },
    failure::Failure,
    kind::Note,
    output::notice,
    text::shown_path,
};

impl Session {
    /// Begins a command with these options.
    ///
    /// # Errors
    /// As for [`LabelArguments::rules`].
    pub fn begin_labels(&mut self, arguments: &LabelArguments) -> Result<(), Failure> {
        self.labelling.rules = match arguments.rules()? {
            Rules::None => self.labelling.usual.clone(),
            rules => rules,
        };
        Ok(())
    }

    /// Ends a command: says that labels were asked for, and no file got one. What follows may rename directories.
    pub fn end_labels(&mut self) {
        let Labelling { usual, rules, counts, is_told, .. } = std::mem::take(&mut self.labelling);
        if let (Rules::ByPath(_, file), (1.., 0)) = (rules, counts) {
            notice!(Note::Unlabelled, "{}: no new file has a label", file.display());
        }
        self.labelling = Labelling { usual, is_told, ..Labelling::default() };
    }

    /// The label requested for a new file at this place. If no option asks for labels and the file brings none, warns if the directory
    /// is labelled.
    ///
    /// # Errors
    /// Damage; the device; the expressions of the labels take too much memory.
    pub fn label_of_new(
        &mut self,
        place: &Place,
        file_type: FileType,
        brings_one: bool,
    ) -> Result<Option<Vec<u8>>, Failure> {
        if matches!(self.labelling.rules, Rules::None) {
            if !brings_one {
                self.tell_unlabelled(place)?;
            }
            return Ok(None);
        }
        let mut path = self.real_directory(place)?;
        push(&mut path, last_name(&place.path));
        self.label_of_path(&path, file_type)
    }

    /// The label of a file that is there, if one is asked for, by the place where it really lies: for a copy that replaces its
    /// contents or its attributes.
    ///
    /// # Errors
    /// As for [`label_of_new`](Self::label_of_new).
    pub fn label_of_existing(
        &mut self,
        place: &Place,
        file_type: FileType,
    ) -> Result<Option<Vec<u8>>, Failure> {
        if matches!(self.labelling.rules, Rules::None) {
            return Ok(None);
        }
        let path = self.real_path(&place.path, true)?;
        self.label_of_path(&path, file_type)
    }

    fn label_of_path(&mut self, path: &[u8], file_type: FileType) -> Result<Option<Vec<u8>>, Failure> {
        let label = match &self.labelling.rules {
            Rules::None => None,
            Rules::Fixed(label) => Some(label.clone()),
            Rules::ByPath(labels, _) => {
                labels.label_of_letter(path, file_type.letter())?.map(|label| [label, b"\0"].concat())
            }
        };
        self.labelling.counts.0 += 1;
        self.labelling.counts.1 += u64::from(label.is_some());
        Ok(label)
    }

    fn tell_unlabelled(&mut self, place: &Place) -> Result<(), Failure> {
        let directory = place.directory.number();
        if self.labelling.is_told || self.labelling.unlabelled == Some(directory) {
            return Ok(());
        }
        self.labelling.unlabelled = Some(directory);
        match self.filesystem().get_xattr(&place.directory, SELINUX_LABEL) {
            Ok(_) => {}
            Err(Error::Operation(OperationError::NoSuchAttribute)) => return Ok(()),
            Err(error) => return Err(place.failure(error)),
        }
        self.labelling.is_told = true;
        let above = [b"/", &*self.real_directory(place)?].concat();
        notice!(
            Note::Unlabelled,
            "warning: {} has an SELinux label and {} gets none: --file-contexts FILE labels new files",
            shown_path(&above),
            shown_path(&place.path)
        );
        Ok(())
    }

    /// The path of a place's directory, without symbolic links and the slash in front.
    fn real_directory(&mut self, place: &Place) -> Result<Vec<u8>, Failure> {
        let number = place.directory.number();
        if let Some((_, path)) = self.labelling.directory.as_ref().filter(|(known, _)| *known == number) {
            return Ok(path.clone());
        }
        let end = place.path.iter().rposition(|byte| *byte != b'/').map_or(0, |last| last + 1);
        let stem = place.path.get(..end).unwrap_or_default();
        let name_start = stem.iter().rposition(|byte| *byte == b'/').map_or(0, |slash| slash + 1);
        let path = self.real_path(stem.get(..name_start).unwrap_or_default(), true)?;
        self.labelling.directory = Some((number, path.clone()));
        Ok(path)
    }

    /// The path without symbolic links and the slash in front. What it leads to need not be there.
    fn real_path(&self, path: &[u8], follows_last: bool) -> Result<Vec<u8>, Failure> {
        self.try_real_path(path, follows_last).map_err(|error| explained(error).about_path(path))
    }

    fn try_real_path(&self, path: &[u8], follows_last: bool) -> Result<Vec<u8>, Error> {
        let filesystem = self.filesystem();
        let is_absolute = |path: &[u8]| path.first() == Some(&b'/');
        let root = || Ok::<_, Error>((filesystem.open_root()?, Vec::new()));
        let (mut at, mut real): (InodeHandle, Vec<u8>) = match is_absolute(path) {
            true => root()?,
            false => (self.directory().0.clone(), below_root(self.directory().1)),
        };
        let (mut rest, mut links) = (path.to_vec(), 0);
        while let Some((name, after)) = first_name(&rest) {
            let is_last = after.iter().all(|byte| *byte == b'/');
            let next = match filesystem.find(&at, name) {
                Err(Error::Operation(OperationError::NotFound)) if is_last => {
                    push(&mut real, name);
                    break;
                }
                found => found?,
            };
            if next.read().file_type() == Some(FileType::SymbolicLink) && (!is_last || follows_last) {
                links += 1;
                if links > MAX_SYMLINKS {
                    return Err(OperationError::TooManySymlinks.into());
                }
                let target = [filesystem.read_link(&next)?.as_slice(), after].concat();
                if is_absolute(&target) {
                    (at, real) = root()?;
                }
                rest = target;
                continue;
            }
            match name {
                b"." => {}
                b".." => real.truncate(real.iter().rposition(|byte| *byte == b'/').unwrap_or(0)),
                name => push(&mut real, name),
            }
            at = next;
            rest = after.to_vec();
        }
        Ok(real)
    }
}

/// A path without the slash in front.
fn below_root(path: &[u8]) -> Vec<u8> {
    path.strip_prefix(b"/").unwrap_or(path).to_vec()
}

/// Puts a name behind a path that has no slash in front.
fn push(path: &mut Vec<u8>, name: &[u8]) {
    if !path.is_empty() {
        path.push(b'/');
    }
    path.extend_from_slice(name);
}
