//! The words of a chat endpoint, as OpenAI's and those like it take and give them: the request, and its answer.
//!
//! The model is given the session's prompt as the user's message, and the tool `retrieve`, whose parameters are the
//! session's `requestMatch`, beside those of the session's route; in the last call none. It asks by calling `retrieve` or by
//! a text that is a request, which the session tells from an answer. Of several calls in one answer one counts, `retrieve`
//! before others, the first before the next: the model is shown what came of it, and can ask for the rest. What came of
//! other tools is told in a message of its own, which any endpoint takes, whether it knows tools or not.

use serde_json::{Map, Value, json};

use super::machine::{Reason, Trouble};
use super::model::Model;
use crate::given::unsigned;
use crate::tools::call::Granted;

/// The most bytes that an output may have as JSON; what a client may submit.
const MAX_OUTPUT: usize = 1 << 20;
/// The most tokens that are believed.
const MAX_TOKENS: u64 = 1 << 40;
/// The name of the tool.
pub const TOOL: &str = "retrieve";

const SYSTEM: &str = "You answer from the documents in the user's message. To see more of them, call the tool `retrieve`, \
    or reply with nothing but a JSON object that its parameters describe. Anything else that you reply is your final answer.";
const TOOLS: &str = " You may call the other tools as well, one at a time.";
const CALLED: &str = "What the tools gave that you called, in order:";
const LAST: &str =
    "You answer from the documents in the user's message. Whatever you reply is your final answer.";

/// The name by which a model calls a capability. Endpoints take no dots, and no more than 64 characters.
pub fn function_name(capability_id: &str) -> String {
    capability_id.chars().map(|c| if c == '.' { '_' } else { c }).take(64).collect()
}

/// A call of a tool that was made, and what came of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Past {
    /// The output: a [`Form::Tool`].
    pub output: Value,
    /// What the tool gave, or what was wrong.
    pub outcome: Value,
}

/// What a model is shown.
#[derive(Debug, Clone, Copy)]
pub struct Shown<'a> {
    /// The session's prompt.
    pub prompt: &'a str,
    /// The schema of its requests.
    pub request_match: &'a Value,
    /// The tools of its route.
    pub tools: &'a [Granted],
    /// Those that were called.
    pub past: &'a [Past],
    /// Whether this is the last call.
    pub last: bool,
}

