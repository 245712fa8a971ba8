use super::{super::lines::Contents, *};

/// Numbers that look random, without a library.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }

    fn text(&mut self, lines: u64, words: u64) -> Vec<u8> {
        let mut text: Vec<u8> =
            (0..lines).flat_map(|_| format!("{}\n", self.below(words)).into_bytes()).collect();
        if self.below(3) == 0 {
            text.pop();
        }
        text
    }

    /// The same with some lines removed, added and moved.
    fn changed(&mut self, text: &[u8], words: u64) -> Vec<u8> {
        let every = 2 + self.below(40);
        let mut changed = Vec::new();
        for line in text.split_inclusive(|byte| *byte == b'\n') {
            match self.below(every) {
                0 => {}
                1 => changed.extend([line, format!("{}\n", self.below(words)).as_bytes()].concat()),
                _ => changed.extend(line),
            }
        }
        changed
    }
}

fn lines(bytes: &[u8]) -> Lines {
    match Contents::of(bytes.to_vec()) {
        Contents::Lines(lines) => lines,
        other => panic!("{other:?}"),
    }
}

/// The lines that are not changed are the same on both sides, and all changes are told. Gives how many lines they have.
fn judge(first: &[u8], second: &[u8]) -> usize {
    let lines = Both { first: lines(first), second: lines(second) };
    let changes = Changes::between(&lines);
    let rest = |lines: &Lines, marks: &[bool]| -> Vec<u8> {
        (0..lines.len()).filter(|index| !marks[*index]).flat_map(|index| lines.get(index).to_vec()).collect()
    };
    let Both { first: one, second: two } = &changes.marks;
    assert_eq!(rest(&lines.first, one), rest(&lines.second, two));
    let mut told = Both { first: vec![false; one.len()], second: vec![false; two.len()] };
    for change in changes.iter() {
        told.first[change.first].fill(true);
        told.second[change.second].fill(true);
    }
    assert_eq!(told, changes.marks);
    one.iter().chain(two).filter(|mark| **mark).count()
}

#[test]
fn what_both_have_is_the_same() {
    let mut numbers = Numbers(20_261_128);
    for round in 0..3000 {
        let (length, words) =
            (numbers.below(if round % 50 == 0 { 3000 } else { 40 }), 1 + numbers.below(300));
        let first = numbers.text(length, words);
        let second = match round % 3 {
            0 => {
                let length = numbers.below(60);
                numbers.text(length, words)
            }
            _ => numbers.changed(&first, words),
        };
        judge(&first, &second);
        assert_eq!(judge(&first, &first), 0);
    }
}

/// As GNU diff and git place them.
#[test]
fn changes_lie_where_people_look_for_them() {
    let changes = |first: &str, second: &str| {
        let lines = Both { first: lines(first.as_bytes()), second: lines(second.as_bytes()) };
        Changes::between(&lines).iter().map(|change| (change.first, change.second)).collect::<Vec<_>>()
    };
    // Down as far as it goes.
    assert_eq!(changes("a\n\nb\n\nc\n", "a\n\nb\n\nb\n\nc\n"), [(4..4, 4..6)]);
    assert_eq!(changes("x\nx\nx\n", "x\nx\nx\nx\n"), [(3..3, 3..4)]);
    assert_eq!(changes("", "a\n"), [(0..0, 0..1)]);
    assert_eq!(changes("a", ""), [(0..1, 0..0)]);
    assert_eq!(changes("a\n", "a"), [(0..1, 0..1)]);
    assert!(changes("a\nb", "a\nb").is_empty());
}

/// Files that are made to cost time. Tests of the release build have larger ones.
#[test]
fn hostile_files_cost_little() {
    let mut numbers = Numbers(99);
    let of = |lines: Vec<u64>| -> Vec<u8> {
        lines.into_iter().flat_map(|line| format!("{line}\n").into_bytes()).collect()
    };
    let count = 30_000;
    let plain: Vec<u64> = (0..count).collect();
    let pairs = [
        (of(plain.clone()), of(plain.iter().rev().copied().collect())),
        ("\n".repeat(100_000).into_bytes(), "\n".repeat(100_001).into_bytes()),
        (numbers.text(count, 2), numbers.text(count, 2)),
        (numbers.text(count, 300), numbers.text(count, 300)),
        (numbers.text(count, 50_000), numbers.text(count, 50_000)),
        // Common lines between such as the other side lacks.
        (
            of(plain.iter().map(|line| if line % 2 == 0 { 0 } else { line + 7 }).collect()),
            of(vec![0; 30_000]),
        ),
        ("a\nb\n".repeat(30_000).into_bytes(), "b\na\na\n".repeat(21_000).into_bytes()),
        // Each block is turned round.
        (of(plain.clone()), of(plain.chunks(317).rev().flatten().copied().collect())),
    ];
    for (first, second) in pairs {
        let began = Instant::now();
        judge(&first, &second);
        assert!(began.elapsed() < COMPARISON_TIME * 4, "{:?}", began.elapsed());
    }
}
