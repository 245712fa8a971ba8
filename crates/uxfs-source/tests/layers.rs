//! Streams laid over each other, against a model that unpacks one after the other.

use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
};

use proptest::prelude::*;
use uxfs_source::{
    content::Content,
    directory::{DirectoryOptions, DirectorySource},
    entry::{DirectoryId, Kind, Metadata},
    error::{LayerFault, Problem, SourceError},
    layers::Layers,
    stream::{StreamEntry, StreamItem, StreamSource},
    tar::{TarOptions, TarSource},
    tree::{Reading, TreeSource},
};
use uxfs_testkit::{judges::Judge, require};

use crate::common::{Tree, folder, of_tree};

/// A stream in memory.
struct Told {
    items: Vec<StreamItem>,
    at: usize,
}

impl StreamSource for Told {
    fn next_item(&mut self) -> Result<Option<StreamItem>, SourceError> {
        self.at += 1;
        Ok(self.items.get(self.at - 1).cloned())
    }

    fn read_data(&mut self, _: &mut [u8]) -> Result<usize, SourceError> {
        Ok(0)
    }

    fn restart(&mut self, _: Reading) -> Result<(), SourceError> {
        self.at = 0;
        Ok(())
    }

    fn take_problems(&mut self) -> Vec<Problem> {
        Vec::new()
    }
}

fn entry(path: &str, mark: u32, kind: Kind) -> StreamItem {
    let metadata = Metadata { user: mark, ..Metadata::default() };
    StreamItem::Entry(StreamEntry { path: path.as_bytes().into(), metadata, kind })
}

fn layers(items: &[Vec<StreamItem>]) -> Result<Layers, SourceError> {
    Layers::new(items.iter().map(|items| Box::new(Told { items: items.clone(), at: 0 }) as _).collect())
}

/// A file of the model: its mark, and what it is.
#[derive(Debug, Clone, PartialEq)]
struct Modelled(u32, Shape);

#[derive(Debug, Clone, PartialEq)]
enum Shape {
    Directory,
    File,
    Link(String),
}

/// A model file system by path.
type Model = BTreeMap<String, Modelled>;

fn is_below(path: &str, directory: &str) -> bool {
    directory.is_empty() && !path.is_empty()
        || path.strip_prefix(directory).is_some_and(|rest| rest.starts_with('/'))
}

/// Where a path leads: links above it are followed, and with `follows_last` it itself. `None` for circles.
fn place(path: &str, follows_last: bool, model: &Model) -> Option<String> {
    let mut names: Vec<String> = path.split('/').map(str::to_owned).collect();
    let mut place: Vec<String> = Vec::new();
    let mut followed = 0;
    while !names.is_empty() {
        let name = names.remove(0);
        match name.as_str() {
            "" | "." => continue,
            ".." => {
                place.pop();
                continue;
            }
            _ => place.push(name),
        }
        let Some(Modelled(_, Shape::Link(target))) = model.get(&place.join("/")) else { continue };
        if names.is_empty() && !follows_last {
            continue;
        }
        followed += 1;
        if followed > 40 {
            return None;
        }
        place.pop();
        if target.starts_with('/') {
            place.clear();
        }
        names = target.split('/').map(str::to_owned).chain(names).collect();
    }
    Some(place.join("/"))
}

/// Unpacks layers one after the other; `None` where that cannot be done.
fn unpack(layers: &[Vec<StreamItem>]) -> Option<Model> {
    let mut model = Model::new();
    // By which layer a path was last named: a layer takes away nothing of its own.
    let mut named: BTreeMap<String, usize> = BTreeMap::new();
    for (number, layer) in layers.iter().enumerate() {
        for item in layer {
            let gone = match item {
                StreamItem::Whiteout(path) => {
                    Some((place(&path.escape_ascii().to_string(), false, &model)?, true))
                }
                StreamItem::Opaque(path) => {
                    Some((place(&path.escape_ascii().to_string(), true, &model)?, false))
                }
                StreamItem::Entry(_) => None,
            };
            if let Some((path, itself)) = gone {
                let is_meant = |known: &str| is_below(known, &path) || (itself && known == path);
                model.retain(|known, _| named[known] == number || !is_meant(known));
            } else if let StreamItem::Entry(entry) = item {
                named.insert(unpack_entry(entry, &mut model)?, number);
            }
        }
    }
    Some(model)
}

