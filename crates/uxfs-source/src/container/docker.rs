//! What `docker save` writes: a list of images, each with a configuration and the paths of its layers. Docker of today
//! writes an OCI image layout into the same archive, with the digests that the list does not have.

use super::{
    documents::{Configuration, SavedImage},
    layout::{self, Blob, Expected, Wanted, full_name, list},
    store::Store,
};
use crate::{
    error::{ContainerFault, Shown, SourceError},
    packing::Packing,
};

const LIST: &str = "manifest.json";

/// The layers of the wanted image, lowest first.
pub(super) fn layers(store: &Store, wanted: Wanted<'_>) -> Result<Vec<Blob>, SourceError> {
    if !store.has(LIST) {
        return match store.has("oci-layout") {
            true => layout::layers(store, wanted),
            false => Err(store.fault(ContainerFault::NoImageArchive)),
        };
    }
    let images: Vec<SavedImage> = store.document(LIST)?;
    let image = choose(&images, wanted.name).map_err(|fault| store.fault(fault))?;
    let configuration: Configuration = store.document(&image.config)?;
    if let Some(platform) = wanted.platform
        && platform.distance(&configuration.platform()).is_none()
    {
        // The layout may have it for several.
        if store.has("oci-layout") {
            return layout::layers(store, wanted);
        }
        let has = Shown::from(configuration.platform().to_string().as_bytes());
        return Err(store.fault(ContainerFault::NoPlatform { wanted: platform.to_string(), has }));
    }
    let digests = configuration.layer_digests().map_err(|fault| store.fault(fault))?;
    let paths = image.layers.as_deref().unwrap_or_default();
    layout::count(paths.len()).map_err(|fault| store.fault(fault))?;
    if paths.len() != digests.len() {
        let fault = ContainerFault::LayerCount { layers: paths.len(), digests: digests.len() };
        return Err(store.fault(fault));
    }
    let blob = |(path, digest): (&String, _)| {
        let region = store.file(path)?;
        let packing = region.packing().map_err(region.failed("read"))?;
        let expected = match packing {
            Packing::None => Expected::Packed(digest),
            _ => Expected::Unpacked(digest),
        };
        Ok(Blob { region, expected })
    };
    paths.iter().zip(digests).map(blob).collect()
}

/// By `@` and a number, as skopeo takes it, by one of its names, or the only one.
fn choose<'a>(images: &'a [SavedImage], name: Option<&str>) -> Result<&'a SavedImage, ContainerFault> {
    let names = |image: &'a SavedImage| image.repo_tags.iter().flatten();
    let has =
        || {
            list(images.iter().enumerate().map(|(number, image)| {
                names(image).next().map_or_else(|| format!("@{number}"), Clone::clone)
            }))
        };
    let Some(name) = name else {
        return match images {
            [image] => Ok(image),
            _ => Err(ContainerFault::SeveralImages(has())),
        };
    };
    let number = name.strip_prefix('@').and_then(|number| number.parse::<usize>().ok());
    let found = match number {
        Some(number) => images.get(number),
        None => {
            let full = full_name(name);
            images.iter().find(|image| names(image).any(|other| full_name(other) == full))
        }
    };
    found.ok_or_else(|| ContainerFault::NoSuchImage { name: Shown::from(name.as_bytes()), has: has() })
}
