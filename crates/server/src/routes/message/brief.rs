//! Listings without long outputs of tools.

use std::borrow::Cow;

use engine::ports::{PartRecord, Record};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

/// Size of an output in bytes from which a brief listing cuts it.
const BRIEF: usize = 2 * 1024;
/// Field of a part whose output is cut, with the length of the whole output in bytes.
const CUT: &str = "outputLength";

/// The outputs of tools in a listing.
#[derive(Debug, Clone, Copy, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum Outputs {
    #[default]
    Full,
    /// Outputs of more than 2 KiB are cut, and their parts have the field `outputLength`.
    Brief,
}

impl Outputs {
    pub(super) fn apply(self, record: &Record) -> Cow<'_, Record> {
        match self {
            Self::Full => Cow::Borrowed(record),
            Self::Brief => {
                let parts = record.parts.iter().map(brief).collect();
                Cow::Owned(Record { place: record.place.clone(), info: record.info.clone(), parts })
            }
        }
    }
}

fn brief(part: &PartRecord) -> PartRecord {
    // A short part cannot have a long output, and is not decoded.
    let cut = if part.json.len() > BRIEF { shortened(&part.json) } else { None };
    PartRecord { open: part.open, json: cut.unwrap_or_else(|| part.json.clone()) }
}

/// The part with its outputs cut; `None` if there is nothing to cut.
fn shortened(json: &str) -> Option<String> {
    let mut part: Value = serde_json::from_str(json).ok()?;
    if part.get("type")? != "tool" {
        return None;
    }
    let length = cut(part.pointer_mut("/state/output"));
    // Commands repeat their output here while they run.
    let repeated = cut(part.pointer_mut("/state/metadata/output"));
    let length = length.or(repeated)?;
    part.as_object_mut()?.insert(CUT.to_owned(), length.into());
    serde_json::to_string(&part).ok()
}

/// Cuts a long text and returns its whole length.
fn cut(text: Option<&mut Value>) -> Option<usize> {
    let Some(Value::String(text)) = text else { return None };
    let length = text.len();
    if length <= BRIEF {
        return None;
    }
    text.truncate(text.floor_char_boundary(BRIEF));
    Some(length)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_long_outputs_of_tools_are_cut() {
        let long = "é".repeat(BRIEF);
        let part = |kind: &str, output: &str| json!({ "type": kind, "state": { "output": output, "metadata": { "output": output } }, "x": long });
        for kept in [part("tool", "short"), part("text", &long)] {
            assert_eq!(shortened(&kept.to_string()), None);
        }
        let cut: Value = serde_json::from_str(&shortened(&part("tool", &long).to_string()).unwrap()).unwrap();
        assert_eq!(cut["outputLength"], long.len());
        for output in [&cut["state"]["output"], &cut["state"]["metadata"]["output"]] {
            assert_eq!(output.as_str().unwrap().len(), BRIEF);
        }
        assert_eq!(cut["x"], json!(long), "everything else stays");
    }
}
