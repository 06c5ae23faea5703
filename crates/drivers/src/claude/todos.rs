//! The todo list of Claude Code. Older versions write the whole list at once. Newer versions have a tool for each
//! change, and only the results of these tools contain an entry's number.

use protocol::{Extra, Todo};
use serde_json::Value;

/// Most entries that are kept.
const MAX_TODOS: usize = 200;

/// The field of an entry that stores its number, so that a resumed conversation can refer to it.
const NUMBER: &str = "id";

/// The known entries with their numbers, in order.
#[derive(Debug, Default)]
pub(super) struct Todos(Vec<(String, Todo)>);

impl Todos {
    /// Takes over the list of a resumed conversation. Entries without a number are left out.
    pub(super) fn remember(&mut self, todos: Vec<Todo>) {
        let numbered = |todo: Todo| Some((todo.extra.get(NUMBER).and_then(id)?, todo));
        self.0 = todos.into_iter().take(MAX_TODOS).filter_map(numbered).collect();
    }

    /// Takes in the result of a successful call. Returns the whole list if the call has changed it.
    pub(super) fn observe(
        &mut self,
        name: &str,
        input: &Extra,
        output: &str,
        result: &Value,
    ) -> Option<Vec<Todo>> {
        match name {
            "TodoWrite" => self.replace(input.get("todos")?.as_array()?),
            "TaskList" => self.replace(result.get("tasks")?.as_array()?),
            "TaskCreate" => self.create(input, output, result)?,
            "TaskUpdate" => self.update(input)?,
            _ => return None,
        }
        Some(self.0.iter().map(|(_, todo)| todo.clone()).collect())
    }

    fn replace(&mut self, entries: &[Value]) {
        let numbered = entries.iter().take(MAX_TODOS).enumerate();
        self.0 = numbered
            .map(|(index, entry)| {
                let told = entry.get("id").and_then(id);
                let content = ["content", "subject"].iter().find_map(|key| entry.get(*key)?.as_str());
                let status = entry.get("status").and_then(Value::as_str).unwrap_or("pending");
                let todo = todo(told.as_deref(), content.unwrap_or_default(), status);
                (told.unwrap_or_else(|| (index + 1).to_string()), todo)
            })
            .collect();
    }

    fn create(&mut self, input: &Extra, output: &str, result: &Value) -> Option<()> {
        let content = ["subject", "description"].iter().find_map(|key| input.get(*key)?.as_str())?;
        let told = result.pointer("/task/id").and_then(id);
        let id = told.or_else(|| number(output)).unwrap_or_else(|| (self.0.len() + 1).to_string());
        if self.0.len() < MAX_TODOS {
            let todo = todo(Some(&id), content, "pending");
            self.0.push((id, todo));
        }
        Some(())
    }

    /// Updates one entry. Returns none for an unknown entry, which leaves the list unchanged.
    fn update(&mut self, input: &Extra) -> Option<()> {
        let wanted = input.get("taskId").and_then(id)?;
        let at = self.0.iter().position(|(id, _)| *id == wanted)?;
        let status = input.get("status").and_then(Value::as_str);
        if status == Some("deleted") {
            self.0.remove(at);
            return Some(());
        }
        let (_, entry) = self.0.get_mut(at)?;
        if let Some(status) = status {
            status.clone_into(&mut entry.status);
        }
        if let Some(subject) = input.get("subject").and_then(Value::as_str) {
            subject.clone_into(&mut entry.content);
        }
        Some(())
    }
}

fn todo(number: Option<&str>, content: &str, status: &str) -> Todo {
    let priority = "medium".to_owned();
    let extra = number.map(|number| (NUMBER.to_owned(), number.into())).into_iter().collect();
    Todo { content: content.to_owned(), status: status.to_owned(), priority, extra }
}

fn id(value: &Value) -> Option<String> {
    value.as_str().map(str::to_owned).or_else(|| value.as_u64().map(|id| id.to_string()))
}

/// The number in "Task #3 created".
fn number(output: &str) -> Option<String> {
    let digits: String = output.split_once('#')?.1.chars().take_while(char::is_ascii_digit).collect();
    (!digits.is_empty()).then_some(digits)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn observe(todos: &mut Todos, name: &str, input: Value, output: &str, result: &Value) -> Option<String> {
        let list = todos.observe(name, &serde_json::from_value(input).unwrap(), output, result)?;
        let shown = list.iter().map(|todo| format!("{}: {}", todo.content, todo.status));
        Some(shown.collect::<Vec<_>>().join(", "))
    }

    #[test]
    fn a_list_is_written_at_once() {
        let mut todos = Todos::default();
        let input = json!({ "todos": [{ "content": "one", "status": "completed" }, { "content": "two" }] });
        let list = observe(&mut todos, "TodoWrite", input, "", &Value::Null);
        assert_eq!(list.as_deref(), Some("one: completed, two: pending"));
        assert_eq!(observe(&mut todos, "Read", json!({}), "", &Value::Null), None);
    }

    #[test]
    fn a_list_is_changed_entry_by_entry() {
        let mut todos = Todos::default();
        observe(&mut todos, "TaskCreate", json!({ "subject": "one" }), "Task #4 created", &Value::Null);
        let told = json!({ "task": { "id": "5" } });
        observe(&mut todos, "TaskCreate", json!({ "subject": "two" }), "", &told);
        let list =
            observe(&mut todos, "TaskUpdate", json!({ "taskId": "4", "status": "in_progress" }), "", &told);
        assert_eq!(list.as_deref(), Some("one: in_progress, two: pending"));
        let list =
            observe(&mut todos, "TaskUpdate", json!({ "taskId": "5", "status": "deleted" }), "", &told);
        assert_eq!(list.as_deref(), Some("one: in_progress"));
        assert_eq!(observe(&mut todos, "TaskUpdate", json!({ "taskId": "9" }), "", &told), None);
        let all = json!({ "tasks": [{ "id": "7", "subject": "seven", "status": "completed" }] });
        assert_eq!(observe(&mut todos, "TaskList", json!({}), "", &all).as_deref(), Some("seven: completed"));
    }

    #[test]
    fn a_resumed_conversation_keeps_its_list() {
        let mut before = Todos::default();
        let input = serde_json::from_value(json!({ "subject": "one" })).unwrap();
        let list = before.observe("TaskCreate", &input, "Task #4 created", &Value::Null).unwrap();
        let mut after = Todos::default();
        after.remember(list);
        let done = json!({ "taskId": "4", "status": "completed" });
        assert_eq!(
            observe(&mut after, "TaskUpdate", done, "", &Value::Null).as_deref(),
            Some("one: completed")
        );
    }
}
