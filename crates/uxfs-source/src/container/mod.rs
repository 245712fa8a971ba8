//! Images of containers as sources: their layers, each checked against the digest that names it.
//!
//! | source | what |
//! |---|---|
//! | `oci:DIR[:TAG]` | an OCI image layout |
//! | `oci-archive:FILE[:TAG]` | the same in a tar archive |
//! | `docker-archive:FILE[:REF]` | what `docker save` and `podman save` write: a list of images, or a layout as well |
//!
//! Documents lead from one to the next: an index to a manifest (through further indexes, where the platform chooses), the
//! manifest to layers. Each is known by its digest, which is compared, as is its size.
//!
//! # Images from strangers
//! A digest is a path only after it has been seen to be hexadecimal digits. Documents have at most
//! [`MAX_DOCUMENT_BYTES`](documents::MAX_DOCUMENT_BYTES), as registries demand, and JSON is not nested deeper than its parser
//! allows; indexes lead to others [a few times](layout::MAX_INDEXES). Layers are opened one after the other, so that
//! their number costs no memory. A thread computes the digest of a layer while another unpacks it, on the first of both
//! passes: before the image is begun.
//!
//! | module | holds |
//! |---|---|
//! | [`mod@reference`] | sources by their names |
//! | [`platform`] | operating system and processor |
//! | [`digest`] | digests |
//! | [`region`] | bytes of a file, and streams that become files |
//! | [`documents`] | JSON |
//! | [`store`] | the files of an image: in a directory, or in an archive |
//! | [`layout`] | OCI image layouts |
//! | [`docker`] | lists of images as `docker save` writes them |
//! | [`layer`] | one layer as a stream |

mod digest;
mod docker;
mod documents;
mod layer;
mod layout;
mod platform;
mod reference;
pub(crate) mod region;
mod store;

pub use platform::Platform;
pub use reference::{Form, Reference, path_of, refuse_layout};

pub(crate) use layer::Layer;

use crate::{error::SourceError, stream::StreamSource, tar::TarOptions, tree::Reading};

/// The layers of an image, lowest first.
///
/// # Errors
/// There is no such image, or its documents are damaged. Damaged layers show when they are read.
pub(crate) fn open(
    reference: &Reference,
    platform: Option<&Platform>,
    tar: &TarOptions,
    reading: Reading,
) -> Result<Vec<Box<dyn StreamSource>>, SourceError> {
    let wanted = layout::Wanted { name: reference.name.as_deref(), platform };
    let mut store = store::Store::open(reference, tar)?;
    let layers = match reference.form {
        Form::Layout | Form::LayoutArchive => layout::layers(&store, wanted)?,
        Form::Docker => docker::layers(&store, wanted)?,
    };
    let tar = TarOptions { whiteouts: true, ..tar.clone() };
    // The first layer also reports the problems of the image.
    let mut problems = std::mem::take(&mut store.problems);
    let stream = |layer: layout::Blob| -> Box<dyn StreamSource> {
        let problems = std::mem::take(&mut problems);
        Box::new(Layer::new(layer, tar.clone(), reading).with_problems(problems))
    };
    Ok(layers.into_iter().map(stream).collect())
}
