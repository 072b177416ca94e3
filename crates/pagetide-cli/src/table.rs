//! Tables, as text for a terminal and as HTML for a report.
//!
//! ```text
//!   policy         frames   missed        <table><tr><th>policy</th>...
//!   mglru           16384  20.31 %        <tr><td>mglru</td>...
//! ```

#[derive(Clone, Copy, Debug)]
pub(crate) struct Column<'a> {
    head: &'a str,
    width: usize,
    is_left: bool,
}

impl<'a> Column<'a> {
    pub(crate) fn head(&self) -> &'a str {
        self.head
    }

    /// Returns 0 for the longest cell's width.
    pub(crate) fn width(&self) -> usize {
        self.width
    }

    pub(crate) fn aligned(&self, cell: &str, width: usize) -> String {
        match self.is_left {
            true => format!("{cell:<width$}"),
            false => format!("{cell:>width$}"),
        }
    }
}

pub(crate) const fn left(head: &str, width: usize) -> Column<'_> {
    Column { head, width, is_left: true }
}

pub(crate) const fn right(head: &str, width: usize) -> Column<'_> {
    Column { head, width, is_left: false }
}

macro_rules! cells {
    ($($cell:expr),* $(,)?) => { vec![$($cell.to_string()),*] };
}
pub(crate) use cells;

#[derive(Clone, Debug)]
pub(crate) struct Table<'a> {
    columns: Vec<Column<'a>>,
    rows: Vec<Vec<String>>,
    /// Before each line.
    indent: &'static str,
    gap: &'static str,
}

impl<'a> Table<'a> {
    pub(crate) fn new(columns: &[Column<'a>]) -> Table<'a> {
        Table { columns: columns.to_vec(), rows: Vec::new(), indent: "", gap: " " }
    }

    pub(crate) fn spaced(self, indent: &'static str, gap: &'static str) -> Table<'a> {
        Table { indent, gap, ..self }
    }

    pub(crate) fn with_rows(mut self, rows: impl IntoIterator<Item = Vec<String>>) -> Table<'a> {
        rows.into_iter().for_each(|row| self.push(row));
        self
    }

    pub(crate) fn push(&mut self, cells: Vec<String>) {
        assert_eq!(cells.len(), self.columns.len(), "a row has a cell for each column");
        self.rows.push(cells);
    }

    pub(crate) fn to_text(&self) -> String {
        let heads: Vec<String> = self.columns.iter().map(|column| column.head.to_owned()).collect();
        let lines: Vec<&[String]> =
            std::iter::once(&heads[..]).chain(self.rows.iter().map(Vec::as_slice)).collect();
        let widest = |at: usize| lines.iter().map(|line| line[at].chars().count()).max();
        let widths: Vec<usize> = (0..)
            .zip(&self.columns)
            .map(|(at, it)| if it.width == 0 { widest(at).unwrap_or(0) } else { it.width })
            .collect();
        let line = |cells: &[String]| {
            let cells = self.columns.iter().zip(&widths).zip(cells);
            let padded: Vec<String> =
                cells.map(|((column, &width), cell)| column.aligned(cell, width)).collect();
            format!("{}{}", self.indent, padded.join(self.gap)).trim_end().to_owned() + "\n"
        };
        lines.into_iter().map(line).collect()
    }

    pub(crate) fn to_html(&self) -> String {
        let heads: String =
            self.columns.iter().map(|it| format!("<th>{}</th>", escape(it.head))).collect();
        let cells = |row: &Vec<String>| -> String {
            row.iter().map(|cell| format!("<td>{}</td>", escape(cell))).collect()
        };
        let rows: String = self.rows.iter().map(|row| format!("<tr>{}</tr>", cells(row))).collect();
        format!(
            "<div class=\"scroll\"><table><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody>\
             </table></div>"
        )
    }
}

/// Formats a dash for `None`.
pub(crate) fn number(value: Option<f64>, decimals: usize) -> String {
    value.map_or("-".to_owned(), |value| format!("{value:.decimals$}"))
}

/// Takes a `share` of 0 to 1.
pub(crate) fn percent(share: f64, decimals: usize) -> String {
    format!("{:.decimals$} %", share * 100.0)
}

pub(crate) fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_aligned_and_html_has_the_same_cells() {
        let mut table = Table::new(&[left("name", 6), right("count", 7), right("", 0)]);
        table.push(cells!["<lru>", 12, "long"]);
        table.push(cells!["mglru", 7, ""]);
        assert_eq!(table.to_text(), "name     count\n<lru>       12 long\nmglru        7\n");
        let html = table.to_html();
        assert!(html.contains("<td>&lt;lru&gt;</td><td>12</td>"), "{html}");
        assert_eq!(html.matches("<tr>").count(), 3);
    }
}
