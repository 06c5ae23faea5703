//! `GET /metrics`: figures for Prometheus, collected when they are requested.
//!
//! This module counts nothing itself. It reads the counters of the engine and the store and formats them. The
//! server does not depend on the store, so the composition root passes it as [`Store`].

use std::{fmt, sync::Arc, time::Duration};

use axum::{
    Extension, Router,
    extract::State,
    response::{IntoResponse, Response},
};
use engine::{Stats, ports::Standing};
use http::{HeaderValue, header};
use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeGaugeValue, MetricEncoder, NoLabelSet, text},
    metrics::MetricType::{self, Counter, Gauge, Histogram},
    registry::Registry,
};
use protocol::SessionStatus;

use crate::{App, Error};

const CONTENT_TYPE: HeaderValue =
    HeaderValue::from_static("application/openmetrics-text; version=1.0.0; charset=utf-8");

/// A store with counters.
pub trait Store: Send + Sync {
    /// Current values of the counters.
    fn figures(&self) -> StoreFigures;
}

/// Counters of a store since it was opened.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct StoreFigures {
    /// Number of commits that took at most this long; each bound includes the smaller ones.
    pub latency: Vec<(Duration, u64)>,
    /// Number of commits.
    pub commits: u64,
    /// Total time of all commits.
    pub time: Duration,
    /// Number of refused commits.
    pub refused: u64,
    /// Number of commits that wait for the writer now.
    pub waiting: usize,
}

/// The store to report on.
#[derive(Clone)]
pub struct Counted(Arc<dyn Store>);

impl fmt::Debug for Counted {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Counted")
    }
}

/// Adds a store's counters to `/metrics`.
pub fn with_store(router: Router, store: Arc<dyn Store>) -> Router {
    router.layer(Extension(Counted(store)))
}

/// Handler of `/metrics`.
pub async fn metrics(State(app): State<App>, counted: Option<Extension<Counted>>) -> Result<Response, Error> {
    let statuses = app.sessions.statuses(None).await?;
    let retrying = statuses.values().filter(|status| matches!(status, SessionStatus::Retry { .. })).count();
    let all = usize::try_from(app.sessions.count().await?).unwrap_or(usize::MAX);
    let figures = Figures {
        engine: app.sessions.stats(),
        node: app
            .sessions
            .fleet()
            .standing()
            .map(|standing| (standing, app.sessions.fleet().unready().is_none())),
        idle: all.saturating_sub(statuses.len()),
        busy: statuses.len() - retrying,
        retrying,
        store: counted.map(|Extension(Counted(store))| store.figures()),
        version: app.facts.version.clone(),
        uptime: app.started.elapsed(),
        resident: resident_bytes().await,
    };
    let text = figures.write().map_err(|error| Error::broken(&error))?;
    Ok(([(header::CONTENT_TYPE, CONTENT_TYPE)], text).into_response())
}

/// All figures at one moment.
#[derive(Debug)]
struct Figures {
    engine: Stats,
    /// Counts of this node's workspaces and its readiness; `None` for a server that is no node.
    node: Option<(Standing, bool)>,
    idle: usize,
    busy: usize,
    retrying: usize,
    store: Option<StoreFigures>,
    version: String,
    uptime: Duration,
    resident: Option<u64>,
}

impl Figures {
    fn write(self) -> Result<String, fmt::Error> {
        let mut registry = Registry::with_prefix("baton");
        registry.register_collector(Box::new(self));
        let mut out = String::new();
        text::encode(&mut out, &registry)?;
        Ok(out)
    }
}

