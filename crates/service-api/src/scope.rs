//! OAuth scopes. Not to be confused with `scope` of content, which is the space of the content.
//!
//! `read` and `write` are disjoint: neither contains the other. `read` stands for every `<resource>:read`
//! and `write` for every `<resource>:write`. For a CLI token or a third-party client they stand for content
//! and workspaces only; scopes for the account itself must be named ([`Scopes::written_out`]).

use std::{borrow::Cow, collections::BTreeSet, fmt};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Read.
    Read,
    /// Create, update and delete.
    Write,
}

/// The resource that a scope can be limited to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resource {
    Workspaces,
    Projects,
    Packs,
    Playbooks,
    Cases,
    Records,
    Tokens,
    Sessions,
    Audit,
}

impl Resource {
    /// The name in paths and scopes.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Workspaces => "workspaces",
            Self::Projects => "projects",
            Self::Packs => "packs",
            Self::Playbooks => "playbooks",
            Self::Cases => "cases",
            Self::Records => "records",
            Self::Tokens => "tokens",
            Self::Sessions => "sessions",
            Self::Audit => "audit",
        }
    }
}

impl Resource {
    /// Whether it belongs to the account itself: its credentials, and its audit events.
    #[must_use]
    pub const fn is_of_account(self) -> bool {
        matches!(self, Self::Tokens | Self::Sessions | Self::Audit)
    }
}

/// The scope that an endpoint requires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scope {
    pub action: Action,
    /// `None`: a scope with this action for any resource.
    pub resource: Option<Resource>,
}

impl Scope {
    #[must_use]
    pub const fn any(action: Action) -> Self {
        Self { action, resource: None }
    }

    #[must_use]
    pub const fn of(action: Action, resource: Resource) -> Self {
        Self { action, resource: Some(resource) }
    }

    /// Every scope that is sufficient, widest first.
    pub fn words(self) -> impl Iterator<Item = &'static str> {
        let opens = move |(_, action, resource): &&(&str, Action, Option<Resource>)| {
            *action == self.action && (resource.is_none() || self.resource.is_none() || *resource == self.resource)
        };
        WORDS.iter().filter(opens).map(|(word, ..)| *word)
    }

    /// The narrowest scope that is sufficient, as a challenge names it.
    #[must_use]
    pub fn narrowest(self) -> &'static str {
        let exact = WORDS.iter().find(|(_, action, resource)| *action == self.action && *resource == self.resource);
        exact.map_or(self.as_str(), |(word, ..)| *word)
    }

    /// The widest scope that is sufficient.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self.action {
            Action::Read => "read",
            Action::Write => "write",
        }
    }
}

/// `scope` and `scopes` of a request differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TwoSpellings;

/// The scopes of a request, which are sent as `scope` (a string, RFC 6749), as `scopes` (a list), or as both.
///
/// # Errors
/// [`TwoSpellings`] if both are sent and differ.
pub fn one_spelling(scope: Option<&str>, scopes: Option<&[String]>) -> Result<Option<String>, TwoSpellings> {
    let words =
        |text: &str| text.split(' ').filter(|word| !word.is_empty()).map(str::to_owned).collect::<BTreeSet<_>>();
    let listed = scopes.map(|scopes| scopes.join(" "));
    match (scope, listed) {
        (Some(scope), Some(listed)) if words(scope) != words(&listed) => Err(TwoSpellings),
        (scope, listed) => Ok(listed.or_else(|| scope.map(str::to_owned))),
    }
}

/// Every scope, in the order in which scopes are written.
const WORDS: [(&str, Action, Option<Resource>); 20] = {
    use Action::{Read, Write};
    use Resource::{Audit, Cases, Packs, Playbooks, Projects, Records, Sessions, Tokens, Workspaces};
    [
        ("read", Read, None),
        ("write", Write, None),
        ("workspaces:read", Read, Some(Workspaces)),
        ("workspaces:write", Write, Some(Workspaces)),
        ("projects:read", Read, Some(Projects)),
        ("projects:write", Write, Some(Projects)),
        ("packs:read", Read, Some(Packs)),
        ("packs:write", Write, Some(Packs)),
        ("playbooks:read", Read, Some(Playbooks)),
        ("playbooks:write", Write, Some(Playbooks)),
        ("cases:read", Read, Some(Cases)),
        ("cases:write", Write, Some(Cases)),
        ("records:read", Read, Some(Records)),
        ("records:write", Write, Some(Records)),
        ("tokens:read", Read, Some(Tokens)),
        ("tokens:write", Write, Some(Tokens)),
        ("sessions:read", Read, Some(Sessions)),
        ("sessions:write", Write, Some(Sessions)),
        ("audit:read", Read, Some(Audit)),
        ("audit:write", Write, Some(Audit)),
    ]
};