fn unpack_entry(entry: &StreamEntry, model: &mut Model) -> Option<String> {
    let path = place(&entry.path.escape_ascii().to_string(), false, model)?;
    let is_file = |(known, file): (&String, &Modelled)| file.1 != Shape::Directory && is_below(&path, known);
    if model.iter().any(is_file) {
        return None;
    }
    let new = |shape| Modelled(entry.metadata.user, shape);
    let new = match &entry.kind {
        Kind::Directory(_) => new(Shape::Directory),
        Kind::Symlink { target } => new(Shape::Link(target.escape_ascii().to_string())),
        Kind::HardLink { target } => {
            let target = place(&target.escape_ascii().to_string(), false, model)?;
            model.get(&target).cloned().filter(|file| file.1 != Shape::Directory)?
        }
        _ => new(Shape::File),
    };
    if new.1 != Shape::Directory {
        model.retain(|known, _| !is_below(known, &path));
    }
    model.insert(path.clone(), new);
    Some(path)
}

/// What a tree tells, which must name each path once, in order. Directories that no layer names are there for what is below
/// them: they are left out where the model has none.
fn collect(source: &mut dyn TreeSource, expected: &Model) -> Model {
    let mut model = Model::new();
    let mut files: BTreeMap<u64, u32> = BTreeMap::new();
    let mut names: BTreeMap<u64, u32> = BTreeMap::new();
    let mut last: Option<(DirectoryId, String)> = None;
    if let Some(root) = source.root() {
        model.insert(String::new(), Modelled(root.user, Shape::Directory));
    }
    while let Some(batch) = source.next_batch().unwrap() {
        for entry in batch.entries {
            let name = entry.name.escape_ascii().to_string();
            if let Some((directory, before)) = &last {
                assert!(*directory != batch.directory || *before < name, "{before} comes before {name}");
            }
            last = Some((batch.directory, name.clone()));
            let path = [&batch.path, b"/".as_slice(), &entry.name].concat();
            let path = path.strip_prefix(b"/").unwrap_or(&path).escape_ascii().to_string();
            let is_directory = matches!(entry.kind, Kind::Directory(_));
            if let Some(link) = entry.metadata.link {
                assert_eq!(*files.entry(link.inode).or_insert(entry.metadata.user), entry.metadata.user);
                *names.entry(link.inode).or_insert(link.links) -= 1;
            }
            let is_implied = is_directory && entry.metadata.user == 0 && !expected.contains_key(&path);
            if is_implied {
                assert!(expected.keys().any(|known| is_below(known, &path)), "{path} is empty");
                continue;
            }
            let shape = match &entry.kind {
                Kind::Directory(_) => Shape::Directory,
                Kind::Symlink { target } => Shape::Link(target.escape_ascii().to_string()),
                _ => Shape::File,
            };
            let file = Modelled(entry.metadata.user, shape);
            assert!(model.insert(path.clone(), file).is_none(), "{path} is told twice");
        }
    }
    assert!(names.values().all(|left| *left == 0), "files have other numbers of names: {names:?}");
    model
}

fn path_strategy() -> impl Strategy<Value = String> {
    prop::collection::vec(prop::sample::select(vec!["a", "b", "c"]), 1..4).prop_map(|names| names.join("/"))
}

fn item_strategy() -> impl Strategy<Value = StreamItem> {
    let front = prop::sample::select(vec!["", "/", "../", "./../../", "/../"]);
    (path_strategy(), path_strategy(), front, any::<u32>(), 0..15_u8).prop_map(
        |(path, other, front, mark, which)| match which {
            12.. => {
                let target = format!("{front}{other}").into_bytes().into();
                entry(&path, mark, Kind::Symlink { target })
            }
            0..4 => entry(&path, mark, Kind::Directory(DirectoryId(0))),
            4..7 => entry(&path, mark, Kind::Regular { size_bytes: 0, content: Content::Hole }),
            7..10 => entry(&path, mark, Kind::HardLink { target: other.as_bytes().into() }),
            10 => StreamItem::Whiteout(path.as_bytes().into()),
            _ => StreamItem::Opaque(path.as_bytes().into()),
        },
    )
}

