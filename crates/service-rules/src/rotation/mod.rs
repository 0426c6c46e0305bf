//! What presenting a refresh token means, and what follows from it.
//!
//! A grant is a number line. Its refresh tokens are numbered: `issued` is the newest, and `base` is the one that `issued`
//! was exchanged for. Every token ever issued can be recognized, so each position on the line has a meaning:
//!
//! | token | meaning | verdict |
//! |---|---|---|
//! | `issued` | the normal case | [`Rotate`](RotationVerdict::Rotate) |
//! | `base`, soon and from the same network | a lost response, or two processes refresh at once | [`Repeat`](RotationVerdict::Repeat) |
//! | `base`, later or from elsewhere | its response never arrived | [`Supersede`](RotationVerdict::Supersede) |
//! | between the two | a successor that was superseded: two parties have it | [`Revoke`](RotationVerdict::Revoke) |
//! | older than `base` | a token whose successor was used: two parties have it | [`Revoke`](RotationVerdict::Revoke) |
//! | younger than `issued` | genuine, but unknown to the database: it lost a rotation | [`FastForward`](RotationVerdict::FastForward) |

use std::net::IpAddr;

use service_api::errors::Reason;

use crate::{Timestamp, lifetimes, network, signing::later};

/// A refresh token that a client presents.
#[derive(Clone, Copy, Debug)]
pub struct PresentedRefreshToken<'a> {
    /// Whether its MAC is right.
    pub genuine: bool,
    pub generation: i32,
    pub client_id: Option<&'a str>,
    pub address: IpAddr,
}

/// The grant that the token names.
#[derive(Clone, Debug)]
pub struct Grant {
    pub client_id: String,
    pub generations: Generations,
    pub rotated_at: Timestamp,
    /// The network address of the last rotation. `None`: it is unknown, so no address is near it.
    pub rotated_from: Option<IpAddr>,
    pub expires_at: Timestamp,
    /// Why the grant was revoked, if it was.
    pub ended: Option<Reason>,
    pub user_disabled: bool,
    /// The workspace of the grant was deleted, or the user is no longer a member.
    pub workspace_left: bool,
    /// From this time the user has to sign in through their company before the grant is refreshed again.
    pub sso_until: Option<Timestamp>,
}

/// Where a grant stands on its number line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Generations {
    pub base: i32,
    pub issued: i32,
}

/// What presenting a refresh token means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RotationVerdict {
    /// Issue the next token.
    Rotate,
    /// Issue the same successor again, and write nothing.
    Repeat,
    /// Issue another successor. From now on, presenting the former one is a replay.
    Supersede,
    /// Trust the token, and issue its successor.
    FastForward,
    Refuse(RotationRefusal),
    /// Revoke the grant, notify its user, and refuse.
    Revoke(Reason),
}

/// Why a refresh token is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RotationRefusal {
    /// The token is not genuine, or of another client. The caller is told nothing more.
    #[error("the refresh token is not accepted")]
    NotAccepted,
    /// The token is genuine, but its grant is no longer valid. Its holder is told why.
    #[error("the grant is no longer valid: {}", .0.as_str())]
    Inactive(Reason),
}

/// Sessions that were last refreshed at or before this time are idle, and no longer valid.
#[must_use]
pub fn idle_since(now: Timestamp) -> Timestamp {
    later(now, -lifetimes::REFRESH_IDLE)
}

/// Decides what presenting this token of this grant means.
#[must_use]
pub fn judge(presented: &PresentedRefreshToken<'_>, grant: &Grant, now: Timestamp) -> RotationVerdict {
    if !presented.genuine || presented.client_id != Some(&grant.client_id) {
        return RotationVerdict::Refuse(RotationRefusal::NotAccepted);
    }
    let inactive = |reason| RotationVerdict::Refuse(RotationRefusal::Inactive(reason));
    if let Some(reason) = grant.ended {
        return inactive(reason);
    }
    if grant.expires_at <= now {
        return inactive(Reason::Expired);
    }
    if later(grant.rotated_at, lifetimes::REFRESH_IDLE) <= now {
        return inactive(Reason::Idle);
    }
    let Generations { issued, .. } = grant.generations;
    let generation = presented.generation;
    // Before every state that may be temporary, such as a disabled user: a replay is never overlooked.
    if let Some(reason) = replay(generation, grant.generations) {
        return RotationVerdict::Revoke(reason);
    }
    if grant.user_disabled {
        return inactive(Reason::UserDisabled);
    }
    if grant.workspace_left {
        return inactive(Reason::WorkspaceRemoved);
    }
    if grant.sso_until.is_some_and(|until| until <= now) {
        return inactive(Reason::SsoAgain);
    }
    if generation > issued {
        RotationVerdict::FastForward
    } else if generation == issued {
        RotationVerdict::Rotate
    } else if is_repeat(presented, grant, now) {
        RotationVerdict::Repeat
    } else {
        RotationVerdict::Supersede
    }
}

/// Why presenting a genuine token of this generation is a replay: another party has used its successor. `None`: it is not.
#[must_use]
pub const fn replay(generation: i32, Generations { base, issued }: Generations) -> Option<Reason> {
    if generation < base {
        Some(Reason::Replayed)
    } else if base < generation && generation < issued {
        Some(Reason::Superseded)
    } else {
        None
    }
}

/// Whether a token is presented soon after its rotation, and from the same network.
fn is_repeat(presented: &PresentedRefreshToken<'_>, grant: &Grant, now: Timestamp) -> bool {
    let soon = now <= later(grant.rotated_at, lifetimes::REFRESH_REPEAT);
    let near = grant.rotated_from.is_some_and(|from| network::near(from) == network::near(presented.address));
    soon && near
}

/// Where a grant stands after a verdict. `None`: the verdict does not change it, or it has no number left.
#[must_use]
pub fn next(verdict: RotationVerdict, presented: i32, before: Generations) -> Option<Generations> {
    match verdict {
        RotationVerdict::Rotate | RotationVerdict::FastForward => {
            Some(Generations { base: presented, issued: presented.checked_add(1)? })
        }
        RotationVerdict::Supersede => Some(Generations { base: before.base, issued: before.issued.checked_add(1)? }),
        RotationVerdict::Repeat | RotationVerdict::Refuse(_) | RotationVerdict::Revoke(_) => None,
    }
}

#[cfg(test)]
mod tests;
