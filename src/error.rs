//! The table of problem codes, and the one error type that use cases return.
//!
//! A code is one line in `codes!`: its name in `type`, its HTTP status and its title (REST contract, "Errors").
//! How an [`Error`] is put on the wire is `http::problem`'s business; how a database error becomes one is `db`'s.

use std::borrow::Cow;

macro_rules! codes {
    ($($variant:ident $name:literal $status:literal $title:literal;)*) => {
        /// What went wrong, as a caller may test for it.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Code {
            $(#[doc = $title] $variant,)*
        }

        impl Code {
            /// Every code, in the order of the table.
            pub const ALL: &[Code] = &[$(Code::$variant,)*];

            /// The name that ends the problem's `type`.
            pub fn name(self) -> &'static str {
                match self { $(Code::$variant => $name,)* }
            }

            /// The HTTP status.
            pub fn status(self) -> u16 {
                match self { $(Code::$variant => $status,)* }
            }

            /// The problem's `title`.
            pub fn title(self) -> &'static str {
                match self { $(Code::$variant => $title,)* }
            }
        }
    };
}

codes! {
    MalformedJson        "malformed_json"         400 "The body is not well-formed JSON";
    MalformedYaml        "malformed_yaml"         400 "The body is not well-formed YAML";
    BadRequest           "bad_request"            400 "The request is malformed";
    Unauthorized         "unauthorized"           401 "A valid API key is required";
    Forbidden            "forbidden"              403 "The key lacks the scope for this";
    NotFound             "not_found"              404 "There is no such thing";
    MethodNotAllowed     "method_not_allowed"     405 "The path does not take this method";
    NotAcceptable        "not_acceptable"         406 "None of the accepted media types can be given";
    RequestTimeout       "request_timeout"        408 "The request did not come in time";
    AlreadyExists        "already_exists"         409 "It exists already";
    NameConflict         "name_conflict"          409 "The name is taken in its folder";
    FolderNotEmpty       "folder_not_empty"       409 "The folder is not empty";
    SessionFinished      "session_finished"       409 "The session is finished";
    RunActive            "run_active"             409 "The service makes the session's calls itself";
    RoundConflict        "round_conflict"         409 "The round is already taken, or is not the next";
    PromptUnavailable    "prompt_unavailable"     409 "No prompt can be assembled";
    IdempotencyRunning   "idempotency_running"    409 "A request with this Idempotency-Key is still running";
    SecretAlreadyShown   "secret_already_shown"   409 "The secret was shown once, and is not shown again";
    SecretsUnavailable   "secrets_unavailable"    409 "The secret cannot be encrypted or decrypted";
    FixedTokensOff       "fixed_tokens_off"       409 "Fixed tokens open nothing here";
    VersionPublished     "version_published"      409 "A version that was published cannot be changed";
    Conflict             "conflict"               409 "The write met another one";
    Gone                 "gone"                   410 "The version is no longer kept";
    PreconditionFailed   "precondition_failed"    412 "A precondition does not hold";
    BodyTooLarge         "body_too_large"         413 "The body is too large";
    UnsupportedMediaType "unsupported_media_type" 415 "The body has a media type that is not taken here";
    RangeNotSatisfiable  "range_not_satisfiable"  416 "The range lies outside of the file";
    Invalid              "invalid"                422 "The request has wrong content";
    IdempotencyMismatch  "idempotency_mismatch"   422 "The Idempotency-Key was used with another request";
    LimitReached         "limit_reached"          429 "The tenant's limit is reached";
    HeadersTooLarge      "headers_too_large"      431 "The request's head is too large";
    Internal             "internal"               500 "Something went wrong on our side";
    ToolFailed           "tool_failed"            502 "The tool did not answer as it should";
    Overloaded           "overloaded"             503 "The service is overloaded; try again";
    QueryTimeout         "query_timeout"          503 "The query took too long";
    Unavailable          "unavailable"            503 "The database cannot be reached";
}

/// What is wrong with one member of a body.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, utoipa::ToSchema)]
pub struct FieldError {
    /// JSON Pointer (RFC 6901) into the body, `""` is the whole of it; for a query string, `/` and the parameter's name.
    #[schema(example = "/name")]
    pub pointer: String,
    /// A sentence for people.
    #[schema(example = "must not be empty")]
    pub detail: String,
}

impl FieldError {
    /// What is wrong (`detail`) and where (`pointer`).
    pub fn new(pointer: impl Into<String>, detail: impl Into<String>) -> FieldError {
        FieldError { pointer: pointer.into(), detail: detail.into() }
    }
}

/// Appends one reference token to a JSON Pointer, escaped as RFC 6901 asks.
pub fn pointer(base: &str, token: impl std::fmt::Display) -> String {
    format!("{base}/{}", token.to_string().replace('~', "~0").replace('/', "~1"))
}

/// Why a use case was refused or failed.
#[derive(Debug, thiserror::Error)]
#[error("{}: {detail}", code.name())]
pub struct Error {
    /// What a caller may test for.
    pub code: Code,
    /// A sentence for people; never SQL, a secret, or another tenant's name.
    pub detail: Cow<'static, str>,
    /// Where a body was at fault.
    pub errors: Vec<FieldError>,
    /// What the log shall tell and the caller shall not.
    #[source]
    pub source: Option<anyhow::Error>,
    /// When it is worth asking again, in seconds from now, where that is known.
    pub retry_after: Option<u64>,
}

/// The result of a use case.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// An error with its detail.
    pub fn new(code: Code, detail: impl Into<Cow<'static, str>>) -> Error {
        Error { code, detail: detail.into(), errors: Vec::new(), source: None, retry_after: None }
    }

    /// [`Code::NotFound`], in the same words for a thing that is another's and one that never was.
    pub fn not_found() -> Error {
        Error::new(Code::NotFound, "there is no such thing, or the key may not see it")
    }

    /// [`Code::Invalid`] (422) for members of a body. The first one is repeated as the detail.
    pub fn invalid(errors: Vec<FieldError>) -> Error {
        let detail = errors.first().map_or_else(String::new, |e| match e.pointer.as_str() {
            "" => e.detail.clone(),
            at => format!("{at}: {}", e.detail),
        });
        Error { errors, ..Error::new(Code::Invalid, detail) }
    }

    /// [`Code::Invalid`] for one member.
    pub fn invalid_at(pointer: impl Into<String>, detail: impl Into<String>) -> Error {
        Error::invalid(vec![FieldError::new(pointer, detail)])
    }

    /// [`Code::Internal`]; the cause is logged, the caller learns nothing of it.
    pub fn internal(source: impl Into<anyhow::Error>) -> Error {
        Error { source: Some(source.into()), ..Error::new(Code::Internal, "the failure has been logged") }
    }
}

impl From<FieldError> for Error {
    fn from(error: FieldError) -> Error {
        Error::invalid(vec![error])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pointers_are_escaped() {
        assert_eq!(pointer("/metatags", "a/b~c"), "/metatags/a~1b~0c");
        assert_eq!(pointer("", 3), "/3");
    }

    #[test]
    fn names_of_codes_are_unique() {
        let names: std::collections::HashSet<_> = Code::ALL.iter().map(|c| c.name()).collect();
        assert_eq!(names.len(), Code::ALL.len());
    }

    #[test]
    fn the_first_wrong_member_is_the_detail() {
        let error = Error::invalid_at("/name", "must not be empty");
        assert_eq!(error.detail, "/name: must not be empty");
        assert_eq!(error.code.status(), 422);
    }
}
