//! The list of all providers has megabytes, and is asked for whenever a client starts: it is put together and packed
//! once for each configuration.

use std::{
    collections::VecDeque,
    fmt::Write as _,
    io::{self, Read},
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
};

use bytes::Bytes;
use flate2::{Compression, read::GzDecoder, write::GzEncoder};
use protocol::provider::AllProviders;
use sha1::{Digest, Sha1};

use crate::Instance;

/// Lists that are kept, packed. The oldest goes first.
const MAX_KEPT: usize = 8;

/// A list, as most clients take it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Packed {
    /// Compressed JSON.
    pub(crate) gzip: Bytes,
    /// Tells one list from another.
    pub(crate) tag: String,
}

impl Packed {
    /// Packs a list. It takes a while.
    pub(crate) fn new(list: &AllProviders) -> io::Result<Self> {
        let mut packer = GzEncoder::new(Vec::new(), Compression::fast());
        serde_json::to_writer(&mut packer, list)?;
        let gzip = packer.finish()?;
        let mut tag = String::from("W/\"");
        for byte in Sha1::digest(&gzip) {
            // Writing into memory cannot fail.
            let _ = write!(tag, "{byte:02x}");
        }
        tag.push('"');
        Ok(Self { gzip: gzip.into(), tag })
    }

    /// The JSON, for who cannot unpack. It takes a while.
    pub(crate) fn unpack(&self) -> io::Result<Vec<u8>> {
        let mut json = Vec::new();
        GzDecoder::new(&*self.gzip).read_to_end(&mut json)?;
        Ok(json)
    }
}

/// What a list was made from, and the list.
type Kept = VecDeque<(Weak<Instance>, Packed)>;

/// The lists that were packed lately. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub(crate) struct Listings {
    kept: Arc<Mutex<Kept>>,
}

impl Listings {
    /// The list of what there is in a directory, unless that has changed since.
    pub(crate) fn get(&self, instance: &Arc<Instance>) -> Option<Packed> {
        let kept = self.lock();
        kept.iter().find(|(of, _)| of.as_ptr() == Arc::as_ptr(instance)).map(|(_, packed)| packed.clone())
    }

    /// Keeps a list for the next who asks.
    pub(crate) fn keep(&self, instance: &Arc<Instance>, packed: Packed) {
        let mut kept = self.lock();
        kept.retain(|(of, _)| of.strong_count() > 0);
        if kept.len() >= MAX_KEPT {
            kept.pop_front();
        }
        kept.push_back((Arc::downgrade(instance), packed));
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
        let json = String::from_utf8(packed("a").unpack().unwrap()).unwrap();
        assert_eq!(json, r#"{"all":[],"default":{"a":"model"},"connected":[]}"#);
        assert_eq!(packed("a").tag, packed("a").tag);
        assert_ne!(packed("a").tag, packed("b").tag);
    }

    #[test]
    fn a_list_is_kept_for_its_configuration_and_only_so_many() {
        let listings = Listings::default();
        let instances: Vec<Arc<Instance>> = (0..=MAX_KEPT).map(|_| Arc::default()).collect();
        for (number, instance) in instances.iter().enumerate() {
            assert_eq!(listings.get(instance), None);
            listings.keep(instance, packed(&number.to_string()));
        }
        assert_eq!(listings.get(&instances[0]), None);
        assert_eq!(listings.get(&instances[1]), Some(packed("1")));
        drop(instances);
        listings.keep(&Arc::default(), packed("x"));
        assert_eq!(listings.lock().len(), 1);
    }
}
