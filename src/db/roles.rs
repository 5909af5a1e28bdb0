//! The three roles, and the check that the service runs as the least of them.
//!
//! The *owner* holds the schema and cannot log in: tables are not forced under row-level security for it, since its
//! search views must see through the policies. Migrations log in as a member of the owner. The *application role* may do
//! what the service needs and no more, and the service's own login is a member of it alone. Role names carry the
//! database's name, since roles belong to the cluster.

use anyhow::{Context, bail};
use diesel::pg::PgConnection;
use diesel::sql_types::{Array, Bool, Text};
use diesel::{QueryableByName, RunQueryDsl};

/// The names of a database's two roles.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Roles {
    /// Holds the schema; cannot log in.
    pub owner: String,
    /// What the service's login is a member of.
    pub app: String,
}

impl Roles {
    /// The roles of the database that has this name. Long names are cut, and told apart by a hash.
    pub fn of(database: &str) -> Roles {
        use sha2::Digest;
        let suffix = if database.len() <= 40 {
            database.to_owned()
        } else {
            let cut = (0..=31).rev().find(|&at| database.is_char_boundary(at)).unwrap_or_default();
            let hash = sha2::Sha256::digest(database.as_bytes());
            format!("{}_{:02x}{:02x}{:02x}{:02x}", &database[..cut], hash[0], hash[1], hash[2], hash[3])
        };
        Roles { owner: format!("slatebase_owner_{suffix}"), app: format!("slatebase_app_{suffix}") }
    }
}

#[derive(QueryableByName)]
struct TooMuch {
    #[diesel(sql_type = Text)]
    login: String,
    #[diesel(sql_type = Bool)]
    superuser: bool,
    #[diesel(sql_type = Bool)]
    bypasses: bool,
    #[diesel(sql_type = Bool)]
    creates_roles: bool,
    #[diesel(sql_type = Bool)]
    creates_objects: bool,
    #[diesel(sql_type = Bool)]
    owns: bool,
    #[diesel(sql_type = Bool)]
    makes_temporary: bool,
    #[diesel(sql_type = Text)]
    database: String,
    /// Functions that run as their owner and look up names where the caller may have put some first.
    #[diesel(sql_type = Array<Text>)]
    open_functions: Vec<String>,
}

/// Refuses a login that could bypass the isolation of tenants, and says which right is too much. It is `session_user`
/// that is looked at, and every role that it is a member of. Refused as well are functions of other roles that it could
/// make run what it likes.
///
/// # Errors
/// Names the right, and what to do.
pub fn refuse_powerful(connection: &mut PgConnection) -> anyhow::Result<()> {
    let found: TooMuch = diesel::sql_query(
        "with mine as (select r.* from pg_roles r where pg_has_role(session_user, r.oid, 'member')) \
         select session_user::text as login, bool_or(rolsuper) as superuser, bool_or(rolbypassrls) as bypasses, \
                bool_or(rolcreaterole) as creates_roles, \
                bool_or(has_schema_privilege(mine.oid, 'public', 'create')) as creates_objects, \
                exists (select from pg_class c where c.relnamespace = 'public'::regnamespace \
                        and c.relowner in (select oid from mine)) as owns, \
                bool_or(has_database_privilege(mine.oid, current_database(), 'temporary')) as makes_temporary, \
                quote_ident(current_database()) as database, \
                array(select p.oid::regprocedure::text from pg_proc p \
                       where p.pronamespace = 'public'::regnamespace and p.prosecdef \
                         and exists (select from mine m where has_function_privilege(m.oid, p.oid, 'execute')) \
                         and not exists (select from unnest(p.proconfig) as setting \
                                          where setting ~ '^search_path=(.*, )?\"?pg_temp\"?$' \
                                            and setting !~ 'pg_temp.*pg_temp') order by 1) as open_functions \
         from mine",
    )
    .get_result(connection)
    .context("cannot read the rights of the database login")?;
    let rights = [
        (found.superuser, "is a superuser, or a member of one"),
        (found.bypasses, "has BYPASSRLS"),
        (found.creates_roles, "has CREATEROLE"),
        (found.owns, "owns tables of the schema, or is a member of the role that does"),
        (found.creates_objects, "has CREATE on the schema public"),
    ];
    if let Some((_, right)) = rights.iter().find(|(held, _)| *held) {
        bail!(
            "the database login \"{}\" {right}, so row-level security would not hold it back. \
             SLATEBASE_DATABASE_URL must name a login that is a member of the application role and nothing more; \
             `slatebase migrate` makes one when SLATEBASE_MIGRATE_DATABASE_URL names the powerful login",
            found.login
        );
    }
    if found.makes_temporary {
        bail!(
            "the database login \"{}\" may make temporary tables, which stand before all others in its session: run \
             `slatebase migrate`, or `revoke temporary on database {} from public` as the database's owner; where the login \
             or a role that it is a member of holds the right by name, revoke it from that too",
            found.login,
            found.database
        );
    }
    if !found.open_functions.is_empty() {
        bail!(
            "these functions run as their owner on behalf of \"{}\", and their search path does not end with pg_temp, so \
             that they may use what the caller made: {}. Run `slatebase migrate`, or `alter function … set search_path = \
             pg_catalog, pg_temp`, or revoke the right to execute them",
            found.login,
            found.open_functions.join(", ")
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn role_names_fit_an_identifier() {
        assert_eq!(Roles::of("slatebase").app, "slatebase_app_slatebase");
        let long = Roles::of(&"é".repeat(31));
        assert!(long.owner.len() <= 63 && long.owner != Roles::of(&format!("{}e", "é".repeat(30))).owner);
    }
}
