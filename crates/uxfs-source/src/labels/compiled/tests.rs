use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use tempfile::TempDir;
use uxfs_testkit::{
    judges::{Judge, judged},
    require,
};

use crate::{
    content::Content,
    entry::{DeviceNumber, DirectoryId, Kind},
    error::{CompiledFault, SourceError, TextFault},
    labels::Labels,
};

const POLICY: &str = "/.* u:object_r:default_t:s0\n/etc(/.*)? u:object_r:etc_t:s0-s0:c0.c1023\n\
    /etc/passwd -- u:object_r:passwd_t\n/usr/lib(/.*)? -d u:object_r:libdir_t:s0\n\
    /usr/lib/.+\\.so -l u:object_r:lib_t:s0\n/dev/[^/]* -c u:object_r:char_t:s0\n\
    /dev/[^/]* -b u:object_r:block_t:s0\n/dev/[^/]* -p u:object_r:pipe_t:s0\n\
    /dev/[^/]* -s u:object_r:socket_t:s0\n/run/.* <<none>>\n/a\\.b u:object_r:dot_t:s0\n";
const PATHS: &str = "etc etc/passwd usr/lib usr/lib/x.so dev/a run/x a.b axb x/y";

/// Where it matters that an expression stands bare between `^` and `$`, in which folder it lies, which of two rules for one
/// path comes first, and what a backslash stands before.
const EDGES: &str = "/.* u:r:default_t\n/xx|/yy u:r:either_t\n/usr/aa|/bb u:r:below_t\n/opt/?bar u:r:bar_t\n\
    /var/lib/foo/? u:r:foo_t\n/var/lib/foo/bar/? u:r:foobar_t\n/dup -- u:r:file_t\n/dup u:r:any_t\n/dap -d u:r:directory_t\n\
    /dap u:r:all_t\n/dap -- u:r:last_t\n/with\\@at u:r:at_t\n/with.at u:r:dot_at_t\n/with\\-m u:r:m_t\n/with.m u:r:dot_m_t\n\
    /a/b/c/d/e u:r:deep_t\n/a/b/c/d/[^/]* u:r:deeper_t\n/a/.*/d/f u:r:deepest_t\n/n/.* <<none>>\n/n/x u:r:x_t\n\
    /n/y/.* u:r:y_t\n/no <<none>>\n/q//r/.* u:r:r_t\n/li//t u:r:lit_t\n/en[d] u:r:end_t\n/u\\.r/li\\.b/.* u:r:lib_t\n\
    /srv/nfs/pipe(/.*)? <<none>>\n/srv/n.*/p.* u:r:outer_t\n/srv/nfs/port(/.*)? u:r:port_t\n/srv/nfs.* -d <<none>>\n\
    x/y/.* u:r:slashless_t\n.*/z u:r:z_t\n/a/b/.* -l u:r:link_t\n";
const EDGE_PATHS: &str = "xx/z z/yy xx yy usr/aaz usr/c/bb bb opt/bar optbar opt/xbar var/lib/foo var/lib/foo/bar dup dap \
    with@at with-m a/b/c/d/e a/b/c/d/g a/b/d/f a/b/x n/x n/y/z no no/x q/r/x li/t end end\n u.r/li.b/x y/x x/y/x x/z srv/nfs/pipe \
    srv/nfs/port srv/nfs/pq";

/// Both programs of one libselinux.
#[derive(Clone, Copy)]
struct Programs {
    judge: Judge,
    suffix: &'static str,
}

/// They write version 5, as long as the system has an older libselinux.
const INSTALLED: Programs = Programs { judge: Judge::SelabelLookup, suffix: "" };
const NEWEST: Programs = Programs { judge: Judge::NewestSefcontextCompile, suffix: "-newest" };

impl Programs {
    fn command(self, tool: &str) -> Command {
        self.judge.command_beside(&format!("{tool}{}", self.suffix))
    }

    /// The compiled form of a text.
    fn compile(self, text: &Path) -> PathBuf {
        let to = PathBuf::from(format!("{}.bin", text.display()));
        assert!(self.command("sefcontext_compile").arg("-o").arg(&to).arg(text).status().unwrap().success());
        to
    }

    /// The label in a file that these programs find.
    fn label(self, file: &Path, path: &str, mode: u32) -> Option<String> {
        let mut lookup = self.command("selabel_lookup");
        lookup.args(["-b", "file", "-k", &format!("/{path}"), "-t", &mode.to_string(), "-f"]).arg(file);
        let said = String::from_utf8(lookup.output().unwrap().stdout).unwrap();
        said.strip_prefix("Default context: ").map(|label| label.trim_end().to_owned())
    }

