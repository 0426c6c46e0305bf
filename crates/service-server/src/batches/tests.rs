//! Callers that share statements, with a statement that fails, panics and hangs.

use std::{future::pending, pin::pin, task::Poll, time::Instant};

use futures_util::{future::join_all, poll};
use tokio::{runtime::Builder, sync::Semaphore, task::JoinHandle};

use super::*;

const LIMIT: Duration = Duration::from_secs(2);
const FAILS: u32 = 1_000;
const PANICS: u32 = 1_001;
const HANGS: u32 = 1_002;

/// Doubles numbers, a batch for each permit of the gate.
struct Doubling {
    gate: Semaphore,
    batches: Mutex<Vec<Vec<u32>>>,
}

impl BatchStatement for Arc<Doubling> {
    type Question = u32;
    type Answer = u32;

    const TURNS: usize = 1;

    async fn run(&self, questions: &[u32]) -> Result<Vec<u32>, Error> {
        self.batches.lock().unwrap().push(questions.to_vec());
        if questions.contains(&HANGS) {
            pending::<()>().await;
        }
        self.gate.acquire().await.unwrap().forget();
        assert!(!questions.contains(&PANICS), "as the test wants");
        if questions.contains(&FAILS) {
            return Err(Error::Defect("refused".into()));
        }
        Ok(questions.iter().map(|question| question * 2).collect())
    }
}

struct Setup {
    doubling: Arc<Doubling>,
    batches: Arc<Batches<Arc<Doubling>>>,
}

impl Setup {
    fn new() -> Self {
        let doubling = Arc::new(Doubling { gate: Semaphore::new(0), batches: Mutex::default() });
        Self { batches: Arc::new(Batches::new(doubling.clone())), doubling }
    }

    /// Asks in tasks of their own; the questions have arrived when this returns.
    async fn ask(&self, questions: impl IntoIterator<Item = u32>) -> Vec<JoinHandle<Result<u32, Error>>> {
        let tasks: Vec<_> = questions
            .into_iter()
            .map(|question| {
                let batches = self.batches.clone();
                tokio::spawn(async move { batches.ask(question, LIMIT).await })
            })
            .collect();
        for _ in 0..10 {
            tokio::task::yield_now().await;
        }
        tasks
    }

    fn open(&self) {
        self.doubling.gate.add_permits(100);
    }

    fn seen(&self) -> Vec<Vec<u32>> {
        self.doubling.batches.lock().unwrap().clone()
    }

    fn assert_idle(&self) {
        let queue = self.batches.0.queue();
        assert_eq!((queue.running, queue.waiting.len()), (0, 0));
    }
}

async fn answers(tasks: Vec<JoinHandle<Result<u32, Error>>>) -> Vec<Option<u32>> {
    let answers = join_all(tasks).await.into_iter();
    answers.map(|answer| answer.ok().and_then(Result::ok)).collect()
}

fn run(test: impl AsyncFnOnce(&Setup)) {
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let setup = Setup::new();
        test(&setup).await;
        for _ in 0..10 {
            tokio::task::yield_now().await;
        }
        setup.assert_idle();
    });
}

#[test]
fn what_arrives_meanwhile_is_one_batch_and_each_caller_gets_its_own_answer() {
    run(async |setup| {
        let tasks = setup.ask(1..=5).await;
        assert_eq!(setup.seen(), [vec![1]]);
        setup.open();
        assert_eq!(answers(tasks).await, [2, 4, 6, 8, 10].map(Some));
        assert_eq!(setup.seen(), [vec![1], vec![2, 3, 4, 5]]);
    });
}

#[test]
fn a_batch_has_a_largest_size() {
    run(async |setup| {
        let tasks = setup.ask(0..=600).await;
        setup.open();
        assert!(answers(tasks).await.into_iter().all(|answer| answer.is_some()));
        assert_eq!(setup.seen().iter().map(Vec::len).collect::<Vec<_>>(), [1, 256, 256, 88]);
    });
}

#[test]
fn a_caller_that_is_cancelled_while_it_runs_or_waits_disturbs_no_other() {
    run(async |setup| {
        let mut tasks = setup.ask(1..=4).await;
        // The first is under way in its own task. The second waits.
        for task in tasks.drain(..2) {
            task.abort();
        }
        setup.open();
        assert_eq!(answers(tasks).await, [6, 8].map(Some));
        assert_eq!(setup.seen(), [vec![1], vec![3, 4]]);
    });
}

#[test]
fn an_error_of_a_batch_is_the_error_of_its_callers_only() {
    run(async |setup| {
        let tasks = setup.ask([1, FAILS, 2]).await;
        setup.open();
        assert_eq!(answers(tasks).await, [Some(2), None, None]);
        assert_eq!(answers(setup.ask([3]).await).await, [Some(6)]);
    });
}

#[test]
fn a_panic_costs_the_callers_of_its_batch_an_error() {
    run(async |setup| {
        let tasks = setup.ask([1, PANICS, 2]).await;
        setup.open();
        assert_eq!(answers(tasks).await, [Some(2), None, None]);
        assert_eq!(answers(setup.ask([PANICS]).await).await, [None]);
        assert_eq!(answers(setup.ask([4]).await).await, [Some(8)]);
    });
}

#[test]
fn a_statement_that_hangs_does_not_stop_the_others() {
    run(async |setup| {
        setup.open();
        let hanging = setup.ask([HANGS]).await;
        let began = Instant::now();
        assert_eq!(answers(setup.ask([1, 2]).await).await, [Some(2), Some(4)]);
        assert!(began.elapsed() < LIMIT, "they waited for it");
        for task in hanging {
            task.abort();
        }
    });
}

#[test]
fn a_runtime_that_shuts_down_leaves_no_turn() {
    let setup = Setup::new();
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let mut asking = pin!(setup.batches.ask(1, LIMIT));
        assert!(matches!(poll!(asking.as_mut()), Poll::Pending));
        drop(setup.ask([2, 3]).await);
    });
    drop(runtime);
    setup.assert_idle();
}
