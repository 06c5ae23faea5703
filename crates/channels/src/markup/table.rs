//! Tables, for services that have none.

use super::Flavour;

/// A wider table would be wrapped on most screens, and is shown row by row without alignment.
const MAX_WIDTH: usize = 64;

const BETWEEN: &str = " | ";

/// Puts rows of plain words into a service's form. The first row is the head.
pub(super) fn render(rows: &[Vec<String>], flavour: &dyn Flavour) -> String {
    let widths = widths(rows);
    let width = widths.iter().sum::<usize>() + BETWEEN.len() * widths.len().saturating_sub(1);
    if width > MAX_WIDTH {
        let lines: Vec<String> = rows.iter().map(|row| flavour.text(&row.join(BETWEEN))).collect();
        return lines.join("\n");
    }
    let mut lines: Vec<String> = rows.iter().map(|row| line(row, &widths)).collect();
    lines.insert(lines.len().min(1), "-".repeat(width));
    flavour.block(None, &lines.join("\n"))
}

/// How wide each column is.
fn widths(rows: &[Vec<String>]) -> Vec<usize> {
    let columns = rows.iter().map(Vec::len).max().unwrap_or_default();
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or_default()
    };
    (0..columns).map(width).collect()
}

fn line(row: &[String], widths: &[usize]) -> String {
    let cells: Vec<String> = row.iter().zip(widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
    cells.join(BETWEEN).trim_end().to_owned()
}
