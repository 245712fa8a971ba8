//! Images of containers that say anything: layouts and archives made by hand, right and wrong.

use std::{
    fs,
    io::Write,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
};

use serde_json::{Value, json};
use sha2::{Digest, Sha256, Sha512};
use tempfile::TempDir;
use uxfs_source::{
    container::Platform,
    error::{ContainerFault, SourceError},
    layers::Layers,
    open::{SourceOptions, open_stream, open_streams},
    tree::{Reading, TreeSource},
};

const INDEX: &str = "application/vnd.oci.image.index.v1+json";
const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const CONFIGURATION: &str = "application/vnd.oci.image.config.v1+json";
const LAYER: &str = "application/vnd.oci.image.layer.v1.tar";

/// An archive of files with their names as contents; `.wh.` names are empty.
fn tar(names: &[&str]) -> Vec<u8> {
    let mut all = Vec::new();
    for name in names {
        let text = if name.contains(".wh.") { "" } else { name };
        let mut block = vec![0; 512];
        block[..name.len()].copy_from_slice(name.as_bytes());
        block[100..108].copy_from_slice(b"0000644\0");
        block[108..124].copy_from_slice(b"0000000\x000000000\0");
        block[124..136].copy_from_slice(format!("{:011o}\0", text.len()).as_bytes());
        block[136..148].copy_from_slice(b"14567012345\0");
        block[156] = b'0';
        block[257..265].copy_from_slice(b"ustar\x0000");
        block[148..156].fill(b' ');
        let sum: u32 = block.iter().map(|byte| u32::from(*byte)).sum();
        block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        all.extend_from_slice(&block);
        all.extend_from_slice(text.as_bytes());
        all.resize(all.len().next_multiple_of(512), 0);
    }
    all.resize(all.len() + 1024, 0);
    all
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn digits(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn sha256(bytes: &[u8]) -> String {
    format!("sha256:{}", digits(&Sha256::digest(bytes)))
}

struct Layout(TempDir);

impl Layout {
    fn new() -> Self {
        let layout = Self(tempfile::tempdir().unwrap());
        fs::create_dir_all(layout.path().join("blobs/sha256")).unwrap();
        fs::create_dir_all(layout.path().join("blobs/sha512")).unwrap();
        layout.write("oci-layout", br#"{"imageLayoutVersion":"1.0.0"}"#);
        layout
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn write(&self, name: &str, bytes: &[u8]) {
        fs::write(self.path().join(name), bytes).unwrap();
    }

    /// A blob, and what a document says of it.
    fn blob(&self, media_type: &str, bytes: &[u8]) -> Value {
        let digest = sha256(bytes);
        self.write(&format!("blobs/{}", digest.replace(':', "/")), bytes);
        json!({"mediaType": media_type, "digest": digest, "size": bytes.len()})
    }

    fn document(&self, media_type: &str, document: &Value) -> Value {
        self.blob(media_type, document.to_string().as_bytes())
    }

    fn manifest_of(&self, layers: &[Value], architecture: &str) -> Value {
        let configuration = json!({"os": "linux", "architecture": architecture, "rootfs": {"diff_ids": []}});
        let config = self.document(CONFIGURATION, &configuration);
        self.document(MANIFEST, &json!({"schemaVersion": 2, "config": config, "layers": layers}))
    }

    fn manifest(&self, names: &[&str]) -> Value {
        self.manifest_of(&[self.blob(LAYER, &tar(names))], "amd64")
    }

    fn index(&self, manifests: &[Value]) {
        self.write("index.json", json!({"schemaVersion": 2, "manifests": manifests}).to_string().as_bytes());
    }

    fn source(&self, name: &str) -> PathBuf {
        format!("oci:{}{name}", self.path().display()).into()
    }

    fn names(&self, name: &str) -> Result<Vec<String>, SourceError> {
        names(&self.source(name), None)
    }

    fn fault(&self, name: &str) -> ContainerFault {
        fault(self.names(name))
    }
}

fn fault(result: Result<Vec<String>, SourceError>) -> ContainerFault {
    match result {
        Err(SourceError::Container { fault, .. }) => fault,
        other => panic!("{other:?}"),
    }
}

/// The paths of the tree that a source makes.
fn names(source: &Path, platform: Option<&str>) -> Result<Vec<String>, SourceError> {
    let platform = platform.map(|platform| platform.parse::<Platform>().unwrap());
    let options = SourceOptions { platform, spools_streams: true, ..SourceOptions::default() };
    let mut layers = Layers::new(open_streams(source, &options, Reading::Checked)?)?;
    let mut names = Vec::new();
    while let Some(batch) = layers.next_batch()? {
        names.extend(batch.entries.iter().map(|entry| String::from_utf8_lossy(&entry.name).into_owned()));
    }
    Ok(names)
}

fn named(mut descriptor: Value, name: &str) -> Value {
    descriptor["annotations"] = json!({"org.opencontainers.image.ref.name": name});
    descriptor
}

fn for_platform(mut descriptor: Value, os: &str, architecture: &str, variant: Option<&str>) -> Value {
    descriptor["platform"] = json!({"os": os, "architecture": architecture});
    if let Some(variant) = variant {
        descriptor["platform"]["variant"] = variant.into();
    }
    descriptor
}

#[test]
fn layers_in_every_packing_and_with_both_digests() {
    let layout = Layout::new();
    let plain = tar(&["a", "b", "c"]);
    let mut layers = vec![
        layout.blob(LAYER, &plain),
        layout.blob(&format!("{LAYER}+gzip"), &gzip(&tar(&[".wh.a", "d"]))),
        layout.blob(&format!("{LAYER}+zstd"), &zstd::encode_all(tar(&[".wh.b", "e"]).as_slice(), 1).unwrap()),
    ];
    let last = tar(&[".wh..wh..opq", "f"]);
    let digest = format!("sha512:{}", digits(&Sha512::digest(&last)));
    layout.write(&format!("blobs/{}", digest.replace(':', "/")), &last);
    layout.index(&[layout.manifest_of(&layers, "amd64")]);
    assert_eq!(layout.names("").unwrap(), ["c", "d", "e"]);
    layers.push(json!({"mediaType": LAYER, "digest": digest, "size": last.len()}));
    layout.index(&[layout.manifest_of(&layers, "amd64")]);
    assert_eq!(layout.names("").unwrap(), ["f"]);
    // A blob may be a link, as some builders make them: its digest tells what it is.
    let path = layout.path().join(format!("blobs/{}", sha256(&plain).replace(':', "/")));
    fs::rename(&path, layout.path().join("elsewhere")).unwrap();
    symlink("../../elsewhere", &path).unwrap();
    assert_eq!(layout.names("").unwrap(), ["f"]);
    // No layer at all is an empty tree.
    layout.index(&[layout.manifest_of(&[], "amd64")]);
    assert!(layout.names("").unwrap().is_empty());
}

#[test]
fn images_by_name_and_platform() {
    let layout = Layout::new();
    let [one, two] = ["one", "two"].map(|name| named(layout.manifest(&[name]), name));
    layout.index(&[one.clone(), two.clone()]);
    assert_eq!(layout.names(":one").unwrap(), ["one"]);
    assert_eq!(layout.names(&format!(":{}", two["digest"].as_str().unwrap())).unwrap(), ["two"]);
    assert!(matches!(layout.fault(""), ContainerFault::SeveralImages(has) if has.to_string() == "one, two"));
    assert!(matches!(layout.fault(":three"), ContainerFault::NoSuchImage { .. }));
    layout.index(&[]);
    assert!(matches!(layout.fault(""), ContainerFault::NoSuchImage { .. }));

    let image = |name, architecture: &str, variant| {
        let manifest = layout.manifest_of(&[layout.blob(LAYER, &tar(&[name]))], architecture);
        for_platform(manifest, "linux", architecture, variant)
    };
    let mut attestation = for_platform(layout.manifest(&["attestation"]), "unknown", "unknown", None);
    attestation["annotations"] = json!({"vnd.docker.reference.type": "attestation-manifest"});
    let images = [
        image("x", "amd64", None),
        image("z", "s390x", None),
        image("v6", "arm", Some("v6")),
        image("v7", "arm", Some("v7")),
        attestation.clone(),
        image("a", "arm64", Some("v8")),
    ];
    let inner = layout.document(INDEX, &json!({"schemaVersion": 2, "mediaType": INDEX, "manifests": images}));
    // Named by the index of the layout, or there at once.
    for manifests in [std::slice::from_ref(&inner), &images] {
        layout.index(manifests);
        let source = layout.source("");
        for (platform, name) in [
            ("linux/s390x", "z"),
            ("linux/arm", "v7"),
            ("linux/arm/v6", "v6"),
            ("linux/arm/v8", "v7"),
            ("linux/aarch64", "a"),
            ("linux/amd64", "x"),
        ] {
            assert_eq!(names(&source, Some(platform)).unwrap(), [name], "{platform}");
        }
        let none = fault(names(&source, Some("windows/amd64")));
        assert!(none.to_string().contains("linux/s390x, linux/arm/v6"), "{none}");
        if cfg!(target_arch = "x86_64") {
            assert_eq!(names(&source, None).unwrap(), ["x"]);
        }
    }
    // A single image is taken whatever it is for, unless another one is asked for.
    let alone = layout.document(INDEX, &json!({"schemaVersion": 2, "manifests": [images[1], attestation]}));
    layout.index(&[alone]);
    assert_eq!(layout.names("").unwrap(), ["z"]);
    assert!(matches!(
        fault(names(&layout.source(""), Some("linux/arm64"))),
        ContainerFault::NoPlatform { .. }
    ));
    layout.index(&[layout.manifest(&["x"])]);
    assert!(matches!(
        fault(names(&layout.source(""), Some("linux/arm64"))),
        ContainerFault::NoPlatform { .. }
    ));
    assert_eq!(names(&layout.source(""), Some("linux/amd64")).unwrap(), ["x"]);
}

#[test]
fn digests_and_sizes_that_lie() {
    let layout = Layout::new();
    let layer = tar(&["file"]);
    let good = layout.blob(LAYER, &layer);
    let with = |field: &str, value: Value| {
        let mut layer = good.clone();
        layer[field] = value;
        layout.index(&[layout.manifest_of(&[layer], "amd64")]);
        layout.fault("")
    };
    let zeros = format!("sha256:{}", "0".repeat(64));
    for digest in ["../../../etc/passwd", "sha256:../../../../etc/passwd", "sha1:00", "", "/etc/passwd"] {
        assert!(matches!(with("digest", digest.into()), ContainerFault::Digest(_)), "{digest}");
    }
    assert!(matches!(with("digest", zeros.clone().into()), ContainerFault::Missing(_)));
    for size in [0, 1, layer.len() as u64 + 1, u64::MAX] {
        assert!(matches!(with("size", size.into()), ContainerFault::Size { .. }), "{size}");
    }
    assert!(matches!(with("size", (-1).into()), ContainerFault::Document { .. }));
    for media_type in ["application/vnd.oci.image.layer.v1.tar+gzip+encrypted", "text/html", ""] {
        assert!(matches!(with("mediaType", media_type.into()), ContainerFault::MediaType(_)), "{media_type}");
    }
    // Bytes of the right number and another digest, in every packing; also where they make no archive.
    for (number, bytes) in
        [layer.clone(), gzip(&layer), vec![7; 5000], gzip(&vec![7; 100_000])].iter().enumerate()
    {
        layout.write(&format!("blobs/{}", zeros.replace(':', "/")), bytes);
        let layer = json!({"mediaType": LAYER, "digest": zeros, "size": bytes.len()});
        layout.index(&[layout.manifest_of(&[layer], "amd64")]);
        assert!(matches!(layout.fault(""), ContainerFault::Damaged { .. }), "{number}");
    }
    // A manifest of which one byte is another.
    let manifest = layout.manifest(&["file"]);
    let path =
        layout.path().join(format!("blobs/{}", manifest["digest"].as_str().unwrap().replace(':', "/")));
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, text.replace("schemaVersion\":2", "schemaVersion\":3")).unwrap();
    layout.index(&[manifest]);
    assert!(matches!(layout.fault(""), ContainerFault::Damaged { .. }));
    // A layer that is fetched from elsewhere.
    let foreign = json!({"mediaType": LAYER, "digest": format!("sha256:{}", "1".repeat(64)), "size": 1, "urls": ["https://x"]});
    layout.index(&[layout.manifest_of(&[foreign], "amd64")]);
    assert!(matches!(layout.fault(""), ContainerFault::Foreign(_)));
}

#[test]
fn blobs_that_are_no_files() {
    let layout = Layout::new();
    let digest = format!("sha256:{}", "2".repeat(64));
    let path = layout.path().join(format!("blobs/{}", digest.replace(':', "/")));
    for kind in ["directory", "pipe", "zeros"] {
        match kind {
            "directory" => fs::create_dir(&path).unwrap(),
            "pipe" => {
                let made = std::process::Command::new("mkfifo").arg(&path).status();
                assert!(made.unwrap().success());
            }
            _ => symlink("/dev/zero", &path).unwrap(),
        }
        let layer = json!({"mediaType": LAYER, "digest": digest, "size": 100});
        layout.index(&[layout.manifest_of(&[layer], "amd64")]);
        assert!(matches!(layout.fault(""), ContainerFault::NoFile(_)), "{kind}");
        if kind == "directory" { fs::remove_dir(&path).unwrap() } else { fs::remove_file(&path).unwrap() }
    }
}

#[test]
fn documents_that_are_too_much() {
    let layout = Layout::new();
    // Gigabytes, of which nothing is read.
    let index = fs::File::create(layout.path().join("index.json")).unwrap();
    index.set_len(8 << 30).unwrap();
    assert!(matches!(layout.fault(""), ContainerFault::TooLong { .. }));
    // As deep as it is long.
    layout.write("index.json", "[".repeat(4 << 20).as_bytes());
    assert!(matches!(layout.fault(""), ContainerFault::Document { .. }));
    let deep = format!("{{\"x\":{}1{},\"manifests\":[]}}", "[".repeat(1 << 20), "]".repeat(1 << 20));
    layout.write("index.json", deep.as_bytes());
    assert!(layout.names("").is_err());
    let deep = format!("{{\"manifests\":{}{}}}", "[{\"platform\":".repeat(100_000), "}]".repeat(100_000));
    layout.write("index.json", deep.as_bytes());
    assert!(matches!(layout.fault(""), ContainerFault::Document { .. }));
    // The words of the parser may quote a document: they are cut.
    layout.write("index.json", format!("{{\"manifests\":\"{}\"}}", "x".repeat(4_000_000)).as_bytes());
    assert!(layout.fault("").to_string().len() < 4000);
    for text in
        ["", "{}", "null", "{\"manifests\":{}}", "{\"manifests\":[1]}", "{\"manifests\":[],\"layers\":[]}"]
    {
        layout.write("index.json", text.as_bytes());
        assert!(layout.names("").is_err(), "{text}");
    }
    fs::remove_file(layout.path().join("index.json")).unwrap();
    assert!(matches!(layout.fault(""), ContainerFault::Missing(_)));
    layout.write("oci-layout", br#"{"imageLayoutVersion":"2.0.0"}"#);
    assert!(matches!(layout.fault(""), ContainerFault::Version(_)));
    fs::remove_file(layout.path().join("oci-layout")).unwrap();
    assert!(matches!(layout.fault(""), ContainerFault::NoLayout));
}

#[test]
fn indexes_without_end_and_too_many_layers() {
    let layout = Layout::new();
    let mut at = layout.manifest(&["file"]);
    for depth in 0..6 {
        layout.index(std::slice::from_ref(&at));
        match depth {
            0..=3 => assert_eq!(layout.names("").unwrap(), ["file"]),
            _ => assert!(matches!(layout.fault(""), ContainerFault::TooDeep(_))),
        }
        at = layout.document(INDEX, &json!({"schemaVersion": 2, "manifests": [at]}));
    }
    let layer = layout.blob(LAYER, &tar(&["file"]));
    layout.index(&[layout.manifest_of(&vec![layer.clone(); 500], "amd64")]);
    assert_eq!(layout.names("").unwrap(), ["file"]);
    layout.index(&[layout.manifest_of(&vec![layer.clone(); 501], "amd64")]);
    assert!(matches!(layout.fault(""), ContainerFault::TooManyLayers { .. }));
    // Documents that some take for an index and others for a manifest.
    let both = json!({"schemaVersion": 2, "manifests": [], "layers": [layer], "config": layer});
    for (media_type, document) in [
        (MANIFEST, both.clone()),
        (INDEX, both),
        (MANIFEST, json!({"schemaVersion": 2})),
        (INDEX, json!({"schemaVersion": 2, "layers": [layer]})),
        (MANIFEST, json!({"schemaVersion": 2, "mediaType": INDEX, "layers": [layer]})),
        (MANIFEST, json!({"schemaVersion": 2, "manifests": []})),
    ] {
        layout.index(&[layout.document(media_type, &document)]);
        assert!(matches!(layout.fault(""), ContainerFault::Ambiguous(_)), "{document}");
    }
}

/// An archive of files with these contents, as `docker save` writes it.
fn archive(folder: &Path, files: &[(&str, Vec<u8>)], links: &[(&str, &str)]) -> PathBuf {
    let (tree, path) = (folder.join("tree"), folder.join("image.tar"));
    let _ = fs::remove_dir_all(&tree);
    for (name, bytes) in files {
        let file = tree.join(name);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, bytes).unwrap();
    }
    for (name, target) in links {
        let link = tree.join(name);
        fs::create_dir_all(link.parent().unwrap()).unwrap();
        symlink(target, link).unwrap();
    }
    let made = std::process::Command::new("tar").arg("-C").arg(&tree).arg("-cf").arg(&path).arg(".").status();
    assert!(made.unwrap().success());
    path
}

fn docker(path: &Path, name: &str) -> PathBuf {
    format!("docker-archive:{}{name}", path.display()).into()
}

#[test]
fn archives_of_docker() {
    let folder = tempfile::tempdir().unwrap();
    let (lower, upper) = (tar(&["a", "b"]), tar(&[".wh.a", "c"]));
    let packed = gzip(&upper);
    let configuration = |digests: &[String]| {
        json!({"os": "linux", "architecture": "amd64", "rootfs": {"diff_ids": digests}})
            .to_string()
            .into_bytes()
    };
    let digests = [sha256(&lower), sha256(&upper)];
    let list = json!([
        {"Config": "one.json", "RepoTags": ["some:1"], "Layers": ["one/layer.tar", "two/layer.tar"]},
        {"Config": "two.json", "RepoTags": null, "Layers": ["two/layer.tar"]},
        {"Config": "one.json", "RepoTags": ["docker.io/library/packed:latest"], "Layers": ["three/layer.tar", "packed"]},
    ]);
    let files = [
        ("manifest.json", list.to_string().into_bytes()),
        ("one.json", configuration(&digests)),
        ("two.json", configuration(&digests[1..])),
        ("one/layer.tar", lower),
        ("two/layer.tar", upper),
        ("packed", packed),
    ];
    let path = archive(folder.path(), &files, &[("three/layer.tar", "../one/layer.tar")]);
    for (name, expected) in [(":some:1", &["b", "c"][..]), (":@1", &["c"]), (":packed", &["b", "c"])] {
        assert_eq!(names(&docker(&path, name), None).unwrap(), expected, "{name}");
    }
    let several = fault(names(&docker(&path, ""), None));
    assert!(several.to_string().contains("some:1, @1, docker.io/library/packed:latest"), "{several}");
    for name in [":other", ":some", ":@3", ":@-1"] {
        assert!(
            matches!(fault(names(&docker(&path, name), None)), ContainerFault::NoSuchImage { .. }),
            "{name}"
        );
    }
    assert!(matches!(
        fault(names(&docker(&path, ":some:1"), Some("linux/arm64"))),
        ContainerFault::NoPlatform { .. }
    ));
    // Packed as a whole.
    fs::write(folder.path().join("image.tar.gz"), gzip(&fs::read(&path).unwrap())).unwrap();
    assert_eq!(names(&docker(&folder.path().join("image.tar.gz"), ":some:1"), None).unwrap(), ["b", "c"]);
}

#[test]
fn archives_of_docker_that_lie() {
    let folder = tempfile::tempdir().unwrap();
    let layer = tar(&["file"]);
    let zeros = format!("sha256:{}", "0".repeat(64));
    let mut endless = layer.clone();
    endless.resize(200 << 20, 0);
    let bomb = zstd::encode_all(endless.as_slice(), 1).unwrap();
    let try_it = |layers: Value, digests: Value, links: &[(&str, &str)]| {
        let configuration = json!({"rootfs": {"diff_ids": digests}}).to_string().into_bytes();
        let list = json!([{"Config": "config", "Layers": layers}]).to_string().into_bytes();
        let files = [
            ("manifest.json", list),
            ("config", configuration),
            ("layer", layer.clone()),
            ("packed", gzip(&layer)),
            ("bomb", bomb.clone()),
        ];
        fault(names(&docker(&archive(folder.path(), &files, links), ""), None))
    };
    let wrong = |layer: &str| try_it(json!([layer]), json!([zeros]), &[]);
    assert!(matches!(wrong("layer"), ContainerFault::Damaged { .. }));
    assert!(matches!(wrong("packed"), ContainerFault::Damaged { .. }));
    assert!(matches!(wrong("bomb"), ContainerFault::Damaged { .. }));
    for path in ["/etc/passwd", "../../etc/passwd", "", ".", "blobs"] {
        assert!(matches!(wrong(path), ContainerFault::Missing(_)), "{path}");
    }
    let counts = try_it(json!(["layer"]), json!([]), &[]);
    assert!(matches!(counts, ContainerFault::LayerCount { layers: 1, digests: 0 }));
    assert!(matches!(try_it(json!(["layer"]), json!(["x"]), &[]), ContainerFault::Digest(_)));
    let links = [("a", "b"), ("b", "a"), ("c", "/etc/passwd"), ("d", "../../../etc/passwd")];
    for (path, is_circle) in [("a", true), ("c", false)] {
        let found = try_it(json!([path]), json!([zeros]), &links);
        assert_eq!(matches!(found, ContainerFault::Link(_)), is_circle, "{found}");
    }
    assert!(matches!(try_it(json!(["d"]), json!([zeros]), &links), ContainerFault::NoFile(_)));
    let other = archive(folder.path(), &[("file", b"text".to_vec())], &[]);
    assert!(matches!(fault(names(&docker(&other, ""), None)), ContainerFault::NoImageArchive));
}

#[test]
fn archives_of_layouts() {
    let layout = Layout::new();
    layout.index(&[named(layout.manifest(&["one"]), "1"), named(layout.manifest(&["two"]), "2")]);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("layout.tar");
    let made = std::process::Command::new("tar")
        .arg("-C")
        .arg(layout.path())
        .arg("-cf")
        .arg(&path)
        .arg(".")
        .status();
    assert!(made.unwrap().success());
    for form in ["oci-archive", "docker-archive"] {
        let source = PathBuf::from(format!("{form}:{}:2", path.display()));
        assert_eq!(names(&source, None).unwrap(), ["two"], "{form}");
    }
}

#[test]
fn a_directory_that_is_a_layout() {
    let layout = Layout::new();
    layout.index(&[layout.manifest(&["file"])]);
    let open = |path: &Path| open_stream(path, &SourceOptions::default(), Reading::Checked).map(drop);
    let Err(error) = open(layout.path()) else { panic!("a tree") };
    let words = error.to_string();
    assert!(words.contains(&format!("--from oci:{}", layout.path().display())), "{words}");
    assert!(open(&layout.path().join(".")).is_ok());
    fs::remove_file(layout.path().join("index.json")).unwrap();
    assert!(open(layout.path()).is_ok());
}
