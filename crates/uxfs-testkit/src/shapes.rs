//! The one list of shapes: sizes and feature bits of file systems to try, as options of `mkfs.xfs`.
//!
//! Golden images, the crash laboratory and the kernel's logs choose from it by name, and add what is their own: the size of the
//! image and of the log, the number of allocation groups.

/// A shape.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// Its name.
    pub name: &'static str,
    /// Options of `mkfs.xfs`, with spaces between.
    pub options: &'static str,
}

const fn shape(name: &'static str, options: &'static str) -> Shape {
    Shape { name, options }
}

/// All shapes.
pub const SHAPES: [Shape; 27] = [
    shape("default", ""),
    shape("block-1k", "-b size=1024"),
    shape("block-2k", "-b size=2048"),
    shape("block-2k-inode-1k", "-b size=2048 -i size=1024"),
    shape("block-64k", "-b size=65536"),
    shape("sector-4k", "-s size=4096"),
    shape("inode-1k", "-i size=1024"),
    shape("inode-2k", "-i size=2048"),
    shape("directory-16k", "-n size=16384"),
    shape("directory-64k", "-n size=65536"),
    shape("block-1k-directory-8k", "-b size=1024 -n size=8192"),
    shape("block-1k-directory-64k", "-b size=1024 -n size=65536"),
    shape("stripe-32k", "-d su=32k,sw=2"),
    shape("log-stripe-32k", "-l su=32k"),
    shape("log-stripe-64k", "-l su=64k"),
    shape("log-stripe-256k", "-l su=256k"),
    shape("no-rmapbt", "-m rmapbt=0"),
    shape("no-reflink", "-m reflink=0"),
    shape("no-finobt", "-m finobt=0,inobtcount=0"),
    shape("no-sparse", "-i sparse=0"),
    shape("no-bigtime", "-m bigtime=0"),
    shape("no-nrext64", "-i nrext64=0"),
    shape("no-parent", "-n parent=0"),
    // Without the structures that features add.
    shape("plain", "-m rmapbt=0,reflink=0,finobt=0,inobtcount=0 -i sparse=0,nrext64=0 -n parent=0"),
    // As the first version of V5 was.
    shape(
        "no-feature",
        "-m rmapbt=0,reflink=0,finobt=0,inobtcount=0,bigtime=0 -i sparse=0,nrext64=0,exchange=0 -n parent=0",
    ),
    shape("metadir", "-m metadir=1"),
    shape("ascii-ci", "-n version=ci"),
];

/// Every size of blocks with every size of inodes that `mkfs.xfs` makes, as far as [`SHAPES`] has it not: blocks hold from 2 to 128
/// inodes, and a chunk of 64 inodes takes from half a block to 32 blocks.
pub const SIZES: [Shape; 11] = [
    shape("block-8k", "-b size=8192"),
    shape("block-8k-inode-1k", "-b size=8192 -i size=1024"),
    shape("block-8k-inode-2k", "-b size=8192 -i size=2048"),
    shape("block-16k", "-b size=16384"),
    shape("block-16k-inode-1k", "-b size=16384 -i size=1024"),
    shape("block-16k-inode-2k", "-b size=16384 -i size=2048"),
    shape("block-32k", "-b size=32768"),
    shape("block-32k-inode-1k", "-b size=32768 -i size=1024"),
    shape("block-32k-inode-2k", "-b size=32768 -i size=2048"),
    shape("block-64k-inode-1k", "-b size=65536 -i size=1024"),
    shape("block-64k-inode-2k", "-b size=65536 -i size=2048"),
];

impl Shape {
    /// The shape of this name.
    ///
    /// # Panics
    /// There is none: tests name shapes in constants.
    pub const fn named(name: &str) -> Self {
        let mut index = 0;
        while index < SHAPES.len() {
            if is_equal(SHAPES[index].name, name) {
                return SHAPES[index];
            }
            index += 1;
        }
        panic!("no shape has this name")
    }

    /// The options as words of a command line.
    pub fn words(&self) -> impl Iterator<Item = &'static str> + use<> {
        self.options.split_whitespace()
    }

    /// The options as letter and argument.
    pub fn settings(&self) -> Vec<(char, &'static str)> {
        let words: Vec<_> = self.words().collect();
        words.chunks_exact(2).filter_map(|pair| Some((pair[0].chars().nth(1)?, pair[1]))).collect()
    }

    /// Whether files can share blocks.
    pub fn has_shared_blocks(&self) -> bool {
        !self.options.contains("reflink=0")
    }

    /// Whether two files can exchange contents by intents. `mkfs.xfs` makes room for them with parent pointers.
    pub fn has_exchange(&self) -> bool {
        !self.options.contains("exchange=0") && !self.options.contains("parent=0")
    }
}

const fn is_equal(first: &str, second: &str) -> bool {
    let (first, second) = (first.as_bytes(), second.as_bytes());
    let mut index = 0;
    while index < first.len() && index < second.len() && first[index] == second[index] {
        index += 1;
    }
    index == first.len() && index == second.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_and_said_once() {
        for (index, shape) in SHAPES.iter().enumerate() {
            assert_eq!(Shape::named(shape.name), *shape);
            assert!(SHAPES[..index].iter().all(|other| other.options != shape.options), "{}", shape.name);
            assert_eq!(shape.settings().len() * 2, shape.words().count(), "{}", shape.name);
        }
        for (index, shape) in SIZES.iter().enumerate() {
            let mut others = SHAPES.iter().chain(&SIZES[..index]);
            assert!(others.all(|other| other.options != shape.options && other.name != shape.name));
        }
        assert_eq!(Shape::named("plain").settings()[1], ('i', "sparse=0,nrext64=0"));
    }
}
