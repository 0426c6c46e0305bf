//! How far a node has read the revocations.
//!
//! Revocations are numbered in lanes. Within a lane, transactions commit in the order of their numbers and leave no gap,
//! so a node that has read a lane up to a number has read everything below it. A number means the same over any
//! connection, behind a pooler and on a standby.
//!
//! After a failover that lost commits, a lane may assign numbers again. So a node remembers the id at its last place. If
//! another revocation is there, or none, the node reads the lane from the beginning. Reading a revocation twice does no
//! harm.

use service_api::ids::RevocationId;

/// The number of lanes. One transaction at a time commits in each.
pub const LANES: usize = 16;

/// A place in a lane: the number of a revocation, and its id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    pub number: i64,
    pub id: RevocationId,
}

/// The last revocation of each lane, as one snapshot of the database shows it. `None`: the lane was never used.
pub type Heads = [Option<Place>; LANES];

/// What one snapshot of the database shows of a lane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LanePage {
    pub head: Option<Place>,
    /// Where the revocations are that were read, in the order of their numbers, from the number that was asked for.
    pub places: Vec<Place>,
    /// Whether there are more of them.
    pub is_full: bool,
}

/// What a page of a lane means for a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageVerdict {
    /// The revocations on the page are new, and the node has read up to the head.
    Complete,
    /// The revocations on the page are new, and there are more.
    More,
    /// The page does not continue what the node has read. It has to read the lane from the beginning.
    Restart,
}

/// How far a node has read each lane. By default it has read nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FeedPosition([Option<Place>; LANES]);

impl FeedPosition {
    /// Returns the lanes that have to be read. Forgets how far a lane was read if its head is not where it should be.
    pub fn unread(&mut self, heads: &Heads) -> Vec<usize> {
        let moved = (0..LANES).filter(|lane| self.0[*lane] != heads[*lane]).collect::<Vec<_>>();
        for lane in &moved {
            // The head moved back: this server lags, or commits were lost. Which of the two cannot be told.
            if number(heads[*lane]) <= number(self.0[*lane]) {
                self.0[*lane] = None;
            }
        }
        // A lane without revocations has nothing to read.
        moved.into_iter().filter(|lane| heads[*lane].is_some()).collect()
    }

    /// Returns the number at which reading a lane begins. The place that was read last is read again, to compare its id.
    #[must_use]
    pub fn begin(&self, lane: usize) -> i64 {
        number(self.0[lane])
    }

    /// Moves on by a page of a lane.
    pub fn advance(&mut self, lane: usize, page: &LanePage) -> PageVerdict {
        let known = self.0[lane];
        if known.is_some() && page.places.first().copied() != known {
            self.0[lane] = None;
            return PageVerdict::Restart;
        }
        if page.is_full {
            self.0[lane] = page.places.last().copied();
            return PageVerdict::More;
        }
        self.0[lane] = page.head;
        PageVerdict::Complete
    }
}

fn number(place: Option<Place>) -> i64 {
    place.map_or(0, |place| place.number)
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    const NO_HEADS: Heads = [None; LANES];

    fn place(number: i64, id: u128) -> Place {
        Place { number, id: Uuid::from_u128(id).into() }
    }

    fn page(head: Place, places: &[Place], is_full: bool) -> LanePage {
        LanePage { head: Some(head), places: places.to_vec(), is_full }
    }

    fn heads(first: Place) -> Heads {
        let mut heads = NO_HEADS;
        heads[0] = Some(first);
        heads
    }

    /// A node that has read the first lane up to this place.
    fn at(place: Place) -> FeedPosition {
        FeedPosition(heads(place))
    }

    #[test]
    fn only_lanes_that_moved_are_read() {
        assert!(FeedPosition::default().unread(&NO_HEADS).is_empty());
        assert!(at(place(7, 70)).unread(&heads(place(7, 70))).is_empty());
        let mut position = at(place(7, 70));
        assert_eq!(position.unread(&heads(place(9, 90))), [0]);
        assert_eq!(position.begin(0), 7);
    }

    #[test]
    fn a_page_continues_from_the_last_place() {
        let mut position = at(place(7, 70));
        let more = page(place(9, 90), &[place(7, 70), place(8, 80)], true);
        assert_eq!((position.advance(0, &more), position.begin(0)), (PageVerdict::More, 8));
        let rest = page(place(9, 90), &[place(8, 80), place(9, 90)], false);
        assert_eq!((position.advance(0, &rest), position.begin(0)), (PageVerdict::Complete, 9));
        assert!(position.unread(&heads(place(9, 90))).is_empty());
    }

    #[test]
    fn a_lane_with_another_revocation_at_the_last_place_is_read_from_the_beginning() {
        for places in [vec![place(7, 71), place(8, 80)], vec![place(8, 80)], vec![]] {
            let mut position = at(place(7, 70));
            assert_eq!(position.unread(&heads(place(8, 80))), [0]);
            assert_eq!(position.advance(0, &page(place(8, 80), &places, false)), PageVerdict::Restart);
            assert_eq!(position.begin(0), 0);
        }
    }

    #[test]
    fn a_lane_whose_head_moved_back_or_changed_is_read_from_the_beginning() {
        for head in [place(6, 60), place(7, 71)] {
            let mut position = at(place(7, 70));
            assert_eq!((position.unread(&heads(head)), position.begin(0)), (vec![0], 0));
        }
        // All of it is gone, so there is nothing to read. What comes next is read from the beginning.
        let mut position = at(place(7, 70));
        assert_eq!((position.unread(&NO_HEADS), position.begin(0)), (vec![], 0));
    }

    #[test]
    fn a_lane_whose_revocations_were_all_deleted_is_read_completely() {
        let mut position = FeedPosition::default();
        assert_eq!(position.unread(&heads(place(7, 70))), [0]);
        assert_eq!(position.advance(0, &page(place(7, 70), &[], false)), PageVerdict::Complete);
        assert!(position.unread(&heads(place(7, 70))).is_empty());
    }
}
