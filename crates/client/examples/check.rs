//! Checks a recording of events: would they have misled a client about whose turn it is?
//!
//! ```console
//! $ cargo run -p client --example check -- events.jsonl
//! ```

use std::{error::Error, io::Write as _};

use client::{
    check::{Checker, End},
    recording::Recording,
};

fn main() -> Result<(), Box<dyn Error>> {
    let file = std::env::args().nth(1).ok_or("usage: check FILE")?;
    let recording = Recording::parse(&std::fs::read(file)?)?;
    let mut out = std::io::stdout();
    for stream in recording.streams {
        let mut checker = Checker::new();
        for observed in &stream.events {
            for finding in checker.observe(observed.time, &observed.event) {
                writeln!(out, "{finding}")?;
            }
        }
        let report = checker.finish(End::Complete);
        writeln!(out, "{}: {} violations", stream.name, report.violations().count())?;
    }
    Ok(())
}
