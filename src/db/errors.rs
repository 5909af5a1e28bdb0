//! How a database error becomes a problem code: by its kind and by the prefix of the constraint's name, since
//! constraint names gain a suffix on the shards of a distributed database.

use diesel::result::{DatabaseErrorInformation, DatabaseErrorKind, Error as DieselError};

use crate::error::{Code, Error};

/// Constraints that a caller can meet, by prefix. All others are races, which `Db` retries.
const CONSTRAINTS: &[(&str, Code, &str)] = &[
    ("tenants_name", Code::AlreadyExists, "a tenant of this name exists"),
    ("aliases_taken", Code::AlreadyExists, "the token is another key's"),
    ("files_nfc", Code::NameConflict, "a name that differs only in Unicode normal form exists in the folder"),
    (
        "folders_nfc",
        Code::NameConflict,
        "a name that differs only in Unicode normal form exists in the folder",
    ),
];

impl From<DieselError> for Error {
    fn from(error: DieselError) -> Error {
        match &error {
            DieselError::DatabaseError(kind, info) => from_database(*kind, info.as_ref()).with_source(error),
            _ => Error::internal(error),
        }
    }
}

impl Error {
    /// A transaction, or a statement of it, took longer than it may.
    pub(super) fn query_timeout() -> Error {
        Error::new(
            Code::QueryTimeout,
            "the query ran into the time limit; name a smaller folder, a longer text or a more selective pattern",
        )
    }

    fn with_source(self, source: DieselError) -> Error {
        match self.code {
            // These three are the caller's to know and no fault of ours.
            Code::AlreadyExists | Code::NameConflict | Code::QueryTimeout => self,
            _ => Error { source: Some(source.into()), ..self },
        }
    }
}

/// How the server and its client library say that a connection is no more.
const LOST: &[&str] = &[
    "terminating connection",
    "server closed the connection",
    "no connection to the server",
    "the database system is",
];

fn lost() -> Error {
    Error::new(Code::Unavailable, "the connection to the database was lost")
}

fn from_database(kind: DatabaseErrorKind, info: &(dyn DatabaseErrorInformation + Send + Sync)) -> Error {
    let constraint = info.constraint_name().unwrap_or_default();
    if let Some((_, code, detail)) = CONSTRAINTS.iter().find(|(prefix, ..)| constraint.starts_with(prefix)) {
        return Error::new(*code, *detail);
    }
    match kind {
        DatabaseErrorKind::UniqueViolation
        | DatabaseErrorKind::ForeignKeyViolation
        | DatabaseErrorKind::SerializationFailure => {
            Error::new(Code::Conflict, "another write came between; try again")
        }
        DatabaseErrorKind::ClosedConnection | DatabaseErrorKind::UnableToSendCommand => lost(),
        // diesel gives no SQLSTATE for these; the text is the server's own and in its language.
        _ if LOST.iter().any(|text| info.message().contains(text)) => lost(),
        _ if info.message().contains("deadlock") => {
            Error::new(Code::Conflict, "another write came between; try again")
        }
        _ if info.message().contains("statement timeout") => Error::query_timeout(),
        _ => Error::new(Code::Internal, "the failure has been logged"),
    }
}
