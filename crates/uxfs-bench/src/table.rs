//! Text columns, as wide as their contents.

/// Lines of cells; the first line names the columns. Numbers go to the right, the first column to the left.
#[derive(Debug, Clone, Default)]
pub struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    /// With these columns.
    pub fn new(columns: &[&str]) -> Self {
        Self { rows: vec![columns.iter().map(|column| (*column).to_owned()).collect()] }
    }

    /// Adds a line.
    pub fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().collect());
    }
}

impl std::fmt::Display for Table {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let width = |column: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(column));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..columns).map(width).collect();
        for row in &self.rows {
            for (column, (cell, width)) in row.iter().zip(&widths).enumerate() {
                match column {
                    0 => write!(f, "{cell:<width$}")?,
                    _ => write!(f, "  {cell:>width$}")?,
                }
            }
            writeln!(f)?;
        }
        Ok(())
    }
}

/// Microseconds with a point where they are few.
pub fn microseconds(nanoseconds: u64) -> String {
    let value = nanoseconds as f64 / 1e3;
    if value < 100.0 { format!("{value:.2}") } else { format!("{value:.0}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up() {
        let mut table = Table::new(&["what", "count"]);
        table.row(["creates".to_owned(), "10000".to_owned()]);
        table.row(["x".to_owned(), "7".to_owned()]);
        assert_eq!(table.to_string(), "what     count\ncreates  10000\nx            7\n");
        assert_eq!((microseconds(1234), microseconds(123_456)), ("1.23".to_owned(), "123".to_owned()));
    }
}
