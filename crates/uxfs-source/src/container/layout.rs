//! OCI image layouts: from the index to the layers.

use super::{
    digest::Digest,
    documents::{Configuration, Descriptor, LayoutVersion, Node},
    platform::Platform,
    region::Region,
    store::Store,
};
use crate::error::{ContainerFault, Shown, SourceError};

/// Indexes on the way to a manifest, the first one included.
pub(super) const MAX_INDEXES: usize = 4;
/// Layers of one image: what overlayfs can lay over each other. Each may keep a file open.
pub(super) const MAX_LAYERS: usize = 500;
/// Names in a message.
const NAMES_TOLD: usize = 20;

/// The image that is wanted.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wanted<'a> {
    /// A tag, a name or a digest.
    pub(super) name: Option<&'a str>,
    /// Asked for; else that of the host is preferred.
    pub(super) platform: Option<&'a Platform>,
}

/// One layer.
#[derive(Debug, Clone)]
pub(super) struct Blob {
    pub(super) region: Region,
    pub(super) expected: Expected,
}

/// What is known of the bytes of a layer.
#[derive(Debug, Clone)]
pub(super) enum Expected {
    /// The digest of its bytes as they lie there.
    Packed(Digest),
    /// The digest of what they unpack to.
    Unpacked(Digest),
    /// Nothing.
    Nothing,
}

/// The layers of the wanted image, lowest first.
pub(super) fn layers(store: &Store, wanted: Wanted<'_>) -> Result<Vec<Blob>, SourceError> {
    if !store.has("oci-layout") {
        return Err(store.fault(ContainerFault::NoLayout));
    }
    let version: LayoutVersion = store.document("oci-layout")?;
    if version.image_layout_version.split('.').next() != Some("1") {
        let version = Shown::from(version.image_layout_version.as_bytes());
        return Err(store.fault(ContainerFault::Version(version)));
    }
    let index: Node = store.document("index.json")?;
    let top = index.manifests.filter(|_| index.layers.is_none());
    let top =
        top.ok_or_else(|| store.fault(ContainerFault::Ambiguous(Shown::from(b"index.json".as_slice()))))?;
    let mut descriptor = first(top, wanted).map_err(|fault| store.fault(fault))?;
    for _ in 0..MAX_INDEXES {
        let node: Node = store.described(&descriptor)?;
        let file = || Shown::from(descriptor.digest.as_bytes());
        let is_index =
            is_index(&node, &descriptor).ok_or_else(|| store.fault(ContainerFault::Ambiguous(file())))?;
        if !is_index {
            return manifest(store, node, &descriptor, wanted.platform);
        }
        let choice = by_platform(node.manifests.unwrap_or_default(), wanted.platform);
        descriptor = choice.map_err(|fault| store.fault(fault))?;
    }
    Err(store.fault(ContainerFault::TooDeep(MAX_INDEXES)))
}

/// Whether a document is an index; `None` where it is neither that nor a manifest, or where fields, its own type and the
/// one by which it is named disagree: then others might take it for something else.
fn is_index(node: &Node, descriptor: &Descriptor) -> Option<bool> {
    let by_fields = match (&node.manifests, &node.layers) {
        (Some(_), None) if node.config.is_none() => true,
        (None, Some(_)) => false,
        _ => return None,
    };
    let types = node.media_type.iter().chain([&descriptor.media_type]).filter(|name| !name.is_empty());
    let mut says = types.filter_map(|name| match name.as_str() {
        "application/vnd.oci.image.index.v1+json"
        | "application/vnd.docker.distribution.manifest.list.v2+json" => Some(true),
        "application/vnd.oci.image.manifest.v1+json"
        | "application/vnd.docker.distribution.manifest.v2+json" => Some(false),
        _ => None,
    });
    says.all(|is_index| is_index == by_fields).then_some(by_fields)
}

/// By name where one is given; else the only one, or the one for the platform.
fn first(descriptors: Vec<Descriptor>, wanted: Wanted<'_>) -> Result<Descriptor, ContainerFault> {
    let images: Vec<_> = descriptors.into_iter().filter(|found| !found.is_about_another()).collect();
    let Some(name) = wanted.name else { return only(images, wanted.platform) };
    let is_named = |found: &Descriptor| {
        found.digest == name
            || found.names().any(|other| other == name || full_name(other) == full_name(name))
    };
    let (named, others): (Vec<_>, Vec<_>) = images.into_iter().partition(is_named);
    if named.is_empty() {
        let has = names(&others);
        return Err(ContainerFault::NoSuchImage { name: Shown::from(name.as_bytes()), has });
    }
    only(named, wanted.platform)
}

fn only(mut images: Vec<Descriptor>, platform: Option<&Platform>) -> Result<Descriptor, ContainerFault> {
    images.dedup_by(|one, other| one.digest == other.digest);
    match images.as_slice() {
        [image] => Ok(image.clone()),
        [] => Err(ContainerFault::NoSuchImage { name: Shown::from(b"at all".as_slice()), has: names(&[]) }),
        _ if images.iter().all(|image| image.platform.is_some()) => by_platform(images, platform),
        _ => Err(ContainerFault::SeveralImages(names(&images))),
    }
}