/// The body of a request.
pub fn request(model: &Model, shown: &Shown<'_>) -> Value {
    let mut body: Map<String, Value> = model.parameters.clone().unwrap_or_default();
    body.insert("model".into(), json!(model.name));
    let system = match shown.last {
        true => LAST.to_owned(),
        false => format!("{SYSTEM}{}", if shown.tools.is_empty() { "" } else { TOOLS }),
    };
    let mut messages =
        vec![json!({"role": "system", "content": system}), json!({"role": "user", "content": shown.prompt})];
    if !shown.past.is_empty() {
        let told = shown.past.iter().map(|past| format!("\n\n{}\n{}", past.output, past.outcome));
        messages.push(json!({"role": "user", "content": format!("{CALLED}{}", told.collect::<String>())}));
    }
    body.insert("messages".into(), json!(messages));
    if !shown.last {
        let description = "Fetch documents, or look at what there is. All members that are given are run.";
        let retrieve = (TOOL.to_owned(), description, shown.request_match);
        let others = shown.tools.iter().map(|tool| {
            let description = tool.display_name.as_deref().unwrap_or(&tool.capability_id);
            (function_name(&tool.capability_id), description, &tool.input_schema)
        });
        let functions = std::iter::once(retrieve).chain(others.filter(|(name, ..)| name != TOOL));
        let tools = functions.map(|(name, description, parameters)| {
            json!({"type": "function",
                "function": {"name": name, "description": description, "parameters": parameters}})
        });
        body.insert("tools".into(), tools.collect());
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
    /// As a call of another tool: `{"tool": capability, "arguments": …}`.
    Tool,
}

impl Form {
    /// The name on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Form::Content => "content",
            Form::ToolCall => "tool_call",
            Form::Tool => "tool",
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

/// Reads the body of an answer of a model that was given these capabilities as tools.
///
/// # Errors
/// [`Trouble`] that does not pass: the answer was received, and is not paid for again.
pub fn read(body: &[u8], tools: &[String]) -> Result<Said, Trouble> {
    let wrong = |why: &str| Trouble::new(Reason::BadAnswer, format!("the model's answer {why}"));
    let mut answer: Value = serde_json::from_slice(body).map_err(|_| wrong("is no JSON"))?;
    let tokens = |name: &str| {
        let count = unsigned(&answer["usage"][name]).filter(|count| *count <= MAX_TOKENS)?;
        i64::try_from(count).ok()
    };
    let (prompt_tokens, completion_tokens) = (tokens("prompt_tokens"), tokens("completion_tokens"));
    let message = answer.pointer_mut("/choices/0/message").map(Value::take);
    let Some(Value::Object(message)) = message else {
        return Err(wrong("has no choices[0].message"));
    };
    let (output, form) = output(message, tools)?;
    if output.to_string().len() > MAX_OUTPUT {
        let detail = format!("the model's output has more than {MAX_OUTPUT} bytes");
        return Err(Trouble::new(Reason::AnswerTooLarge, detail));
    }
    Ok(Said { output, form, prompt_tokens, completion_tokens })
}

fn output(mut message: Map<String, Value>, tools: &[String]) -> Result<(Value, Form), Trouble> {
    let calls = message.remove("tool_calls").into_iter().flat_map(|calls| match calls {
        Value::Array(calls) => calls,
        _ => Vec::new(),
    });
    // Older endpoints give one call, in this member.
    let old = message.remove("function_call").into_iter();
    let functions: Vec<Value> =
        calls.filter_map(|mut call| call.get_mut("function").map(Value::take)).chain(old).collect();
    let functions: Vec<Value> = functions.into_iter().filter(Value::is_object).collect();
    let name = |function: &Value| function["name"].as_str().unwrap_or_default().to_owned();
    // What is no JSON is a text, and so no request.
    let arguments = |function: &Value| match &function["arguments"] {
        Value::String(text) => serde_json::from_str(text).unwrap_or_else(|_| json!(text)),
        value => value.clone(),
    };
    if let Some(function) = functions.iter().find(|function| name(function) == TOOL) {
        return Ok((arguments(function), Form::ToolCall));
    }
    let granted = |function| tools.iter().find(|id| function_name(id) == name(function));
    if let Some((id, function)) = functions.iter().find_map(|function| Some((granted(function)?, function))) {
        let arguments = Some(arguments(function)).filter(|arguments| !arguments.is_null());
        return Ok((json!({"tool": id, "arguments": arguments.unwrap_or_else(|| json!({}))}), Form::Tool));
    }
    let called = functions.first().map(name);
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
        let tools = ["city.weather".to_owned(), "retrieve".to_owned()];
        read(body.as_bytes(), &tools).map(|said| (said.output, said.form)).map_err(|trouble| trouble.reason)
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
        a_tool_of_the_route: call("city_weather", json!("{\"city\": \"Oslo\"}")) =>
            Ok((json!({"tool": "city.weather", "arguments": {"city": "Oslo"}}), Form::Tool));
        a_tool_of_the_route_without_arguments: call("city_weather", json!("null")) =>
            Ok((json!({"tool": "city.weather", "arguments": {}}), Form::Tool));
        a_tool_of_the_route_with_half_a_value: call("city_weather", json!("{")) =>
            Ok((json!({"tool": "city.weather", "arguments": "{"}), Form::Tool));
        a_tool_and_retrieve: json!({"tool_calls": [{"function": {"name": "city_weather", "arguments": {}}},
            {"function": {"name": "retrieve", "arguments": {"glob": "*"}}}]}) =>
            Ok((json!({"glob": "*"}), Form::ToolCall));
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
            assert_eq!(read(body.as_bytes(), &[]).unwrap_err().reason, Reason::BadAnswer, "{body}");
        }
    }

    #[test]
    fn tokens_are_as_reported_or_unknown() {
        let body = |usage: Value| {
            json!({"choices": [{"message": {"content": "x"}}], "usage": usage}).to_string().into_bytes()
        };
        let said = read(&body(json!({"prompt_tokens": 3, "completion_tokens": 4})), &[]).unwrap();
        assert_eq!((said.prompt_tokens, said.completion_tokens), (Some(3), Some(4)));
        let said = read(&body(json!({"prompt_tokens": -3, "completion_tokens": u64::MAX})), &[]).unwrap();
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
        let tools = [Granted {
            capability_id: "city.weather".into(),
            display_name: None,
            input_schema: json!({"type": "object", "properties": {}}),
        }];
        let past = [Past { output: json!({"tool": "city.weather"}), outcome: json!({"degrees": 3}) }];
        let shown =
            Shown { prompt: "the prompt", request_match: &schema, tools: &[], past: &[], last: false };
        let body = request(&model, &shown);
        assert_eq!((&body["model"], &body["temperature"]), (&json!("m"), &json!(0)));
        assert_eq!(body["messages"][1], json!({"role": "user", "content": "the prompt"}));
        assert_eq!(body["messages"].as_array().unwrap().len(), 2);
        assert_eq!(body["tools"].as_array().unwrap().len(), 1);
        assert_eq!(body["tools"][0]["function"]["name"], TOOL);
        assert_eq!(body["tools"][0]["function"]["parameters"], schema);
        let body = request(&model, &Shown { tools: &tools, past: &past, ..shown });
        assert_eq!(body["tools"][1]["function"]["name"], "city_weather");
        let told = format!("{CALLED}\n\n{{\"tool\":\"city.weather\"}}\n{{\"degrees\":3}}");
        assert_eq!(body["messages"][2], json!({"role": "user", "content": told}));
        let last = request(&model, &Shown { tools: &tools, past: &past, last: true, ..shown });
        assert_eq!((last.get("tools"), &last["messages"][2]), (None, &body["messages"][2]));
    }
}