    /// Compares the labels of each file for all paths and kinds with those that these programs find in the last of them.
    fn judge_labels(self, files: &[&Path], paths: &str) {
        let number = DeviceNumber { major: 1, minor: 3 };
        let kinds = [
            (Kind::Regular { size_bytes: 0, content: Content::Hole }, 0o100_000),
            (Kind::Directory(DirectoryId::ROOT), 0o040_000),
            (Kind::Symlink { target: b"x"[..].into() }, 0o120_000),
            (Kind::CharacterDevice(number), 0o020_000),
            (Kind::BlockDevice(number), 0o060_000),
            (Kind::Fifo, 0o010_000),
            (Kind::Socket, 0o140_000),
        ];
        let all = files.iter().map(|file| (file, Labels::open(&[file]).unwrap())).collect::<Vec<_>>();
        for (path, (kind, mode)) in
            paths.split(' ').flat_map(|path| kinds.iter().map(move |kind| (path, kind)))
        {
            let judgement = self.label(files.last().unwrap(), path, *mode);
            for (file, labels) in &all {
                let label = labels.label(path.as_bytes(), kind).unwrap();
                let label = label.map(|label| label.escape_ascii().to_string());
                assert_eq!(label, judgement, "{}: {path:?} {}", file.display(), kind.word());
            }
        }
        judged(self.judge.name(), &format!("labels of {} paths", paths.split(' ').count()));
    }
}

/// A folder with a text in it, and the compiled form of that.
fn compiled(programs: Programs, text: &str) -> (TempDir, PathBuf, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file_contexts");
    fs::write(&file, text).unwrap();
    let bin = programs.compile(&file);
    (folder, file, bin)
}

/// The fault in a file with these bytes.
fn fault_of(path: &Path, bytes: &[u8]) -> CompiledFault {
    fs::write(path, bytes).unwrap();
    match Labels::open(&[path]) {
        Err(SourceError::Compiled { fault, .. }) => fault,
        other => panic!("{other:?}"),
    }
}

/// Damaged files give labels or an error, quickly. Truncated files give an error.
fn survives_damage(path: &Path, whole: &[u8]) {
    for length in (4..whole.len()).step_by(61) {
        assert!(matches!(fault_of(path, &whole[..length]), CompiledFault::Truncated(_)), "{length}");
    }
    for at in (0..whole.len()).step_by(37) {
        let mut bytes = whole.to_vec();
        bytes[at] ^= 0xff;
        fs::write(path, bytes).unwrap();
        let _ = Labels::open(&[path]);
    }
}

fn find(bytes: &[u8], word: &[u8]) -> usize {
    bytes.windows(word.len()).position(|window| window == word).unwrap()
}

#[test]
fn compiled_files_give_the_labels_of_their_texts() {
    require!(Judge::SelabelLookup);
    let (folder, text, bin) = compiled(INSTALLED, POLICY);
    INSTALLED.judge_labels(&[&bin, &text], PATHS);
    // A companion, and then the file itself, of which only the compiled form is there.
    let local = folder.path().join("file_contexts.local");
    fs::write(&local, "/etc/mine u:object_r:mine_t:s0\n").unwrap();
    INSTALLED.compile(&local);
    fs::remove_file(&local).unwrap();
    fs::remove_file(&text).unwrap();
    for named in [&text, &bin] {
        let labels = Labels::open(&[named]).unwrap();
        let found = labels.label_of_letter(b"etc/mine", b'-').unwrap();
        assert_eq!(found, Some(b"u:object_r:mine_t:s0".as_slice()));
    }
    assert_eq!(Labels::companions(&text).len(), 1);
}

#[test]
fn trees_give_the_labels_of_their_texts() {
    require!(Judge::NewestSefcontextCompile);
    let (folder, text, bin) = compiled(NEWEST, POLICY);
    assert_eq!(fs::read(&bin).unwrap()[4..8], [0, 0, 0, 6]);
    NEWEST.judge_labels(&[&text, &bin], PATHS);
    // Rules of a later file go before those of an earlier one, and paths before all.
    let [first, local] = ["first", "first.local"].map(|name| folder.path().join(name));
    fs::write(&first, "/a u:r:first_t\n/b/.* u:r:first_t\n/c/d u:r:first_t\n").unwrap();
    fs::write(&local, "/a u:r:local_t\n/b/.* u:r:local_t\n/c/.* u:r:local_t\n").unwrap();
    for file in [&first, &local] {
        NEWEST.compile(file);
        fs::remove_file(file).unwrap();
    }
    let labels = Labels::open(&[&first]).unwrap();
    for (path, expected) in [("a", "local"), ("b/x", "local"), ("c/d", "first"), ("c/e", "local")] {
        let found = labels.label_of_letter(path.as_bytes(), b'-').unwrap();
        assert_eq!(found, Some(format!("u:r:{expected}_t").as_bytes()), "{path}");
        assert_eq!(NEWEST.label(&first, path, 0o100_000), Some(format!("u:r:{expected}_t")), "{path}");
    }
}

