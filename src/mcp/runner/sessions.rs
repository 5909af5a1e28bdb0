//! MCP sessions over HTTP: the workers of this server, and whose they are.
//!
//! An MCP session's worker lives on one server, and its row is known to all: where a request comes to a server that has no
//! worker, or to one that was started again, the worker is made anew from what the client said when it opened the session.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use futures_util::Stream;
use rmcp::model::{ClientJsonRpcMessage, ServerJsonRpcMessage};
use rmcp::transport::common::server_side_http::ServerSseMessage;
use rmcp::transport::streamable_http_server::session::local::{LocalSessionManager, SessionConfig};
use rmcp::transport::streamable_http_server::session::{
    RestoreOutcome, SessionState, SessionStore, SessionStoreError,
};
use rmcp::transport::streamable_http_server::{SessionId, SessionManager};
use uuid::Uuid;

use super::caller::Caller;
use crate::ctx::TenantId;
use crate::db::Db;
use crate::error::{Code, Error};
use crate::mcp::ops;

/// How long a worker to which nothing is said is kept.
const IDLE: Duration = Duration::from_secs(30 * 60);

type Local = LocalSessionManager;
type LocalError = <Local as SessionManager>::Error;

/// The MCP sessions that have a worker here.
pub(in crate::mcp) struct Sessions {
    local: Local,
    owners: Mutex<HashMap<String, Owner>>,
    db: Db,
}

/// Whose an MCP session is.
#[derive(Debug, Clone, PartialEq)]
struct Owner {
    tenant: TenantId,
    key_id: i64,
    at: Option<Uuid>,
    until: DateTime<Utc>,
}

impl Owner {
    fn of(caller: &Caller, until: DateTime<Utc>) -> Owner {
        let Caller { ctx, at } = caller;
        Owner { tenant: ctx.tenant, key_id: ctx.key_id, at: *at, until }
    }

    fn is(&self, caller: &Caller) -> bool {
        (self.tenant, self.key_id, self.at) == (caller.ctx.tenant, caller.ctx.key_id, caller.at)
            && self.until > caller.ctx.now
    }
}

/// What becomes of a request whose MCP session is not the caller's.
pub(in crate::mcp) fn unknown() -> Error {
    Error::new(Code::NotFound, "there is no such MCP session; send `initialize` to open another")
}

impl Sessions {
    pub fn new(db: Db) -> Sessions {
        let mut local = Local::default();
        let mut config = SessionConfig::default();
        config.keep_alive = Some(IDLE);
        local.session_config = config;
        Sessions { local, owners: Mutex::default(), db }
    }

    fn owners(&self) -> std::sync::MutexGuard<'_, HashMap<String, Owner>> {
        self.owners.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Refuses a caller that is not the owner. What the protocol does by itself has no caller.
    fn check(&self, id: &SessionId) -> Result<(), LocalError> {
        let Some(caller) = Caller::current() else { return Ok(()) };
        if self.owners().get(&**id).is_some_and(|owner| owner.is(&caller)) {
            return Ok(());
        }
        Caller::refuse(unknown());
        Err(LocalError::SessionNotFound(id.clone()))
    }

    /// Does something in the database for the caller.
    async fn asked<T: Send + 'static>(
        &self,
        id: &str,
        work: impl Fn(&mut crate::db::Tx, &Caller, Uuid) -> crate::error::Result<T> + Send + 'static,
    ) -> crate::error::Result<T> {
        let caller = Caller::current().ok_or_else(unknown)?;
        let id = Uuid::parse_str(id).map_err(|_| unknown())?;
        self.db.tenant(caller.ctx.tenant, move |tx| work(tx, &caller, id)).await
    }
}

impl SessionManager for Sessions {
    type Error = LocalError;
    type Transport = <Local as SessionManager>::Transport;

