//! What presenting a refresh token means, and what follows from it.
//!
//! A grant is a number line. Its tokens are numbered; `issued` is the youngest, `base` the one that `issued` was handed
//! out for. Every token ever issued can be recognised, so each place on the line has a meaning:
//!
//! | token | meaning | verdict |
//! |---|---|---|
//! | `issued` | the normal case | [`Rotate`](Verdict::Rotate) |
//! | `base`, soon and from the same network | its answer was lost, or two processes ask at once | [`Repeat`](Verdict::Repeat) |
//! | `base`, later or from elsewhere | its answer never arrived | [`Supersede`](Verdict::Supersede) |
//! | between the two | a successor that was superseded: somebody else has it | [`Revoke`](Verdict::Revoke) |
//! | older than `base` | a token whose successor was used: somebody else has it | [`Revoke`](Verdict::Revoke) |
//! | younger than `issued` | ours, and the database does not know: it lost a rotation | [`FastForward`](Verdict::FastForward) |

use std::net::IpAddr;

use service_api::errors::Reason;

use crate::{Timestamp, lifetimes, network, signing::later};

/// What was presented.
#[derive(Clone, Copy, Debug)]
pub struct Presented<'a> {
    /// Whether its MAC is ours.
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
    /// `None`: where from is not known, so nobody is there too.
    pub rotated_from: Option<IpAddr>,
    pub expires_at: Timestamp,
    /// Why it was ended, if it was.
    pub ended: Option<Reason>,
    pub user_disabled: bool,
    /// The workspace it is for is gone, or its user is no longer in it.
    pub workspace_left: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Generations {
    pub base: i32,
    pub issued: i32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Hand out the next token.
    Rotate,
    /// Hand out the same successor again, and write nothing.
    Repeat,
    /// Hand out another successor; the one before is a trap from now on.
    Supersede,
    /// Believe the token, and hand out its successor.
    FastForward,
    Refuse(Refusal),
    /// End the grant, tell its user, and refuse.
    Revoke(Reason),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Not a token of this service, or of another client: whoever sent it learns nothing more.
    NotAccepted,
    /// A genuine token of a grant that is dead; its holder is told why.
    Dead(Reason),
}

/// What presenting this token of this grant means.
#[must_use]
pub fn judge(presented: &Presented<'_>, grant: &Grant, now: Timestamp) -> Verdict {
    if !presented.genuine || presented.client_id != Some(&grant.client_id) {
        return Verdict::Refuse(Refusal::NotAccepted);
    }
    let dead = |reason| Verdict::Refuse(Refusal::Dead(reason));
    if let Some(reason) = grant.ended {
        return dead(reason);
    }
    if grant.expires_at <= now {
        return dead(Reason::Expired);
    }
    if later(grant.rotated_at, lifetimes::REFRESH_IDLE) <= now {
        return dead(Reason::Idle);
    }
    let Generations { base, issued } = grant.generations;
    let generation = presented.generation;
    // Before anything that may pass, such as a disabled user: a replay is never forgotten.
    if generation < base {
        return Verdict::Revoke(Reason::Replayed);
    }
    if base < generation && generation < issued {
        return Verdict::Revoke(Reason::Superseded);
    }
    if grant.user_disabled {
        return dead(Reason::UserDisabled);
    }
    if grant.workspace_left {
        return dead(Reason::WorkspaceRemoved);
    }
    if generation > issued {
        Verdict::FastForward
    } else if generation == issued {
        Verdict::Rotate
    } else if is_repeat(presented, grant, now) {
        Verdict::Repeat
    } else {
        Verdict::Supersede
    }
}

/// Soon after the rotation, and from the network that it was asked from.
fn is_repeat(presented: &Presented<'_>, grant: &Grant, now: Timestamp) -> bool {
    let soon = now <= later(grant.rotated_at, lifetimes::REFRESH_REPEAT);
    let near = grant.rotated_from.is_some_and(|from| network::near(from) == network::near(presented.address));
    soon && near
}

/// Where a grant stands after a verdict that changes it; `None`: it does not, or it has no number left.
#[must_use]
pub fn next(verdict: Verdict, presented: i32, before: Generations) -> Option<Generations> {
    match verdict {
        Verdict::Rotate | Verdict::FastForward => {
            Some(Generations { base: presented, issued: presented.checked_add(1)? })
        }
        Verdict::Supersede => Some(Generations { base: before.base, issued: before.issued.checked_add(1)? }),
        Verdict::Repeat | Verdict::Refuse(_) | Verdict::Revoke(_) => None,
    }
}

#[cfg(test)]
mod tests;