#[test]
fn edges_of_expressions() {
    require!(Judge::SelabelLookup, Judge::NewestSefcontextCompile);
    // libselinux 3.8 changed what these rules are for: the form of the file says which way is meant.
    let (_old_folder, old_text, old) = compiled(INSTALLED, EDGES);
    INSTALLED.judge_labels(&[&old, &old_text], EDGE_PATHS);
    let (_new_folder, _, new) = compiled(NEWEST, EDGES);
    NEWEST.judge_labels(&[&new], EDGE_PATHS);
}

#[test]
fn damaged_and_other_compiled_files_are_told() {
    require!(Judge::SelabelLookup);
    let (_folder, _, bin) = compiled(INSTALLED, POLICY);
    let whole = fs::read(&bin).unwrap();
    let with = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut bytes = whole.clone();
        change(&mut bytes);
        fault_of(&bin, &bytes)
    };
    assert_eq!(with(&|bytes| bytes[4] = 7), CompiledFault::Version(7));
    assert_eq!(with(&|bytes| bytes[..8].chunks_mut(4).for_each(<[u8]>::reverse)), CompiledFault::ByteOrder);
    assert_eq!(with(&|bytes| bytes.push(0)), CompiledFault::Behind);
    assert!(matches!(with(&|bytes| bytes[12] = b'8'), CompiledFault::Expressions(_)));
    assert!(matches!(with(&|bytes| bytes[11] = 1), CompiledFault::TooMuch { .. }));
    let label = find(&whole, b"u:object");
    assert!(matches!(with(&|bytes| bytes[label + 1] = b' '), CompiledFault::Rule { number: 1, .. }));
    survives_damage(&bin, &whole);
}

/// A length and a text with a zero byte, as trees have them.
fn sized(text: &str) -> Vec<u8> {
    [&(text.len() as u16 + 1).to_be_bytes(), text.as_bytes(), b"\0"].concat()
}

/// A file of this head, the contexts and the root.
fn tree(head: &[u8], rules: u64, contexts: &[&str], root: &[u8]) -> Vec<u8> {
    let count = (contexts.len() as u32).to_be_bytes();
    let context = |text: &&str| [&(text.len() as u16).to_be_bytes(), text.as_bytes()].concat();
    let contexts: Vec<u8> = contexts.iter().flat_map(context).collect();
    [head, &rules.to_be_bytes(), &count, &contexts, root].concat()
}

/// A folder of a tree.
fn folder(name: &str, paths: &[Vec<u8>], expressions: &[Vec<u8>], folders: &[Vec<u8>]) -> Vec<u8> {
    let counted = |parts: &[Vec<u8>]| [&(parts.len() as u32).to_be_bytes()[..], &parts.concat()].concat();
    [sized(name), counted(paths), counted(expressions), counted(folders)].concat()
}

fn path_rule(context: u32, text: &str, path: &str, kind: u8) -> Vec<u8> {
    [&context.to_be_bytes()[..], &sized(text), &sized(path), &[kind]].concat()
}

fn expression_rule(context: u32, line: u32, text: &str) -> Vec<u8> {
    [&context.to_be_bytes()[..], &line.to_be_bytes(), &sized(text), &[0; 7]].concat()
}

