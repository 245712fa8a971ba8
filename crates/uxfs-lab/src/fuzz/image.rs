//! A whole image with a few fields damaged and their checksums sealed again, and everything that reads run over it.
//!
//! The input is a list of damages, 12 bytes each: which structure, which of its fields, how, and with which numbers.

use std::sync::{Arc, LazyLock};

use crate::field_fuzz::{
    plan::{Case, Plan},
    reading::{Extent, read},
    sparse_device::{DamagedImage, SparseImage},
    transform::Transform,
};
use uxfs_testkit::golden::GoldenImage;

/// Damages in one image.
const DAMAGES_MAX: usize = 4;

static BASE: LazyLock<(Arc<SparseImage>, Plan)> = LazyLock::new(|| {
    let path = GoldenImage::named("block-1k").and_then(|image| image.unpacked()).expect("the golden image");
    let base = SparseImage::load(&path).expect("an image");
    let plan = Plan::new(&DamagedImage::sound(Arc::clone(&base))).expect("a sound image");
    (base, plan)
});

/// Runs one input.
///
/// # Panics
/// The golden image cannot be unpacked.
pub fn image(bytes: &[u8]) {
    let (base, plan) = &*BASE;
    let mut device = DamagedImage::sound(Arc::clone(base));
    let mut last = None;
    for damage in bytes.chunks_exact(12).take(DAMAGES_MAX) {
        let word = |range: std::ops::Range<usize>| {
            damage[range].iter().fold(0u32, |word, byte| word << 8 | u32::from(*byte))
        };
        let case = Case {
            instance: word(0..4) % plan.instances.len() as u32,
            leaf: word(4..8),
            transform: Transform::ALL[usize::from(damage[8]) % Transform::ALL.len()],
            seed: word(9..12).into(),
        };
        // Taken from the damaged image, so that damages of one structure add up.
        let Ok(damage) = plan.damage_any(&device, &case) else { continue };
        device = device.with(&damage.instance.pieces, &damage.bytes);
        last = Some(damage);
    }
    if let Some(damage) = last {
        let _ = read(Arc::new(device), &damage, Extent::Owner);
    }
}
