//! The states, who acts in them, and every step they can take.

use std::{
    collections::{HashSet, VecDeque},
    net::IpAddr,
};

use service_api::{Timestamp, errors::Reason};
use service_rules::rotation::{Generations, Grant, PresentedRefreshToken, RotationVerdict, judge, next};

/// Where the window for repeats begins, and a moment when it is over.
const ROTATED: i64 = 1_800_000_000;
const HERE: [u8; 4] = [203, 0, 113, 4];
const ELSEWHERE: [u8; 4] = [198, 51, 100, 9];
/// The place of `base` on the line; everything older is one before it.
const BASE: i32 = 10;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(clippy::struct_excessive_bools, reason = "each is true or false by itself: that is what a state is")]
pub(crate) struct State {
    issued: i32,
    /// What the client has stored.
    client: Option<i32>,
    /// What a second process of the client has read and not used yet.
    process: Option<i32>,
    /// Every place of which the thief holds a token.
    pub(crate) thief: [bool; 4],
    pub(crate) stolen: bool,
    /// An access token of the youngest pair has been used.
    acknowledged: bool,
    /// Who holds an access token of the youngest pair.
    fresh: [bool; 2],
    soon: bool,
    rotated_here: bool,
    pub(crate) revoked: bool,
}

/// Places on the line, as the index of [`State::thief`]: older than base, base, superseded, issued.
fn place(token: i32, issued: i32) -> usize {
    match token {
        token if token < BASE => 0,
        BASE => 1,
        token if token < issued => 2,
        _ => 3,
    }
}

