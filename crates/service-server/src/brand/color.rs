//! The operator's color, and what pages make of it. Whatever the color is, text stays readable.

use std::fmt;

/// The contrast of text that WCAG 2.2 asks for (success criterion 1.4.3).
const MIN_CONTRAST: f64 = 4.5;
const BLACK: Color = Color([0; 3]);
const WHITE: Color = Color([255; 3]);
/// The darkest surface of the light pages, and the lightest one of the dark pages. `style.css` has them.
const LIGHT_SURFACE: Color = Color([0xf4, 0xf6, 0xf6]);
const DARK_SURFACE: Color = Color([0x1e, 0x26, 0x24]);
/// How much of black or white is mixed in at a time, in percent.
const MIX_STEP: u16 = 4;
/// How far a button changes under the pointer, in percent.
const HOVER_MIX: u16 = 24;

/// A color in sRGB.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Color([u8; 3]);

/// The colors of links and buttons.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Accent {
    /// Links, and the background of buttons.
    pub accent: Color,
    pub hover: Color,
    /// Text on `accent` and `hover`.
    pub on_accent: Color,
}

impl Color {
    /// Parses `#rrggbb`.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let digits = text.strip_prefix('#').filter(|digits| digits.len() == 6)?;
        let is_hex = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
        let byte = |at: usize| digits.get(at..at + 2).and_then(|pair| u8::from_str_radix(pair, 16).ok());
        is_hex.then_some(Self([byte(0)?, byte(2)?, byte(4)?]))
    }

    /// Returns the colors for light pages: the color itself, darkened until it can be read on them.
    #[must_use]
    pub fn on_light_pages(self) -> Accent {
        Accent::of(self, LIGHT_SURFACE, BLACK)
    }

    /// Returns the colors for dark pages: the color itself, lightened until it can be read on them.
    #[must_use]
    pub fn on_dark_pages(self) -> Accent {
        Accent::of(self, DARK_SURFACE, WHITE)
    }

    fn mixed(self, other: Self, percent: u16) -> Self {
        let mix = |place: usize| {
            let (own, added) = (u16::from(self.0[place]), u16::from(other.0[place]));
            u8::try_from((own * (100 - percent) + added * percent) / 100).unwrap_or(u8::MAX)
        };
        Self([mix(0), mix(1), mix(2)])
    }

    /// The relative luminance (WCAG 2.2).
    fn luminance(self) -> f64 {
        let [red, green, blue] = self.0.map(|byte| {
            let share = f64::from(byte) / 255.0;
            if share <= 0.040_45 { share / 12.92 } else { ((share + 0.055) / 1.055).powf(2.4) }
        });
        0.0722_f64.mul_add(blue, 0.2126_f64.mul_add(red, 0.7152 * green))
    }

    fn contrast(self, other: Self) -> f64 {
        let (one, two) = (self.luminance(), other.luminance());
        (one.max(two) + 0.05) / (one.min(two) + 0.05)
    }
}

impl Accent {
    fn of(color: Color, surface: Color, toward: Color) -> Self {
        let steps = (0..=100).step_by(usize::from(MIX_STEP)).filter_map(|percent| u16::try_from(percent).ok());
        let mut mixes = steps.map(|percent| color.mixed(toward, percent));
        let accent = mixes.find(|mix| mix.contrast(surface) >= MIN_CONTRAST).unwrap_or(toward);
        let on_accent = if accent.contrast(WHITE) >= accent.contrast(BLACK) { WHITE } else { BLACK };
        Self { accent, hover: accent.mixed(toward, HOVER_MIX), on_accent }
    }
}

impl fmt::Display for Color {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [red, green, blue] = self.0;
        write!(f, "#{red:02x}{green:02x}{blue:02x}")
    }
}

impl fmt::Display for Accent {
    /// Writes the custom properties that `style.css` uses.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { accent, hover, on_accent } = self;
        write!(f, "--accent: {accent}; --accent-hover: {hover}; --on-accent: {on_accent};")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_color_is_six_hexadecimal_digits_fh_13() {
        assert_eq!(Color::parse("#0b6355").map(|color| color.to_string()).as_deref(), Some("#0b6355"));
        assert_eq!(Color::parse("#FFcc00").map(|color| color.to_string()).as_deref(), Some("#ffcc00"));
        for wrong in ["", "#", "0b6355", "#fff", "#0b63551", "#0b635g", "red", "#+b6355", "#0b635é", "#0b6355;}"] {
            assert_eq!(Color::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn every_color_can_be_read_on_light_and_dark_pages_fh_13() {
        let levels = [0, 51, 102, 153, 204, 255];
        for red in levels {
            for green in levels {
                for blue in levels {
                    let color = Color([red, green, blue]);
                    for (accent, surface) in
                        [(color.on_light_pages(), LIGHT_SURFACE), (color.on_dark_pages(), DARK_SURFACE)]
                    {
                        assert!(accent.accent.contrast(surface) >= MIN_CONTRAST, "{color} {accent}");
                        assert!(accent.accent.contrast(accent.on_accent) >= MIN_CONTRAST, "{color} {accent}");
                        assert!(accent.hover.contrast(accent.on_accent) >= MIN_CONTRAST, "{color} {accent}");
                    }
                }
            }
        }
    }

    #[test]
    fn a_color_that_can_be_read_stays_as_it_is_fh_13() {
        let green = Color([0x0b, 0x63, 0x55]);
        assert_eq!(green.on_light_pages().accent, green);
        assert_eq!((green.on_light_pages().on_accent, green.on_dark_pages().on_accent), (WHITE, BLACK));
    }

    #[test]
    fn the_surfaces_are_those_of_the_stylesheet_fh_13() {
        let style = include_str!("../../assets/style.css");
        let (light, dark) = style.split_once("prefers-color-scheme: dark").unwrap();
        let surfaces = |text: &str| {
            let names = ["--page: ", "--card: ", "--tint: "];
            names.map(|name| Color::parse(&text.split_once(name).unwrap().1[..7]).unwrap().luminance())
        };
        assert!(surfaces(light).into_iter().all(|found| found >= LIGHT_SURFACE.luminance()));
        assert!(surfaces(dark).into_iter().all(|found| found <= DARK_SURFACE.luminance()));
    }
}
