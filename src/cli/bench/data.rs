//! The files of the benchmark: a pure function of their number and a seed.
//!
//! As in life, values repeat, and a few of them are most of what there is; titles hardly do; one folder is far larger
//! than all others; and files do not come in the order of their names.

use serde_json::{Map, Value, json};

/// The folder of a quarter of all files.
pub const BIG: &str = "big";
/// A folder that is the same whatever the number of files, for measuring growth.
pub const FIXED: &str = "fixed";
/// A folder of fifty files.
pub const FEW: &str = "small/000/few";

/// Files of [`FIXED`], where there are so many.
const FIXED_FILES: u64 = 2_500;
/// Files of [`FEW`].
const FEW_FILES: u64 = 50;
/// The numbers in names are below this; it is a prime, so that they do not repeat within a folder.
const NAMES: u64 = 9_999_991;
/// How many files the other folders have, over and over.
const SIZES: [u64; 8] = [1, 1, 2, 3, 5, 8, 20, 40];

const CATEGORIES: [(&str, u64); 12] = [
    ("general", 25),
    ("operations", 20),
    ("engineering", 15),
    ("security", 10),
    ("finance", 8),
    ("legal", 6),
    ("product", 5),
    ("support", 4),
    ("people", 3),
    ("research", 2),
    ("facilities", 1),
    ("governance", 1),
];

const WORDS: [&str; 40] = [
    "access",
    "audit",
    "backup",
    "billing",
    "budget",
    "cache",
    "certificate",
    "cluster",
    "compliance",
    "contract",
    "customer",
    "database",
    "deploy",
    "deadline",
    "encryption",
    "forecast",
    "gateway",
    "hiring",
    "incident",
    "invoice",
    "kerberos",
    "latency",
    "ledger",
    "license",
    "migration",
    "monitoring",
    "network",
    "onboarding",
    "outage",
    "policy",
    "pricing",
    "quota",
    "recovery",
    "release",
    "retention",
    "roadmap",
    "schedule",
    "storage",
    "tenant",
    "upgrade",
];

/// A file.
#[derive(Debug, Clone, PartialEq)]
pub struct Generated {
    /// From the slate's root.
    pub path: String,
    /// Two or three sentences.
    pub contents: String,
    /// Its metatags.
    pub tags: Map<String, Value>,
}

/// A set of files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Data {
    /// How many.
    pub files: u64,
    /// Another seed is other files.
    pub seed: u64,
}

impl Data {
    /// Files of [`BIG`].
    pub fn big(self) -> u64 {
        self.files / 4
    }

    fn fixed(self) -> u64 {
        FIXED_FILES.min(self.files / 4)
    }

    /// File `i` of all, from 0.
    pub fn file(self, i: u64) -> Generated {
        let (big, fixed) = (self.big(), self.fixed());
        if i < big {
            return self.within(BIG, 1, i, label(i, 1302, 100));
        }
        if i < big + fixed {
            return self.within(FIXED, 2, i - big, label(i - big, 250, 50));
        }
        let j = i - big - fixed;
        if j < FEW_FILES {
            return self.within(FEW, 3, j, None);
        }
        let k = j - FEW_FILES;
        let round: u64 = SIZES.iter().sum();
        let (mut folder, mut rest) = (k / round * SIZES.len() as u64, k % round);
        for size in SIZES {
            if rest < size {
                break;
            }
            (folder, rest) = (folder + 1, rest - size);
        }
        let path = format!("small/{:03}/{}", folder / 100, folder % 100);
        self.within(&path, 4, k, (k % 1500 == 3).then_some("medium term"))
    }

    /// The name of file `j` of [`BIG`].
    pub fn big_name(self, j: u64) -> String {
        name(j)
    }

