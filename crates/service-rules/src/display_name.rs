//! Names that other users read: of workspaces, of content in them, of clients, and of tokens that emails quote.
//!
//! Such a name appears in emails from the service's domain and next to the service's own words on pages. So it cannot
//! contain links, characters that reorder or hide text, or words that mix look-alike scripts, and it cannot read like a
//! name that the service itself uses.

use icu_properties::{
    CodePointMapData, CodePointSetData,
    props::{
        BidiControl, CanonicalCombiningClass, DefaultIgnorableCodePoint, Emoji, EmojiModifier, ExtendedPictographic,
        GeneralCategory, JoiningType, Script,
    },
};
use unicode_normalization::UnicodeNormalization as _;
use unicode_security::confusable_detection::skeleton;

const ZERO_WIDTH_NON_JOINER: char = '\u{200c}';
const ZERO_WIDTH_JOINER: char = '\u{200d}';
const EMOJI_PRESENTATION: char = '\u{fe0f}';
const KEYCAP: char = '\u{20e3}';

/// Names that the service uses itself, in each of its languages: for personal space, for the service, and for its own clients.
const RESERVED: [&str; 17] = [
    "Personal",
    "Personal space",
    "My personal space",
    "Your personal space",
    "Service",
    "Service on the web",
    "Service command line",
    "Service for MCP",
    "The web app",
    "The command line",
    "The MCP client",
    "Persönlich",
    "Persönlicher Bereich",
    "Ihr persönlicher Bereich",
    "Die Web-App",
    "Die Befehlszeile",
    "Der MCP-Client",
];

/// The forms in which the service uses the name of its brand: alone, and for its own clients.
const BRAND_SUFFIXES: [&str; 4] = ["", " on the web", " command line", " for MCP"];

/// Names that only the service itself has: those of its own things, and the name that its operator gave it.
#[derive(Clone, Debug, Default)]
pub struct OwnNames {
    brand: Vec<[String; 2]>,
}

/// A name that may be shown to other users.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DisplayName(String);

/// Why a text is rejected as a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DisplayNameError {
    /// The name has no visible character, more than this many characters, or more than one line.
    #[error("the name is empty, longer than {0} characters, or has several lines")]
    Length(usize),
    /// A character hides, reorders or joins text where Unicode gives it no meaning.
    #[error("the name has characters that hide or reorder text")]
    Invisible,
    /// The name contains `://`, `<` or `>`.
    #[error("the name looks like a link or a tag")]
    Link,
    /// A word has letters of more than one of Latin, Greek and Cyrillic.
    #[error("the name mixes scripts")]
    MixedScripts,
    /// The name reads like one that the service uses itself.
    #[error("the name is reserved")]
    Reserved,
}

impl DisplayNameError {
    /// What is wrong, as the end of a sentence that begins with the field's name.
    #[must_use]
    pub fn message(self) -> String {
        match self {
            Self::Length(longest) => format!("must be 1 to {longest} characters on one line"),
            Self::Invisible => "has characters that hide or reorder text".to_owned(),
            Self::Link => "can't contain ://, < or >".to_owned(),
            Self::MixedScripts => "has a word that mixes Latin, Greek and Cyrillic letters".to_owned(),
            Self::Reserved => "is reserved. Choose another name".to_owned(),
        }
    }
}

impl OwnNames {
    /// The names of a service with this brand.
    #[must_use]
    pub fn of_brand(name: &str) -> Self {
        Self { brand: BRAND_SUFFIXES.iter().map(|suffix| readings(&format!("{name}{suffix}"))).collect() }
    }

    /// Whether a name reads like the brand, or like the name of one of its own clients.
    #[must_use]
    pub fn is_brand(&self, name: &str) -> bool {
        let forms = readings(name);
        self.brand.iter().any(|own| share_reading(own, &forms))
    }

    /// Whether the whole name reads like one of these, whatever its case, spacing and punctuation.
    fn include(&self, name: &str) -> bool {
        let forms = readings(name);
        self.is_brand(name) || RESERVED.iter().any(|own| share_reading(&readings(own), &forms))
    }
}

impl DisplayName {
    /// Parses the name of something that is listed next to the service's own: a workspace, a client, a token.
    ///
    /// # Errors
    /// The first reason why the text is rejected.
    pub fn parse(text: &str, longest: usize, own_names: &OwnNames) -> Result<Self, DisplayNameError> {
        let name = Self::parse_content(text, longest)?;
        if own_names.include(&name.0) { Err(DisplayNameError::Reserved) } else { Ok(name) }
    }

