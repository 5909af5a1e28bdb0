//! How much a round or a query may give (retrieval semantics §6).

use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use crate::error::{FieldError, pointer};
use crate::given::integer;

/// Limits as they are asked for; what is absent takes its default in a session, and is unlimited in a query.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AskedLimits {
    /// Files whose contents a round gives: 1 to 1000, 50 in a session unless said otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 1000)]
    pub max_files_per_round: Option<i64>,
    /// Bytes of contents that a round gives: 1 to 64 MiB, 1 MiB in a session unless said otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 67108864)]
    pub max_bytes_per_round: Option<i64>,
    /// Bytes of contents that all rounds give together: 1 to 256 MiB, 8 MiB in a session unless said otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 268435456)]
    pub max_total_bytes: Option<i64>,
}

/// The limits of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Limits {
    /// Files whose contents a round gives.
    pub max_files_per_round: i64,
    /// Bytes of contents that a round gives. The first file of a round may pass it, up to [`MAX_BYTES_PER_ROUND`].
    pub max_bytes_per_round: i64,
    /// Bytes of contents that all rounds give together.
    pub max_total_bytes: i64,
}

/// The server's maximum of `maxFilesPerRound`.
pub const MAX_FILES_PER_ROUND: i64 = 1000;
/// The server's maximum of `maxBytesPerRound`, in bytes.
pub const MAX_BYTES_PER_ROUND: i64 = 64 << 20;
/// The server's maximum of `maxTotalBytes`, in bytes.
pub const MAX_TOTAL_BYTES: i64 = 256 << 20;

impl AskedLimits {
    /// Parses the member `limits`, whose pointer is `base`. A value of 0, or past the server's maximum, is refused,
    /// not changed in silence. Errors are appended.
    pub fn parse(value: &Value, base: &str, errors: &mut Vec<FieldError>) -> AskedLimits {
        let mut limits = AskedLimits::default();
        let Some(members) = value.as_object() else {
            errors.push(FieldError::new(base, "must be an object"));
            return limits;
        };
        for (name, value) in members {
            let (slot, max) = match name.as_str() {
                "maxFilesPerRound" => (&mut limits.max_files_per_round, MAX_FILES_PER_ROUND),
                "maxBytesPerRound" => (&mut limits.max_bytes_per_round, MAX_BYTES_PER_ROUND),
                "maxTotalBytes" => (&mut limits.max_total_bytes, MAX_TOTAL_BYTES),
                _ => {
                    errors.push(FieldError::new(pointer(base, name), "is not a limit"));
                    continue;
                }
            };
            if value.is_null() {
                continue;
            }
            *slot = integer(value).filter(|n| (1..=max).contains(n));
            if slot.is_none() {
                errors.push(FieldError::new(
                    pointer(base, name),
                    format!("must be an integer from 1 to {max}"),
                ));
            }
        }
        limits
    }

    /// The limits of a session that asked for these.
    pub fn for_session(self) -> Limits {
        Limits {
            max_files_per_round: self.max_files_per_round.unwrap_or(50),
            max_bytes_per_round: self.max_bytes_per_round.unwrap_or(1 << 20),
            max_total_bytes: self.max_total_bytes.unwrap_or(8 << 20),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn defaults_of_a_session() {
        let limits = AskedLimits::default().for_session();
        assert_eq!(
            serde_json::to_value(limits).unwrap(),
            json!({"maxFilesPerRound": 50, "maxBytesPerRound": 1048576, "maxTotalBytes": 8388608})
        );
    }

    macro_rules! refused {
        ($($name:ident: $limits:tt => $pointers:expr;)*) => {
            $(#[test] fn $name() {
                let mut errors = Vec::new();
                AskedLimits::parse(&json!($limits), "/limits", &mut errors);
                let pointers: Vec<_> = errors.iter().map(|e| e.pointer.as_str()).collect();
                assert_eq!(pointers, $pointers);
            })*
        };
    }

    refused! {
        the_least: {"maxFilesPerRound": 1, "maxBytesPerRound": 1, "maxTotalBytes": 1} => [""; 0];
        the_most: {"maxFilesPerRound": 1000, "maxBytesPerRound": 67108864, "maxTotalBytes": 268435456} => [""; 0];
        zero: {"maxFilesPerRound": 0, "maxTotalBytes": -1} => ["/limits/maxFilesPerRound", "/limits/maxTotalBytes"];
        past_the_maximum: {"maxFilesPerRound": 1001, "maxBytesPerRound": 67108865} =>
            ["/limits/maxFilesPerRound", "/limits/maxBytesPerRound"];
        no_integer: {"maxFilesPerRound": 1.5, "maxBytesPerRound": "1", "maxTotalBytes": true} =>
            ["/limits/maxFilesPerRound", "/limits/maxBytesPerRound", "/limits/maxTotalBytes"];
        null: {"maxFilesPerRound": null, "x": null} => ["/limits/x"];
        a_fraction_of_zero: {"maxFilesPerRound": 5.0} => [""; 0];
        past_64_bits: {"maxTotalBytes": 18446744073709551615u64} => ["/limits/maxTotalBytes"];
        unknown: {"maxFiles": 1} => ["/limits/maxFiles"];
        no_object: [] => ["/limits"];
    }

    #[test]
    fn asked_limits_hold() {
        let asked = AskedLimits::parse(&json!({"maxFilesPerRound": 2}), "", &mut Vec::new());
        assert_eq!((asked.max_files_per_round, asked.max_bytes_per_round), (Some(2), None));
        assert_eq!(asked.for_session().max_files_per_round, 2);
    }
}