impl Collector for Figures {
    fn encode(&self, mut out: DescriptorEncoder<'_>) -> fmt::Result {
        let out = &mut out;
        let Stats { live, unfinished, waiting, prompts, ended, used, bus } = &self.engine;

        let mut sessions = describe(out, "sessions", "Sessions by status", Gauge)?;
        for (status, count) in [("idle", self.idle), ("busy", self.busy), ("retry", self.retrying)] {
            sessions.encode_family(&[("status", status)])?.encode_gauge(&count)?;
        }
        gauge(out, "actors", "Sessions with a running actor", *live)?;
        let about = "Sessions that wait for repair until the database accepts writes";
        gauge(out, "sessions_unfinished", about, *unfinished)?;
        let mut turns = describe(out, "turns_ended", "Ended turns by reason", Counter)?;
        for (reason, count) in ended {
            let labels = [("reason", reason.as_str())];
            turns.encode_family(&labels)?.encode_counter::<NoLabelSet, _, u64>(count, None)?;
        }
        counter(out, "prompts_accepted", "Accepted prompts", *prompts)?;
        gauge(out, "prompts_waiting", "Prompts that no turn has taken up yet", *waiting)?;

        counter(out, "model_calls", "Model calls that have reported their usage", used.steps)?;
        counter(
            out,
            "model_tokens",
            "Tokens of model calls: input, output, reasoning and cache",
            used.tokens,
        )?;
        describe(out, "model_cost_dollars", "Cost of model calls at the prices of the catalogue", Counter)?
            .encode_counter::<NoLabelSet, _, f64>(&used.cost.0, None)?;

        counter(out, "events_published", "Events delivered to subscribers", bus.published)?;
        gauge(out, "subscribers", "Open event streams", bus.subscribers)?;
        gauge(out, "subscriber_lag_frames", "Frames in the fullest queue of a subscriber", bus.deepest)?;
        counter(
            out,
            "subscribers_cut_off",
            "Subscribers disconnected because they fell behind",
            bus.cut_off,
        )?;

        if let Some(store) = &self.store {
            let about = "Commit latency, from the call to durability";
            let mut commits = describe(out, "commit_seconds", about, Histogram)?;
            let (sum, buckets) = (store.time.as_secs_f64(), buckets(store));
            commits.encode_histogram::<NoLabelSet>(sum, store.commits, &buckets, None)?;
            counter(out, "commits_refused", "Commits refused by the store", store.refused)?;
            gauge(out, "writer_queue", "Commits and checkpoints that wait for the writer", store.waiting)?;
        }

        if let Some((standing, is_ready)) = &self.node {
            let about = "1 if load balancers may send this node calls";
            gauge(out, "node_ready", about, u64::from(*is_ready))?;
            let about = "Time since this node has read the rows of the other nodes";
            gauge(out, "node_silent_seconds", about, standing.silent.as_secs_f64())?;
            let mut held = describe(out, "node_workspaces", "Directories that this node acts for", Gauge)?;
            for (kind, count) in [("own", standing.owned), ("custody", standing.custodies)] {
                held.encode_family(&[("kind", kind)])?.encode_gauge(&count)?;
            }
        }

        describe(out, "build_info", "Version of the server", Gauge)?
            .encode_family(&[("version", self.version.as_str())])?
            .encode_gauge(&1)?;
        gauge(out, "uptime_seconds", "Time since the server started", self.uptime.as_secs_f64())?;
        if let Some(resident) = self.resident {
            gauge(out, "resident_memory_bytes", "Resident memory of the server", resident)?;
        }
        Ok(())
    }
}

fn describe<'a>(
    out: &'a mut DescriptorEncoder<'_>,
    name: &'a str,
    about: &str,
    kind: MetricType,
) -> Result<MetricEncoder<'a>, fmt::Error> {
    out.encode_descriptor(name, about, None, kind)
}

fn gauge(
    out: &mut DescriptorEncoder<'_>,
    name: &str,
    about: &str,
    value: impl EncodeGaugeValue + Copy,
) -> fmt::Result {
    describe(out, name, about, Gauge)?.encode_gauge(&value)
}

fn counter(out: &mut DescriptorEncoder<'_>, name: &str, about: &str, value: u64) -> fmt::Result {
    describe(out, name, about, Counter)?.encode_counter::<NoLabelSet, _, u64>(&value, None)
}

/// Converts cumulative buckets to separate ones, with one for all larger values, as the encoder expects.
fn buckets(store: &StoreFigures) -> Vec<(f64, u64)> {
    let bounds = store.latency.iter().map(|(bound, count)| (bound.as_secs_f64(), *count));
    let mut smaller = 0;
    let alone = bounds.chain([(f64::INFINITY, store.commits)]).map(|(bound, count)| {
        let alone = count.saturating_sub(smaller);
        smaller = count;
        (bound, alone)
    });
    alone.collect()
}

/// Resident memory of this process; `None` where the kernel does not report it.
async fn resident_bytes() -> Option<u64> {
    let status = tokio::fs::read_to_string("/proc/self/status").await.ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kilobytes * 1024)
}

#[cfg(test)]
mod tests {
    use engine::bus::BusStats;
    use engine::session::Used;
    use protocol::{EndReason, number::Number};

    use super::*;

    #[test]
    fn figures_are_written_for_prometheus() {
        let figures = Figures {
            engine: Stats {
                live: 3,
                unfinished: 2,
                waiting: 1,
                prompts: 12,
                ended: vec![(EndReason::Completed, 8), (EndReason::Aborted, 1)],
                used: Used { cost: Number(1.25), tokens: 4_321, steps: 17 },
                bus: BusStats { subscribers: 2, deepest: 5, cut_off: 1, published: 900 },
            },
            node: None,
            idle: 40,
            busy: 2,
            retrying: 1,
            store: Some(StoreFigures {
                latency: vec![(Duration::from_millis(1), 6), (Duration::from_millis(5), 9)],
                commits: 10,
                time: Duration::from_millis(30),
                refused: 0,
                waiting: 4,
            }),
            version: "1.2.3".into(),
            uptime: Duration::from_millis(1_500),
            resident: Some(12_345_678),
        };
        insta::assert_snapshot!(figures.write().unwrap());
    }

    #[tokio::test]
    #[cfg(target_os = "linux")]
    async fn the_kernel_reports_resident_memory() {
        assert!(resident_bytes().await.unwrap() > 100_000);
    }
}