    /// Parses the name of content. Content is never listed next to a space or a client, so no name is reserved.
    ///
    /// # Errors
    /// The first reason why the text is rejected.
    pub fn parse_content(text: &str, longest: usize) -> Result<Self, DisplayNameError> {
        let text = text.trim();
        let characters: Vec<char> = text.chars().collect();
        if characters.len() > longest
            || !characters.iter().any(|c| is_seen(*c))
            || characters.iter().any(|c| breaks(*c))
        {
            return Err(DisplayNameError::Length(longest));
        }
        let is_hiding = |place: usize| hides(&characters[..place], characters[place], &characters[place + 1..]);
        if (0..characters.len()).any(is_hiding) {
            return Err(DisplayNameError::Invisible);
        }
        if text.contains("://") || text.contains(['<', '>']) {
            return Err(DisplayNameError::Link);
        }
        if text.split(|c: char| !is_of_word(c)).any(mixes_scripts) {
            return Err(DisplayNameError::MixedScripts);
        }
        Ok(Self(text.to_owned()))
    }

    /// Makes a name of what a client says of itself, which is never refused: pages mark it as unverified. What hides,
    /// reorders, breaks or leads elsewhere is left out, and so is what is longer than `longest`. `None`: nothing is left
    /// that can be seen.
    #[must_use]
    pub fn clean(text: &str, longest: usize) -> Option<Self> {
        let said: Vec<char> = text.chars().filter(|c| !breaks(*c) && !['<', '>'].contains(c)).collect();
        let mut kept = Vec::new();
        for (place, c) in said.iter().enumerate() {
            if kept.len() < longest && !hides(&kept, *c, &said[place + 1..]) {
                kept.push(*c);
            }
        }
        // What gave the last character its meaning may have been cut off.
        while kept.split_last().is_some_and(|(last, before)| hides(before, *last, &[])) {
            kept.pop();
        }
        let name: String = kept.into_iter().collect();
        let name = name.replace("://", " ");
        let name = name.trim();
        name.chars().any(is_seen).then(|| Self(name.to_owned()))
    }

    /// A name that was checked when it was stored, by the rules of that time. It is read as it is.
    #[must_use]
    pub const fn from_stored(name: String) -> Self {
        Self(name)
    }

    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    #[must_use]
    pub fn into_string(self) -> String {
        self.0
    }
}

fn category(c: char) -> GeneralCategory {
    CodePointMapData::<GeneralCategory>::new().get(c)
}

fn is_mark(c: char) -> bool {
    use GeneralCategory as C;
    matches!(category(c), C::NonspacingMark | C::SpacingMark | C::EnclosingMark)
}

fn is_of_word(c: char) -> bool {
    c.is_alphanumeric() || is_mark(c) || [ZERO_WIDTH_JOINER, ZERO_WIDTH_NON_JOINER].contains(&c)
}

/// Whether a character is visible. The blank Braille pattern looks like a space and is not one.
fn is_seen(c: char) -> bool {
    !c.is_whitespace() && !is_mark(c) && !is_default_ignorable(c) && c != '\u{2800}'
}

fn breaks(c: char) -> bool {
    c.is_control() || matches!(c, '\u{2028}' | '\u{2029}')
}

fn is_default_ignorable(c: char) -> bool {
    CodePointSetData::new::<DefaultIgnorableCodePoint>().contains(c)
}

fn is_pictographic(c: char) -> bool {
    CodePointSetData::new::<ExtendedPictographic>().contains(c)
}

/// Whether a character between these hides or reorders text: format characters, private and unassigned ones, and
/// joiners and selectors where Unicode gives them no meaning.
fn hides(before: &[char], c: char, behind: &[char]) -> bool {
    match c {
        ZERO_WIDTH_JOINER => !(follows_virama(before) || joins_emoji(before, behind)),
        ZERO_WIDTH_NON_JOINER => !(follows_virama(before) || parts_cursive_letters(before, behind)),
        EMOJI_PRESENTATION => !selects_emoji(before, behind),
        _ => {
            CodePointSetData::new::<BidiControl>().contains(c)
                || is_default_ignorable(c)
                || matches!(c, '\u{fff9}'..='\u{fffd}')
                || matches!(category(c), GeneralCategory::PrivateUse | GeneralCategory::Unassigned)
        }
    }
}

/// In the scripts of India a joiner behind a virama chooses the form of a letter (UAX 31, A2 and B).
fn follows_virama(before: &[char]) -> bool {
    let class = |c: &char| CodePointMapData::<CanonicalCombiningClass>::new().get(*c);
    before.last().is_some_and(|c| class(c) == CanonicalCombiningClass::Virama)
}

