//! The documents of images. What is not named here is passed over.

use serde::{Deserialize, de::DeserializeOwned};
use serde_json::error::Category;

use super::{digest::Digest, platform::Platform};
use crate::error::{ContainerFault, Shown};

/// Longest document: what registries take.
pub(super) const MAX_DOCUMENT_BYTES: u64 = 4 << 20;

/// The file `oci-layout`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct LayoutVersion {
    pub(super) image_layout_version: String,
}

/// An index or a manifest: which of both the fields say.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Node {
    pub(super) media_type: Option<String>,
    pub(super) manifests: Option<Vec<Descriptor>>,
    pub(super) layers: Option<Vec<Descriptor>>,
    pub(super) config: Option<Descriptor>,
}

/// What is said of a blob where it is named.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Descriptor {
    #[serde(default)]
    pub(super) media_type: String,
    pub(super) digest: String,
    pub(super) size: u64,
    pub(super) platform: Option<Platform>,
    annotations: Option<Annotations>,
    urls: Option<Vec<String>>,
}

#[derive(Debug, Clone, Default, Deserialize)]
struct Annotations {
    #[serde(rename = "org.opencontainers.image.ref.name")]
    tag: Option<String>,
    /// With registry and repository, as containerd and Docker write it.
    #[serde(rename = "io.containerd.image.name")]
    name: Option<String>,
    /// Of a document about another one.
    #[serde(rename = "vnd.docker.reference.type")]
    about: Option<String>,
}

impl Descriptor {
    /// The names that users may know it by.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        let annotations = self.annotations.as_ref();
        let tag = annotations.and_then(|annotations| annotations.tag.as_deref());
        tag.into_iter().chain(annotations.and_then(|annotations| annotations.name.as_deref()))
    }

    pub(super) fn digest(&self) -> Result<Digest, ContainerFault> {
        Digest::parse(&self.digest)
    }

    /// Whether it is no image: a signature, a list of parts, or the like.
    pub(super) fn is_about_another(&self) -> bool {
        self.annotations.as_ref().is_some_and(|annotations| annotations.about.is_some())
            || self.platform.as_ref().is_some_and(Platform::is_unknown)
    }

    /// Whether it may lie elsewhere.
    pub(super) fn has_urls(&self) -> bool {
        self.urls.as_ref().is_some_and(|urls| !urls.is_empty())
    }
}

/// What an image says of itself.
#[derive(Debug, Deserialize)]
pub(super) struct Configuration {
    #[serde(default)]
    os: String,
    #[serde(default)]
    architecture: String,
    variant: Option<String>,
    rootfs: Option<RootFileSystem>,
}

#[derive(Debug, Deserialize)]
struct RootFileSystem {
    #[serde(default)]
    diff_ids: Vec<String>,
}

impl Configuration {
    pub(super) fn platform(&self) -> Platform {
        let (os, architecture) = (self.os.clone(), self.architecture.clone());
        Platform { os, architecture, variant: self.variant.clone() }
    }

    /// The digests of the layers before they were packed.
    pub(super) fn layer_digests(&self) -> Result<Vec<Digest>, ContainerFault> {
        let digests = self.rootfs.iter().flat_map(|rootfs| &rootfs.diff_ids);
        digests.map(|digest| Digest::parse(digest)).collect()
    }
}

/// An image in `manifest.json` of `docker save`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct SavedImage {
    pub(super) config: String,
    pub(super) repo_tags: Option<Vec<String>>,
    pub(super) layers: Option<Vec<String>>,
}

/// Reads a document.
pub(super) fn parse<T: DeserializeOwned>(file: &Shown, bytes: &[u8]) -> Result<T, ContainerFault> {
    serde_json::from_slice(bytes).map_err(|error| {
        // Without a word of what was found: a link may lead to a file of secrets.
        let what = match error.classify() {
            Category::Io | Category::Eof => "it ends early",
            Category::Syntax => "it is no JSON",
            Category::Data => "it lacks what it must have",
        };
        let place = format!("{what} (line {}, column {})", error.line(), error.column());
        let reason = Shown::from(place.as_bytes());
        ContainerFault::Document { file: file.clone(), reason }
    })
}
