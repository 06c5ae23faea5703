//! The contract of every store, as tests that know nothing of its implementation.
//!
//! Each property is a function of a [`Subject`]; [`contract!`] turns all of them into tests of one backend. A new
//! backend adds one line at the end of this file. The in-memory store is the reference: [`random`] compares the
//! answers of the others with it.

mod append;
mod list;
mod make;
mod outbox;
mod random;
mod replay;
mod tables;

use std::{
    path::Path,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

use engine::{
    memory::Memory,
    ports::{
        Alone, Appended, Commit, Encoded, Error, Fence, Log, Logged, Observer, Outbox, Reads, Span, Stored,
    },
};
use protocol::{SessionId, WorkspaceId};
use tempfile::TempDir;
use testkit::postgres::Cluster;

use crate::{
    postgres::{self, Postgres},
    sqlite::{Options, Sqlite},
};
pub(crate) use make::*;

/// The workspace of the tests' sessions.
pub(crate) fn here() -> WorkspaceId {
    id("wrk_here")
}

/// The same directory on another node.
pub(crate) fn there() -> WorkspaceId {
    id("wrk_there")
}

/// The fence of a workspace that never changed its owner.
pub(crate) fn fence(workspace: WorkspaceId) -> Fence {
    Fence { workspace, epoch: Alone::EPOCH }
}

/// The directory of the tests' sessions.
pub(crate) const DIRECTORY: &str = "/project/here";

/// A store under test, and the events that its observer saw.
pub(crate) struct Subject {
    pub(crate) log: Arc<dyn Log>,
    pub(crate) reads: Arc<dyn Reads>,
    pub(crate) outbox: Arc<dyn Outbox>,
    pub(crate) seen: Arc<Seen>,
    /// Dropped after the store, whose files it contains.
    _directory: Option<TempDir>,
}

/// A backend's databases, for a suite that runs against one server.
pub(crate) struct Databases {
    cluster: Cluster,
    made: AtomicUsize,
}

impl Databases {
    /// Starts a server; `None` if it is not installed.
    pub(crate) fn start() -> Option<Self> {
        Some(Self { cluster: Cluster::start().unwrap()?, made: AtomicUsize::new(0) })
    }

    /// The directory of the server's socket.
    pub(crate) fn socket(&self) -> &Path {
        self.cluster.socket()
    }

    pub(crate) fn cluster(&mut self) -> &mut Cluster {
        &mut self.cluster
    }

    /// The URL of a new database.
    pub(crate) fn url(&self) -> String {
        let number = self.made.fetch_add(1, Ordering::Relaxed);
        self.cluster.database(&format!("test{number}")).unwrap()
    }

    /// A store in a new database.
    pub(crate) async fn subject(&self) -> Subject {
        let seen = Arc::new(Seen::default());
        let store = Postgres::open(&self.url(), postgres::Options::default(), seen.clone()).await.unwrap();
        Subject { log: store.clone(), reads: store.clone(), outbox: store, seen, _directory: None }
    }
}

/// An observer that records all events.
#[derive(Default)]
pub(crate) struct Seen(Mutex<Vec<Logged>>);

impl Observer for Seen {
    fn committed(&self, events: Vec<Logged>) {
        self.0.lock().unwrap().extend(events);
    }
}

impl Seen {
    pub(crate) fn positions(&self) -> Vec<u64> {
        self.0.lock().unwrap().iter().map(|event| event.position).collect()
    }

    pub(crate) fn newest(&self) -> u64 {
        self.0.lock().unwrap().last().map_or(0, |event| event.position)
    }

    /// Positions and bodies of the recorded events.
    pub(crate) fn bodies(&self) -> Vec<(u64, bytes::Bytes)> {
        self.0.lock().unwrap().iter().map(|event| (event.position, event.json.clone())).collect()
    }

    /// Positions and wire types of the recorded events.
    pub(crate) fn kinds(&self) -> Vec<(u64, String)> {
        let seen = self.0.lock().unwrap();
        seen.iter().map(|event| (event.position, event.event.body.kind().to_owned())).collect()
    }
}

impl Subject {
    pub(crate) fn memory() -> Self {
        let seen = Arc::new(Seen::default());
        let memory = Arc::new(Memory::new(seen.clone()));
        Self { log: memory.clone(), reads: memory.clone(), outbox: memory, seen, _directory: None }
    }

    pub(crate) fn sqlite() -> Self {
        let seen = Arc::new(Seen::default());
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("baton.db");
        let sqlite = Sqlite::open(&path, Options::default(), seen.clone()).unwrap();
        Self { log: sqlite.clone(), reads: sqlite.clone(), outbox: sqlite, seen, _directory: Some(directory) }
    }

    /// Appends to a session that has `expected` events.
    pub(crate) async fn append(
        &self,
        session: &str,
        expected: u64,
        events: Vec<Encoded>,
    ) -> Result<Appended, Error> {
        self.log.append(commit(session, expected, events)).await
    }

    /// Appends at the end of a session, creating it if it does not exist.
    pub(crate) async fn say(&self, session: &str, events: Vec<Encoded>) -> Appended {
        let found = self.reads.session(&id(session)).await.unwrap();
        let (expected, events) = match found {
            Some((_, head)) => (head, events),
            None => (0, [vec![created(session)], events].concat()),
        };
        self.append(session, expected, events).await.unwrap()
    }

    /// Everything in the log.
    pub(crate) async fn everything(&self) -> Vec<Stored> {
        let span = Span { after: 0, upto: u64::MAX, workspace: None, limit: usize::MAX };
        self.reads.replay(span).await.unwrap()
    }
}

/// A commit that need not be flushed.
pub(crate) fn commit(session: &str, expected: u64, events: Vec<Encoded>) -> Commit {
    Commit {
        session: id::<SessionId>(session),
        fence: fence(here()),
        directory: DIRECTORY.into(),
        project: "global".into(),
        expected,
        events,
        flush: false,
    }
}

/// Declares the whole suite as tests of one backend, or as one test if the backend needs a server, because each test may
/// be a process of its own.
macro_rules! contract {
    (one test of postgres: $($module:ident { $($property:ident,)* })*) => {
        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn postgres_keeps_the_contract() {
            let Some(databases) = Databases::start() else { return };
            $($({
                println!("{}::{}", stringify!($module), stringify!($property));
                $module::$property(&databases.subject().await).await;
            })*)*
        }
    };
    ($backend:ident: $($module:ident { $($property:ident,)* })*) => {
        mod $backend {
            $(mod $module {
                $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $property() {
                    crate::contract::$module::$property(&crate::contract::Subject::$backend()).await;
                })*
            })*
        }
    };
    ($($backend:ident)*, of one server: $($served:ident),*) => {
        $(contract! { suite $backend: })*
        $(contract! { suite one test of $served: })*
    };
    (suite $($backend:ident)*:) => {
        contract! { $($backend)*:
            append {
                events_get_positions_in_commit_order,
                a_writer_that_is_behind_is_refused,
                a_session_begins_with_its_creation,
                an_empty_commit_returns_the_head,
                the_observer_knows_before_the_writer,
                commits_of_many_sessions_have_one_order,
                two_writers_cannot_both_win,
                a_writer_of_another_epoch_is_refused_alone,
                commits_of_a_family_are_stored_together_or_not_at_all,
                the_log_keeps_the_bytes,
            }
            tables {
                sessions_follow_created_updated_and_deleted,
                rows_are_found_by_their_new_values,
                a_deleted_session_takes_everything_along,
                a_deleted_session_can_be_created_again,
                messages_are_replaced_and_removed_with_their_parts,
                parts_are_replaced_and_removed,
                parts_may_come_before_their_message,
                messages_of_two_sessions_do_not_mix,
                the_todo_list_is_replaced,
                only_a_mark_changes_the_mark_of_a_session,
                notes_about_projects_are_amended,
                idle_is_the_absence_of_a_status,
                requests_wait_until_they_are_answered,
                a_workspace_has_its_own_sessions,
                an_approval_outlives_its_session,
                approvals_are_stored_once_and_within_limits,
                prompts_are_queued_started_and_ended,
                waiting_prompts_are_rearranged_and_withdrawn,
                unfinished_sessions_are_busy_or_have_prompts,
                the_same_events_again_change_nothing,
                checkpoints_touch_open_parts_only,
                unknown_ids_return_nothing,
            }
            list {
                messages_are_ordered_by_time_then_id,
                pages_lead_back_to_the_beginning,
                a_stretch_is_the_page_still_encoded,
                stretches_lead_through_a_session_in_both_directions,
                a_message_is_found_by_counting_back,
                the_newest_summary_is_a_complete_one,
                open_messages_are_what_a_dead_owner_left,
                the_last_answer_is_the_newest_one,
                sessions_are_listed_by_their_last_update,
                sessions_are_listed_by_every_filter,
                paths_are_compared_by_whole_names,
                texts_are_found_by_the_beginnings_of_their_words,
                a_search_forgets_what_is_changed_or_removed,
            }
            replay {
                a_span_is_open_below_and_closed_above,
                a_workspace_sees_its_own_events,
                a_limit_cuts_and_the_next_span_continues,
                a_session_has_a_history_of_its_own,
                an_empty_log_has_bounds,
                a_deletion_stays_in_the_log,
                a_replay_equals_the_observed_events,
            }
            outbox {
                the_log_is_read_from_where_it_was_left,
                notices_of_a_session_are_delivered_in_order,
                a_notice_is_put_once,
                notices_of_removed_receivers_are_deleted,
                the_oldest_notices_above_the_limit_are_dropped,
            }
        }
    };
}

contract!(memory sqlite, of one server: postgres);
