//! What always holds of the rows of a store, whatever was done to it and however many did it at once.

use diesel::{QueryableByName, RunQueryDsl, sql_query, sql_types::Text};

use super::Server;

/// Each names what breaks a rule; so none may give a row.
const BROKEN: &[(&str, &str)] = &[
    (
        "a file lies at its folder's path and its name",
        "select f.path as line from files f join folders d on d.tenant_id = f.tenant_id and d.id = f.folder_id \
         where f.slate_id <> d.slate_id or f.path <> case d.path when '' then '' else d.path || '/' end || f.name",
    ),
    (
        "a folder lies at its parent's path and its name",
        "select d.path as line from folders d left join folders p on p.tenant_id = d.tenant_id and p.id = d.parent_id \
         where case when d.path = '' then p.id is not null \
               else p.id is null or p.slate_id <> d.slate_id \
                    or d.path <> case p.path when '' then '' else p.path || '/' end || d.name end",
    ),
    (
        "nothing is both a file and a folder",
        "select f.path as line from files f join folders d using (tenant_id, slate_id, path)",
    ),
    (
        "a file has one row of metatags, which says where it is",
        "select coalesce(f.path, t.path) as line from files f full join file_tags t \
             on t.tenant_id = f.tenant_id and t.file_id = f.id and t.slate_id = f.slate_id \
                and t.folder_id = f.folder_id and t.name = f.name and t.path = f.path and t.hidden = f.hidden \
         where f.id is null or t.file_id is null",
    ),
    (
        "what is below a hidden folder is hidden",
        "select f.path as line from files f join folders d on d.tenant_id = f.tenant_id and d.id = f.folder_id \
         where (d.hidden or f.sensitive) and not f.hidden \
         union all \
         select d.path from folders d left join folders p on p.tenant_id = d.tenant_id and p.id = d.parent_id \
         where (p.hidden or d.sensitive) and not d.hidden",
    ),
    (
        "a file is what its newest version is, at its path",
        "select f.path as line from files f where not exists (select from file_versions v \
             where v.tenant_id = f.tenant_id and v.file_id = f.id and v.version = f.version and v.path = f.path \
               and v.sha256 = f.sha256 and v.size = f.size and v.is_text = f.is_text and v.slate_id = f.slate_id \
               and f.modified_at = coalesce(v.source_modified_at, v.created_at)) \
         or exists (select from file_versions v \
             where v.tenant_id = f.tenant_id and v.file_id = f.id and v.version > f.version)",
    ),
    (
        "what is below a root, text and not hidden has the passages of its head version, and nothing else has any",
        "with belongs as (select r.tenant_id, r.id as root_id, f.id as file_id, f.path, convert_from(b.data, 'UTF8') as text \
             from passage_roots r join slates s on s.tenant_id = r.tenant_id and s.name = r.slate and s.deleted_at is null \
             join files f on f.tenant_id = r.tenant_id and f.slate_id = s.id and f.is_text and not f.hidden \
                and (r.path = '' or starts_with(f.path, r.path || '/')) \
             join version_contents b on b.tenant_id = f.tenant_id and b.file_id = f.id and b.version = f.version) \
         select coalesce(b.path, p.path) as line from belongs b \
         full join (select p.tenant_id, p.root_id, p.file_id, p.path, string_agg(p.text, '' order by p.position) as text, \
                           count(*) = max(p.position) as whole \
                    from passages p group by 1, 2, 3, 4) as p using (tenant_id, root_id, file_id) \
         where b.path is distinct from p.path and (p.path is not null or b.text ~ '\\S') or not p.whole \
            or regexp_replace(p.text, '\\s', '', 'g') <> regexp_replace(b.text, '\\s', '', 'g')",
    ),
    (
        "published corpora in slates have a root, and no other folder is one",
        "select coalesce(r.slate, c.slate) as line from passage_roots r \
         full join (select distinct tenant_id, slate, folder as path from corpora \
                    where status = 'published' and slate is not null) as c using (tenant_id, slate, path) \
         where r.id is null or c.slate is null",
    ),
    (
        "the bytes of a version are those that its hash and size tell",
        "select v.path as line from file_versions v \
             left join version_contents b on b.tenant_id = v.tenant_id and b.file_id = v.file_id and b.version = v.version \
         where v.purged_at is null and (b.data is null or sha256(b.data) <> v.sha256 or length(b.data) <> v.size)",
    ),
    (
        "bytes are kept by a version that is not purged",
        "select encode(b.sha256, 'hex') as line from blobs b \
         where not exists (select from file_versions v where v.tenant_id = b.tenant_id and v.blob = b.sha256)",
    ),
];

impl Server {
    /// Fails if any rule is broken.
    #[track_caller]
    pub fn check_store(&self) {
        #[derive(QueryableByName, Debug)]
        struct Row {
            #[diesel(sql_type = Text)]
            line: String,
        }
        let mut superuser = self.superuser();
        for (rule, query) in BROKEN {
            let rows: Vec<Row> = sql_query(*query).load(&mut superuser).unwrap();
            let rows: Vec<String> = rows.into_iter().map(|row| row.line).collect();
            assert!(rows.is_empty(), "not so that {rule}: {rows:?}");
        }
    }
}
