//! Prints every path of an inode, from parent pointers alone: `cargo run -p uxfs --example paths -- IMAGE INODE`.

use std::process::ExitCode;

use uxfs::Image;

fn main() -> Result<ExitCode, Box<dyn std::error::Error>> {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let [image, inode] = arguments.as_slice() else {
        eprintln!("usage: paths IMAGE INODE");
        return Ok(ExitCode::from(2));
    };
    let found = Image::open(image)?.paths_of(inode.parse()?)?;
    for path in &found.paths {
        println!("{}", path.escape_ascii());
    }
    for problem in &found.problems {
        eprintln!("paths: {problem}");
    }
    Ok(if found.problems.is_empty() && found.is_complete { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
