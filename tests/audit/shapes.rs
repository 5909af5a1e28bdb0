//! The shapes of data, and what lies where in each.

use diesel::connection::SimpleConnection;
use diesel::pg::PgConnection;

use crate::load::{Tree, forget_statistics};

/// A shape: data, whose it is, and what was done to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// A tenant with one large slate, beside small tenants; the tables were analyzed.
    Large,
    /// The same, filled a moment ago: nothing is known of the tables.
    Fresh,
    /// The same, played by a small tenant.
    Small,
    /// The same after nine tenths of the files were deleted; nobody has vacuumed.
    Shrunk,
    /// Chains of 60 folders.
    Deep,
    /// One folder of everything.
    Flat,
}

impl Shape {
    pub const ALL: [Shape; 6] =
        [Shape::Large, Shape::Fresh, Shape::Small, Shape::Shrunk, Shape::Deep, Shape::Flat];
    /// Those of a short run.
    pub const SHORT: [Shape; 2] = [Shape::Large, Shape::Fresh];

    pub fn tree(self) -> Tree {
        match self {
            Shape::Large | Shape::Fresh | Shape::Small | Shape::Shrunk => Tree::Wide,
            Shape::Deep => Tree::Deep,
            Shape::Flat => Tree::Flat,
        }
    }

    pub fn places(self) -> Places {
        let of = |top: &str, leaf: &str, corpus: &str, doomed: &str| Places {
            top: top.into(),
            leaf: leaf.into(),
            corpus: corpus.into(),
            doomed: doomed.into(),
            tree: if self == Shape::Small { Tree::Few } else { self.tree() },
        };
        match self {
            Shape::Large | Shape::Fresh | Shape::Shrunk => of("d1", "d1/s1", "d1/s2", "d1/s3"),
            Shape::Small => of("d1", "d1/s1", "d1/s0", "d1/s2"),
            Shape::Deep => {
                let chain = |to: usize| (1..=to).map(|level| format!("/l{level}")).collect::<String>();
                let (leaf, corpus) = (format!("c1{}", chain(30)), format!("c1{}", chain(55)));
                of("c1", &leaf, &corpus, &format!("c2{}", chain(56)))
            }
            Shape::Flat => of("all", "all", "side", "other"),
        }
    }

    /// Does to the data what the shape is about.
    pub fn prepare(self, superuser: &mut PgConnection) {
        match self {
            Shape::Fresh => forget_statistics(superuser),
            Shape::Shrunk => superuser.batch_execute(SHRINK).unwrap(),
            _ => {}
        }
    }
}

/// Deletes as the service does: the file's identity and its versions stay.
const SHRINK: &str = "
    create temporary table gone as
      select tenant_id, id from files
      where tenant_id = (select id from tenants where name = 'big') and path ~ '^d(0|[2-9]|10|1[2-9])/';
    create index on gone (id);
    analyze gone;
    set session_replication_role = replica;
    delete from file_tags t using gone g where t.tenant_id = g.tenant_id and t.file_id = g.id;
    delete from files f using gone g where f.tenant_id = g.tenant_id and f.id = g.id;
    update file_ids i set deleted_at = now() from gone g where i.tenant_id = g.tenant_id and i.id = g.id;
    delete from folders o
      where o.tenant_id = (select id from tenants where name = 'big') and o.path ~ '^d(0|[2-9]|10|1[2-9])(/|$)';
";

/// What lies where. All of it is there in each shape.
#[derive(Debug, Clone)]
pub struct Places {
    /// A folder with folders.
    pub top: String,
    /// A folder with many files.
    pub leaf: String,
    /// A folder that becomes a corpus.
    pub corpus: String,
    /// A folder that is hidden, moved and deleted.
    pub doomed: String,
    tree: Tree,
}

impl Places {
    /// Paths of files right in `leaf`.
    pub fn files(&self, count: usize) -> Vec<String> {
        let all = (0..50_000).map(|n| self.tree.path(n));
        let within = all.filter(|path| path.rsplit_once('/').is_some_and(|(folder, _)| folder == self.leaf));
        within.take(count).collect()
    }
}
