//! A whole image with a few fields damaged and their checksums sealed again, and everything that reads run over it; or edits
//! of it, which must neither lock the image nor change what they do not name.
//!
//! The input is a list of damages, 12 bytes each: which structure, which of its fields, how, and with which numbers.

use std::sync::{Arc, LazyLock};

use crate::field_fuzz::{
    editing::{self, Sound, Verdict},
    plan::{Case, Damage, Plan},
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

static SOUND: LazyLock<Sound> =
    LazyLock::new(|| Sound::of(DamagedImage::sound(Arc::clone(&BASE.0))).expect("a sound image"));

/// The image that an input damages, and its last damage.
fn damaged(bytes: &[u8]) -> Option<(DamagedImage, Damage<'static>, u64)> {
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
        last = Some((damage, case.seed));
    }
    last.map(|(damage, seed)| (device, damage, seed))
}

/// Runs one input: reads the image.
///
/// # Panics
/// The golden image cannot be unpacked.
pub fn image(bytes: &[u8]) {
    if let Some((device, damage, _)) = damaged(bytes) {
        let _ = read(Arc::new(device), &damage, Extent::Owner);
    }
}

/// Runs one input: edits the image. One damage only: two structures that lie alike prove each other.
///
/// # Panics
/// A promise is broken; the golden image cannot be unpacked.
pub fn edit(bytes: &[u8]) {
    if let Some((device, damage, seed)) = damaged(&bytes[..bytes.len().min(12)])
        && let Verdict::Broken(why) = editing::edit(device, &damage, &SOUND, seed, &mut |_| ())
    {
        panic!("{:?}, {}: {why}", damage.instance, damage.field);
    }
}
