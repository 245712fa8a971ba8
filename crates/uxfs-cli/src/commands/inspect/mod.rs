//! `uxfs inspect`: any structure field by field, damaged or not.
//!
//! | module | holds |
//! |---|---|
//! | here | the arguments, and showing one structure after the other |
//! | `object` | what the user asks for |
//! | `document` | the JSON form |
//! | `log` | the log, record by record |

use std::{ffi::OsString, io::Write};

use uxfs_block::device::BlockDevice;
use uxfs_format::{
    describe::{describe, text},
    fault::Structure,
    field_table::OnDisk,
    geometry::Geometry,
    superblock::Superblock,
    units::{AgBlock, AgNumber, InodeNumber, Sector},
};
use uxfs_volume::inspect::{self, StructureOnDisk};
use uxfs_volume::{
    error::{Error, OperationError},
    volume::Volume,
};

use self::object::Object;
use crate::{
    commands::{Context, owner},
    failure::{About, Complaints, Failure, Outcome},
    image::ImageArguments,
    kind::Kind,
    output::{Output, set_image},
    target::Target,
};

mod document;
pub(crate) mod log;
mod object;

/// Arguments of `uxfs inspect`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Objects:\n  \
    sb|agf|agi|agfl GROUP                               header of an allocation group\n  \
    inode PATH|INODE                                    an inode with both forks\n  \
    btree bno|cnt|ino|fino|rmap|refc GROUP [BLOCK]      root of a btree, or another block of the group\n  \
    btree bmap INODE [BLOCK]                            extent map in an inode, or a block of its btree\n  \
    dir PATH|INODE [BLOCK...]                           directory blocks: all, or those with these numbers in the file\n  \
    attr PATH|INODE [BLOCK...]                          attribute blocks, likewise\n  \
    block BLOCK                                         file system block, identified by its magic number\n  \
    sector SECTOR                                       512-byte sector of the image, likewise\n  \
                                                        (of contents and free space, the owner)\n  \
    log [all]                                           the log: its state and the records to replay, or all records\n\n\
    Names and values are those of xfs_db, times are UTC. A damaged structure is shown as well; the fault is printed \
    on standard error, and the exit code is 3.\n\
    Example: uxfs inspect disk.img btree bno 0")]
pub struct Arguments {
    #[command(flatten)]
    image: ImageArguments,
    /// The object to show, see below
    #[arg(required = true, value_name = "OBJECT", num_args = 1..)]
    object: Vec<OsString>,
}

/// Runs the command.
pub fn run(arguments: &Arguments, context: &Context) -> Outcome {
    let object = Object::parse(&arguments.object).map_err(Failure::usage)?;
    set_image(&arguments.image.image);
    let mut shown = Shown::new(context);
    let device = arguments.image.device()?;
    match arguments.image.mount_ignoring_log(device.clone()) {
        Ok(filesystem) => {
            let outcome = shown.object(&filesystem, &object).and_then(|()| shown.finish());
            return filesystem.conclude(outcome);
        }
        // A superblock with which nothing can be mounted is just what one wants to look at.
        Err(failure) if object == Object::Header(Structure::Superblock, AgNumber::new(0)) => {
            shown.unmountable(device.as_ref(), failure)?;
        }
        Err(failure) => return Err(failure),
    }
    shown.finish()
}

/// The output so far.
struct Shown<'a> {
    context: &'a Context,
    output: Output,
    complaints: Complaints,
    count: u64,
}

impl<'a> Shown<'a> {
    fn new(context: &'a Context) -> Self {
        Self { context, output: Output::new(), complaints: Complaints::default(), count: 0 }
    }

    fn finish(self) -> Outcome {
        self.output.finish()?;
        Ok(self.complaints.exit())
    }

    fn unmountable(&mut self, device: &dyn BlockDevice, failure: Failure) -> Result<(), Failure> {
        let found = inspect::primary_superblock(device)?;
        match Superblock::prefix_of(&found.bytes) {
            Some(superblock) if found.problem.is_some() => self.show(&found, &Geometry::new(superblock)),
            _ => Err(failure),
        }
    }