fn token_at(place: usize, issued: i32) -> i32 {
    [BASE - 1, BASE, BASE + 1, issued][place]
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Policy {
    /// A second use of a token ends the grant.
    Strict,
    /// A second use is refused, and the grant goes on.
    RefuseOnly,
    /// A second use gets the same successor until that has been seen in use.
    SameSuccessor,
    /// A second use gets a new successor until the one before has been seen in use.
    AlwaysSupersede,
    Ours,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Actor {
    Client,
    Process,
    Thief { near: bool },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Outcome {
    Fine,
    Refused,
    Revoked,
}

type Step = (Label, State);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Label {
    Refresh { honest: bool, outcome: Outcome, arrives: bool },
    Steal,
    Other,
}

/// What the server does about a token, given the facts that the policy may look at.
fn decide(policy: Policy, state: &State, token: i32, here: bool) -> RotationVerdict {
    let line = Generations { base: BASE, issued: state.issued };
    if policy == Policy::Ours {
        let second = if state.soon { ROTATED + 1 } else { ROTATED + 3_600 };
        let at = |second| Timestamp::from_second(second).unwrap_or_default();
        let address = |here| IpAddr::from(if here { HERE } else { ELSEWHERE });
        let grant = Grant {
            client_id: "service-cli".into(),
            generations: line,
            rotated_at: at(ROTATED),
            rotated_from: Some(address(state.rotated_here)),
            expires_at: at(ROTATED + 1_000_000),
            ended: None,
            user_disabled: false,
            workspace_left: false,
            sso_until: None,
        };
        let presented = PresentedRefreshToken {
            genuine: true,
            generation: token,
            client_id: Some("service-cli"),
            address: address(here),
        };
        return judge(&presented, &grant, at(second));
    }
    let spare = token == BASE && !state.acknowledged;
    match policy {
        _ if token == state.issued => RotationVerdict::Rotate,
        Policy::SameSuccessor if spare => RotationVerdict::Repeat,
        Policy::RefuseOnly | Policy::AlwaysSupersede if spare => RotationVerdict::Supersede,
        Policy::RefuseOnly => RotationVerdict::Refuse(service_rules::rotation::RotationRefusal::NotAccepted),
        _ => RotationVerdict::Revoke(Reason::Replayed),
    }
}

fn refresh(policy: Policy, state: State, actor: Actor, token: i32, lost: bool) -> Step {
    let honest = !matches!(actor, Actor::Thief { .. });
    let here = honest || actor == Actor::Thief { near: true };
    let verdict = if state.revoked { None } else { Some(decide(policy, &state, token, here)) };
    let mut after = state;
    let outcome = match verdict {
        None | Some(RotationVerdict::Refuse(_)) => Outcome::Refused,
        Some(RotationVerdict::Revoke(_)) => Outcome::Revoked,
        Some(_) => Outcome::Fine,
    };
    if outcome == Outcome::Fine {
        let verdict = verdict.unwrap_or(RotationVerdict::Repeat);
        let line = next(verdict, token, Generations { base: BASE, issued: state.issued });
        if let Some(line) = line {
            after = moved(state, line);
            (after.soon, after.rotated_here, after.acknowledged, after.fresh) = (true, here, false, [false; 2]);
        }
        if !lost {
            take(&mut after, actor);
        }
    } else {
        after.revoked |= outcome == Outcome::Revoked;
        match actor {
            Actor::Client => after.client = None,
            Actor::Process => after.process = None,
            Actor::Thief { .. } => after.thief[place(token, state.issued)] = false,
        }
    }
    // A process that lost its answer asks again with what is stored.
    if actor == Actor::Process && lost {
        after.process = None;
    }
    (Label::Refresh { honest, outcome, arrives: !lost }, after)
}

/// The youngest token, in the hands of whoever asked.
fn take(state: &mut State, actor: Actor) {
    match actor {
        Actor::Client => state.client = Some(state.issued),
        Actor::Process => (state.client, state.process) = (Some(state.issued), None),
        Actor::Thief { .. } => state.thief[3] = true,
    }
    state.fresh[usize::from(matches!(actor, Actor::Thief { .. }))] = true;
}

/// Numbers the tokens again after the line has moved, so that states that differ only in their numbers are one.
fn moved(state: State, line: Generations) -> State {
    let issued = if line.issued - line.base == 1 { BASE + 1 } else { BASE + 2 };
    let shift = |token: i32| match token {
        token if token < line.base => BASE - 1,
        token if token == line.base => BASE,
        token if token < line.issued => BASE + 1,
        _ => issued,
    };
    let mut after = State { issued, thief: [false; 4], ..state };
    after.client = state.client.map(shift);
    // An honest process uses what it read before its client has refreshed twice.
    after.process = state.process.map(shift).filter(|token| *token >= BASE);
    for held in (0..4).filter(|held| state.thief[*held]) {
        after.thief[place(shift(token_at(held, state.issued)), issued)] = true;
    }
    after
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct World {
    pub(crate) processes: bool,
    /// A thief, and whether it is near.
    pub(crate) thief: Option<bool>,
}

fn steps(policy: Policy, state: State, world: World) -> Vec<Step> {
    let mut found = Vec::new();
    for lost in [false, true] {
        if let Some(token) = state.client {
            found.push(refresh(policy, state, Actor::Client, token, lost));
        }
        if let Some(token) = state.process {
            found.push(refresh(policy, state, Actor::Process, token, lost));
        }
    }
    if world.processes && state.client.is_some() {
        found.push((Label::Other, State { process: state.client, ..state }));
    }
    if state.fresh[0] || (state.fresh[1] && world.thief.is_some()) {
        found.push((Label::Other, State { acknowledged: true, ..state }));
    }
    if state.soon {
        // A process does not sleep on what it has read.
        found.push((Label::Other, State { soon: false, process: None, ..state }));
    }
    if let Some(near) = world.thief {
        if let Some(token) = state.client.filter(|_| !state.stolen) {
            let mut after = State { stolen: true, ..state };
            after.thief[place(token, state.issued)] = true;
            found.push((Label::Steal, after));
        }
        for held in (0..4).filter(|held| state.thief[*held]) {
            found.push(refresh(policy, state, Actor::Thief { near }, token_at(held, state.issued), false));
        }
    }
    found
}

pub(crate) struct Explored {
    pub(crate) states: HashSet<State>,
    pub(crate) edges: Vec<(State, Label, State)>,
}

pub(crate) fn explore(policy: Policy, world: World) -> Explored {
    let first = State {
        issued: BASE + 1,
        client: Some(BASE + 1),
        process: None,
        thief: [false; 4],
        stolen: false,
        acknowledged: false,
        fresh: [true, false],
        soon: false,
        rotated_here: true,
        revoked: false,
    };
    let (mut states, mut waiting, mut edges) = (HashSet::from([first]), VecDeque::from([first]), Vec::new());
    while let Some(state) = waiting.pop_front() {
        for (label, after) in steps(policy, state, world) {
            edges.push((state, label, after));
            if states.insert(after) {
                waiting.push_back(after);
            }
        }
    }
    Explored { states, edges }
}