/// In cursive scripts, as in Persian, a non-joiner parts letters that would be joined (UAX 31, A1).
fn parts_cursive_letters(before: &[char], behind: &[char]) -> bool {
    let joining = |c: &char| CodePointMapData::<JoiningType>::new().get(*c);
    let first = |kind: Option<JoiningType>, wanted: [JoiningType; 2]| kind.is_some_and(|kind| wanted.contains(&kind));
    let left = before.iter().rev().map(joining).find(|kind| *kind != JoiningType::Transparent);
    let right = behind.iter().map(joining).find(|kind| *kind != JoiningType::Transparent);
    first(left, [JoiningType::LeftJoining, JoiningType::DualJoining])
        && first(right, [JoiningType::RightJoining, JoiningType::DualJoining])
}

/// Between two pictures a joiner makes one of them, as in a family (UTS 51).
fn joins_emoji(before: &[char], behind: &[char]) -> bool {
    let modifies = |c: &char| *c == EMOJI_PRESENTATION || CodePointSetData::new::<EmojiModifier>().contains(*c);
    let picture = before.iter().rev().find(|c| !modifies(c));
    picture.is_some_and(|c| is_pictographic(*c)) && behind.first().is_some_and(|c| is_pictographic(*c))
}

/// Behind a character that has a form as a picture, the selector chooses it; a digit has one only as a keycap (UTS 51).
fn selects_emoji(before: &[char], behind: &[char]) -> bool {
    before.last().is_some_and(|c| {
        let has_form = CodePointSetData::new::<Emoji>().contains(*c);
        has_form && (!c.is_ascii() || behind.first() == Some(&KEYCAP))
    })
}

/// Whether a word has letters of more than one of the scripts whose letters look alike (UTS 39). Han, Kana and Hangul
/// beside Latin are ordinary writing.
fn mixes_scripts(word: &str) -> bool {
    let script = |c: char| CodePointMapData::<Script>::new().get(c);
    let has = |wanted: Script| word.chars().any(|c| script(c) == wanted);
    [Script::Latin, Script::Cyrillic, Script::Greek].into_iter().filter(|wanted| has(*wanted)).count() > 1
}

fn share_reading(one: &[String; 2], other: &[String; 2]) -> bool {
    one.iter().any(|reading| !reading.is_empty() && other.contains(reading))
}

