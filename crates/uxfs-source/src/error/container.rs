//! What is wrong with an image of a container.

use thiserror::Error;

use super::Shown;

/// Faults of an image of a container.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ContainerFault {
    /// A directory without the file that makes it a layout.
    #[error("is no OCI image layout: it has no file oci-layout")]
    NoLayout,
    /// An archive of neither kind.
    #[error("is no archive of an image: it has neither manifest.json nor oci-layout")]
    NoImageArchive,
    /// A layout of the future.
    #[error("OCI image layout of version {0}: only 1 is known")]
    Version(Shown),
    /// A directory that is a layout is named as if it were a tree.
    #[error(
        "is an OCI image layout: --from oci:{0} unpacks its image; --from {0}/. takes the files of the layout as they are"
    )]
    IsLayout(Shown),
    /// A file of it is not there.
    #[error("has no file {0}")]
    Missing(Shown),
    /// A layer that lies elsewhere by design.
    #[error("its layer {0} is not in the image: it is to be fetched from elsewhere")]
    Foreign(Shown),
    /// A file of it is a directory or a device, or a link to one, or it has holes.
    #[error("{0} is no plain file")]
    NoFile(Shown),
    /// A document that is too long to be meant.
    #[error("{file} has {bytes} bytes: documents have {limit} at most")]
    TooLong {
        /// Which.
        file: Shown,
        /// Its length.
        bytes: u64,
        /// Allowed.
        limit: u64,
    },
    /// Text that is no JSON, or says something else than expected.
    #[error("{file} makes no sense: {reason}")]
    Document {
        /// Which.
        file: Shown,
        /// In the words of the parser.
        reason: Shown,
    },
    /// A digest that is none, or of an algorithm that is not known.
    #[error("{0} is no digest: sha256 or sha512, a colon and hexadecimal digits are expected")]
    Digest(Shown),
    /// The bytes are not those that the digest names.
    #[error("{file} is damaged: its digest is {found}, and {expected} is expected")]
    Damaged {
        /// Which.
        file: Shown,
        /// Computed.
        found: String,
        /// Named.
        expected: String,
    },
    /// Longer or shorter than said.
    #[error("{file} has {found} bytes, and {expected} are expected")]
    Size {
        /// Which.
        file: Shown,
        /// On disk.
        found: u64,
        /// Named.
        expected: u64,
    },
    /// A kind of document or layer that is not read.
    #[error("{0} is not supported")]
    MediaType(Shown),
    /// A document that is both an index and a manifest, or neither.
    #[error("{0} is neither an index nor a manifest, or both at once")]
    Ambiguous(Shown),
    /// Indexes of indexes of indexes.
    #[error("its indexes lead to others more than {0} times")]
    TooDeep(usize),
    /// More layers than any system can mount.
    #[error("has {found} layers, at most {limit} are read")]
    TooManyLayers {
        /// How many.
        found: usize,
        /// Allowed.
        limit: usize,
    },
    /// More files than an archive of an image has.
    #[error("has too many files for an archive of an image")]
    TooManyFiles,
    /// No image has the wanted name.
    #[error("has no image {name}; it has {has}")]
    NoSuchImage {
        /// Wanted.
        name: Shown,
        /// The names there are.
        has: Shown,
    },
    /// Several images, and none was named.
    #[error("holds several images: add :NAME to say which; it has {0}")]
    SeveralImages(Shown),
    /// None is for the platform.
    #[error("has no image for {wanted}; it has {has} (--platform OS/ARCH says which is wanted)")]
    NoPlatform {
        /// Wanted.
        wanted: String,
        /// The platforms there are.
        has: Shown,
    },
    /// The layers and what is said of them are not equally many.
    #[error("has {layers} layers, and the digests of {digests}")]
    LayerCount {
        /// Named by the list of images.
        layers: usize,
        /// Named by the configuration.
        digests: usize,
    },
    /// Links of the archive in a circle.
    #[error("{0} is a link that leads nowhere")]
    Link(Shown),
}