/// The one for the platform. A single image is taken whatever it is for, unless a platform was asked for: an image for
/// another machine is what many file systems are made for.
fn by_platform(images: Vec<Descriptor>, wanted: Option<&Platform>) -> Result<Descriptor, ContainerFault> {
    let images: Vec<_> = images.into_iter().filter(|found| !found.is_about_another()).collect();
    if let ([image], None) = (images.as_slice(), wanted) {
        return Ok(image.clone());
    }
    let host = Platform::of_host();
    let wanted = wanted.unwrap_or(&host);
    let distance = |image: &Descriptor| match &image.platform {
        Some(platform) => wanted.distance(platform),
        // Its configuration says for what it is.
        None => Some(u32::MAX),
    };
    let nearest =
        images.iter().filter_map(|image| Some((distance(image)?, image))).min_by_key(|(far, _)| *far);
    nearest.map(|(_, image)| image.clone()).ok_or_else(|| {
        let platforms = images.iter().filter_map(|image| image.platform.as_ref());
        let has = list(platforms.map(ToString::to_string));
        ContainerFault::NoPlatform { wanted: wanted.to_string(), has }
    })
}

/// The layers of a manifest.
fn manifest(
    store: &Store,
    node: Node,
    descriptor: &Descriptor,
    platform: Option<&Platform>,
) -> Result<Vec<Blob>, SourceError> {
    let layers = node.layers.unwrap_or_default();
    count(layers.len()).map_err(|fault| store.fault(fault))?;
    // It says nothing that is needed here, but a changed one is a changed image.
    if let Some(configuration) = &node.config {
        store.verified(configuration)?;
    }
    // Where an index has told, it is believed, as others do.
    if let Some(wanted) = platform.filter(|_| descriptor.platform.is_none()) {
        let ambiguous = || ContainerFault::Ambiguous(Shown::from(descriptor.digest.as_bytes()));
        let configuration = node.config.as_ref().ok_or_else(|| store.fault(ambiguous()))?;
        let found = store.described::<Configuration>(configuration)?.platform();
        if wanted.distance(&found).is_none() {
            let has = Shown::from(found.to_string().as_bytes());
            return Err(store.fault(ContainerFault::NoPlatform { wanted: wanted.to_string(), has }));
        }
    }
    layers.iter().map(|layer| blob(store, layer)).collect()
}

fn blob(store: &Store, layer: &Descriptor) -> Result<Blob, SourceError> {
    if !is_layer(&layer.media_type) {
        let fault = ContainerFault::MediaType(Shown::from(layer.media_type.as_bytes()));
        return Err(store.fault(fault));
    }
    let digest = layer.digest().map_err(|fault| store.fault(fault))?;
    Ok(Blob { region: store.blob(layer)?, expected: Expected::Packed(digest) })
}

/// Archives, packed in any way that their bytes show. Encrypted ones, and the parts of what is no image, are not read.
fn is_layer(media_type: &str) -> bool {
    let (name, packing) = media_type.split_once('+').unwrap_or((media_type, ""));
    let is_archive = matches!(
        name,
        "application/vnd.oci.image.layer.v1.tar"
            | "application/vnd.oci.image.layer.nondistributable.v1.tar"
            | "application/vnd.docker.image.rootfs.diff.tar"
            | "application/vnd.docker.image.rootfs.diff.tar.gzip"
            | "application/vnd.docker.image.rootfs.diff.tar.zstd"
            | "application/vnd.docker.image.rootfs.foreign.diff.tar.gzip"
    );
    is_archive && matches!(packing, "" | "gzip" | "zstd")
}

/// # Errors
/// More layers than are read.
pub(super) fn count(found: usize) -> Result<(), ContainerFault> {
    match found <= MAX_LAYERS {
        true => Ok(()),
        false => Err(ContainerFault::TooManyLayers { found, limit: MAX_LAYERS }),
    }
}

/// A name as Docker writes it in full: `busybox` is `docker.io/library/busybox:latest`.
pub(super) fn full_name(name: &str) -> String {
    let has_tag = name.rsplit('/').next().is_some_and(|last| last.contains(':'));
    let tagged = if has_tag { name.to_owned() } else { format!("{name}:latest") };
    let first = tagged.split('/').next().unwrap_or_default();
    match tagged.matches('/').count() {
        0 => format!("docker.io/library/{tagged}"),
        _ if first == "localhost" || first.contains(['.', ':']) => tagged,
        _ => format!("docker.io/{tagged}"),
    }
}

fn names(images: &[Descriptor]) -> Shown {
    let name = |image: &Descriptor| image.names().last().unwrap_or(&image.digest).to_owned();
    list(images.iter().map(name))
}

/// Some of many names, between commas.
pub(super) fn list(names: impl Iterator<Item = String>) -> Shown {
    let mut names = names;
    let mut told: Vec<String> = names.by_ref().take(NAMES_TOLD).collect();
    let more = names.count();
    if more > 0 {
        told.push(format!("and {more} more"));
    }
    let told = if told.is_empty() { "none".to_owned() } else { told.join(", ") };
    Shown::from(told.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_in_full() {
        for (short, full) in [
            ("busybox", "docker.io/library/busybox:latest"),
            ("busybox:1", "docker.io/library/busybox:1"),
            ("docker.io/library/busybox:1", "docker.io/library/busybox:1"),
            ("some/thing", "docker.io/some/thing:latest"),
            ("localhost/thing:2", "localhost/thing:2"),
            ("host:5000/thing", "host:5000/thing:latest"),
        ] {
            assert_eq!(full_name(short), full);
        }
    }

    #[test]
    fn kinds_of_layers() {
        let image = "application/vnd.oci.image.layer.v1.tar";
        for packing in ["", "+gzip", "+zstd"] {
            assert!(is_layer(&format!("{image}{packing}")));
        }
        for media_type in [
            "",
            "text/plain",
            "application/vnd.oci.image.layer.v1.tar+gzip+encrypted",
            "application/vnd.oci.empty.v1+json",
        ] {
            assert!(!is_layer(media_type), "{media_type}");
        }
        assert!(count(MAX_LAYERS).is_ok() && count(MAX_LAYERS + 1).is_err());
    }
}
