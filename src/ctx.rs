//! Who calls, and when: what every use case is told about the request it serves.

use std::sync::Arc;

use chrono::{DateTime, Utc};
use uuid::Uuid;

use crate::error::{Code, Error, Result};

/// A tenant's number, which leads every key of the schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TenantId(pub i64);

impl TenantId {
    /// The operator's own number; no tenant has it, and nothing but idempotency keys is stored under it.
    pub const OPERATOR: TenantId = TenantId(0);
}

/// What a key may do (REST contract, "Who calls").
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    Hash,
    PartialOrd,
    Ord,
    serde::Serialize,
    serde::Deserialize,
    utoipa::ToSchema,
)]
#[schema(as = KeyScope)]
#[serde(rename_all = "lowercase")]
pub enum Scope {
    /// GETs.
    Read,
    /// What changes slates.
    Write,
    /// Queries, sessions, `retrieve` and citations, and the reads they imply.
    Retrieve,
    /// Settings, catalogue, sources and audit.
    Admin,
}

impl Scope {
    /// All of them.
    pub const ALL: [Scope; 4] = [Scope::Read, Scope::Write, Scope::Retrieve, Scope::Admin];

    /// The name in the API and in the database.
    pub fn as_str(self) -> &'static str {
        match self {
            Scope::Read => "read",
            Scope::Write => "write",
            Scope::Retrieve => "retrieve",
            Scope::Admin => "admin",
        }
    }
}

/// The caller of a use case: a key of a tenant.
#[derive(Debug, Clone)]
pub struct Ctx {
    /// Whose data the transaction sees.
    pub tenant: TenantId,
    /// The API key; 0 for the command line, which works as the operator of the machine.
    pub key_id: i64,
    /// What the key may do.
    pub scopes: Arc<[Scope]>,
    /// The only slates that the key may touch; `None` is all of the tenant's.
    pub slates: Option<Arc<[String]>>,
    /// Names the request in logs and problems.
    pub request_id: Uuid,
    /// When the request came, whole microseconds UTC.
    pub now: DateTime<Utc>,
}

impl Ctx {
    /// The command line's own: every scope, every slate.
    pub fn local(tenant: TenantId, now: DateTime<Utc>, request_id: Uuid) -> Ctx {
        Ctx { tenant, key_id: 0, scopes: Scope::ALL.into(), slates: None, request_id, now }
    }

    /// Whether the key may touch the slate of this name.
    pub fn sees(&self, slate: &str) -> bool {
        self.slates.as_ref().is_none_or(|names| names.iter().any(|name| name == slate))
    }

    /// Refuses a slate that the key is not bound to, in the words of one that does not exist.
    ///
    /// # Errors
    /// [`Code::NotFound`].
    pub fn slate(&self, slate: &str) -> Result<()> {
        if self.sees(slate) { Ok(()) } else { Err(Error::not_found()) }
    }

    /// Refuses a key that lacks `scope`.
    ///
    /// # Errors
    /// [`Code::Forbidden`].
    pub fn require(&self, scope: Scope) -> Result<()> {
        if self.scopes.contains(&scope) {
            Ok(())
        } else {
            Err(Error::new(Code::Forbidden, format!("this needs a key with the scope `{}`", scope.as_str())))
        }
    }
}
