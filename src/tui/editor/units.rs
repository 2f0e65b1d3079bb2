//! Units: characters of a text that stand for something longer and are shown as a label. As one character a unit can only be passed,
//! deleted and brought back as a whole.

use super::super::text::{grapheme_width, width};
use unicode_segmentation::UnicodeSegmentation;

/// The first character of the last private plane, of which no font makes use.
const FIRST: u32 = 0x10_0000;
/// Characters of that plane.
const MOST: usize = 0xfffe;

/// The labels of all units there are, by their numbers.
#[derive(Clone, Debug, Default)]
pub struct Units {
    labels: Vec<String>,
}

/// The number of the unit that the character would be.
pub fn number(character: char) -> Option<usize> {
    let number = u32::from(character).checked_sub(FIRST)? as usize;
    (number < MOST).then_some(number)
}

impl Units {
    /// Another unit; none where there are too many.
    pub fn add(&mut self, label: String) -> Option<char> {
        let number = u32::try_from(self.labels.len()).ok()?;
        let unit = char::from_u32(FIRST + number)?;
        super::units::number(unit)?;
        self.labels.push(label);
        Some(unit)
    }

    /// The unit of that number.
    pub fn unit(number: usize) -> char {
        u32::try_from(number)
            .ok()
            .and_then(|number| char::from_u32(FIRST + number))
            .unwrap_or(char::REPLACEMENT_CHARACTER)
    }

    /// The label of a grapheme that is a unit.
    pub fn label(&self, grapheme: &str) -> Option<&str> {
        let number = number(grapheme.chars().next()?)?;
        self.labels.get(number).map(String::as_str)
    }

    /// Whether there is a unit of that label.
    pub fn has(&self, label: &str) -> bool {
        self.labels.iter().any(|known| known == label)
    }

    /// The text with labels in place of units.
    pub fn shown(&self, text: &str) -> String {
        text.graphemes(true)
            .map(|grapheme| self.label(grapheme).unwrap_or(grapheme))
            .collect()
    }

    /// Cells of a unit in a line of `columns`.
    pub fn cells(&self, grapheme: &str, columns: usize) -> Option<usize> {
        self.label(grapheme).map(|label| width(label).min(columns))
    }

    /// A label in a line of `columns`, its end left out where it is too long.
    pub fn fitted(label: &str, columns: usize) -> String {
        let wanted = width(label);
        if wanted <= columns {
            return label.to_owned();
        }
        let mut shown = String::new();
        let mut used = 1;
        for grapheme in label.graphemes(true) {
            used += grapheme_width(grapheme);
            if used > columns {
                break;
            }
            shown.push_str(grapheme);
        }
        shown.push('…');
        let rest = columns.saturating_sub(width(&shown));
        shown.extend(std::iter::repeat_n(' ', rest));
        shown
    }
}
