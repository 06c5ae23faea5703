//! The search for skills.

use super::{super::skills, Harness};

fn found(harness: &Harness) -> String {
    let loaded = harness.load().unwrap();
    let found = skills::find(&harness.environment, &harness.site(), &loaded);
    let told = found.skills.values().map(|skill| {
        let description = skill.description.as_deref().unwrap_or("-");
        harness.plain(&format!("{}: {description}: {}: {}", skill.name, skill.location, skill.content))
    });
    told.chain(found.warnings.iter().map(|problem| harness.plain(&problem.to_string())))
        .collect::<Vec<_>>()
        .join("\n")
}

fn everywhere() -> Harness {
    let places = [
        ("me/.claude/skills/one", "one"),
        ("me/.agents/skills/two", "two"),
        ("project/sub/.claude/skills/three", "three"),
        ("project/.agents/skills/deep/er/four", "four"),
        ("me/.config/opencode/skill/five", "five"),
        ("project/.opencode/skills/six", "six"),
        ("project/sub/more/seven", "seven"),
        ("me/mine/eight", "eight"),
        // The same name again: the later one counts.
        ("project/.opencode/skill/again", "one"),
    ];
    let mut harness = Harness::new()
        .with(&[("project/opencode.json", r#"{ "skills": { "paths": ["more", "~/mine", "gone"] } }"#)]);
    for (place, name) in places {
        let text = format!("---\nname: {name}\ndescription: of {place}\n---\n\nDo {name}.\n");
        harness =
            harness.with(&[(&format!("{place}/SKILL.md"), &text), (&format!("{place}/other.md"), "no")]);
    }
    harness.with(&[
        ("project/.opencode/skill/nameless/SKILL.md", "Hello"),
        ("project/.opencode/skill/bad/SKILL.md", "---\na: [\n---\n"),
    ])
}

#[test]
fn skills_are_found_everywhere() {
    insta::assert_snapshot!(found(&everywhere()));
}

#[test]
fn external_skills_can_be_switched_off() {
    let names = |variable: &str| {
        let harness = everywhere().set(&[(variable, "1")]);
        let found = skills::find(&harness.environment, &harness.site(), &harness.load().unwrap());
        found.skills.into_keys().collect::<Vec<_>>().join(" ")
    };
    assert_eq!(names("NONE"), "eight five four one seven six three two");
    assert_eq!(names("OPENCODE_DISABLE_CLAUDE_CODE_SKILLS"), "eight five four one seven six two");
    assert_eq!(names("OPENCODE_DISABLE_CLAUDE_CODE"), "eight five four one seven six two");
    assert_eq!(names("OPENCODE_DISABLE_EXTERNAL_SKILLS"), "eight five one seven six");
}
