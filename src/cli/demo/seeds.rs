//! The slates of `seeds/`, out of the binary.

use include_dir::{Dir, include_dir};

use crate::cli::seed::load::{self, Report, Summary, Target};
use crate::cli::seed::plan::{Plan, SeedFile, Source};
use crate::cli::seed::walk::SETTINGS_FILE;
use crate::cli::seed::{self, Problem, manifest};
use crate::cli::told;
use crate::db::Db;
use crate::path::FilePath;
use crate::tenants::tenant::TenantName;

static SEEDS: Dir = include_dir!("$CARGO_MANIFEST_DIR/seeds");

/// Loads each into a slate of its name, and says what there is now.
///
/// # Errors
/// When the database is at fault, or a seed does not load.
pub fn load(db: &Db, tenant: &str) -> anyhow::Result<String> {
    let name = TenantName::parse(tenant).map_err(told)?;
    let tenant = seed::tenant(db, &name, false).map_err(told)?;
    let mut slates = Vec::new();
    for dir in SEEDS.dirs() {
        let slate = dir.path().to_string_lossy().into_owned();
        let target = Target {
            tenant,
            slate: slate.clone(),
            settings_file: SETTINGS_FILE.into(),
            prune: false,
            replace_metatags: false,
            dry_run: false,
        };
        let mut heard = Heard::default();
        let Summary { new, unchanged, versions, updated, .. } =
            load::load(db, &target, &plan(dir)?, None, &mut heard).map_err(told)?;
        if let Some(problem) = heard.0.into_iter().next() {
            return Err(problem.into());
        }
        slates.push(format!("{slate} ({} files)", new + unchanged + versions + updated));
    }
    Ok(slates.join(", "))
}

/// What a directory on disk would be planned as, but for the times of its files, which say nothing of the documents.
fn plan(dir: &Dir) -> anyhow::Result<Plan> {
    let mut plan = Plan::default();
    let mut waiting = vec![dir];
    while let Some(folder) = waiting.pop() {
        waiting.extend(folder.dirs());
        for file in folder.files() {
            let path = file.path().strip_prefix(dir.path())?.to_string_lossy().into_owned();
            let text = std::str::from_utf8(file.contents())?;
            if path == SETTINGS_FILE {
                plan.settings = Some(manifest::settings(text).map_err(|(line, detail)| Problem {
                    path,
                    line: Some(line),
                    detail,
                })?);
            } else {
                plan.files.push(SeedFile::new(FilePath::parse(&path)?, Source::Text(text.into())));
            }
        }
    }
    plan.files.sort_unstable_by(|a, b| a.path.cmp(&b.path));
    Ok(plan)
}

/// Keeps the problems. There should be none.
#[derive(Default)]
struct Heard(Vec<Problem>);

impl Report for Heard {
    fn problem(&mut self, problem: &Problem) {
        self.0.push(problem.clone());
    }

    fn progress(&mut self, _: usize) {}

    fn pruned(&mut self, _: &str) {}
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn the_binary_holds_what_the_directory_holds() {
        for dir in SEEDS.dirs() {
            let on_disk = Path::new(env!("CARGO_MANIFEST_DIR")).join("seeds").join(dir.path());
            let (inside, outside) = (plan(dir).unwrap(), seed::plan::plan(&on_disk).unwrap());
            assert_eq!(inside.settings, outside.settings);
            let documents = |plan: &Plan| -> Vec<_> {
                plan.files.iter().map(|file| (file.path.clone(), file.load(1 << 20).unwrap())).collect()
            };
            assert_eq!(documents(&inside), documents(&outside));
            assert!(inside.files.len() > 5);
        }
    }
}
