//! The model of a run, as the caller names it.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use url::Url;
use utoipa::ToSchema;

use crate::corpora::entry::Id;
use crate::error::{Error, FieldError, Result, pointer};

/// The longest URL, and the longest name, in bytes.
const MAX_TEXT: usize = 2048;
/// The most bytes that the parameters may have as JSON.
const MAX_PARAMETERS: usize = 64 << 10;
/// What the service says itself in a request to the model.
const OURS: &[&str] =
    &["messages", "model", "stream", "n", "tools", "tool_choice", "functions", "function_call"];

/// A model at a chat endpoint that speaks as OpenAI's does.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Model {
    /// Where the endpoint is: `/chat/completions` is appended to it.
    #[schema(example = "https://llm.example.com/v1")]
    pub base_url: String,
    /// The model's name there.
    #[schema(example = "gpt-5")]
    pub name: String,
    /// The name of a stored secret, which is sent as a bearer token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(example = "llm-key")]
    pub secret: Option<Id>,
    /// Members of the request besides those that the service writes, such as `temperature`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>, example = json!({"temperature": 0}))]
    pub parameters: Option<Map<String, Value>>,
}

impl Model {
    /// Checks what can be checked without asking anyone.
    ///
    /// # Errors
    /// 422 for each member that is wrong, with pointers under `/model`.
    pub fn check(&self) -> Result<()> {
        let mut errors = Vec::new();
        if self.endpoint().is_none() {
            let detail = "must be an http or https URL without user, password, query and fragment";
            errors.push(FieldError::new("/model/base_url", detail));
        }
        if self.name.is_empty() || self.name.len() > MAX_TEXT {
            errors.push(FieldError::new("/model/name", format!("must be a text of 1 to {MAX_TEXT} bytes")));
        }
        let parameters = self.parameters.iter().flatten();
        errors.extend(parameters.filter(|(name, _)| OURS.contains(&name.as_str())).map(|(name, _)| {
            FieldError::new(pointer("/model/parameters", name), "is written by the service")
        }));
        let size =
            self.parameters.as_ref().and_then(|given| serde_json::to_vec(given).ok()).unwrap_or_default();
        if size.len() > MAX_PARAMETERS {
            let detail = format!("must not have more than {MAX_PARAMETERS} bytes");
            errors.push(FieldError::new("/model/parameters", detail));
        }
        if errors.is_empty() { Ok(()) } else { Err(Error::invalid(errors)) }
    }

    /// Where the requests go to; `None` where the URL is none that is taken.
    pub fn endpoint(&self) -> Option<Url> {
        if self.base_url.len() > MAX_TEXT {
            return None;
        }
        let base = Url::parse(&self.base_url).ok()?;
        let plain = matches!(base.scheme(), "http" | "https")
            && base.has_host()
            && base.username().is_empty()
            && base.password().is_none()
            && base.query().is_none()
            && base.fragment().is_none();
        let joined = format!("{}/chat/completions", base.as_str().trim_end_matches('/'));
        plain.then(|| Url::parse(&joined).ok()).flatten()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn model(base_url: &str) -> Model {
        Model { base_url: base_url.into(), name: "m".into(), secret: None, parameters: None }
    }

    #[test]
    fn endpoints() {
        for (base, endpoint) in [
            ("http://h/v1", Some("http://h/v1/chat/completions")),
            ("https://h:8443/", Some("https://h:8443/chat/completions")),
            ("https://h", Some("https://h/chat/completions")),
            ("ftp://h/v1", None),
            ("http://u@h/v1", None),
            ("http://u:p@h/v1", None),
            ("http://h/v1?key=1", None),
            ("http://h/v1#x", None),
            ("/v1", None),
            ("", None),
        ] {
            assert_eq!(model(base).endpoint().map(String::from).as_deref(), endpoint, "{base}");
        }
    }

    #[test]
    fn all_that_is_wrong_is_told() {
        let parameters = json!({"temperature": 0, "messages": [], "stream": true});
        let wrong = Model {
            name: String::new(),
            parameters: parameters.as_object().cloned(),
            ..model("file:///etc/passwd")
        };
        let error = wrong.check().unwrap_err();
        let pointers: Vec<_> = error.errors.iter().map(|e| e.pointer.as_str()).collect();
        assert_eq!(
            pointers,
            ["/model/base_url", "/model/name", "/model/parameters/messages", "/model/parameters/stream"]
        );
        assert!(model("http://h/v1").check().is_ok());
    }
}
