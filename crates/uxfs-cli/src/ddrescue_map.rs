//! `--map FILE`, which has one meaning in all commands: a map file of GNU ddrescue says which bytes of a copy were read. What it does not say to
//! be read is no better than an unreadable sector, whatever the copy has there.

use std::{
    fs,
    io::Read,
    ops::Range,
    path::{Path, PathBuf},
};

use uxfs_rescue::map::RescueMap;

use crate::{
    failure::{About, Exit, Failure},
    image::ImageArguments,
    kind::Kind,
    overwrite::Input,
    text::human_size,
};

/// Bytes of a map file. It has a line of some 35 bytes for each block, so that this is millions of blocks; a device may have no end.
const MOST_MAP_BYTES: u64 = 256 << 20;

/// The option.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct MapArgument {
    /// Map file of GNU ddrescue for IMAGE: what it does not say to be read (+) counts as unreadable
    #[arg(long, value_name = "FILE")]
    map: Option<PathBuf>,
}

impl MapArgument {
    /// The file.
    pub fn path(&self) -> Option<&Path> {
        self.map.as_deref()
    }

    /// What a command with this option reads.
    pub fn inputs<'i>(&'i self, image: &'i Path) -> Vec<Input<'i>> {
        self.path().map(|path| Input::new("map", path)).into_iter().chain([Input::image(image)]).collect()
    }

    /// What of the file system was not read, in bytes from where it begins; it has `size_bytes`. Nothing without the option.
    ///
    /// # Errors
    /// The file cannot be read, or is no map. There is no such partition.
    pub fn unread(&self, image: &ImageArguments, size_bytes: u64) -> Result<Vec<Range<u64>>, Failure> {
        let Some(path) = self.path() else { return Ok(Vec::new()) };
        let map = read(path).about_host(path)?;
        let start_bytes = image.place.find(&image.image).about_image(&image.image)?.start_bytes;
        Ok(map.unread(start_bytes, size_bytes).collect())
    }
}

fn read(path: &Path) -> Result<RescueMap, Failure> {
    let mut bytes = Vec::new();
    let file = fs::File::open(path);
    let read = file.and_then(|file| file.take(MOST_MAP_BYTES + 1).read_to_end(&mut bytes));
    if bytes.len() as u64 > MOST_MAP_BYTES {
        let most = human_size(MOST_MAP_BYTES);
        let words = format!("no map file of ddrescue: those have {most} at most");
        return Err(Failure::refused(Kind::WrongForm, words).with_exit(Exit::Usage));
    }
    read.map_err(|error| Failure::caused_by(&error))?;
    let text = String::from_utf8(bytes).map_err(|_| {
        Failure::refused(Kind::WrongForm, "no map file of ddrescue: those are text").with_exit(Exit::Usage)
    })?;
    RescueMap::parse(&text)
        .map_err(|error| Failure::refused(Kind::WrongForm, error.to_string()).with_exit(Exit::Usage))
}
