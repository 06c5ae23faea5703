//! Prompts of MCP servers as commands. A server's text stays as it is: nothing in it is run, expanded or attached.

use std::collections::BTreeMap;

use protocol::Extra;
use protocol::agent::{Command, CommandSource};
use protocol::part::TextPart;
use protocol::prompt::{CommandInput, PartInput, PartInputBody, PromptInput};
use supervision::mcp::{Argument, Content, Prompt, Servers};

use super::expand::{MAX_TEXT, split};
use super::{model, too_long};

/// Returns the prompts of connected servers as commands. Their text is known only once they are called.
pub async fn served(servers: &Servers) -> Vec<Command> {
    servers.prompts().await.iter().map(command).collect()
}

fn command(prompt: &Prompt) -> Command {
    Command {
        name: prompt.name.clone(),
        description: prompt.description.clone(),
        agent: None,
        model: None,
        source: Some(CommandSource::Mcp),
        template: String::new(),
        subtask: None,
        hints: (1..=prompt.arguments.len()).map(|number| format!("${number}")).collect(),
        extra: Extra::new(),
    }
}

/// Gets a prompt from its server. Fails if an argument is missing, the server fails, or the text is too long.
pub(super) async fn ask(
    servers: &Servers,
    prompt: &Prompt,
    input: &CommandInput,
) -> Result<PromptInput, String> {
    let arguments = fill(prompt, &input.arguments)?;
    let mut said = servers.prompt(prompt, &arguments).await.map_err(|error| error.to_string())?;
    if said.is_empty() {
        return Err(format!("the MCP server \"{}\" returned an empty prompt", prompt.server));
    }
    if prompt.arguments.is_empty() && !input.arguments.trim().is_empty() {
        said.push(Content::Text(input.arguments.clone()));
    }
    if said.iter().map(length).sum::<usize>() > MAX_TEXT {
        return Err(too_long());
    }
    let mut asked = PromptInput::text("");
    asked.message_id.clone_from(&input.message_id);
    asked.variant.clone_from(&input.variant);
    asked.agent.clone_from(&input.agent);
    asked.model = input.model.as_deref().map(model).transpose()?;
    asked.parts = said.into_iter().map(part).collect();
    asked.parts.extend(input.parts.iter().flatten().cloned());
    Ok(asked)
}

/// Assigns words to arguments in order. The last argument gets all remaining words.
fn fill(prompt: &Prompt, written: &str) -> Result<BTreeMap<String, String>, String> {
    let words = split(written);
    let mut filled = BTreeMap::new();
    for (at, argument) in prompt.arguments.iter().enumerate() {
        let rest = words.get(at..).unwrap_or_default();
        let is_last = at + 1 == prompt.arguments.len();
        let value = if is_last { rest.join(" ") } else { rest.iter().take(1).copied().collect() };
        if !value.is_empty() {
            filled.insert(argument.name.clone(), value);
        } else if argument.required {
            return Err(format!("the argument \"{}\" is missing: {}", argument.name, usage(prompt)));
        }
    }
    Ok(filled)
}

/// Returns the usage of a command.
fn usage(prompt: &Prompt) -> String {
    let shown = |Argument { name, required, .. }: &Argument| {
        if *required { format!(" <{name}>") } else { format!(" [{name}]") }
    };
    format!("/{}{}", prompt.name, prompt.arguments.iter().map(shown).collect::<String>())
}

fn length(content: &Content) -> usize {
    match content {
        Content::Text(text) => text.len(),
        // The size of a file is checked when it is attached.
        Content::File(_) => 0,
    }
}

fn part(content: Content) -> PartInput {
    let body = match content {
        Content::Text(text) => PartInputBody::Text(TextPart { text, ..TextPart::default() }),
        Content::File(file) => PartInputBody::File(file),
    };
    PartInput { id: None, body }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prompt(arguments: &[(&str, bool)]) -> Prompt {
        let argument = |&(name, required): &(&str, bool)| Argument {
            name: name.to_owned(),
            description: None,
            required,
        };
        Prompt {
            name: "db:explain".to_owned(),
            server: "db".to_owned(),
            prompt: "explain".to_owned(),
            description: None,
            arguments: arguments.iter().map(argument).collect(),
        }
    }

    fn filled(arguments: &[(&str, bool)], written: &str) -> Result<Vec<String>, String> {
        let shown = |(name, value): (String, String)| format!("{name}={value}");
        fill(&prompt(arguments), written).map(|filled| filled.into_iter().map(shown).collect())
    }

    #[test]
    fn words_go_to_arguments_in_their_order_and_the_last_takes_the_rest() {
        let two = [("a", true), ("b", false)];
        assert_eq!(filled(&two, "one two three").unwrap(), ["a=one", "b=two three"]);
        assert_eq!(filled(&two, "'one two' three").unwrap(), ["a=one two", "b=three"]);
        assert_eq!(filled(&two, "one").unwrap(), ["a=one"]);
        assert_eq!(filled(&[], "one").unwrap(), Vec::<String>::new());
    }

    #[test]
    fn a_missing_argument_is_named_with_the_usage() {
        let error = filled(&[("table", true), ("depth", false)], "  ").unwrap_err();
        assert_eq!(error, "the argument \"table\" is missing: /db:explain <table> [depth]");
    }

    #[test]
    fn a_command_hints_at_its_arguments() {
        let command = command(&prompt(&[("table", true), ("depth", false)]));
        assert_eq!(command.hints, ["$1", "$2"]);
        assert_eq!(command.source, Some(CommandSource::Mcp));
    }
}
