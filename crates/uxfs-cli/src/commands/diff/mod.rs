//! `uxfs diff`: what differs between two images, or an image and a directory of the host.
//!
//! ```text
//! walk ──▶ batches of pairs ──▶ compare (several threads) ──▶ printer, in the order of the walk
//!  └─ tree: an image or a directory of the host
//! ```
//!
//! | module | holds |
//! |---|---|
//! | [`arguments`] | the options |
//! | `both` | one thing of each side |
//! | `tree` | a side: an image or a directory of the host |
//! | `host` | a directory of the host |
//! | `choice` | what is compared, and what is passed over |
//! | [`field`] | what two files can differ in |
//! | `facts` | the fields that an inode holds |
//! | `contents` | two files byte by byte |
//! | `attributes` | extended attributes and ACLs |
//! | `links` | which names are one file |
//! | `walk` | both trees at once |
//! | `compare` | two files of one name |
//! | `pipeline` | the threads |
//! | `printer` | lines |
//! | `document` | documents |
//! | `unified` | the text that differs |

pub mod arguments;
mod attributes;
mod both;
mod choice;
mod compare;
mod contents;
mod document;
mod facts;
pub mod field;
mod host;
mod links;
mod pipeline;
mod printer;
mod tree;
mod unified;
mod walk;

use std::path::Path;

pub use self::arguments::Arguments;
use self::{
    both::{Both, Side},
    pipeline::Comparison,
    printer::Printer,
    tree::Tree,
};
use crate::{
    commands::Context,
    failure::{Exit, Failure, Outcome},
    image::ImageArguments,
    search::subject::last_name,
    target::Target,
};

/// Runs the command.
pub fn run(arguments: &Arguments, context: &Context) -> Outcome {
    compare_images(arguments, context).map_err(Failure::into_trouble)
}

fn compare_images(arguments: &Arguments, context: &Context) -> Outcome {
    let image = &arguments.image;
    let other = ImageArguments {
        image: arguments.other.clone(),
        place: arguments.other_place.place(),
        ..image.clone()
    };
    let trees = Both { first: open(image)?, second: open(&other)? };
    let compared = compare(arguments, &trees, context);
    let images = [trees.first.image(), trees.second.image()].into_iter().flatten();
    images.fold(compared, |outcome, image| image.conclude(outcome))
}

fn compare(arguments: &Arguments, trees: &Both<Tree>, context: &Context) -> Outcome {
    let paths =
        Both { first: &arguments.path, second: arguments.other_path.as_ref().unwrap_or(&arguments.path) };
    let paths = Both::of(|side| Target::parse(paths.at(side)));
    let starts = Both::try_of(|side| trees.at(side).start(paths.at(side)))?;
    let is_directory = |side| starts.at(side).facts().is_directory();
    let name = match &paths.first {
        Target::Path(path) if !is_directory(Side::First) && !is_directory(Side::Second) => last_name(path),
        _ => b".",
    };
    let choice = arguments.choice();
    let comparison = Comparison { trees, choice: &choice, threads: arguments.threads() };
    let unified = arguments.unified(trees, choice.fields);
    let mut printer = Printer::new(arguments.form(context.json), unified);
    comparison.run(starts, name, &mut |told| printer.take(told))?;
    printer.output.finish()?;
    let worst = printer.complaints.exit();
    Ok(match worst {
        Exit::Success if printer.is_different => Exit::Failed,
        // 1 would say that something differs.
        Exit::Failed => Exit::Usage,
        worst => worst,
    })
}

/// Opens a side.
fn open(image: &ImageArguments) -> Result<Tree, Failure> {
    let path: &Path = &image.image;
    if !path.is_dir() {
        return Ok(Tree::of_image(path, image.open()?));
    }
    match image.place.is_given() {
        true => {
            let failure = Failure::usage("--partition and --offset are for images, and this is a directory");
            Err(failure.about_host(path))
        }
        false => Tree::of_host(path),
    }
}
