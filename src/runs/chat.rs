//! The words of a chat endpoint, as OpenAI's and those like it take and give them: the request, and its answer.
//!
//! The model is given the session's prompt as the user's message, and one tool, `retrieve`, whose parameters are the
//! session's `requestMatch`; in the last call none. It asks by calling that tool or by a text that is a request, which the
//! session tells from an answer. Of several calls of `retrieve` in one answer the first counts: the model is shown what
//! came of it, and can ask for the rest.

use serde_json::{Map, Value, json};

use super::machine::{Reason, Trouble};
use super::model::Model;

/// The most bytes that an output may have as JSON; what a client may submit.
const MAX_OUTPUT: usize = 1 << 20;
/// The most tokens that are believed.
const MAX_TOKENS: u64 = 1 << 40;
/// The name of the tool.
pub const TOOL: &str = "retrieve";

const SYSTEM: &str = "You answer from the documents in the user's message. To see more of them, call the tool `retrieve`, \
    or reply with nothing but a JSON object that its parameters describe. Anything else that you reply is your final answer.";
const LAST: &str =
    "You answer from the documents in the user's message. Whatever you reply is your final answer.";

/// The body of a request.
pub fn request(model: &Model, prompt: &str, request_match: &Value, last: bool) -> Value {
    let mut body: Map<String, Value> = model.parameters.clone().unwrap_or_default();
    body.insert("model".into(), json!(model.name));
    let system = if last { LAST } else { SYSTEM };
    let messages = json!([{"role": "system", "content": system}, {"role": "user", "content": prompt}]);
    body.insert("messages".into(), messages);
    if !last {
        let description = "Fetch documents, or look at what there is. All members that are given are run.";
        let function = json!({"name": TOOL, "description": description, "parameters": request_match});
        body.insert("tools".into(), json!([{"type": "function", "function": function}]));
    }
    Value::Object(body)
}

/// How an output was given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// As the message's content.
    Content,
    /// As the arguments of a call of `retrieve`.
    ToolCall,
}

impl Form {
    /// The name on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Form::Content => "content",
            Form::ToolCall => "tool_call",
        }
    }
}

/// What a model said.
#[derive(Debug, Clone, PartialEq)]
pub struct Said {
    /// The output, as it is submitted.
    pub output: Value,
    /// How it was given.
    pub form: Form,
    /// Tokens of the prompt, as reported.
    pub prompt_tokens: Option<i64>,
    /// Tokens of the output, as reported.
    pub completion_tokens: Option<i64>,
}

/// Reads the body of an answer.
///
/// # Errors
/// [`Trouble`] that does not pass: the answer was received, and is not paid for again.
pub fn read(body: &[u8]) -> Result<Said, Trouble> {
    let wrong = |why: &str| Trouble::new(Reason::BadAnswer, format!("the model's answer {why}"));
    let mut answer: Value = serde_json::from_slice(body).map_err(|_| wrong("is no JSON"))?;
    let tokens = |name: &str| {
        let count = answer["usage"][name].as_u64().filter(|count| *count <= MAX_TOKENS)?;
        i64::try_from(count).ok()
    };
    let (prompt_tokens, completion_tokens) = (tokens("prompt_tokens"), tokens("completion_tokens"));
    let message = answer.pointer_mut("/choices/0/message").map(Value::take);
    let Some(Value::Object(message)) = message else {
        return Err(wrong("has no choices[0].message"));
    };
    let (output, form) = output(message)?;
    if output.to_string().len() > MAX_OUTPUT {
        let detail = format!("the model's output has more than {MAX_OUTPUT} bytes");
        return Err(Trouble::new(Reason::AnswerTooLarge, detail));
    }
    Ok(Said { output, form, prompt_tokens, completion_tokens })
}

