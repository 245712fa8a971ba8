//! What the words of an expression name: files and people of the image, and times.

use std::{
    cell::{OnceCell, RefCell},
    ffi::OsStr,
    os::unix::ffi::OsStrExt,
    rc::Rc,
    sync::Arc,
};

use uxfs_volume::{
    inode::{Inode, Timestamp},
    volume::Volume,
};

use crate::{
    commands::Context,
    edit::{
        people::{People, PeopleNames},
        time,
    },
    failure::Failure,
};

/// Names of users and groups by number.
pub type Names = Rc<PeopleNames>;

/// Finds what words name. The lists of people are read once, and only where they are needed.
#[derive(Debug)]
pub struct Lookup<'v> {
    volume: &'v Volume,
    context: &'v Context,
    /// The moment that ages count from.
    pub now: Timestamp,
    people: OnceCell<People>,
    names: OnceCell<Names>,
    trouble: RefCell<Option<Failure>>,
}

impl<'v> Lookup<'v> {
    /// For an image.
    pub fn new(volume: &'v Volume, context: &'v Context, now: Timestamp) -> Self {
        Self {
            volume,
            context,
            now,
            people: OnceCell::new(),
            names: OnceCell::new(),
            trouble: RefCell::default(),
        }
    }

    /// The file at a path, or of a number. Symbolic links are not followed.
    ///
    /// # Errors
    /// There is none.
    pub fn file(&self, word: &[u8]) -> Result<Arc<Inode>, String> {
        let target = self.context.target(OsStr::from_bytes(word));
        target.find(self.volume, false).map_err(|error| {
            let message = format!("{target}: {error}");
            *self.trouble.borrow_mut() = Some(Failure::from(error).about_target(&target));
            message
        })
    }

    /// Why the last file was not found: the words are right, and the command fails all the same.
    pub fn trouble(&self) -> Option<Failure> {
        self.trouble.borrow_mut().take()
    }

    /// A moment, as touch takes it.
    ///
    /// # Errors
    /// It is none.
    pub fn time(&self, word: &str) -> Result<Timestamp, String> {
        time::parse_date(word, self.now)
    }

    /// The number of a user.
    ///
    /// # Errors
    /// There is no such user.
    pub fn user(&self, word: &[u8]) -> Result<u32, String> {
        self.people().user_number(word)
    }

    /// The number of a group.
    ///
    /// # Errors
    /// There is no such group.
    pub fn group(&self, word: &[u8]) -> Result<u32, String> {
        self.people().group_number(word)
    }

    /// Names by number.
    pub fn names(&self) -> Names {
        let names = self.names.get_or_init(|| Rc::new(PeopleNames::of_image_with_notice(self.volume)));
        Rc::clone(names)
    }

    /// The same, for a test that is wrong where a list cannot be read.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn all_names(&self) -> Result<Names, String> {
        let names = self.names.get_or_init(|| Rc::new(PeopleNames::of_image(self.volume)));
        match names.unread() {
            Some(unread) => {
                let failure = Failure::corruption(unread.to_owned());
                *self.trouble.borrow_mut() = Some(failure);
                Err(unread.to_owned())
            }
            None => Ok(Rc::clone(names)),
        }
    }

    fn people(&self) -> &People {
        self.people.get_or_init(|| People::of_image_alone(self.volume))
    }
}
