//! Gives an image a host name and a user's directory, durably: `cargo run -p uxfs --example edit -- IMAGE NAME`.

use std::process::ExitCode;

use uxfs::{Changes, Editor};

fn main() -> Result<ExitCode, Box<dyn std::error::Error>> {
    let arguments: Vec<_> = std::env::args_os().skip(1).collect();
    let [image, name] = arguments.as_slice() else {
        eprintln!("usage: edit IMAGE NAME");
        return Ok(ExitCode::from(2));
    };
    let editor = Editor::open(image)?;
    editor.make_directories("/etc", 0o755)?;
    // Complete before it takes the place of the old one.
    editor.write("/etc/hostname", name.as_encoded_bytes())?;
    editor.make_directories("/srv/user", 0o755)?;
    editor.change("/srv/user", &Changes::new().permissions(0o700).owner(1000, 1000))?;
    match editor.remove("/etc/machine-id") {
        Err(error) if error.is_not_found() => {}
        removed => removed?,
    }
    editor.close()?;
    Ok(ExitCode::SUCCESS)
}