fn output(mut message: Map<String, Value>) -> Result<(Value, Form), Trouble> {
    let calls = message.remove("tool_calls").into_iter().flat_map(|calls| match calls {
        Value::Array(calls) => calls,
        _ => Vec::new(),
    });
    // Older endpoints give one call, in this member.
    let old = message.remove("function_call").into_iter();
    let functions: Vec<Value> =
        calls.filter_map(|mut call| call.get_mut("function").map(Value::take)).chain(old).collect();
    let mut functions = functions.into_iter().filter(Value::is_object).peekable();
    let called = functions.peek().map(|function| function["name"].as_str().unwrap_or_default().to_owned());
    if let Some(mut function) = functions.find(|function| function["name"] == TOOL) {
        let output = match function["arguments"].take() {
            // What is no JSON is a text, and so no request.
            Value::String(text) => serde_json::from_str(&text).unwrap_or(Value::String(text)),
            value => value,
        };
        return Ok((output, Form::ToolCall));
    }
    let content = match message.remove("content") {
        Some(Value::Array(parts)) => {
            let texts: Vec<&str> = parts.iter().filter_map(|part| part["text"].as_str()).collect();
            Some(Value::String(texts.concat()))
        }
        None | Some(Value::Null) => message.remove("refusal").filter(Value::is_string),
        content => content,
    };
    let said = content.filter(|content| content.as_str().is_none_or(|text| !text.trim().is_empty()));
    match (said, called) {
        (Some(content), _) => Ok((content, Form::Content)),
        (None, Some(name)) => {
            let name: String = name.chars().filter(|c| !c.is_control()).take(64).collect();
            Err(Trouble::new(
                Reason::UnknownTool,
                format!("the model called the tool `{name}`, which there is not"),
            ))
        }
        (None, None) => Err(Trouble::new(Reason::EmptyAnswer, "the model answered with nothing")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(message: Value) -> Result<(Value, Form), Reason> {
        let body = json!({"choices": [{"message": message}]}).to_string();
        read(body.as_bytes()).map(|said| (said.output, said.form)).map_err(|trouble| trouble.reason)
    }

    fn call(name: &str, arguments: Value) -> Value {
        json!({"content": null, "tool_calls": [{"id": "1", "type": "function",
            "function": {"name": name, "arguments": arguments}}]})
    }

    macro_rules! messages {
        ($($name:ident: $message:expr => $expected:expr;)*) => {
            $(#[test] fn $name() { assert_eq!(of($message), $expected); })*
        };
    }

    messages! {
        text: json!({"content": "42"}) => Ok((json!("42"), Form::Content));
        json_content: json!({"content": {"files": ["a"]}}) => Ok((json!({"files": ["a"]}), Form::Content));
        parts: json!({"content": [{"type": "text", "text": "4"}, {"type": "text", "text": "2"}]}) =>
            Ok((json!("42"), Form::Content));
        half_a_value: json!({"content": "{\"files\": ["}) => Ok((json!("{\"files\": ["), Form::Content));
        refusal: json!({"content": null, "refusal": "no"}) => Ok((json!("no"), Form::Content));
        a_call: call("retrieve", json!("{\"glob\": \"*\"}")) => Ok((json!({"glob": "*"}), Form::ToolCall));
        a_call_with_an_object: call("retrieve", json!({"glob": "*"})) => Ok((json!({"glob": "*"}), Form::ToolCall));
        a_call_with_half_a_value: call("retrieve", json!("{\"glob\":")) => Ok((json!("{\"glob\":"), Form::ToolCall));
        an_old_call: json!({"function_call": {"name": "retrieve", "arguments": "{}"}}) =>
            Ok((json!({}), Form::ToolCall));
        another_tool: call("rm", json!("{}")) => Err(Reason::UnknownTool);
        another_tool_and_text: json!({"content": "x", "tool_calls": [{"function": {"name": "rm"}}]}) =>
            Ok((json!("x"), Form::Content));
        nothing: json!({"content": null}) => Err(Reason::EmptyAnswer);
        an_empty_text: json!({"content": " \n"}) => Err(Reason::EmptyAnswer);
        no_call: json!({"tool_calls": []}) => Err(Reason::EmptyAnswer);
        strange_calls: json!({"tool_calls": [1, null, {"function": 3}]}) => Err(Reason::EmptyAnswer);
        no_message: json!(3) => Err(Reason::BadAnswer);
        too_large: json!({"content": "x".repeat(MAX_OUTPUT)}) => Err(Reason::AnswerTooLarge);
    }

    #[test]
    fn what_is_no_answer_of_an_endpoint() {
        for body in ["", "{", "null", "[]", "3", "<html>", r#"{"choices":[]}"#, r#"{"choices":[{"mess"#] {
            assert_eq!(read(body.as_bytes()).unwrap_err().reason, Reason::BadAnswer, "{body}");
        }
    }

    #[test]
    fn tokens_are_as_reported_or_unknown() {
        let body = |usage: Value| {
            json!({"choices": [{"message": {"content": "x"}}], "usage": usage}).to_string().into_bytes()
        };
        let said = read(&body(json!({"prompt_tokens": 3, "completion_tokens": 4}))).unwrap();
        assert_eq!((said.prompt_tokens, said.completion_tokens), (Some(3), Some(4)));
        let said = read(&body(json!({"prompt_tokens": -3, "completion_tokens": u64::MAX}))).unwrap();
        assert_eq!((said.prompt_tokens, said.completion_tokens), (None, None));
    }

    #[test]
    fn the_request() {
        let model = Model {
            base_url: "http://h".into(),
            name: "m".into(),
            secret: None,
            parameters: json!({"temperature": 0}).as_object().cloned(),
        };
        let schema = json!({"type": "object"});
        let body = request(&model, "the prompt", &schema, false);
        assert_eq!((&body["model"], &body["temperature"]), (&json!("m"), &json!(0)));
        assert_eq!(body["messages"][1], json!({"role": "user", "content": "the prompt"}));
        assert_eq!(body["tools"][0]["function"]["name"], TOOL);
        assert_eq!(body["tools"][0]["function"]["parameters"], schema);
        assert!(request(&model, "the prompt", &schema, true).get("tools").is_none());
    }
}