/// All that a tree tells, with directories numbered as they are met, or the error.
fn told(items: &[Vec<StreamItem>], memory_bytes: u64) -> Vec<String> {
    let streams = items.iter().map(|items| Box::new(Told { items: items.clone(), at: 0 }) as _).collect();
    let mut layers = match Layers::with_memory(streams, memory_bytes) {
        Ok(layers) => layers,
        Err(error) => return vec![error.to_string()],
    };
    let mut lines = vec![format!("{:?}, {} bytes", layers.root(), layers.content_bytes().unwrap())];
    let mut numbers = BTreeMap::from([(DirectoryId::ROOT, 0)]);
    while let Some(batch) = layers.next_batch().unwrap() {
        let directory = numbers[&batch.directory];
        lines.push(format!("{directory} {} {}", batch.path.escape_ascii(), batch.is_last));
        for mut entry in batch.entries {
            if let Kind::Directory(id) = &mut entry.kind {
                let number = numbers.len();
                assert_eq!(*numbers.entry(*id).or_insert(number), number, "two directories have one number");
                *id = DirectoryId(number as u64);
            }
            lines.push(format!("{entry:?}"));
        }
    }
    lines
}

fn brief(layers: &[Vec<StreamItem>]) -> String {
    let word = |item: &StreamItem| match item {
        StreamItem::Whiteout(path) => format!("gone {}", path.escape_ascii()),
        StreamItem::Opaque(path) => format!("opaque {}", path.escape_ascii()),
        StreamItem::Entry(StreamEntry { path, kind: Kind::HardLink { target }, .. }) => {
            format!("{} = {}", path.escape_ascii(), target.escape_ascii())
        }
        StreamItem::Entry(StreamEntry { path, kind: Kind::Symlink { target }, .. }) => {
            format!("{} -> {}", path.escape_ascii(), target.escape_ascii())
        }
        StreamItem::Entry(StreamEntry { path, kind, .. }) => {
            format!("{} {}", kind.word(), path.escape_ascii())
        }
    };
    let lines = layers.iter().map(|layer| layer.iter().map(word).collect::<Vec<_>>().join(", "));
    lines.collect::<Vec<_>>().join(" | ")
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]

    #[test]
    fn what_remains_is_what_unpacking_leaves(
        items in prop::collection::vec(prop::collection::vec(item_strategy(), 0..12), 1..4),
    ) {
        // Without what cannot be unpacked after what is before it.
        let mut sensible: Vec<Vec<StreamItem>> = Vec::new();
        for layer in items {
            sensible.push(Vec::new());
            for item in layer {
                sensible.last_mut().unwrap().push(item);
                if layers(&sensible).is_err() || unpack(&sensible).is_none() {
                    prop_assert_eq!(layers(&sensible).is_err(), unpack(&sensible).is_none(), "{}", brief(&sensible));
                    sensible.last_mut().unwrap().pop();
                }
            }
        }
        let mut found = layers(&sensible).unwrap();
        let expected = unpack(&sensible).unwrap();
        prop_assert_eq!(&collect(&mut found, &expected), &expected, "{}", brief(&sensible));
        found.restart(Reading::Metadata).unwrap();
        prop_assert_eq!(&collect(&mut found, &expected), &expected);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]

    /// Invariant 1 of the module: also what is wrong, and with which item.
    #[test]
    fn what_is_told_does_not_depend_on_memory(
        items in prop::collection::vec(prop::collection::vec(item_strategy(), 0..12), 1..4),
        memory_bytes in 0..8000_u64,
    ) {
        prop_assert_eq!(told(&items, memory_bytes), told(&items, 1 << 30), "{}", brief(&items));
        // Without what cannot be unpacked after what is before it.
        let mut sensible: Vec<Vec<StreamItem>> = Vec::new();
        for layer in items {
            sensible.push(Vec::new());
            for item in layer {
                sensible.last_mut().unwrap().push(item);
                if unpack(&sensible).is_none() {
                    sensible.last_mut().unwrap().pop();
                }
            }
        }
        prop_assert_eq!(told(&sensible, memory_bytes), told(&sensible, 1 << 30), "{}", brief(&sensible));
    }
}

