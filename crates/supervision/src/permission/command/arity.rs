//! The number of words that identify a command.

/// Programs that need more than their first word, the longest prefixes first.
const ARITIES: [(&str, usize); 71] = [
    ("bun exec", 3),
    ("bun run", 3),
    ("bun x", 3),
    ("cargo add", 3),
    ("cargo run", 3),
    ("deno task", 3),
    ("docker builder", 3),
    ("docker compose", 3),
    ("docker container", 3),
    ("docker image", 3),
    ("docker network", 3),
    ("docker volume", 3),
    ("git config", 3),
    ("git remote", 3),
    ("git stash", 3),
    ("git submodule", 3),
    ("git worktree", 3),
    ("kubectl rollout", 3),
    ("npm exec", 3),
    ("npm init", 3),
    ("npm run", 3),
    ("npm view", 3),
    ("pip3 config", 3),
    ("pnpm dlx", 3),
    ("pnpm exec", 3),
    ("pnpm run", 3),
    ("podman compose", 3),
    ("python -m", 3),
    ("python3 -m", 3),
    ("uv run", 3),
    ("yarn dlx", 3),
    ("yarn run", 3),
    ("apt", 2),
    ("apt-get", 2),
    ("aws", 3),
    ("az", 3),
    ("brew", 2),
    ("bun", 2),
    ("bundle", 2),
    ("cargo", 2),
    ("composer", 2),
    ("deno", 2),
    ("doctl", 3),
    ("docker", 2),
    ("dotnet", 2),
    ("flutter", 2),
    ("gcloud", 3),
    ("gh", 3),
    ("git", 2),
    ("go", 2),
    ("gradle", 2),
    ("helm", 2),
    ("kubectl", 2),
    ("make", 2),
    ("mvn", 2),
    ("nix", 2),
    ("npm", 2),
    ("npx", 2),
    ("pip", 2),
    ("pip3", 2),
    ("pnpm", 2),
    ("podman", 2),
    ("poetry", 2),
    ("python", 2),
    ("python3", 2),
    ("rustup", 2),
    ("sfdx", 3),
    ("systemctl", 2),
    ("terraform", 2),
    ("uv", 2),
    ("yarn", 2),
];

/// Returns the words that identify a command; the longest known prefix decides. Returns `None` if an option stands
/// in place of a subcommand, because then the words do not identify the command.
pub(super) fn naming(words: &[String]) -> Option<&[String]> {
    let begins = |opening: &str| {
        let opening: Vec<&str> = opening.split(' ').collect();
        let shared = opening.iter().zip(words).filter(|(one, other)| one == other).count();
        (shared == opening.len()).then_some(shared)
    };
    let known = ARITIES.iter().filter_map(|(opening, arity)| Some((begins(opening)?, *arity)));
    let (opening, arity) = known.max_by_key(|(opening, _)| *opening).unwrap_or((1, 1));
    let named = words.get(..arity.min(words.len()))?;
    let vague = named.iter().skip(opening).any(|word| word.starts_with('-'));
    (!vague && !named.is_empty()).then_some(named)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_known_beginning_decides() {
        for (line, expected) in [
            ("touch a b", 1),
            ("git commit -m x", 2),
            ("git remote add a b", 3),
            ("npm run build", 3),
            ("npm install x", 2),
            ("aws s3 ls x", 3),
            ("git", 1),
            ("gitk --all", 1),
            ("python -m pytest tests", 3),
            ("docker compose up -d", 3),
        ] {
            let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
            assert_eq!(naming(&words).map(<[String]>::len), Some(expected), "{line}");
        }
        assert_eq!(naming(&["git".to_owned(), "-C".to_owned(), "x".to_owned()]), None);
        assert_eq!(naming(&[]), None);
    }

    #[test]
    fn the_table_has_no_duplicates() {
        let mut openings: Vec<&str> = ARITIES.iter().map(|(opening, _)| *opening).collect();
        openings.sort_unstable();
        openings.dedup();
        assert_eq!(openings.len(), ARITIES.len());
    }
}