/// A set of scopes.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Scopes(u32);

impl Scopes {
    pub const NONE: Self = Self(0);
    pub const READ: Self = Self(1);
    pub const READ_WRITE: Self = Self(3);
    pub const ALL: Self = Self((1 << WORDS.len()) - 1);

    /// Parses scopes that are separated by spaces (RFC 6749 section 3.3). Unknown scopes are ignored.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        Self::from_words(text.split(' '))
    }

    #[must_use]
    pub fn from_words<'a>(words: impl Iterator<Item = &'a str>) -> Self {
        let bits = words.filter_map(|word| WORDS.iter().position(|(known, ..)| *known == word));
        Self(bits.fold(0, |set, bit| set | 1 << bit))
    }

    pub fn words(self) -> impl Iterator<Item = &'static str> {
        WORDS.iter().enumerate().filter(move |(bit, _)| self.0 & 1 << bit != 0).map(|(_, (word, ..))| *word)
    }

    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether these scopes include the `needed` one.
    #[must_use]
    pub fn allow(self, needed: Scope) -> bool {
        WORDS.iter().enumerate().any(|(bit, (_, action, resource))| {
            let fits = resource.is_none() || needed.resource.is_none() || *resource == needed.resource;
            self.0 & 1 << bit != 0 && *action == needed.action && fits
        })
    }

    /// These scopes as they apply to a CLI token or a third-party client: `read` and `write` are replaced by the scopes for
    /// every resource that does not belong to the account itself.
    #[must_use]
    pub fn written_out(self) -> Self {
        let plain = Self::READ_WRITE.0;
        let words = WORDS.iter().enumerate().fold(self.0 & !plain, |set, (bit, (_, action, resource))| {
            let wide = u32::from(*action == Action::Write);
            let stands_for = resource.is_some_and(|resource| !resource.is_of_account());
            if stands_for && self.0 & 1 << wide != 0 { set | 1 << bit } else { set }
        });
        Self(words)
    }

    /// The scopes of this set that have this action.
    #[must_use]
    pub fn with_action(self, wanted: Action) -> Self {
        let bits = WORDS.iter().enumerate().filter(|(_, (_, action, _))| *action == wanted);
        Self(bits.fold(0, |set, (bit, _)| set | self.0 & 1 << bit))
    }

    /// The scopes that are in both sets.
    #[must_use]
    pub const fn common(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// The scopes that are in either set.
    #[must_use]
    pub const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// The scopes of this set that allow something that `other` does not.
    #[must_use]
    pub fn without(self, other: Self) -> Self {
        let bits = (0..WORDS.len()).filter(|bit| self.0 & 1 << bit != 0 && !other.cover(Self(1 << bit)));
        Self(bits.fold(0, |set, bit| set | 1 << bit))
    }

    /// Whether this set allows everything that `other` allows.
    #[must_use]
    pub fn cover(self, other: Self) -> bool {
        let held = self.expanded();
        other.expanded() & !held == 0
    }

    /// A scope that `other` allows and this set does not.
    #[must_use]
    pub fn first_beyond(self, other: Self) -> Option<Scope> {
        let held = self.expanded();
        let missing = other.expanded() & !held;
        let (_, (_, action, resource)) = WORDS.iter().enumerate().find(|(bit, _)| missing & 1 << bit != 0)?;
        Some(Scope { action: *action, resource: *resource })
    }

    /// These scopes with `read` and `write` replaced by the scopes for every resource.
    fn expanded(self) -> u32 {
        WORDS.iter().enumerate().fold(self.0, |set, (bit, (_, action, resource))| {
            let wide = u32::from(*action == Action::Write);
            if resource.is_some() && self.0 & 1 << wide != 0 { set | 1 << bit } else { set }
        })
    }
}

impl fmt::Display for Scopes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, word) in self.words().enumerate() {
            write!(f, "{}{word}", if place == 0 { "" } else { " " })?;
        }
        Ok(())
    }
}