#[test]
fn many_files_are_told_in_the_same_batches_with_little_memory() {
    let mut items = Vec::new();
    let content = |mark: u32| Content::Inline(vec![mark as u8; (mark % 3000) as usize].into());
    for mark in 0..20_000_u32 {
        // Some directories with more entries than a batch, some with contents for several, and some that nothing names.
        let directory =
            ["few", "more/than", "one/batch", "one"][(mark.is_power_of_two() as usize) + (mark % 3) as usize];
        let size_bytes = u64::from(mark % 3000);
        let kind = match mark % 19 {
            0 => Kind::HardLink {
                target: format!("more/than/{}", mark / 4 * 3 / 19 * 19 + 2).into_bytes().into(),
            },
            1 => Kind::Directory(DirectoryId(0)),
            _ => Kind::Regular { size_bytes, content: content(mark) },
        };
        items.push(entry(&format!("{directory}/{mark}"), mark, kind));
    }
    // Without links to missing files.
    let known: std::collections::BTreeSet<Box<[u8]>> = items
        .iter()
        .filter_map(|item| match item {
            StreamItem::Entry(StreamEntry { path, kind: Kind::Regular { .. }, .. }) => Some(path.clone()),
            _ => None,
        })
        .collect();
    items.retain(|item| match item {
        StreamItem::Entry(StreamEntry { kind: Kind::HardLink { target }, .. }) => known.contains(target),
        _ => true,
    });
    let in_memory = told(std::slice::from_ref(&items), 1 << 30);
    assert!(in_memory.len() > 15_000, "{:?}", in_memory.first());
    assert!(in_memory.iter().filter(|line| line.contains("links: ")).count() > 100);
    for memory_bytes in [0, 1 << 20, 2 << 20] {
        assert!(told(std::slice::from_ref(&items), memory_bytes) == in_memory, "{memory_bytes}");
    }
    let opaque =
        vec![StreamItem::Opaque(b"one".as_slice().into()), StreamItem::Whiteout(b"few".as_slice().into())];
    let both = [items, opaque];
    assert!(told(&both, 0) == told(&both, 1 << 30));
}

/// More changes of one path than are kept in memory, with paths below that ask for them.
#[test]
fn a_path_that_is_named_again_and_again() {
    let mut items = Vec::new();
    for mark in 1..60_000_u32 {
        items.push(entry("d/x", mark, Kind::Fifo));
        if mark % 10 == 0 {
            items.push(entry("d/x", mark, Kind::Directory(DirectoryId(0))));
            items.push(entry(&format!("d/x/{}", mark % 700), mark, Kind::Fifo));
            items.push(entry("d/x/y", mark, Kind::HardLink { target: b"d/w".as_slice().into() }));
        }
        if mark % 1000 == 1 {
            items.push(entry("d/w", mark, Kind::Socket));
        }
    }
    items.push(entry("d/x", 1, Kind::Directory(DirectoryId(0))));
    items.push(entry("d/x/z", 2, Kind::Fifo));
    let expected = told(std::slice::from_ref(&items), 1 << 30);
    assert!(expected.iter().any(|line| line.contains("name: [122]")), "{expected:?}");
    assert!(told(std::slice::from_ref(&items), 0) == expected);
    // The last of many files still stands above.
    items.push(entry("d/x", 3, Kind::Fifo));
    items.push(entry("d/x/below", 4, Kind::Fifo));
    let fault = told(std::slice::from_ref(&items), 1 << 30);
    assert!(fault.len() == 1 && fault[0].contains("d/x/below"), "{fault:?}");
    assert_eq!(told(std::slice::from_ref(&items), 0), fault);
}

#[test]
fn faults_by_name() {
    let file = |path| entry(path, 0, Kind::Fifo);
    let link = |path, target: &str| entry(path, 0, Kind::HardLink { target: target.as_bytes().into() });
    let directory = entry("d", 0, Kind::Directory(DirectoryId(0)));
    let fault = |items: Vec<StreamItem>| match layers(&[items]) {
        Err(SourceError::Layer { fault, .. }) => fault,
        other => panic!("{other:?}"),
    };
    assert!(matches!(fault(vec![link("a", "b")]), LayerFault::NoTarget(_)));
    assert_eq!(fault(vec![directory, link("a", "d")]), LayerFault::LinkToDirectory);
    assert_eq!(fault(vec![file("a"), file("a/b")]), LayerFault::NoDirectoryAbove);
    let symlink = |path, target: &str| entry(path, 0, Kind::Symlink { target: target.as_bytes().into() });
    assert_eq!(fault(vec![symlink("a", "b"), symlink("b", "/a"), file("a/x")]), LayerFault::TooManySymlinks);
    assert_eq!(fault(vec![symlink("a", "a/b"), file("a/x")]), LayerFault::TooManySymlinks);
    let (long, below) = ("n/".repeat(2000), format!("a/{}x", "m/".repeat(100)));
    assert_eq!(fault(vec![symlink("a", &long), file(&below)]), LayerFault::TooLong);
    assert_eq!(fault(vec![file("f"), symlink("a", "f"), file("a/x")]), LayerFault::NoDirectoryAbove);
}

