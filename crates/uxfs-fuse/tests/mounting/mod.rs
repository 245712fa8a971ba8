//! Real mounts: as root, as an ordinary user through fusermount3, and in a user namespace.

mod children;
mod judges;
mod root;
mod scenarios;
mod server;

use std::time::{Duration, Instant};

use children::{Ground, Place};
use judges::{Need, have};
use uxfs_testkit::judges::judged;

#[test]
fn an_ordinary_user_mounts_and_unmounts() {
    if have(&[Need::OrdinaryUser], "an_ordinary_user_mounts_and_unmounts") {
        let ground = Ground::new();
        ground.run(Place::User, "life");
        assert!(!ground.is_mounted());
        judged("fusermount3", "a mount's life");
    }
}

#[test]
fn an_ordinary_user_is_told_of_a_dead_mount() {
    if have(&[Need::OrdinaryUser], "an_ordinary_user_is_told_of_a_dead_mount") {
        Ground::new().run(Place::User, "dead");
    }
}

#[test]
fn what_fusermount_says_reaches_the_user() {
    if have(&[Need::OrdinaryUser], "what_fusermount_says_reaches_the_user") {
        Ground::new().run(Place::User, "refused");
        judged("fusermount3", "refusals and warnings");
    }
}

#[test]
fn a_mount_goes_with_its_server_if_it_is_to() {
    if have(&[Need::OrdinaryUser], "a_mount_goes_with_its_server_if_it_is_to") {
        for place in [Place::Root, Place::User] {
            let ground = Ground::new();
            ground.run(place, "abandoned");
            let start = Instant::now();
            while ground.is_mounted() {
                assert!(start.elapsed() < Duration::from_secs(20), "{place:?}: the mount stays");
                std::thread::sleep(Duration::from_millis(10));
            }
        }
        judged("fusermount3", "auto_unmount");
    }
}

#[test]
fn root_of_a_user_namespace_mounts_and_unmounts() {
    if have(&[Need::UserNamespace], "root_of_a_user_namespace_mounts_and_unmounts") {
        let ground = Ground::new();
        ground.run(Place::Namespace, "life");
        ground.run(Place::Namespace, "dead");
        assert!(!ground.is_mounted());
        judged("kernel", "FUSE in a user namespace");
    }
}

#[test]
fn root_of_a_user_namespace_without_mounts_is_told() {
    if have(&[Need::UserNamespace, Need::OrdinaryUser], "root_of_a_user_namespace_without_mounts_is_told") {
        Ground::new().run(Place::NamespaceWithoutMounts, "no way");
    }
}
