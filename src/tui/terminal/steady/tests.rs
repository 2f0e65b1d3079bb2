use std::cell::RefCell;
use std::rc::Rc;

use ratatui::backend::CrosstermBackend;
use ratatui::layout::Rect;
use ratatui::widgets::Paragraph;
use ratatui::{Terminal, TerminalOptions, Viewport};

use super::*;

/// Where the backend writes, and the test reads.
#[derive(Clone, Default)]
struct Wire(Rc<RefCell<Vec<u8>>>);

impl Write for Wire {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.borrow_mut().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

const COLUMNS: u16 = 12;

/// A terminal that gives each character the cells it believes in, whatever stands around it.
struct Believer {
    cells_of: fn(char) -> usize,
    rows: [[char; COLUMNS as usize]; 2],
    at: (usize, usize),
    wraps: bool,
}

impl Believer {
    fn take(&mut self, bytes: &[u8]) {
        let text = String::from_utf8_lossy(bytes);
        let mut pieces = text.split('\u{1b}');
        pieces.next().unwrap().chars().for_each(|c| self.put(c));
        for piece in pieces {
            let end = piece.find(|c: char| c.is_ascii_alphabetic()).unwrap();
            match (&piece[..end], &piece[end..=end]) {
                ("[?7", end) => self.wraps = end == "h",
                (place, "H") => {
                    let (row, column) = place[1..].split_once(';').unwrap();
                    let number = |text: &str| text.parse::<usize>().unwrap() - 1;
                    self.at = (number(row), number(column));
                }
                _ => {}
            }
            piece[end + 1..].chars().for_each(|c| self.put(c));
        }
    }

    fn put(&mut self, char: char) {
        let columns = usize::from(COLUMNS);
        let cells = (self.cells_of)(char);
        if cells == 0 {
            return;
        }
        let (mut row, mut column) = self.at;
        if column + cells > columns {
            (row, column) = if self.wraps {
                (1, 0)
            } else {
                (row, columns - cells)
            };
        }
        self.rows[row][column..column + cells].fill('.');
        self.rows[row][column] = char;
        self.at = (row, column + cells);
    }

    fn shown(&self) -> [String; 2] {
        let row = |row: &[char; COLUMNS as usize]| row.iter().collect::<String>();
        self.rows.each_ref().map(row)
    }
}

/// Draws texts one after the other; what such a terminal shows in the end.
fn shown(texts: &[&str], cells_of: fn(char) -> usize) -> [String; 2] {
    let wire = Wire::default();
    let area = Rect::new(0, 0, COLUMNS, 2);
    let backend = Steady::new(CrosstermBackend::new(wire.clone()));
    let options = TerminalOptions {
        viewport: Viewport::Fixed(area),
    };
    let mut terminal = Terminal::with_options(backend, options).unwrap();
    let mut disputes = Disputes::default();
    let mut believer = Believer {
        cells_of,
        rows: [[' '; COLUMNS as usize]; 2],
        at: (0, 0),
        wraps: true,
    };
    for text in texts {
        terminal
            .draw(|frame| {
                frame.render_widget(Paragraph::new(*text), area);
                disputes.settle(frame.buffer_mut());
            })
            .unwrap();
        let bytes = std::mem::take(&mut *wire.0.borrow_mut());
        believer.take(&bytes);
    }
    believer.shown()
}

const FLAG: &str = "🇩🇪";
const FAMILY: &str = "👩\u{200d}👧";
const KEYCAP: &str = "1\u{fe0f}\u{20e3}";
const HEART: &str = "❤\u{fe0f}";

/// Every character narrow, save the marks that have no width.
fn narrow(char: char) -> usize {
    usize::from(!matches!(char, '\u{200d}' | '\u{fe0f}' | '\u{20e3}'))
}

/// Every character but ASCII wide.
fn wide(char: char) -> usize {
    if char.is_ascii() { 1 } else { 2 * narrow(char) }
}

#[test]
fn nothing_is_left_of_a_cluster_that_was_deleted_whatever_its_width() {
    for cluster in [FLAG, FAMILY, KEYCAP, HEART] {
        for cells_of in [narrow, wide] {
            let with = format!("a{cluster}");
            let gone = shown(&["xxxxxx", &with, "a"], cells_of);
            assert_eq!(gone, ["a           ", "            "], "{cluster}");
        }
    }
}

#[test]
fn what_follows_a_cluster_keeps_its_columns() {
    for cluster in [FLAG, FAMILY, KEYCAP, HEART] {
        for cells_of in [narrow, wide] {
            let texts = [format!("{cluster}bc def"), format!("{cluster}bc xyz")];
            let [row, _] = shown(&[&texts[0], &texts[1]], cells_of);
            let columns: Vec<char> = row.chars().skip(2).collect();
            assert_eq!(columns, "bc xyz    ".chars().collect::<Vec<_>>(), "{row}");
        }
    }
}

#[test]
fn a_cluster_at_the_end_of_a_row_does_not_reach_the_next() {
    let text = format!("0123456789{FLAG}\nnext");
    for cells_of in [narrow, wide] {
        let [_, next] = shown(&[&text], cells_of);
        assert_eq!(next, "next        ");
    }
}

#[test]
fn rows_are_written_again_only_where_they_change() {
    let mut disputes = Disputes::default();
    let mut renewed = |rows: [&str; 2]| -> Vec<(u16, u16)> {
        let mut buffer = Buffer::with_lines(rows);
        disputes.settle(&mut buffer);
        (0..2)
            .flat_map(|y| (0..buffer.area.width).map(move |x| (x, y)))
            .filter(|at| buffer[*at].diff_option == CellDiffOption::AlwaysUpdate)
            .collect()
    };
    assert_eq!(renewed(["plain text  ", "日本 more   "]), []);
    assert_eq!(renewed(["ab👍🏽c       ", "日本 more   "]).len(), 10);
    assert_eq!(renewed(["ab👍🏽c       ", "日本 changed"]), []);
    let all: Vec<_> = (2..12).map(|x| (x, 0)).collect();
    assert_eq!(renewed(["ab          ", "日本 changed"]), all);
    assert_eq!(renewed(["ab          ", "日本 changed"]), []);
}

#[test]
fn only_clusters_that_terminals_draw_differently_are_disputed() {
    for cluster in [FLAG, FAMILY, KEYCAP, HEART, "👍🏽", "😀", "🇩", "नि"] {
        assert!(is_disputed(cluster), "{cluster}");
    }
    for cluster in ["a", " ", "é", "e\u{301}", "日", "…", "€", "한"] {
        assert!(!is_disputed(cluster), "{cluster}");
    }
}
