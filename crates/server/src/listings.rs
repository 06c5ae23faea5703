//! The list of all providers has megabytes, and is asked for whenever a client starts: it is put together and packed
//! once for each configuration, also when many clients ask at the same time. Only the compressed form stays in memory.

use std::{
    collections::VecDeque,
    fmt::Write as _,
    io::{self, Read, Write},
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
};

use bytes::{Buf, Bytes};
use flate2::{Compression, read::GzDecoder, write::GzEncoder};
use protocol::provider::AllProviders;
use sha1::{Digest, Sha1};
use tokio::sync::OnceCell;

use crate::Instance;

/// Lists that are kept, packed. The oldest goes first.
const MAX_KEPT: usize = 8;
/// A list is unpacked in pieces of this many bytes, each when the client has room for it.
const PIECE: usize = 32 * 1024;

/// A list, as most clients take it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Packed {
    /// Compressed JSON.
    pub(crate) gzip: Bytes,
    /// Bytes of the JSON.
    pub(crate) length: u64,
    /// Tells one list from another.
    pub(crate) tag: String,
}

impl Packed {
    /// Packs a list. It takes a while.
    pub(crate) fn new(list: &AllProviders) -> io::Result<Self> {
        let mut packer = Counting { to: GzEncoder::new(Vec::new(), Compression::fast()), written: 0 };
        serde_json::to_writer(&mut packer, list)?;
        let (length, gzip) = (packer.written, packer.to.finish()?);
        let mut tag = String::from("W/\"");
        for byte in Sha1::digest(&gzip) {
            // Writing into memory cannot fail.
            let _ = write!(tag, "{byte:02x}");
        }
        tag.push('"');
        Ok(Self { gzip: gzip.into(), length, tag })
    }

    /// The JSON in pieces, for clients that cannot unpack.
    pub(crate) fn unpack(&self) -> impl Iterator<Item = io::Result<Bytes>> + Send + use<> {
        let mut json = GzDecoder::new(self.gzip.clone().reader());
        std::iter::from_fn(move || {
            let mut piece = Vec::with_capacity(PIECE);
            let read = json.by_ref().take(PIECE as u64).read_to_end(&mut piece);
            match read {
                Ok(0) => None,
                Ok(_) => Some(Ok(piece.into())),
                Err(error) => Some(Err(error)),
            }
        })
    }
}

/// Counts what is written.
struct Counting<W> {
    to: W,
    written: u64,
}

impl<W: Write> Write for Counting<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.to.write(bytes)?;
        self.written += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

/// What a list was made from, and the list once it is packed.
type Kept = VecDeque<(Weak<Instance>, Arc<OnceCell<Packed>>)>;

/// The lists that were packed lately. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub(crate) struct Listings {
    kept: Arc<Mutex<Kept>>,
}

impl Listings {
    /// The list of what there is in a directory, packed with `pack` by the first caller that asks for it. Others
    /// that ask meanwhile wait for the same list.
    pub(crate) async fn get<E>(
        &self,
        instance: &Arc<Instance>,
        pack: impl Future<Output = Result<Packed, E>>,
    ) -> Result<Packed, E> {
        let cell = self.cell(instance);
        cell.get_or_try_init(|| pack).await.cloned()
    }

    fn cell(&self, instance: &Arc<Instance>) -> Arc<OnceCell<Packed>> {
        let mut kept = self.lock();
        if let Some((_, cell)) = kept.iter().find(|(of, _)| of.as_ptr() == Arc::as_ptr(instance)) {
            return Arc::clone(cell);
        }
        kept.retain(|(of, _)| of.strong_count() > 0);
        if kept.len() >= MAX_KEPT {
            kept.pop_front();
        }
        let cell = Arc::default();
        kept.push_back((Arc::downgrade(instance), Arc::clone(&cell)));
        cell
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        // A list of whole entries is never half-changed.
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use protocol::Rest;

    use super::*;

    fn packed(name: &str) -> Packed {
        let default = BTreeMap::from([(name.to_owned(), "model".to_owned())]);
        let list = AllProviders { all: Vec::new(), default, connected: Vec::new(), extra: Rest::NONE };
        Packed::new(&list).unwrap()
    }

    #[test]
    fn what_is_packed_can_be_unpacked_and_told_apart() {
        let unpack = |packed: &Packed| packed.unpack().map(Result::unwrap).collect::<Vec<Bytes>>();
        let small = packed("a");
        assert_eq!(unpack(&small).concat(), br#"{"all":[],"default":{"a":"model"},"connected":[]}"#);
        assert_eq!(packed("a").tag, packed("a").tag);
        assert_ne!(packed("a").tag, packed("b").tag);
        let large = packed(&"large".repeat(PIECE));
        let pieces = unpack(&large);
        assert!(pieces.len() > 4 && pieces.iter().all(|piece| piece.len() <= PIECE));
        assert_eq!(pieces.concat().len() as u64, large.length);
    }

    async fn get(listings: &Listings, instance: &Arc<Instance>, name: &str) -> Packed {
        listings.get(instance, async { Ok::<_, ()>(packed(name)) }).await.unwrap()
    }

    #[tokio::test]
    async fn a_list_is_kept_for_its_configuration_and_only_so_many() {
        let listings = Listings::default();
        let instances: Vec<Arc<Instance>> = (0..=MAX_KEPT).map(|_| Arc::default()).collect();
        for (number, instance) in instances.iter().enumerate() {
            get(&listings, instance, &number.to_string()).await;
        }
        assert_eq!(get(&listings, &instances[MAX_KEPT], "not packed").await, packed(&MAX_KEPT.to_string()));
        assert_eq!(get(&listings, &instances[0], "again").await, packed("again"), "the oldest has gone");
        drop(instances);
        get(&listings, &Arc::default(), "x").await;
        assert_eq!(listings.lock().len(), 1);
    }

    #[tokio::test]
    async fn many_who_ask_at_once_wait_for_one_list_and_a_failure_is_not_kept() {
        let (listings, instance) = (Listings::default(), Arc::default());
        let slow = listings.get(&instance, async {
            tokio::task::yield_now().await;
            Err("broken")
        });
        assert_eq!(slow.await, Err("broken"));
        let first = listings.get(&instance, async {
            tokio::task::yield_now().await;
            Ok::<_, ()>(packed("first"))
        });
        let second = listings.get::<()>(&instance, async { panic!("packed twice") });
        let (first, second) = tokio::join!(first, second);
        assert_eq!((first.unwrap(), second.unwrap()), (packed("first"), packed("first")));
    }
}
