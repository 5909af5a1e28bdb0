//! Looking up what a request needs before it is searched for, in one statement: the declared folder, the files that are
//! named, and the numbers of the terms that its tests ask for.

use super::found::Scope;
use super::heads::{ABOVE, COLUMNS, Contents, HEAD, PLACE};
use super::modes::{metatag, r#where};
use super::request::Request;
use super::sql::Sql;
use crate::path::FolderPath;

/// Which files are looked through.
#[derive(Debug, Clone)]
pub enum Place<'a> {
    /// Those of a folder that is known.
    Known(&'a Scope),
    /// Those of the folder that the statement itself finds, as `here`.
    Here {
        /// Whether the folders below are looked at as well.
        recursive: bool,
        /// Its path, as it was given.
        folder: &'a FolderPath,
    },
}

impl Place<'_> {
    /// Appends the condition that a row lies in the place: by the folder alone where only that is looked at, else by the
    /// slate and the bounds of the subtree. The indexes are made for just these two.
    pub fn push(&self, sql: &mut Sql) {
        let (recursive, folder) = match self {
            Place::Known(scope) => (scope.recursive, &scope.folder),
            Place::Here { recursive, folder } => (*recursive, *folder),
        };
        let mut number = |column: &str| {
            sql.push(column).push(" = ");
            match (self, column) {
                (Place::Here { .. }, _) => sql.push(&format!("(select {column} from here)")),
                (Place::Known(scope), "folder_id") => sql.bind(scope.folder_id),
                (Place::Known(scope), _) => sql.bind(scope.slate_id),
            };
        };
        if !recursive {
            return number("folder_id");
        }
        number("slate_id");
        if let Some((first, beyond)) = folder.below() {
            sql.push(" and path >= ").bind(first).push(" and path < ").bind(beyond);
        }
    }
}

/// A declared folder, as a request names it.
#[derive(Debug, Clone, Copy)]
pub struct Declared<'a> {
    /// The slate's name.
    pub slate: &'a str,
    /// The folder.
    pub folder: &'a FolderPath,
    /// Whether the folders below are looked at as well.
    pub recursive: bool,
}

/// The statement that finds a folder which is not hidden, by its very path. A row for each file at one of `paths` (from the
/// slate's root, hidden ones too), or one without a file; each row tells of the folder. The terms are in `metatag_ids`, and in
/// `filter_ids` as JSON, null where they are not asked for,.
pub fn statement(
    tenant: i64,
    declared: Declared<'_>,
    request: &Request,
    paths: Vec<String>,
    contents: Contents,
) -> Sql {
    let mut sql = Sql::new(tenant);
    let place = Place::Here { recursive: declared.recursive, folder: declared.folder };
    sql.push(
        "with recursive here as materialized (select s.id as slate_id, s.name as slate, s.authority, s.volatile, \
         s.max_age_seconds, d.id as folder_id, d.path as folder from slates s \
         join folders d on d.tenant_id = $1 and d.slate_id = s.id and not d.hidden and d.path = ",
    );
    sql.bind(declared.folder.as_str()).push(" where s.tenant_id = $1 and s.deleted_at is null and s.name = ");
    sql.bind(declared.slate).push(")");
    let named = !paths.is_empty();
    if named {
        sql.push(&format!(", hit as materialized (select asked.path as key, f.hidden, {COLUMNS}, "));
        contents.push(&mut sql);
        sql.push(" from here cross join unnest(").bind(paths);
        sql.push(
            ") as asked (path) cross join lateral (select * from files f \
             where f.tenant_id = $1 and f.slate_id = here.slate_id and f.path = asked.path limit 1) as f), ",
        );
        sql.push(PLACE).push(ABOVE);
        sql.push(&format!(", named as (select hit.key, hit.hidden, {HEAD} from hit)"));
    }
    sql.push(
        " select here.slate_id, here.slate, here.authority as slate_authority, here.volatile, here.max_age_seconds, \
         here.folder_id, here.folder, ",
    );
    match &request.metatag {
        None => sql.push("null::bigint[]"),
        Some(test) => {
            sql.push("(select ids from (");
            metatag::push_look_up(&mut sql, &place, test);
            sql.push(") as terms)")
        }
    };
    sql.push(" as metatag_ids, ");
    let wanted = request.filter.as_ref().map(r#where::wanted).unwrap_or_default();
    match wanted.is_empty() {
        true => sql.push("null::text"),
        false => {
            sql.push("(select json_agg(ids order by place)::text from (");
            r#where::push_look_up(&mut sql, &wanted);
            sql.push(") as terms)")
        }
    };
    sql.push(" as filter_ids, ");
    sql.push(if named { "named.* from here left join named on true" } else { NO_FILE });
    sql
}

const NO_FILE: &str = "null::text as key, null::boolean as hidden, null::bigint as id, null::text as path, \
    null::bigint as version, null::bigint as size, null::bytea as sha256, null::text as media_type, \
    null::boolean as is_text, null::text as authority, null::timestamptz as last_modified, null::bytea as data from here";
