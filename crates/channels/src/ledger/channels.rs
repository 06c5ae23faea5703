//! The states of the channels, stored so that other processes can read them.

use protocol::channel::Channel;
use rusqlite::params;

use super::{Error, Ledger};

impl Ledger {
    /// Replaces the stored states.
    pub(crate) async fn set_channels(&self, channels: Vec<Channel>) -> Result<(), Error> {
        self.with(move |tables| {
            tables.prepare_cached("DELETE FROM channels")?.execute([])?;
            for channel in &channels {
                let change = "INSERT INTO channels VALUES (?, ?)";
                let body = serde_json::to_string(channel)?;
                tables.prepare_cached(change)?.execute(params![channel.name, body])?;
            }
            Ok(())
        })
        .await
    }

    /// The states that the newest gateway stored, by name.
    pub(crate) async fn channels(&self) -> Result<Vec<Channel>, Error> {
        self.with(move |tables| {
            let mut query = tables.prepare_cached("SELECT body FROM channels ORDER BY name")?;
            let bodies =
                query.query_map([], |row| row.get::<_, String>(0))?.collect::<Result<Vec<_>, _>>()?;
            bodies.iter().map(|body| Ok(serde_json::from_str(body)?)).collect()
        })
        .await
    }
}
