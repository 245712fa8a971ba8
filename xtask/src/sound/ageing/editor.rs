//! Operations by the library, in place.

use std::{
    io::{Seek, SeekFrom, Write},
    path::Path,
};

use anyhow::Result;
use uxfs::Editor;

use super::Side;

/// The library's side.
#[derive(Debug)]
pub struct ByEditor {
    editor: Editor,
}

impl ByEditor {
    /// On an image.
    pub fn new(image: &Path) -> Result<Self> {
        Ok(Self { editor: Editor::open(image)? })
    }

    /// Closes the image cleanly.
    pub fn close(self) -> Result<()> {
        Ok(self.editor.close()?)
    }
}

fn absolute(path: &str) -> String {
    format!("/{path}")
}

impl Side for ByEditor {
    fn directory(&mut self, path: &str) -> Result<()> {
        Ok(self.editor.make_directory(absolute(path), 0o755)?)
    }

    fn write(&mut self, path: &str, contents: &[u8]) -> Result<()> {
        Ok(self.editor.write(absolute(path), contents)?)
    }

    fn write_at(&mut self, path: &str, offset_bytes: u64, contents: &[u8]) -> Result<()> {
        let mut file = self.editor.open_file(absolute(path))?;
        file.seek(SeekFrom::Start(offset_bytes))?;
        Ok(file.write_all(contents)?)
    }

    fn truncate(&mut self, path: &str, size_bytes: u64) -> Result<()> {
        Ok(self.editor.open_file(absolute(path))?.set_len(size_bytes)?)
    }

    fn rename(&mut self, from: &str, to: &str) -> Result<()> {
        Ok(self.editor.rename(absolute(from), absolute(to))?)
    }

    fn link(&mut self, from: &str, to: &str) -> Result<()> {
        Ok(self.editor.link(absolute(from), absolute(to))?)
    }

    fn symlink(&mut self, target: &str, path: &str) -> Result<()> {
        Ok(self.editor.symbolic_link(target, absolute(path))?)
    }

    fn remove(&mut self, path: &str) -> Result<()> {
        Ok(self.editor.remove(absolute(path))?)
    }

    fn remove_directory(&mut self, path: &str) -> Result<()> {
        Ok(self.editor.remove_directory(absolute(path))?)
    }

    fn set_attribute(&mut self, path: &str, name: &str, value: &[u8]) -> Result<()> {
        Ok(self.editor.set_attribute(absolute(path), name, value)?)
    }

    fn remove_attribute(&mut self, path: &str, name: &str) -> Result<()> {
        Ok(self.editor.remove_attribute(absolute(path), name)?)
    }
}
