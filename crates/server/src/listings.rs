//! Cache of the compressed provider lists. A list has megabytes and every client requests it at start, so it is
//! built and compressed once per configuration, even for concurrent calls. Only the compressed form stays in
//! memory.

use std::{
    collections::VecDeque,
    fmt::Write as _,
    io::{self, Read, Write},
    sync::{Arc, Weak},
};

use bytes::{Buf, Bytes};
use flate2::{Compression, read::GzDecoder, write::GzEncoder};
use parking_lot::Mutex;
use protocol::provider::AllProviders;
use sha1::{Digest, Sha1};
use tokio::sync::OnceCell;

use crate::Instance;

/// Most lists in the cache; the oldest is evicted first.
const MAX_KEPT: usize = 8;
/// Size of the pieces in which a list is decompressed, each when the client has room for it.
const PIECE: usize = 32 * 1024;

/// A compressed list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Packed {
    /// Gzip-compressed JSON.
    pub(crate) gzip: Bytes,
    /// Size of the uncompressed JSON in bytes.
    pub(crate) length: u64,
    /// Entity tag of the list.
    pub(crate) tag: String,
}

impl Packed {
    /// Compresses a list. Slow, so it must run on a blocking thread.
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

    /// The JSON in pieces, for clients that do not accept gzip.
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

/// Counts the bytes written.
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

/// The instance a list was built from, and the list once it is compressed.
type CachedList = VecDeque<(Weak<Instance>, Arc<OnceCell<Packed>>)>;

/// Recently compressed lists. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub(crate) struct Listings {
    kept: Arc<Mutex<CachedList>>,
}

impl Listings {
    /// The list of an instance. The first caller runs `pack`; concurrent callers wait for the same result.
    pub(crate) async fn get<E>(
        &self,
        instance: &Arc<Instance>,
        pack: impl Future<Output = Result<Packed, E>>,
    ) -> Result<Packed, E> {
        let cell = self.cell(instance);
        cell.get_or_try_init(|| pack).await.cloned()
    }

    fn cell(&self, instance: &Arc<Instance>) -> Arc<OnceCell<Packed>> {
        let mut kept = self.kept.lock();
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
    fn packed_lists_can_be_unpacked_and_have_distinct_tags() {
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
    async fn lists_are_cached_per_configuration_up_to_a_limit() {
        let listings = Listings::default();
        let instances: Vec<Arc<Instance>> = (0..=MAX_KEPT).map(|_| Arc::default()).collect();
        for (number, instance) in instances.iter().enumerate() {
            get(&listings, instance, &number.to_string()).await;
        }
        assert_eq!(get(&listings, &instances[MAX_KEPT], "not packed").await, packed(&MAX_KEPT.to_string()));
        assert_eq!(get(&listings, &instances[0], "again").await, packed("again"), "the oldest was evicted");
        drop(instances);
        get(&listings, &Arc::default(), "x").await;
        assert_eq!(listings.kept.lock().len(), 1);
    }

    #[tokio::test]
    async fn concurrent_callers_share_one_list_and_a_failure_is_not_cached() {
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