/// As `tar --keep-directory-symlink` does, and without that.
#[test]
fn links_to_directories_are_kept_where_that_is_asked_for() {
    let symlink =
        |path: &str, target: &str| entry(path, 1, Kind::Symlink { target: target.as_bytes().into() });
    let directory = |path: &str| entry(path, 2, Kind::Directory(DirectoryId(0)));
    let file = |path: &str| entry(path, 3, Kind::Fifo);
    let lower = vec![
        directory("usr"),
        file("usr/bin/sh"),
        symlink("bin", "usr/bin"),
        symlink("nowhere", "missing"),
        file("usr/file"),
        symlink("to-file", "/usr/file"),
        symlink("gone", "usr/gone"),
        file("usr/gone/x"),
        file("usr/gone"),
    ];
    let names = ["bin", "nowhere", "to-file", "gone"];
    let upper = names.iter().flat_map(|name| [directory(name), file(&format!("{name}/new"))]).collect();
    let both = [lower, upper];
    for (keeps, expected) in [(true, "usr/bin/new"), (false, "bin/new")] {
        for memory_bytes in [0, 1 << 30] {
            let streams =
                both.iter().map(|items| Box::new(Told { items: items.clone(), at: 0 }) as _).collect();
            let mut layers = Layers::with_options(streams, memory_bytes, keeps).unwrap();
            let tree = of_tree(&mut layers);
            for path in [expected, "nowhere/new", "to-file/new", "gone/new"] {
                assert!(tree.paths.contains_key(path), "{path}: {:?}", tree.paths.keys());
            }
            assert_eq!(tree.paths["bin"].kind == "symbolic link", keeps);
        }
    }
}

#[test]
fn links_above_a_path_lead_where_gnu_tar_follows_them() {
    require!(Judge::GnuTar);
    let folder = folder();
    let root = |name: &str| {
        let root = folder.path().join(name);
        fs::create_dir(&root).unwrap();
        root
    };
    let (lower, upper, expected) = (root("lower"), root("upper"), root("expected"));
    for path in ["usr/bin/deep", "opt", "var"] {
        fs::create_dir_all(lower.join(path)).unwrap();
    }
    fs::write(lower.join("usr/bin/sh"), "sh").unwrap();
    let links =
        [("bin", "usr/bin"), ("opt/bin", "../bin"), ("var/b", "./../opt/bin/deep"), ("usr/same", "bin")];
    for (link, target) in links {
        symlink(target, lower.join(link)).unwrap();
    }
    fs::create_dir_all(upper.join("var/b/more")).unwrap();
    for path in ["bin/a", "opt/bin/b", "var/b/c", "var/b/more/d", "usr/same/sh2"] {
        fs::create_dir_all(upper.join(path).parent().unwrap()).unwrap();
        fs::write(upper.join(path), path).unwrap();
    }
    fs::hard_link(upper.join("bin/a"), upper.join("bin/a2")).unwrap();
    let archive = |root: &Path, name: &str, members: &[&str]| {
        let archive = folder.path().join(name);
        let mut tar = Judge::GnuTar.command();
        tar.args(["--no-recursion", "-cf"]).arg(&archive).arg("-C").arg(root).args(members);
        assert!(tar.status().unwrap().success());
        let status = Judge::GnuTar.command().arg("-xf").arg(&archive).arg("-C").arg(&expected).status();
        assert!(status.unwrap().success());
        Box::new(TarSource::open(&archive, TarOptions::default(), Reading::Metadata).unwrap())
            as Box<dyn StreamSource>
    };
    let lowest =
        ["usr", "usr/bin", "usr/bin/deep", "usr/bin/sh", "opt", "var", "bin", "opt/bin", "var/b", "usr/same"];
    // No member for the directories that are links below.
    let above = ["bin/a", "opt/bin/b", "var/b/c", "var/b/more", "var/b/more/d", "usr/same/sh2", "bin/a2"];
    let streams = vec![archive(&lower, "lower.tar", &lowest), archive(&upper, "upper.tar", &above)];
    let mut layers = Layers::new(streams).unwrap();
    let paths = |tree: Tree| -> Vec<(String, String, Vec<u8>)> {
        let told = tree.paths.into_iter().filter(|(path, _)| path != ".");
        told.map(|(path, told)| (path, told.kind.to_owned(), told.content)).collect()
    };
    let options = DirectoryOptions::default();
    let mut unpacked = DirectorySource::open(&expected, options, Reading::Everything).unwrap();
    let unpacked = of_tree(&mut unpacked);
    let found = of_tree(&mut layers);
    assert_eq!(found.links, unpacked.links);
    assert_eq!(paths(found), paths(unpacked));
}