    fn within(self, folder: &str, salt: u64, j: u64, label: Option<&str>) -> Generated {
        let mut random = Random::new(self.seed, salt, j);
        let word = |random: &mut Random| WORDS[random.skewed(WORDS.len() as u64) as usize];
        let title = format!("{} {} {}", word(&mut random), word(&mut random), j / 4);
        let topics: Vec<String> =
            (0..1 + random.below(3)).map(|_| format!("{}-{}", word(&mut random), random.skewed(5))).collect();
        let mut tags = Map::new();
        tags.insert("title".into(), title.clone().into());
        tags.insert("category".into(), category(random.below(100)).into());
        tags.insert("topics".into(), topics.into());
        tags.insert(
            "owner".into(),
            format!("{}.{}@example.com", word(&mut random), random.skewed(12)).into(),
        );
        tags.insert("year".into(), json!(2026 - random.skewed(24)));
        if random.below(100) < 15 {
            tags.insert("archived".into(), true.into());
        }
        if let Some(label) = label {
            tags.insert("label".into(), label.into());
        }
        let mut contents = format!("# {title}\n\n");
        for _ in 0..20 + random.below(40) {
            contents.push_str(word(&mut random));
            contents.push(' ');
        }
        contents.push_str(&format!("({salt}/{j})\n"));
        Generated { path: format!("{folder}/{}", name(j)), contents, tags }
    }
}

/// The name of file `j` of a folder.
pub fn name(j: u64) -> String {
    let kind = match j % 10 {
        0 => "report",
        1..=3 => "note",
        _ => "doc",
    };
    let ending = match j % 100 {
        7 => "csv",
        11 | 13 => "json",
        _ => "md",
    };
    format!("{kind}-{:07}.{ending}", (j * 7919) % NAMES)
}

fn label(j: u64, rare: u64, medium: u64) -> Option<&'static str> {
    if j % rare == 7 {
        return Some("quetzal crossing");
    }
    (j % medium == 5).then_some("medium term")
}

fn category(mut percent: u64) -> &'static str {
    for (name, share) in CATEGORIES {
        if percent < share {
            return name;
        }
        percent -= share;
    }
    CATEGORIES[0].0
}

/// Numbers that follow from a seed and a place alone (SplitMix64).
struct Random(u64);

impl Random {
    fn new(seed: u64, salt: u64, j: u64) -> Random {
        Random(seed ^ salt.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ j.wrapping_mul(0xd134_2543_de82_ef95))
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    /// Below the bound; small ones are far more frequent.
    fn skewed(&mut self, bound: u64) -> u64 {
        let most = self.below(bound) + 1;
        self.below(most)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{HashMap, HashSet};

    use super::*;

    const DATA: Data = Data { files: 20_000, seed: 1 };

    #[test]
    fn files_follow_from_number_and_seed() {
        assert_eq!(DATA.file(17), DATA.file(17));
        assert_ne!(DATA.file(17).tags, Data { seed: 2, ..DATA }.file(17).tags);
    }

    #[test]
    fn paths_are_distinct_and_folders_as_large_as_told() {
        let files: Vec<Generated> = (0..DATA.files).map(|i| DATA.file(i)).collect();
        let paths: HashSet<&str> = files.iter().map(|file| file.path.as_str()).collect();
        assert_eq!(paths.len(), files.len());
        let mut folders: HashMap<&str, u64> = HashMap::new();
        for file in &files {
            *folders.entry(file.path.rsplit_once('/').unwrap().0).or_default() += 1;
        }
        assert_eq!((folders[BIG], folders[FIXED], folders[FEW]), (5_000, FIXED_FILES, FEW_FILES));
        assert!(folders.len() > 1000, "{}", folders.len());
        assert_eq!(files[0].path, format!("{BIG}/{}", DATA.big_name(0)));
    }

    #[test]
    fn the_fixed_folder_does_not_depend_on_the_number_of_files() {
        let large = Data { files: 1_000_000, seed: 1 };
        for j in [0, 7, 2_499] {
            assert_eq!(DATA.file(DATA.big() + j), large.file(large.big() + j));
        }
    }

    #[test]
    fn values_are_skewed() {
        let with = |name: &str, value: &str| {
            (0..DATA.big()).filter(|i| DATA.file(*i).tags.get(name) == Some(&value.into())).count()
        };
        assert!((1000..1500).contains(&with("category", "general")), "{}", with("category", "general"));
        assert_eq!((with("label", "quetzal crossing"), with("label", "medium term")), (4, 50));
    }
}
