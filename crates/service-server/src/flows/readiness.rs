//! Whether this node can do its work.

use crate::{app::App, store};

#[derive(Clone, Copy, Debug)]
pub enum NotReady {
    Stopping,
    NoSigningKey,
    NoDatabase,
    NoRevocations,
    WrongClock,
}

impl NotReady {
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Stopping => "not ready: the node is stopping\n",
            Self::NoSigningKey => "not ready: there is no signing key\n",
            Self::NoDatabase => "not ready: the database does not answer\n",
            Self::NoRevocations => "not ready: the revocations were not read for 30 seconds\n",
            Self::WrongClock => "not ready: the clock differs from the database's by more than 10 seconds\n",
        }
    }
}

pub async fn check(app: &App) -> Result<(), NotReady> {
    if app.stop.is_cancelled() {
        return Err(NotReady::Stopping);
    }
    if !app.signing_keys.can_sign() {
        return Err(NotReady::NoSigningKey);
    }
    if app.revocations.clock_is_off() {
        return Err(NotReady::WrongClock);
    }
    let db = app.database.connect().await.map_err(|_| NotReady::NoDatabase)?;
    store::ping(&db).await.map_err(|_| NotReady::NoDatabase)?;
    if app.revocations.is_fresh() { Ok(()) } else { Err(NotReady::NoRevocations) }
}