    async fn create_session(&self) -> Result<(SessionId, Self::Transport), LocalError> {
        let (id, transport) = self.local.create_session().await?;
        let opened = self.asked(&id, |tx, caller, id| ops::open(tx, &caller.ctx, id, caller.at)).await;
        let closed = match opened {
            Ok(closed) => closed,
            Err(error) => {
                Caller::refuse(error);
                self.local.close_session(&id).await?;
                return Err(LocalError::SessionNotFound(id));
            }
        };
        for old in closed {
            let old: SessionId = old.to_string().into();
            self.owners().remove(&*old);
            self.local.close_session(&old).await?;
        }
        if let Some(caller) = Caller::current() {
            let until = caller.ctx.now + TimeDelta::hours(ops::LASTS_HOURS);
            self.owners().insert(id.to_string(), Owner::of(&caller, until));
        }
        Ok((id, transport))
    }

    async fn initialize_session(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<ServerJsonRpcMessage, LocalError> {
        self.local.initialize_session(id, message).await
    }

    async fn has_session(&self, id: &SessionId) -> Result<bool, LocalError> {
        let here = self.local.has_session(id).await?;
        if here && self.check(id).is_err() {
            return Err(LocalError::SessionNotFound(id.clone()));
        }
        Ok(here)
    }

    async fn close_session(&self, id: &SessionId) -> Result<(), LocalError> {
        if Caller::current().is_some() {
            let known = self.asked(id, |tx, caller, id| ops::find(tx, &caller.ctx, id, caller.at)).await;
            if let Err(error) = known.and_then(|found| found.ok_or_else(unknown)) {
                Caller::refuse(error);
                return Err(LocalError::SessionNotFound(id.clone()));
            }
        }
        self.owners().remove(&**id);
        self.local.close_session(id).await
    }

    async fn create_stream(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, LocalError> {
        self.check(id)?;
        self.local.create_stream(id, message).await
    }

    async fn accept_message(&self, id: &SessionId, message: ClientJsonRpcMessage) -> Result<(), LocalError> {
        self.check(id)?;
        self.local.accept_message(id, message).await
    }

    async fn create_standalone_stream(
        &self,
        id: &SessionId,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, LocalError> {
        self.check(id)?;
        self.local.create_standalone_stream(id).await
    }

    async fn resume(
        &self,
        id: &SessionId,
        last_event_id: String,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, LocalError> {
        self.check(id)?;
        self.local.resume(id, last_event_id).await
    }

    async fn restore_session(&self, id: SessionId) -> Result<RestoreOutcome<Self::Transport>, LocalError> {
        self.check(&id)?;
        self.local.restore_session(id).await
    }
}

/// The rows of MCP sessions.
pub(in crate::mcp) struct Rows(pub std::sync::Arc<Sessions>);

#[async_trait::async_trait]
impl SessionStore for Rows {
    async fn load(&self, id: &str) -> Result<Option<SessionState>, SessionStoreError> {
        let Rows(sessions) = self;
        let found = sessions.asked(id, |tx, caller, id| ops::find(tx, &caller.ctx, id, caller.at)).await;
        let found = found.and_then(|found| {
            let (initialize, until) = found.ok_or_else(unknown)?;
            Ok((serde_json::from_value(initialize).map_err(Error::internal)?, until))
        });
        match found {
            Ok((params, until)) => {
                if let Some(caller) = Caller::current() {
                    sessions.owners().insert(id.to_owned(), Owner::of(&caller, until));
                }
                Ok(Some(SessionState::new(params)))
            }
            Err(error) => {
                Caller::refuse(error);
                Ok(None)
            }
        }
    }

    async fn store(&self, id: &str, state: &SessionState) -> Result<(), SessionStoreError> {
        let initialize = serde_json::to_value(&state.initialize_params)?;
        let Rows(sessions) = self;
        Ok(sessions.asked(id, move |tx, caller, id| ops::greet(tx, &caller.ctx, id, &initialize)).await?)
    }

    async fn delete(&self, id: &str) -> Result<(), SessionStoreError> {
        let Rows(sessions) = self;
        Ok(sessions.asked(id, |tx, caller, id| ops::close(tx, &caller.ctx, id)).await?)
    }
}
