//! Cases of the field fuzzer in the process of a test.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Result, anyhow, ensure};
use uxfs_testkit::golden::GoldenImage;

use super::{
    plan::{Case, Damage, Plan},
    sparse_device::{DamagedImage, SparseImage},
};

/// A golden image, and the plan of its damages.
#[derive(Debug)]
pub struct Slice {
    base: Arc<SparseImage>,
    /// The plan.
    pub plan: Plan,
}

/// A case, damaged and ready to run.
#[derive(Debug)]
pub struct SliceCase<'s> {
    slice: &'s Slice,
    /// The case.
    pub case: Case,
    /// The damaged structure.
    pub damage: Damage<'s>,
    /// Structure, field and transform, for messages.
    pub what: String,
}

impl Slice {
    /// Loads the golden image of this name, and plans.
    ///
    /// # Errors
    /// There is no such image, or it is not sound.
    pub fn new(image: &str) -> Result<Self> {
        let base = SparseImage::load(&GoldenImage::lean(image)?.unpacked()?)?;
        let plan = Plan::new(&DamagedImage::sound(Arc::clone(&base)))?;
        Ok(Self { base, plan })
    }

    /// The image without damage.
    pub fn sound(&self) -> DamagedImage {
        DamagedImage::sound(Arc::clone(&self.base))
    }

    /// Cases in an order that the seed decides.
    ///
    /// # Errors
    /// The image cannot be read.
    pub fn cases(&self, count: usize, seed: u64) -> impl Iterator<Item = Result<SliceCase<'_>>> {
        self.plan.cases(count, seed).into_iter().map(|case| self.case(case))
    }

    /// One case.
    ///
    /// # Errors
    /// The image cannot be read.
    pub fn case(&self, case: Case) -> Result<SliceCase<'_>> {
        let damage = self.plan.damage(&self.sound(), &case)?;
        let what = format!("{:?}, {} {}", damage.instance, damage.field, case.transform.name());
        Ok(SliceCase { slice: self, case, damage, what })
    }
}

impl SliceCase<'_> {
    /// The image with the damage.
    pub fn image(&self) -> DamagedImage {
        DamagedImage::new(Arc::clone(&self.slice.base), &self.damage.instance.pieces, &self.damage.bytes)
    }

    /// Runs `work` on the damaged image.
    ///
    /// # Errors
    /// It panics, or takes longer than `limit`.
    pub fn run<T>(&self, limit: Duration, work: impl FnOnce(DamagedImage) -> T) -> Result<T> {
        let (what, image, started) = (&self.what, self.image(), Instant::now());
        let done = catch_unwind(AssertUnwindSafe(|| work(image)));
        let done = done.map_err(|_| anyhow!("panics: {what}"))?;
        ensure!(started.elapsed() < limit, "hangs: {what}");
        Ok(done)
    }
}