    fn object(&mut self, filesystem: &Volume, object: &Object) -> Result<(), Failure> {
        let geometry = filesystem.geometry();
        match object {
            Object::Header(structure, group) => {
                let found = filesystem.inspect().header(*structure, *group);
                self.show(&found.about(format_args!("group {group}"))?, geometry)
            }
            Object::Inode(Target::Inode(number)) => self.inode(filesystem, *number),
            Object::Inode(target) => {
                let number = target.find(filesystem, false).about_target(target)?.number;
                self.inode(filesystem, number)
            }
            Object::Tree(structure, group, block) => self.tree(filesystem, *structure, *group, *block),
            Object::ExtentMap(number, None) => self.inode(filesystem, *number),
            Object::ExtentMap(number, Some(block)) => {
                let found = filesystem.inspect().extent_map_block(*number, *block);
                self.show(&found.about(format_args!("block {block}"))?, geometry)
            }
            Object::Fork(fork, target, blocks) => {
                let number = target.find(filesystem, true).about_target(target)?.number;
                let show = |found: StructureOnDisk| self.show(&found, geometry);
                filesystem.inspect().fork(number, *fork, blocks, show).about_target(target)
            }
            Object::Log(range) => log::show(self, filesystem, *range),
            Object::Block(block) => {
                let place = geometry.sector_of_block(*block);
                let all = filesystem.inspect().block(*block);
                self.at_place(filesystem, place, all).about(format_args!("block {block}"))
            }
            Object::Sector(sector) => {
                let place = geometry.block_of_sector(*sector).map(|_| *sector);
                let all = filesystem.inspect().sector(*sector);
                self.at_place(filesystem, place, all).about(format_args!("sector {sector}"))
            }
        }
    }

    /// Shows the structure at a sector, or the owner of the block where there is none.
    fn at_place(
        &mut self,
        filesystem: &Volume,
        place: Option<Sector>,
        found: Result<Vec<StructureOnDisk>, Error>,
    ) -> Result<(), Failure> {
        match (found, place) {
            (Err(Error::Operation(OperationError::NotFound)), Some(sector)) => {
                owner::show(filesystem, Geometry::byte_of_sector(sector), self.context, &mut self.output)
            }
            (Err(Error::Operation(OperationError::NotFound)), None) => {
                Err(Failure::refused(Kind::Invalid, "it lies behind the end of the file system"))
            }
            (found, _) => found?.iter().try_for_each(|found| self.show(found, filesystem.geometry())),
        }
    }

    fn inode(&mut self, filesystem: &Volume, number: InodeNumber) -> Result<(), Failure> {
        let found = filesystem.inspect().inode(number).about(format_args!("inode {number}"))?;
        self.show(&found, filesystem.geometry())
    }

    fn tree(
        &mut self,
        filesystem: &Volume,
        structure: Structure,
        group: AgNumber,
        block: Option<AgBlock>,
    ) -> Result<(), Failure> {
        let found = filesystem.inspect().tree_block(structure, group, block);
        self.show(&found.about(format_args!("group {group}"))?, filesystem.geometry())
    }

    /// Shows one structure and tells what its verifier says against it.
    fn show(&mut self, found: &StructureOnDisk, geometry: &Geometry) -> Result<(), Failure> {
        let description = describe(found.structure, &found.bytes, geometry);
        if self.context.json {
            self.output.json(&document::new(found, &description))?;
        } else {
            let mut print = String::new();
            text::write(&description, &found.bytes, &mut print)
                .map_err(|_| Failure::failed("cannot print"))?;
            // xfs_db shows one structure at a time; where we show several, each says what it is.
            if self.count > 0 {
                writeln!(self.output)?;
            }
            if self.count > 0 || found.location.file_block.is_some() {
                writeln!(self.output, "# {} ({})", found.structure.name(), found.location)?;
            }
            self.output.write_all(print.as_bytes())?;
        }
        self.count += 1;
        if let Some(problem) = &found.problem {
            // What was shown so far comes first where both go to one place.
            self.output.flush()?;
            self.complaints.add("damaged", problem);
        }
        Ok(())
    }
}
