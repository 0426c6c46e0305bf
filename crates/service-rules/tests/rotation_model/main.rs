//! The policy of refreshing, explored to exhaustion: an honest client whose answers get lost and whose processes ask at
//! once, a thief near or far, and every order in which they can act.
//!
//! A state keeps the places of tokens on the grant's line, not their numbers, so there are finitely many. Four weaker
//! policies, each in use somewhere, are explored beside ours; each must fail where it is known to fail, so that nobody
//! weakens ours, or the model, unnoticed.

mod model;

use std::collections::{HashMap, HashSet};

use model::{Label, Outcome, Policy, State, World, explore};

/// Whether a client that nobody robbed is ever turned away.
fn turns_the_honest_away(policy: Policy, processes: bool) -> bool {
    let explored = explore(policy, World { processes, thief: None });
    explored
        .edges
        .iter()
        .any(|(_, label, _)| matches!(label, Label::Refresh { honest: true, outcome, .. } if *outcome != Outcome::Fine))
}

/// Whether thief and victim can both go on for ever: a circle of states in which both refresh, and are answered.
fn both_go_on(policy: Policy, near: bool) -> bool {
    let explored = explore(policy, World { processes: false, thief: Some(near) });
    let edges: Vec<_> = explored
        .edges
        .iter()
        .filter(|(from, label, to)| from.stolen && *label != Label::Steal && !to.revoked)
        .collect();
    let mut behind: HashMap<State, Vec<State>> = HashMap::new();
    for (from, _, to) in &edges {
        behind.entry(*from).or_default().push(*to);
    }
    let reached = |from: State| {
        let (mut seen, mut waiting) = (HashSet::from([from]), vec![from]);
        while let Some(state) = waiting.pop() {
            for to in behind.get(&state).into_iter().flatten() {
                if seen.insert(*to) {
                    waiting.push(*to);
                }
            }
        }
        seen
    };
    let fine = |honest| move |label: &Label| *label == Label::Refresh { honest, outcome: Outcome::Fine, arrives: true };
    // From behind a refresh of the thief to one of the victim, and back to before the thief's.
    edges.iter().filter(|(_, label, _)| fine(false)(label)).any(|(before, _, after)| {
        let ahead = reached(*after);
        edges.iter().any(|(from, label, to)| fine(true)(label) && ahead.contains(from) && reached(*to).contains(before))
    })
}

/// Whether the victim can be turned away while the thief's tokens still work.
fn thief_outlives_victim(policy: Policy, near: bool) -> bool {
    let explored = explore(policy, World { processes: false, thief: Some(near) });
    explored.edges.iter().any(|(_, label, after)| {
        let turned_away = matches!(label, Label::Refresh { honest: true, outcome, .. } if *outcome != Outcome::Fine);
        turned_away && !after.revoked && after.thief.contains(&true)
    })
}

/// Who is wronged under a policy, in the order of [`WRONGS`].
fn wrongs(policy: Policy) -> [bool; 4] {
    [
        turns_the_honest_away(policy, false),
        turns_the_honest_away(policy, true),
        both_go_on(policy, false),
        [true, false].into_iter().any(|near| thief_outlives_victim(policy, near)),
    ]
}

const WRONGS: [&str; 4] = [
    "a lost answer locks its client out",
    "parallel processes lock their client out",
    "a thief far away stays for ever",
    "a thief stays when the victim has to leave",
];

#[test]
fn our_policy_holds_and_each_weaker_one_fails() {
    for (policy, expected) in [
        (Policy::Strict, [true, true, false, false]),
        (Policy::RefuseOnly, [false, true, false, true]),
        (Policy::SameSuccessor, [false, true, true, false]),
        (Policy::AlwaysSupersede, [false, true, false, false]),
        (Policy::Ours, [false, false, false, false]),
    ] {
        let found = wrongs(policy);
        let named: Vec<_> = WRONGS.iter().zip(found).filter(|(_, wrong)| *wrong).map(|(name, _)| *name).collect();
        println!("{policy:?}: {named:?}");
        assert_eq!(found, expected, "{policy:?}");
    }
}

/// What remains: a thief in the victim's own network who keeps pace with it within a minute is not told apart.
#[test]
fn only_a_thief_in_the_same_network_can_keep_pace() {
    assert!(both_go_on(Policy::Ours, true));
    assert!(!both_go_on(Policy::Ours, false));
}

#[test]
fn the_model_is_neither_empty_nor_cut_short() {
    for (world, at_least) in [
        (World { processes: false, thief: None }, 10),
        (World { processes: true, thief: None }, 15),
        (World { processes: true, thief: Some(true) }, 300),
        (World { processes: true, thief: Some(false) }, 300),
    ] {
        let explored = explore(Policy::Ours, world);
        println!("{world:?}: {} states, {} steps", explored.states.len(), explored.edges.len());
        assert!(explored.states.len() >= at_least, "{world:?}: {} states", explored.states.len());
    }
}
