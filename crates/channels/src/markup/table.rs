//! Renders tables for services that have none.

use super::Flavour;

/// Maximum width of an aligned table. A wider one would be wrapped on most screens, so it is shown as plain rows.
const MAX_WIDTH: usize = 64;

const BETWEEN: &str = " | ";

/// Renders rows of plain text. The first row is the header.
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

/// The width of each column.
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