/// Makes a layer of files with these contents; a name that ends with a slash is a directory.
fn layer(folder: &Path, name: &str, files: &[(&str, &str)], links: &[(&str, &str)]) -> PathBuf {
    let root = folder.join(format!("{name}.d"));
    fs::create_dir(&root).unwrap();
    for (path, content) in files {
        let place = root.join(path);
        fs::create_dir_all(if path.ends_with('/') { &place } else { place.parent().unwrap() }).unwrap();
        if !path.ends_with('/') {
            fs::write(place, content.repeat(50_000)).unwrap();
        }
    }
    for (path, target) in links {
        fs::hard_link(root.join(target), root.join(path)).unwrap();
    }
    let archive = folder.join(format!("{name}.tar.gz"));
    let mut command = Judge::GnuTar.command();
    command.arg("-czf").arg(&archive).args(["--sort=name", "-C"]).arg(&root).arg(".");
    assert!(command.status().unwrap().success());
    archive
}

#[test]
fn packed_layers_with_content() {
    require!(Judge::GnuTar);
    let folder = folder();
    let lowest = [("etc/a", "one"), ("etc/b", "two"), ("opt/x/y", "three"), ("bin/tool", "tool")];
    let middle = [("etc/.wh.a", ""), ("opt/x/.wh..wh..opq", ""), ("opt/x/z", "four"), ("bin/tool", "newer")];
    let archives = [
        layer(folder.path(), "lowest", &lowest, &[("bin/same", "bin/tool")]),
        layer(folder.path(), "middle", &middle, &[]),
        layer(folder.path(), "highest", &[("etc/a", "five"), ("var/", "")], &[]),
    ];
    let options = TarOptions { whiteouts: true, ..TarOptions::default() };
    let open = |path: &PathBuf| {
        Box::new(TarSource::open(path, options.clone(), Reading::Metadata).unwrap()) as Box<dyn StreamSource>
    };
    // Paths in memory, and in temporary files.
    for memory_bytes in [1 << 30, 0] {
        let mut layers = Layers::with_memory(archives.iter().map(open).collect(), memory_bytes).unwrap();
        check_packed_layers(&of_tree(&mut layers));
        layers.restart(Reading::Everything).unwrap();
        check_packed_layers(&of_tree(&mut layers));
    }
}

fn check_packed_layers(tree: &Tree) {
    let files: Vec<(&str, String)> = tree
        .paths
        .iter()
        .filter(|(_, told)| told.kind == "regular file")
        .map(|(path, told)| {
            let word = String::from_utf8(told.content.clone()).unwrap();
            let length = word.len() / 50_000;
            assert_eq!(word[..length].repeat(50_000), word);
            (path.as_str(), word[..length].to_owned())
        })
        .collect();
    let expected = [
        ("bin/same", "tool"),
        ("bin/tool", "newer"),
        ("etc/a", "five"),
        ("etc/b", "two"),
        ("opt/x/z", "four"),
    ];
    assert_eq!(files, expected.map(|(path, word)| (path, word.to_owned())));
    assert!(tree.paths.contains_key("var") && tree.links.is_empty());
}
