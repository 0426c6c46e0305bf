//! OAuth scopes: what a token may do. Not to be confused with `scope` of content, which says where content lives.
//!
//! `read` and `write` are disjoint: neither contains the other. `read` stands for every `<resource>:read`
//! and `write` for every `<resource>:write`.

use std::{borrow::Cow, fmt};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Look at things.
    Read,
    /// Create, update and delete.
    Write,
}

/// What a scope can be narrowed to.
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
    /// As paths and scopes name it.
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

/// What an endpoint needs a token to carry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scope {
    pub action: Action,
    /// `None`: any scope with this action will do.
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

    /// Every word that opens the endpoint, the widest first.
    pub fn words(self) -> impl Iterator<Item = &'static str> {
        let opens = move |(_, action, resource): &&(&str, Action, Option<Resource>)| {
            *action == self.action && (resource.is_none() || self.resource.is_none() || *resource == self.resource)
        };
        WORDS.iter().filter(opens).map(|(word, ..)| *word)
    }

    /// The widest scope that opens the endpoint, as a challenge names it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self.action {
            Action::Read => "read",
            Action::Write => "write",
        }
    }
}

/// Every scope there is, in the order in which they are always printed.
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

/// The set of scopes a token carries.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Scopes(u32);

impl Scopes {
    pub const NONE: Self = Self(0);
    pub const READ: Self = Self(1);
    pub const READ_WRITE: Self = Self(3);
    pub const ALL: Self = Self((1 << WORDS.len()) - 1);

    /// Reads the space-separated form of RFC 6749 section 3.3, passing over words it does not know.
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

    /// Whether a token with these scopes opens an endpoint that needs `scope`.
    #[must_use]
    pub fn allow(self, needed: Scope) -> bool {
        WORDS.iter().enumerate().any(|(bit, (_, action, resource))| {
            let fits = resource.is_none() || needed.resource.is_none() || *resource == needed.resource;
            self.0 & 1 << bit != 0 && *action == needed.action && fits
        })
    }

    /// What either allows.
    #[must_use]
    pub const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// The words of this that allow something which `other` does not.
    #[must_use]
    pub fn without(self, other: Self) -> Self {
        let bits = (0..WORDS.len()).filter(|bit| self.0 & 1 << bit != 0 && !other.cover(Self(1 << bit)));
        Self(bits.fold(0, |set, bit| set | 1 << bit))
    }

    /// Whether all that `other` allows is allowed here too.
    #[must_use]
    pub fn cover(self, other: Self) -> bool {
        let held = self.expanded();
        other.expanded() & !held == 0
    }

    /// Something that `other` allows and this does not.
    #[must_use]
    pub fn first_beyond(self, other: Self) -> Option<Scope> {
        let held = self.expanded();
        let missing = other.expanded() & !held;
        let (_, (_, action, resource)) = WORDS.iter().enumerate().find(|(bit, _)| missing & 1 << bit != 0)?;
        Some(Scope { action: *action, resource: *resource })
    }

    /// `read` and `write` written out as every resource they stand for.
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

/// As a list of words, the form `/v1` speaks.
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
        json_schema!({ "type": "array", "items": { "type": "string", "enum": words }, "uniqueItems": true })
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
    fn a_narrow_scope_opens_its_resource_only() {
        let scopes = Scopes::parse("projects:read");
        assert!(scopes.allow(READ_PROJECTS));
        assert!(!scopes.allow(Scope::of(Action::Read, Resource::Packs)));
        assert!(scopes.allow(Scope::any(Action::Read)));
        assert!(!scopes.allow(Scope::any(Action::Write)));
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
