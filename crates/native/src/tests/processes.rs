//! Lists processes through `/proc`.

/// Returns the processes that have `mark` in their environment or command line.
pub(super) fn marked(mark: &str) -> Vec<u32> {
    let entries = std::fs::read_dir("/proc").unwrap().filter_map(Result::ok);
    entries
        .filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok())
        .filter(|process| *process != std::process::id())
        .filter(|process| {
            ["environ", "cmdline"].iter().any(|file| {
                let text = std::fs::read(format!("/proc/{process}/{file}")).unwrap_or_default();
                text.windows(mark.len()).any(|window| window == mark.as_bytes())
            })
        })
        .collect()
}
