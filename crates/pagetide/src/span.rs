//! Spans for the crate `tracing`: opens, resizes, write-back, background reclaim, warming. Empty
//! without that feature.

/// Opens a span until the end of the block, target `pagetide`, level debug.
macro_rules! span {
    ($name:literal $($fields:tt)*) => {
        #[cfg(feature = "tracing")]
        let _span = tracing::debug_span!(target: "pagetide", $name $($fields)*).entered();
    };
}

#[cfg(all(test, feature = "tracing"))]
mod tests {
    use crate::{Bytes, OpenOptions, PageCache};
    use std::sync::{Arc, Mutex};
    use tracing::span::{Attributes, Id, Record};
    use tracing::{Event, Metadata, Subscriber};

    #[derive(Clone, Default)]
    struct Names(Arc<Mutex<Vec<&'static str>>>);

    impl Subscriber for Names {
        fn enabled(&self, metadata: &Metadata<'_>) -> bool {
            metadata.target() == "pagetide"
        }

        fn new_span(&self, span: &Attributes<'_>) -> Id {
            self.0.lock().unwrap().push(span.metadata().name());
            Id::from_u64(1)
        }

        fn record(&self, _: &Id, _: &Record<'_>) {}

        fn record_follows_from(&self, _: &Id, _: &Id) {}

        fn event(&self, _: &Event<'_>) {}

        fn enter(&self, _: &Id) {}

        fn exit(&self, _: &Id) {}
    }

    #[test]
    fn what_is_no_hit_has_a_span() {
        let (names, folder) = (Names::default(), tempfile::tempdir().unwrap());
        tracing::subscriber::with_default(names.clone(), || {
            let cache = PageCache::builder().memory(Bytes(1 << 20)).background(false);
            let cache = cache.build().unwrap();
            let options = OpenOptions::new().read(true).write(true).create(true);
            let file = cache.open(folder.path().join("a"), options).unwrap();
            file.write_at(b"tide", 0).unwrap();
            file.read_at(&mut [0; 4], 0).unwrap();
            cache.sync_all().unwrap();
            cache.resize(Bytes(1 << 19)).unwrap();
        });
        assert_eq!(*names.0.lock().unwrap(), ["open", "write_back", "resize"]);
    }
}
