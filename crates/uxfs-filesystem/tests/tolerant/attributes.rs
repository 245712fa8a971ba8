//! Attributes behind damaged leaves, nodes, values and lists. The kernel made them.

use std::{collections::BTreeMap, ops::ControlFlow, sync::Arc};

use uxfs_testkit::{judges::Judge, require};
use uxfs_volume::{
    attribute::{AttributeValue, xattr::XattrView},
    error::Error,
    inode::Inode,
    volume::Volume,
};

use super::{damaged_image::DamagedImage, findings};

/// 3200 attributes in leaves below two levels of nodes.
const LEVELS: &str = "/attributes/node-levels";
const GO_TO_LEVELS: &str = "path /attributes/node-levels";

type Attributes = BTreeMap<Vec<u8>, Vec<u8>>;

fn inode(volume: &Volume, path: &str) -> Arc<Inode> {
    volume.resolve(path.as_bytes(), false).unwrap()
}

/// All attributes that can be read; none may come twice.
fn attributes(volume: &Volume, path: &str) -> Result<Attributes, Error> {
    let mut found = Attributes::new();
    volume.attributes(&inode(volume, path))?.visit_xattrs(XattrView::Copy, |name, value| {
        assert!(found.insert(name.to_vec(), value.to_vec()).is_none(), "{} twice", name.escape_ascii());
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(found)
}

fn get(volume: &Volume, path: &str, name: &[u8]) -> Result<Vec<u8>, Error> {
    volume.attributes(&inode(volume, path))?.xattr(name)
}

/// The names in a block of the attribute fork, as xfs_db prints them.
fn names_in(image: &DamagedImage, block: &str) -> Vec<Vec<u8>> {
    let printed = image.db(&[GO_TO_LEVELS, block, "print"]);
    let names = printed.lines().filter_map(|line| line.split_once(".name = \""));
    names.map(|(_, name)| format!("user.{}", name.trim_end_matches('"')).into_bytes()).collect()
}

#[test]
fn a_lost_leaf_costs_its_attributes_only() {
    require!(Judge::XfsDb);
    let image = DamagedImage::golden("block-1k");
    let sound = attributes(&image.strict(), LEVELS).unwrap();
    assert_eq!(sound.len(), 3200);
    let lost = names_in(&image, "ablock 60");
    assert!(lost.len() > 5 && lost.iter().all(|name| sound.contains_key(name)), "{lost:?}");
    image.clear(&[GO_TO_LEVELS, "ablock 60"], 1024);
    assert!(matches!(attributes(&image.strict(), LEVELS), Err(Error::Corrupt(_))));

    let volume = image.tolerant();
    let mut expected = sound.clone();
    expected.retain(|name, _| !lost.contains(name));
    assert!(attributes(&volume, LEVELS).unwrap() == expected);
    let words = findings(&volume);
    assert!(words.len() == 1 && words[0].contains("attribute"), "{words:?}");
    // One by one: found, or an error, which does not say that there is no such attribute.
    for (name, value) in expected.iter().step_by(100) {
        assert!(get(&volume, LEVELS, name).unwrap() == *value);
    }
    assert!(matches!(get(&volume, LEVELS, &lost[0]), Err(Error::Corrupt(_))));
    // The figures count the leaves that are left.
    let found = volume.attributes(&inode(&volume, LEVELS)).unwrap().leaf_use().unwrap();
    // One more is the parent pointer.
    assert_eq!(found.attributes, expected.len() as u64 + 1);
}

#[test]
fn leaves_below_lost_nodes_are_found() {
    require!(Judge::XfsDb);
    // The root, and the node above the first leaves: xfs_db prints that the root leads to block 123 first.
    for node in ["ablock 0", "ablock 123"] {
        let image = DamagedImage::golden("block-1k");
        let sound = attributes(&image.strict(), LEVELS).unwrap();
        assert!(names_in(&image, node).is_empty(), "{node} is a node");
        image.clear(&[GO_TO_LEVELS, node], 1024);
        assert!(matches!(attributes(&image.strict(), LEVELS), Err(Error::Corrupt(_))));
        let volume = image.tolerant();
        assert!(attributes(&volume, LEVELS).unwrap() == sound, "{node}");
        assert_eq!(findings(&volume).len(), 1);
        let (name, value) = sound.last_key_value().unwrap();
        assert!(get(&volume, LEVELS, name).unwrap() == *value);
    }
}

#[test]
fn siblings_that_lead_back_end_the_walk_and_cost_nothing() {
    require!(Judge::XfsDb);
    for back in [3, 60, 0] {
        let image = DamagedImage::golden("block-1k");
        let sound = attributes(&image.strict(), LEVELS).unwrap();
        image.db(&[GO_TO_LEVELS, "ablock 60", &format!("write -d hdr.info.hdr.forw {back}")]);
        let volume = image.tolerant();
        let found = attributes(&volume, LEVELS).unwrap();
        if back == 0 {
            // Nothing is wrong with the last leaf of a chain.
            assert!(found.len() < sound.len());
            continue;
        }
        assert!(matches!(attributes(&image.strict(), LEVELS), Err(Error::Corrupt(_))), "{back}");
        assert!(found == sound, "{back}: {} of {}", found.len(), sound.len());
        assert_eq!(findings(&volume).len(), 1);
    }
}

#[test]
fn a_lost_value_costs_no_other_attribute_and_its_name_is_said() {
    require!(Judge::XfsDb);
    let path = "/attributes/remote";
    let image = DamagedImage::golden("default");
    let sound = attributes(&image.strict(), path).unwrap();
    // xfs_db prints that the value of remote5 lies in blocks 8 to 10 of the fork.
    assert_eq!(sound[&b"user.remote5"[..]].len(), 10_000);
    image.clear(&["path /attributes/remote", "ablock 9"], 4096);
    assert!(matches!(attributes(&image.strict(), path), Err(Error::Corrupt(_))));

    let volume = image.tolerant();
    let mut expected = sound.clone();
    expected.remove(&b"user.remote5"[..]);
    assert!(attributes(&volume, path).unwrap() == expected);
    let words = findings(&volume);
    assert!(
        words.len() == 1 && words[0].contains("the value of attribute user.remote5 of inode"),
        "{words:?}"
    );
    let reader_inode = inode(&volume, path);
    let names = volume.attributes(&reader_inode).unwrap().xattr_names(XattrView::Copy).unwrap();
    assert!(names.iter().collect::<Vec<_>>().len() == sound.len());
    assert!(names.iter().all(|name| sound.contains_key(name)));
    assert!(matches!(get(&volume, path, b"user.remote5"), Err(Error::Corrupt(_))));
    assert!(get(&volume, path, b"user.remote6").unwrap() == sound[&b"user.remote6"[..]]);

    // Leaf and values: the leaves are found among the blocks of the values.
    image.db(&["path /attributes/remote", "ablock 0", "write -c hdr.count 4"]);
    let volume = image.tolerant();
    assert!(attributes(&volume, path).unwrap().is_empty());
    assert!(!findings(&volume).is_empty());
}

/// Namespace, name and value of all attributes of an inode, in the order of the list.
fn list(volume: &Volume, path: &str) -> Vec<String> {
    let mut found = Vec::new();
    let inode = inode(volume, path);
    let visited = volume.attributes(&inode).unwrap().visit(|attribute| {
        let AttributeValue::Local(value) = attribute.value else { panic!("a value elsewhere") };
        found.push(format!("{:?} {:?} {value:?}", attribute.namespace, attribute.name));
        Ok(ControlFlow::Continue(()))
    });
    visited.unwrap();
    found
}

#[test]
fn a_damaged_list_gives_the_attributes_before_the_fault() {
    require!(Judge::XfsDb);
    let (path, go_to) = ("/attributes/shortform", "path /attributes/shortform");
    // The field that is damaged, and how many of the five attributes lie before the fault.
    let cases = [
        ("a.sfattr.list[2].namelen 200", 2),
        ("a.sfattr.list[3].namelen 0", 3),
        ("a.sfattr.list[0].valuelen 255", 0),
        ("a.sfattr.hdr.count 255", 5),
        ("a.sfattr.hdr.count 3", 3),
        ("a.sfattr.hdr.totsize 60000", 5),
        ("a.sfattr.hdr.totsize 60", 3),
    ];
    for (field, before) in cases {
        let image = DamagedImage::golden("default");
        let sound = list(&image.strict(), path);
        assert_eq!(sound.len(), 5);
        image.db(&[go_to, &format!("write -d {field}")]);
        assert!(matches!(attributes(&image.strict(), path), Err(Error::Corrupt(_))), "{field}");
        let volume = image.tolerant();
        assert_eq!(list(&volume, path), sound[..before], "{field}");
        let words = findings(&volume);
        assert!(words.len() == 1 && words[0].contains("attribute"), "{field}: {words:?}");
    }
}
