//! Configuration files of `uxfs mkfs`.

use std::{fs, io::Read, path::Path};

use uxfs_mkfs::{
    layout::Layout,
    options::{Options, Source, config_file, grammar::Setting},
};

use crate::{
    failure::{About, Exit, Failure, Outcome},
    kind::Kind,
    overwrite::{self, Input},
};

/// The largest file that is read: some hundred times what any can usefully hold.
const MAX_BYTES: u64 = 1 << 20;

/// Reads the files that the options name.
pub fn read_files(options: &mut Options) -> Result<(), Failure> {
    for (setting, source) in
        [(Setting::ConfigOptions, Source::Given), (Setting::ConfigDefaults, Source::Defaults)]
    {
        if let Some(path) = options.text(setting).map(str::to_owned) {
            let text = read(&path).about_host(Path::new(&path))?;
            options.add_config(&text, source).map_err(Failure::from).about_host(Path::new(&path))?;
        }
    }
    Ok(())
}

fn read(path: &str) -> Result<String, Failure> {
    let cannot = |error| Failure::caused_by(&error).about("cannot read it");
    let length = fs::metadata(path).map_err(cannot)?.len();
    if length > MAX_BYTES {
        return Err(Failure::refused(Kind::TooLarge, "too large for a configuration file"));
    }
    // A file that is not regular has no known length.
    let mut text = String::new();
    fs::File::open(path).map_err(cannot)?.take(MAX_BYTES).read_to_string(&mut text).map_err(cannot)?;
    Ok(text)
}

/// The files that the options name, and that are read.
pub(crate) fn inputs(options: &Options) -> impl Iterator<Item = Input<'_>> {
    let settings = [
        (Setting::ConfigOptions, "configuration file"),
        (Setting::ConfigDefaults, "configuration file"),
        (Setting::ProtoFile, "prototype file"),
    ];
    settings
        .into_iter()
        .filter_map(|(setting, what)| Some(Input::new(what, Path::new(options.text(setting)?))))
}

/// Refuses to write a file or an image over what is read for it.
pub(crate) fn refuse_overwriting(
    options: &Options,
    image: &Path,
    inputs: &[Input<'_>],
) -> Result<(), Failure> {
    match options.text(Setting::ConfigMake) {
        Some(file) => {
            let inputs: Vec<_> = inputs.iter().copied().chain([Input::image(image)]).collect();
            overwrite::refuse_or_other(Path::new(file), &inputs, overwrite::Product::Configuration)
        }
        None => overwrite::refuse(image, inputs),
    }
}

/// Writes a file that makes the same features again.
pub fn write_file(layout: &Layout, path: &str) -> Outcome {
    let text = config_file::write(layout);
    let cannot = |error| Failure::caused_by(&error).about("cannot write it").about_host(Path::new(path));
    fs::write(path, text).map_err(cannot)?;
    Ok(Exit::Success)
}
