//! Detects a database that was restored from a backup. Credentials that were revoked after the backup are valid again in
//! it, so no node may accept any before an operator has finished the restore.

use crate::Timestamp;

/// A promotion with a heartbeat in the seconds before it is a failover; without one it is a restore.
pub const LONGEST_FAILOVER_SECONDS: i64 = 600;

/// The identity of the database, as an earlier node stored it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recorded {
    pub system: String,
    pub timeline: i64,
    /// How many restores an operator has finished.
    pub restores: i32,
}

/// What a node observes.
#[derive(Clone, Debug)]
pub struct Seen {
    pub system: String,
    pub timeline: i64,
    /// The newest heartbeat of any node in the database.
    pub newest_beat_at: Option<Timestamp>,
    /// What this node stored outside the database.
    pub anchor: Option<Anchor>,
}

/// A confirmed heartbeat that is stored outside the database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Anchor {
    pub restores: i32,
    pub beat_at: Timestamp,
}

impl Anchor {
    /// The text that [`Anchor::parse`] reads.
    #[must_use]
    pub fn to_text(self) -> String {
        format!("{} {}\n", self.restores, self.beat_at)
    }

    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (restores, beat_at) = text.trim().split_once(' ')?;
        Some(Self { restores: restores.parse().ok()?, beat_at: beat_at.parse().ok()? })
    }
}

/// Why a database looks restored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Suspicion {
    /// The rows were written on another cluster: a dump was restored into this one.
    OtherSystem,
    /// A promotion without a heartbeat shortly before it.
    OldHeartbeat,
    /// A heartbeat stored outside the database is much newer than any inside.
    AnchorAhead,
}

impl Suspicion {
    pub const ALL: [Self; 3] = [Self::OtherSystem, Self::OldHeartbeat, Self::AnchorAhead];

    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::OtherSystem => "other_system",
            Self::OldHeartbeat => "old_heartbeat",
            Self::AnchorAhead => "anchor_ahead",
        }
    }

    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|suspicion| suspicion.as_str() == text)
    }
}

/// Decides why the database looks restored. `None`: it does not.
#[must_use]
pub fn judge(recorded: &Recorded, seen: &Seen, now: Timestamp) -> Option<Suspicion> {
    let long_before = |beat_at: Option<Timestamp>, moment: Timestamp| {
        beat_at.is_none_or(|at| moment.as_second() - at.as_second() > LONGEST_FAILOVER_SECONDS)
    };
    let ahead = |anchor: Anchor| {
        anchor.restores > recorded.restores
            || anchor.restores == recorded.restores && long_before(seen.newest_beat_at, anchor.beat_at)
    };
    if recorded.system != seen.system {
        Some(Suspicion::OtherSystem)
    } else if seen.timeline > recorded.timeline && long_before(seen.newest_beat_at, now) {
        Some(Suspicion::OldHeartbeat)
    } else if seen.anchor.is_some_and(ahead) {
        Some(Suspicion::AnchorAhead)
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: i64 = 1_800_000_000;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn recorded() -> Recorded {
        Recorded { system: "7".into(), timeline: 3, restores: 1 }
    }

    fn seen() -> Seen {
        Seen { system: "7".into(), timeline: 3, newest_beat_at: Some(at(NOW - 5)), anchor: None }
    }

    #[test]
    fn the_same_server_is_not_suspected_however_long_no_node_ran() {
        assert_eq!(judge(&recorded(), &seen(), at(NOW)), None);
        let silent = Seen { newest_beat_at: None, ..seen() };
        assert_eq!(judge(&recorded(), &silent, at(NOW)), None);
        assert_eq!(judge(&recorded(), &seen(), at(NOW + 86_400)), None);
    }

    #[test]
    fn another_cluster_is_a_restored_dump_rv_26() {
        let other = Seen { system: "8".into(), ..seen() };
        assert_eq!(judge(&recorded(), &other, at(NOW)), Some(Suspicion::OtherSystem));
    }

    #[test]
    fn a_promotion_is_a_failover_only_right_after_a_heartbeat_rv_26() {
        let beat = |ago| Seen { timeline: 4, newest_beat_at: Some(at(NOW - ago)), ..seen() };
        assert_eq!(judge(&recorded(), &beat(5), at(NOW)), None);
        assert_eq!(judge(&recorded(), &beat(600), at(NOW)), None);
        assert_eq!(judge(&recorded(), &beat(601), at(NOW)), Some(Suspicion::OldHeartbeat));
        let none = Seen { timeline: 4, newest_beat_at: None, ..seen() };
        assert_eq!(judge(&recorded(), &none, at(NOW)), Some(Suspicion::OldHeartbeat));
    }

    #[test]
    fn an_anchor_that_is_ahead_tells_of_a_restore_and_an_old_one_of_none_rv_26() {
        let with = |restores, beat_at| Seen { anchor: Some(Anchor { restores, beat_at: at(beat_at) }), ..seen() };
        assert_eq!(judge(&recorded(), &with(1, NOW), at(NOW)), None);
        assert_eq!(judge(&recorded(), &with(1, NOW + 700), at(NOW + 701)), Some(Suspicion::AnchorAhead));
        // After a restore was finished, anchors from before it are history.
        assert_eq!(judge(&recorded(), &with(0, NOW + 700), at(NOW + 701)), None);
        assert_eq!(judge(&recorded(), &with(2, NOW - 9_999), at(NOW)), Some(Suspicion::AnchorAhead));
    }

    #[test]
    fn an_anchor_reads_as_it_was_written() {
        let anchor = Anchor { restores: 2, beat_at: at(NOW) };
        assert_eq!(Anchor::parse(&anchor.to_text()), Some(anchor));
        assert_eq!(Anchor::parse("x"), None);
    }
}
