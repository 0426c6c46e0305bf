//! A semaphore that is fair between networks: one network cannot take all places.
//!
//! An address counts for two networks: the IPv4 address or IPv6 /64 of one customer, and the /24 or /48 that one
//! attacker may control. Each network may hold a share of all places.

use std::{
    collections::HashMap,
    net::{IpAddr, Ipv6Addr},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use ipnet::IpNet;
use service_rules::{network, network_rates::RaisedNetworks};

/// Places for large responses: one for each 1,024 bytes, 128 MB together.
pub const MAX_OUTGOING_PLACES: usize = 128 * 1024;
/// Places for downloads that run: one each.
pub const MAX_DOWNLOADS_AT_ONCE: usize = 128;
/// One customer may hold a sixteenth of all places.
const CUSTOMER_SHARE_DIVISOR: usize = 16;
/// One /24 or /48 may hold a quarter of all places.
const SITE_SHARE_DIVISOR: usize = 4;
/// The smallest share of a network, however few places there are.
const MIN_SHARE: usize = 8;

/// Who holds a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holder {
    Caller(IpAddr),
    /// A trusted proxy, which forwards many callers. It is limited by the total number of places only.
    TrustedProxy,
}

/// The two networks of an address, each with its prefix length.
type Networks = [(IpAddr, u8); 2];

/// Places that are shared between networks.
pub struct NetworkPlaces {
    shared: Arc<PlacePool>,
    /// Networks that may hold a multiple of the share.
    raised: RaisedNetworks,
}

/// The state that the places and their permits share.
struct PlacePool {
    places: usize,
    taken: Mutex<TakenPlaces>,
}

#[derive(Default)]
struct TakenPlaces {
    all: usize,
    by_network: HashMap<(IpAddr, u8), usize>,
}

/// A permit for a number of places, which are released when it is dropped.
pub struct PlacePermit {
    shared: Arc<PlacePool>,
    networks: Option<Networks>,
    weight: usize,
}

fn networks(address: IpAddr) -> Networks {
    match network::counted(address) {
        IpAddr::V4(address) => {
            let [a, b, c, _] = address.octets();
            [(IpAddr::V4(address), 32), (IpAddr::from([a, b, c, 0]), 24)]
        }
        IpAddr::V6(address) => {
            let [a, b, c, ..] = address.segments();
            [(IpAddr::V6(address), 64), (IpAddr::V6(Ipv6Addr::new(a, b, c, 0, 0, 0, 0, 0)), 48)]
        }
    }
}

impl NetworkPlaces {
    #[must_use]
    pub fn new(places: usize, raised: RaisedNetworks) -> Self {
        Self { shared: Arc::new(PlacePool { places, taken: Mutex::default() }), raised }
    }

    /// The factor by which an operator raised the share of a network.
    fn factor(&self, network: IpAddr, prefix: u8) -> usize {
        let factor = IpNet::new(network, prefix).map_or(1, |network| self.raised.factor(network));
        usize::try_from(factor).unwrap_or(usize::MAX)
    }

    /// Takes `weight` places; `None`: too few are free, or the holder's network has its share.
    #[must_use]
    pub fn take(&self, holder: Holder, weight: usize) -> Option<PlacePermit> {
        let places = self.shared.places;
        let mut taken = self.shared.taken();
        if taken.all + weight > places {
            return None;
        }
        let networks = match holder {
            Holder::Caller(address) => Some(networks(address)),
            Holder::TrustedProxy => None,
        };
        let shares = [places / CUSTOMER_SHARE_DIVISOR, places / SITE_SHARE_DIVISOR].map(|share| share.max(MIN_SHARE));
        for (network, share) in networks.iter().flatten().zip(shares) {
            let share = share.saturating_mul(self.factor(network.0, network.1));
            if taken.by_network.get(network).copied().unwrap_or_default() + weight > share {
                return None;
            }
        }
        taken.all += weight;
        for network in networks.iter().flatten() {
            *taken.by_network.entry(*network).or_default() += weight;
        }
        drop(taken);
        Some(PlacePermit { shared: self.shared.clone(), networks, weight })
    }

    /// Returns the number of free places.
    #[must_use]
    pub fn free(&self) -> usize {
        self.shared.places - self.shared.taken().all
    }
}

impl PlacePool {
    fn taken(&self) -> MutexGuard<'_, TakenPlaces> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for PlacePermit {
    fn drop(&mut self) {
        let mut taken = self.shared.taken();
        taken.all -= self.weight;
        for network in self.networks.iter().flatten() {
            if let Some(count) = taken.by_network.get_mut(network) {
                *count -= self.weight;
                if *count == 0 {
                    taken.by_network.remove(network);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hold(places: &NetworkPlaces, address: &str, count: usize) -> Vec<PlacePermit> {
        let holder = Holder::Caller(address.parse().unwrap());
        (0..count).map_while(|_| places.take(holder, 1)).collect()
    }

    #[test]
    fn a_network_gets_its_share_and_others_still_find_room_rv_23() {
        let places = NetworkPlaces::new(1_600, RaisedNetworks::default());
        let one = hold(&places, "203.0.113.1", 1_600);
        assert_eq!(one.len(), 100);
        let neighbours: Vec<_> = (2..250).flat_map(|host| hold(&places, &format!("203.0.113.{host}"), 100)).collect();
        assert_eq!(one.len() + neighbours.len(), 400, "a /24 takes more than its share");
        assert_eq!(hold(&places, "203.0.114.1", 100).len(), 100, "another network finds none");
        let site: Vec<_> = (0..9).flat_map(|net| hold(&places, &format!("2001:db8:1:{net}::1"), 1_600)).collect();
        assert_eq!(site.len(), 400, "a /48 takes more than its share");
        drop((one, neighbours, site));
        assert_eq!(places.free(), 1_600);
        assert!(places.shared.taken().by_network.is_empty(), "networks are remembered for nothing");
    }

    #[test]
    fn a_raised_network_holds_a_multiple_of_the_share() {
        let raised = RaisedNetworks::new(vec![("203.0.113.7/32".parse().unwrap(), 3)]);
        let places = NetworkPlaces::new(1_600, raised);
        let office = hold(&places, "203.0.113.7", 1_600);
        assert_eq!(office.len(), 300);
        // The network around it is not raised.
        assert_eq!(hold(&places, "203.0.113.8", 1_600).len(), 100);
    }

    #[test]
    fn a_trusted_proxy_is_bounded_by_all_places_only_rv_24() {
        let places = NetworkPlaces::new(100, RaisedNetworks::default());
        let held: Vec<_> = (0..200).map_while(|_| places.take(Holder::TrustedProxy, 1)).collect();
        assert_eq!(held.len(), 100);
    }

    #[test]
    fn what_is_heavy_takes_more_rv_25() {
        let places = NetworkPlaces::new(160, RaisedNetworks::default());
        let holder = Holder::Caller("203.0.113.1".parse().unwrap());
        let first = places.take(holder, 7);
        assert!(first.is_some());
        assert!(places.take(holder, 4).is_none());
        drop(first);
        assert!(places.take(holder, 10).is_some());
    }
}
