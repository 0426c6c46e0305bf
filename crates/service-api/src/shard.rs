//! Shards: which part of the data a row belongs to.
//!
//! A shard is a number from 0 to 4095. Every user and every workspace has one, and keeps it for life. It is the 12 bits of
//! their UUIDv7 behind its version, which RFC 9562 calls `rand_a`:
//!
//! ```text
//! 018f2f6e-8a40-7c5e-9b1d-3f0a6c2e4d71
//!                ^^^ the shard: 0xc5e = 3166
//! ```
//!
//! IDs are as long as before and sort by time as before; only the order of two IDs of one millisecond may differ. A new
//! user's shard is drawn at random. Whatever belongs to a user or to a workspace has an ID in the same shard: a session, a
//! CLI token, a consent in its user's; an invitation, a content in its workspace's or its user's. So the ID in a refresh
//! token or a CLI token says in which shard its row is, and so do 12 bits of an authorization code and of a cookie. No
//! token is longer because of it.
//!
//! What is found by an email address is in the shard of the address, which is a keyed hash. It says nothing about the
//! shard of the user. What is found by a key, such as a rate limit, is in the shard of the key.
//!
//! Why: `shard` is the last column of every primary key and unique index of a table whose rows have an owner, and the
//! statements of the store name it. One PostgreSQL server does not need it. When one is no longer enough, ranges of
//! shards move to other servers, and the schema, the statements and the IDs that clients hold stay as they are. A column
//! cannot be added to IDs that clients hold already; therefore it is there from the beginning. `docs/scaling.md` tells
//! the rest.

use uuid::Uuid;

/// The shard of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Shard(u16);

impl Shard {
    /// How many shards there are.
    pub const COUNT: u16 = 4096;

    /// Returns the shard that a UUIDv7 carries.
    #[must_use]
    pub const fn of_id(id: Uuid) -> Self {
        let bytes = id.as_bytes();
        Self::of_bytes([bytes[6], bytes[7]])
    }

    /// Returns the shard that two bytes carry: of a digest or of a secret. Their first four bits do not count.
    #[must_use]
    pub const fn of_bytes(bytes: [u8; 2]) -> Self {
        Self(u16::from_be_bytes(bytes) % Self::COUNT)
    }

    /// Writes the shard into two random bytes, of which the first four bits stay.
    #[must_use]
    pub const fn write_into(self, random: [u8; 2]) -> [u8; 2] {
        ((u16::from_be_bytes(random) & !(Self::COUNT - 1)) | self.0).to_be_bytes()
    }

    /// Returns the number, as the column holds it.
    #[must_use]
    pub const fn number(self) -> i16 {
        self.0.cast_signed()
    }
}

#[cfg(test)]
mod tests {
    use super::Shard;

    #[test]
    fn a_shard_is_read_from_where_it_was_written() {
        for number in 0..Shard::COUNT {
            let shard = Shard(number);
            let bytes = shard.write_into([0xff, 0xff]);
            assert_eq!((Shard::of_bytes(bytes), bytes[0] >> 4), (shard, 0xf));
            assert_eq!(i32::from(shard.number()), i32::from(number));
        }
        let id = "018f2f6e-8a40-7c5e-9b1d-3f0a6c2e4d71".parse().unwrap();
        assert_eq!(Shard::of_id(id), Shard(0xc5e));
    }
}
