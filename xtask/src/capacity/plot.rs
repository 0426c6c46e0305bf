//! The curves of docs/capacity.md.

use super::{
    costs::Costs,
    model::{Limit, Needs},
};
use crate::pictures::curves::{Curve, CurvePoint, Curves};

/// Users from 10⁴ to 10⁹, in steps of a quarter of a power of ten.
const USERS: [i32; 2] = [4, 9];
const STEPS: i32 = 4;

/// Operations a second at the peak.
pub(crate) fn rates(costs: &Costs) -> String {
    let curve = |name: &str, value: fn(&Needs) -> f64| Curve {
        name: name.to_owned(),
        points: users().map(|users| CurvePoint { x: users, y: value(&Needs::of(users, costs)) }).collect(),
    };
    let lines = vec![
        curve("verifications", |needs| needs.verifications.peak),
        curve("refreshes", |needs| needs.refreshes.peak),
        curve("sign-in mails", |needs| needs.sign_ins.peak),
        curve("revocations", |needs| needs.revocations.peak),
    ];
    over_users("Operations a second at the peak, over users", lines, [-3, 7]).draw()
}

/// The used share of each limit of one primary.
pub(crate) fn limits(costs: &Costs) -> String {
    let all: Vec<[Limit; 6]> = users().map(|users| Needs::of(users, costs).limits).collect();
    let lines = (0..6).map(|place| Curve {
        name: all[0][place].name.to_owned(),
        points: users().zip(&all).map(|(users, limits)| CurvePoint { x: users, y: limits[place].used }).collect(),
    });
    let plot = over_users("Used share of each limit of one primary, over users", lines.collect(), [-4, 2]);
    Curves { marks_one: true, ..plot }.draw()
}

fn over_users(title: &'static str, lines: Vec<Curve>, down: [i32; 2]) -> Curves {
    Curves { title, lines, over: "users", across: USERS, down, marks_one: false }
}

fn users() -> impl Iterator<Item = f64> {
    (USERS[0] * STEPS..=USERS[1] * STEPS).map(|step| 10_f64.powf(f64::from(step) / f64::from(STEPS)))
}
