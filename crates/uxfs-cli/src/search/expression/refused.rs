//! Words of other finds that have no meaning here. Each is refused with the reason, or with the way to the same end.

/// The reason why a word is refused; `None` for a word that no find knows.
pub fn reason(word: &str) -> Option<&'static str> {
    Some(match word {
        "-exec" | "-execdir" | "-ok" | "-okdir" => {
            "no program can be run on files inside an image: take the paths with -print0, and copy files out with `uxfs get` or `uxfs extract`"
        }
        "-delete" => "find only reads: take the paths with -print0, and remove them with `uxfs rm`",
        "-fprint" | "-fprint0" | "-fprintf" | "-fls" => "redirect standard output instead",
        "-files0-from" => "give the paths as words",
        "-readable" | "-writable" | "-executable" => {
            "whether a file may be read depends on a user, and there is none in an image: use -perm, -user and -group"
        }
        "-L" | "-H" | "-follow" | "-xtype" => "symbolic links are not followed",
        "-fstype" => "an image is one file system, of the type xfs",
        "-context" => "use -xattr security.selinux",
        "-used" => "compare the times with -newerac FILE",
        "-D" | "-O" | "-O0" | "-O1" | "-O2" | "-O3" => "tests are always put in the best order",
        "-flags" | "-fileflags" => "use `uxfs stat` or `uxfs inodes`",
        "--json" => "--json comes before the image",
        _ => return None,
    })
}