#[test]
fn damaged_trees_are_told() {
    require!(Judge::NewestSefcontextCompile);
    let (_folder, _, bin) = compiled(NEWEST, POLICY);
    let whole = fs::read(&bin).unwrap();
    survives_damage(&bin, &whole);
    // What is before the number of rules.
    let head = &whole[..find(&whole, b"8-8-el") + 6];
    let of = |rules: u64, contexts: &[&str], root: &[u8]| tree(head, rules, contexts, root);
    let one = |root: &[u8]| fault_of(&bin, &of(1, &["u:r:t"], root));
    let sound = folder("", &[path_rule(1, "/a\\.b", "/a.b", 7)], &[], &[]);
    fs::write(&bin, of(1, &["u:r:t"], &sound)).unwrap();
    assert_eq!(NEWEST.label(&bin, "a.b", 0o100_000), Some("u:r:t".to_owned()));
    assert_eq!(Labels::open(&[&bin]).unwrap().label_of_letter(b"a.b", b'-').unwrap(), Some(&b"u:r:t"[..]));

    let mut other = whole.clone();
    other[7] = 7;
    assert_eq!(fault_of(&bin, &other), CompiledFault::Version(7));
    other[..8].chunks_mut(4).for_each(<[u8]>::reverse);
    assert_eq!(fault_of(&bin, &other), CompiledFault::Version(7));
    assert_eq!(one(&[&sound[..], b"\0"].concat()), CompiledFault::Behind);
    assert_eq!(fault_of(&bin, &of(2, &["u:r:t"], &sound)), CompiledFault::RuleCount { found: 1, claimed: 2 });
    assert!(matches!(fault_of(&bin, &of(1, &["u r t"], &sound)), CompiledFault::Context { number: 1, .. }));
    assert_eq!(fault_of(&bin, &of(0, &[], &folder("", &[], &[], &[]))), CompiledFault::NoRules);
    let many = [head, &[0; 8], &u32::MAX.to_be_bytes()].concat();
    assert!(matches!(fault_of(&bin, &many), CompiledFault::TooMuch { what: "the number", .. }));

    for rule in [
        path_rule(0, "/a", "/a", 0),
        path_rule(2, "/a", "/a", 0),
        path_rule(1, "/a", "/a", 8),
        path_rule(1, "/a", "/b", 0),
        path_rule(1, "/a.", "/a.", 0),
        path_rule(1, "/a\0", "/a", 0),
    ] {
        let fault = one(&folder("", &[rule], &[], &[]));
        assert!(matches!(fault, CompiledFault::Rule { number: 1, .. }), "{fault:?}");
    }
    let wrong = one(&folder("", &[], &[expression_rule(1, 1, "/(")], &[]));
    assert!(matches!(wrong, CompiledFault::Rules(TextFault::Pattern(_))), "{wrong:?}");
    let lines = [expression_rule(1, 5, "/a.*"), expression_rule(1, 5, "/b.*")];
    assert!(matches!(one(&folder("", &[], &lines, &[])), CompiledFault::Rule { number: 2, .. }));
    let elsewhere = folder("x", &[], &[expression_rule(1, 1, "/y/.*")], &[]);
    assert!(matches!(one(&folder("", &[], &[], &[elsewhere])), CompiledFault::Rule { number: 1, .. }));
    let below = |name: &str| folder(name, &[], &[expression_rule(1, 1, &format!("/{name}/.*"))], &[]);
    for (root, part) in [
        (folder("x", &[], &[], &[]), "root"),
        (folder("", &[], &[], &[below("b"), folder("a", &[], &[], &[])]), "its place"),
        (folder("", &[], &[], &[below("a/b")]), "its place"),
        (folder("", &[], &[], &[below("")]), "its place"),
        (folder("", &[], &[], &[folder("a", &[], &[], &[])]), "empty folder"),
        (folder("a\0", &[], &[], &[]), "end of its name"),
    ] {
        let fault = one(&root);
        assert!(matches!(fault, CompiledFault::Folder(told) if told.contains(part)), "{part}: {fault:?}");
    }
    survives_depth_and_size(&bin, head);
}

/// Folders in each other, and more rules and texts than any policy has.
fn survives_depth_and_size(bin: &Path, head: &[u8]) {
    for (depth, is_read) in [(31, true), (32, false), (100_000, false)] {
        let path = "/a".repeat(depth.min(100));
        let innermost = folder("a", &[path_rule(1, &format!("{path}/b"), &format!("{path}/b"), 0)], &[], &[]);
        let around = [&sized("a")[..], &[0; 8], &[0, 0, 0, 1]].concat();
        let root = [&sized("")[..], &[0; 8], &[0, 0, 0, 1], &around.repeat(depth - 1), &innermost].concat();
        fs::write(bin, tree(head, 1, &["u:r:t"], &root)).unwrap();
        // libselinux counts in the same way.
        assert_eq!(NEWEST.label(bin, &format!("{path}/b")[1..], 0).is_some(), is_read, "{depth}");
        match Labels::open(&[bin]) {
            Ok(labels) => assert!(is_read && labels.label_of_letter(b"a/b", b'-').unwrap().is_none()),
            Err(error) => assert!(!is_read && error.to_string().contains("too many folders"), "{error}"),
        }
    }
    // One context and one name for all of them take no memory of their own.
    let label = format!("u:r:t:{}", "c".repeat(60_000));
    let name = "n".repeat(60_000);
    let long = expression_rule(1, 1, &format!("/{name}/.*"));
    let rules: Vec<Vec<u8>> =
        (1..=70).map(|line| [&long[..4], &u32::to_be_bytes(line), &long[8..]].concat()).collect();
    let root = folder("", &[], &[], &[folder(&name, &[], &rules, &[])]);
    assert!(matches!(
        fault_of(bin, &tree(head, 70, &[&label], &root)),
        CompiledFault::TooMuch { what: "texts", .. }
    ));
    let rule = path_rule(1, "/a", "/a", 0);
    let root = folder("", &vec![rule; 200_001], &[], &[]);
    assert!(matches!(
        fault_of(bin, &tree(head, 200_001, &[&label], &root)),
        CompiledFault::Rule { number: 200_001, .. }
    ));
}