/// How a name reads: its skeleton (UTS 39) as it is written and in lower case, because a capital I looks like a small L
/// while a small i does not.
fn readings(name: &str) -> [String; 2] {
    let plain: String = name.nfkc().collect();
    [plain.to_lowercase(), plain].map(|form| {
        let read: String = skeleton(&form).collect::<String>().to_lowercase();
        read.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(text: &str) -> Result<String, DisplayNameError> {
        DisplayName::parse(text, 100, &OwnNames::default()).map(DisplayName::into_string)
    }

    #[test]
    fn names_of_everyday_pass_rv_03() {
        for name in [
            "Customer Service",
            "Harbour works",
            "O’Hara & Söhne (Köln), 2. Etage",
            "R&D: A/B-Tests #3",
            "Проект Гавань",
            "IT-отдел",
            "Σχέδιο λιμάνι",
            "日本語チーム",
            "Tシャツ部",
            "한국어 팀",
            "中文 Team",
            "فريق المشروع",
            "تیم پشتیبانی می‌خواهم",
            "خانه‌ها",
            "प्रोजेक्ट टीम",
            "क्‍ष",
            "ශ්‍රී ලංකා",
            "ทีมขาย",
            "עברית",
            "Family 👨‍👩‍👧‍👦",
            "👩🏽‍💻 Engineering",
            "🏳️‍🌈 Pride",
            "☀️ Summer",
            "1️⃣ First",
            "🇩🇪 Berlin",
            "❤️",
            "Personal training",
            "Our personal spaces",
            "Web",
            "Caffè",
        ] {
            assert_eq!(judged(name).as_deref(), Ok(name), "{name:?}");
        }
        assert_eq!(judged("  Harbour  ").as_deref(), Ok("Harbour"));
    }

    #[test]
    fn names_that_lead_hide_or_break_are_refused_rv_03() {
        let long = "a".repeat(101);
        for (name, reason) in [
            ("", DisplayNameError::Length(100)),
            ("  ", DisplayNameError::Length(100)),
            ("\u{200d}", DisplayNameError::Length(100)),
            ("\u{2800}\u{3164}", DisplayNameError::Length(100)),
            (&*long, DisplayNameError::Length(100)),
            ("a\nb", DisplayNameError::Length(100)),
            ("a\u{85}b", DisplayNameError::Length(100)),
            ("a\u{2028}b", DisplayNameError::Length(100)),
            ("a\u{0}", DisplayNameError::Length(100)),
            ("see https://evil.test", DisplayNameError::Link),
            ("<b>Harbour", DisplayNameError::Link),
            ("a > b", DisplayNameError::Link),
            ("a\u{202e}b", DisplayNameError::Invisible),
            ("a\u{2066}b\u{2069}", DisplayNameError::Invisible),
            ("a\u{61c}b", DisplayNameError::Invisible),
            ("a\u{200b}b", DisplayNameError::Invisible),
            ("so\u{ad}ft", DisplayNameError::Invisible),
            ("a\u{2060}b", DisplayNameError::Invisible),
            ("a\u{feff}b", DisplayNameError::Invisible),
            ("a\u{e0041}b", DisplayNameError::Invisible),
            ("a\u{3164}b", DisplayNameError::Invisible),
            ("a\u{e000}b", DisplayNameError::Invisible),
            ("Ser\u{200d}vice desk", DisplayNameError::Invisible),
            ("Ser\u{200c}vice desk", DisplayNameError::Invisible),
            ("Service\u{fe0f} desk", DisplayNameError::Invisible),
            ("A1\u{fe0f}", DisplayNameError::Invisible),
            ("\u{1f600}\u{200d}a", DisplayNameError::Invisible),
        ] {
            assert_eq!(judged(name), Err(reason), "{name:?}");
        }
    }

    #[test]
    fn what_hides_breaks_or_leads_is_left_out_of_a_cleaned_name() {
        let long = "x".repeat(101);
        for (said, name) in [
            ("Goo\u{202e}gle", Some("Google")),
            ("Goo\u{2066}g\u{2069}le", Some("Google")),
            ("Goo\u{3164}gle\u{e000}", Some("Google")),
            ("Goo\u{200d}\u{200d}gle", Some("Google")),
            (" <b>App</b>\u{0}\n", Some("bApp/b")),
            ("see https://evil.test", Some("see https evil.test")),
            ("a:<//b", Some("a b")),
            ("Family 👨‍👩‍👧‍👦", Some("Family 👨‍👩‍👧‍👦")),
            ("Service command line", Some("Service command line")),
            (&long, Some(&long[..100])),
            ("\u{200b}\u{feff}", None),
            ("\u{2800}", None),
            ("", None),
        ] {
            let cleaned = DisplayName::clean(said, 100);
            assert_eq!(cleaned.as_ref().map(DisplayName::as_str), name, "{said:?}");
        }
    }

    #[test]
    fn cleaning_many_hidden_characters_costs_little() {
        let began = std::time::Instant::now();
        assert_eq!(DisplayName::clean(&"\u{200b}".repeat(60_000), 100), None);
        assert!(began.elapsed().as_secs() < 2, "{:?}", began.elapsed());
    }

    #[test]
    fn a_word_of_scripts_that_look_alike_is_refused_rv_03() {
        for name in ["Раyments", "Harbоur", "Αpple", "Τеam", "the Ηarbour", "naïvе"] {
            assert_eq!(judged(name), Err(DisplayNameError::MixedScripts), "{name:?}");
        }
    }

    #[test]
    fn a_name_that_reads_like_one_of_ours_is_refused_rv_03() {
        for name in [
            "Your personal space",
            "your  PERSONAL space!",
            "Y0ur persona1 space",
            "Your personaI space",
            "Ｙｏｕｒ　ｐｅｒｓｏｎａｌ　ｓｐａｃｅ",
            "𝐏𝐞𝐫𝐬𝐨𝐧𝐚𝐥 𝐬𝐩𝐚𝐜𝐞",
            "Service",
            "«Service»",
            "Service command line",
            "SERVICE FOR MCP",
        ] {
            assert!(judged(name).is_err(), "{name:?}");
        }
        assert_eq!(judged("Service"), Err(DisplayNameError::Reserved));
        assert!(DisplayName::parse_content("Service", 100).is_ok());
    }

    #[test]
    fn a_name_that_reads_like_the_brand_is_refused_fh_13() {
        let own = OwnNames::of_brand("Acme Cloud");
        for name in ["Acme Cloud", "acme  cloud!", "Acme CIoud", "Ａｃｍｅ Cloud", "Acme Cloud command line"] {
            assert_eq!(DisplayName::parse(name, 100, &own), Err(DisplayNameError::Reserved), "{name}");
        }
        assert!(own.is_brand("ACME-Cloud") && own.is_brand("Acme Cloud command line"));
        for name in ["Acme", "Acme Cloud team", "Cloud"] {
            assert!(DisplayName::parse(name, 100, &own).is_ok() && !own.is_brand(name), "{name}");
        }
        // A brand without letters reads like nothing, and so like no other name without letters.
        assert!(!OwnNames::of_brand("☀️").is_brand("❤️"));
    }
}
