//! What is said about cases, gathered by kind, structure and field.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Result;
use uxfs_lab::field_fuzz::plan::{Plan, without_indices};
use uxfs_lab::field_fuzz::sparse_device::DamagedImage;

use super::Work;

/// Sentences by case.
#[derive(Debug, Default)]
pub struct Remarks(Vec<(usize, String, String)>);

/// All that is said about one field.
struct Group {
    count: u64,
    transforms: BTreeSet<&'static str>,
    case: usize,
    sentence: String,
}

impl Remarks {
    pub fn add(&mut self, case: usize, kind: &str, sentence: &str) {
        self.0.push((case, kind.to_owned(), sentence.to_owned()));
    }

    /// A line for each kind and field, with the sentence about the first case.
    pub fn print(&self, work: &Work) -> Result<()> {
        let device = DamagedImage::sound(std::sync::Arc::clone(&work.base));
        let mut groups: BTreeMap<(&str, String), Group> = BTreeMap::new();
        for (case, kind, sentence) in &self.0 {
            let what = &work.cases[*case];
            let group = groups.entry((kind, field_of(&work.plan, &device, what)?)).or_insert_with(|| Group {
                count: 0,
                transforms: BTreeSet::new(),
                case: *case,
                sentence: sentence.clone(),
            });
            group.count += 1;
            group.transforms.insert(what.transform.name());
        }
        for ((kind, field), Group { count, transforms, case, sentence }) in groups {
            let transforms: Vec<_> = transforms.into_iter().collect();
            println!("{kind}: {field}: {count} ({}), as case {case}: {sentence}", transforms.join(" "));
        }
        Ok(())
    }
}

fn field_of(plan: &Plan, device: &DamagedImage, case: &uxfs_lab::field_fuzz::plan::Case) -> Result<String> {
    let damage = plan.damage(device, case)?;
    Ok(format!("{}.{}", damage.instance.structure.name(), without_indices(&damage.field)))
}