impl fmt::Debug for Scopes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Scopes({self})")
    }
}

/// Written as a list of scopes, as in `/v1`.
impl Serialize for Scopes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.words())
    }
}

impl JsonSchema for Scopes {
    fn schema_name() -> Cow<'static, str> {
        "Scopes".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let words: Vec<_> = Self::ALL.words().collect();
        json_schema!({
            "type": "array",
            "items": { "type": "string", "enum": words },
            "uniqueItems": true,
            "description": "OAuth scopes.",
        })
    }
}

impl<'de> Deserialize<'de> for Scopes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let words = Vec::<String>::deserialize(deserializer)?;
        Ok(Self::from_words(words.iter().map(String::as_str)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const READ_PROJECTS: Scope = Scope::of(Action::Read, Resource::Projects);
    const WRITE_PROJECTS: Scope = Scope::of(Action::Write, Resource::Projects);

    #[test]
    fn read_and_write_are_disjoint() {
        assert!(Scopes::parse("read").allow(READ_PROJECTS));
        assert!(!Scopes::parse("read").allow(WRITE_PROJECTS));
        assert!(Scopes::parse("write").allow(WRITE_PROJECTS));
        assert!(!Scopes::parse("write").allow(READ_PROJECTS));
    }

    #[test]
    fn scopes_are_divided_by_their_action() {
        let scopes = Scopes::parse("read write packs:read packs:write audit:read");
        assert_eq!(scopes.with_action(Action::Read).to_string(), "read packs:read audit:read");
        assert_eq!(scopes.with_action(Action::Write).to_string(), "write packs:write");
        let both = Scopes::ALL.with_action(Action::Read).union(Scopes::ALL.with_action(Action::Write));
        assert_eq!(both, Scopes::ALL);
    }

    #[test]
    fn a_narrow_scope_opens_its_resource_only() {
        let scopes = Scopes::parse("projects:read");
        assert!(scopes.allow(READ_PROJECTS));
        assert!(!scopes.allow(Scope::of(Action::Read, Resource::Packs)));
        assert!(scopes.allow(Scope::any(Action::Read)));
        assert!(!scopes.allow(Scope::any(Action::Write)));
    }

    #[test]
    fn written_out_plain_scopes_leave_the_account_out_rv_16() {
        let (read, write) = (Scopes::parse("read").written_out(), Scopes::parse("write").written_out());
        for resource in [Resource::Tokens, Resource::Sessions, Resource::Audit] {
            assert!(!read.allow(Scope::of(Action::Read, resource)), "{resource:?}");
            assert!(!write.allow(Scope::of(Action::Write, resource)), "{resource:?}");
        }
        assert!(read.allow(READ_PROJECTS) && read.allow(Scope::any(Action::Read)) && !read.allow(WRITE_PROJECTS));
        assert!(write.allow(WRITE_PROJECTS) && !write.allow(Scope::any(Action::Read)));
        let named = Scopes::parse("read audit:read").written_out();
        assert!(named.allow(Scope::of(Action::Read, Resource::Audit)));
        assert!(!read.cover(named) && named.cover(read));
        assert_eq!(Scopes::parse("packs:read audit:write").written_out().to_string(), "packs:read audit:write");
        assert_eq!(Scopes::NONE.written_out(), Scopes::NONE);
    }

    #[test]
    fn unknown_words_are_dropped_and_the_order_is_fixed() {
        assert_eq!(Scopes::parse("offline_access projects:read admin read").to_string(), "read projects:read");
        assert!(Scopes::parse("admin Read READ").is_empty());
    }

    #[test]
    fn a_wide_scope_covers_the_narrow_ones_and_not_the_reverse() {
        assert!(Scopes::parse("read").cover(Scopes::parse("projects:read packs:read")));
        assert!(!Scopes::parse("projects:read").cover(Scopes::parse("read")));
        assert!(!Scopes::parse("read").cover(Scopes::parse("read write")));
        assert!(Scopes::parse("read write").cover(Scopes::parse("write")));
        let asked = Scopes::parse("read write projects:read");
        assert_eq!(asked.without(Scopes::parse("read")).to_string(), "write");
        assert_eq!(asked.without(Scopes::NONE), asked);
        assert_eq!(Scopes::parse("read").union(Scopes::parse("write")), Scopes::READ_WRITE);
    }
}
