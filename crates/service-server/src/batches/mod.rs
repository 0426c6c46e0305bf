//! Statements for several callers at once.
//!
//! A caller that finds a free turn goes to the database at once, alone. What arrives while all turns are taken waits for the next
//! one, and is one batch: one statement, and one commit. No caller waits for others to arrive.
//!
//! A connection that is dead or slow does not stop the others: what has waited for `PATIENCE` gets another turn.

pub mod cli_tokens;
pub mod grants;
mod reads;

use std::{
    collections::VecDeque,
    mem,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{runtime::Handle, sync::oneshot, time::timeout};

use crate::database::Error;

/// The most questions of one batch.
const MAX_BATCH: usize = 256;

/// How long a caller waits for the statements that are under way, before it has another one begin beside them. A database that is
/// well answers sooner.
const PATIENCE: Duration = Duration::from_millis(100);
/// The most turns of one kind of statement, when those that are under way do not end.
const MAX_TURNS: usize = 4;

/// A statement that answers several questions.
pub trait BatchStatement: Send + Sync + 'static {
    type Question: Send;
    type Answer: Send;

    /// How many batches are under way at once, if each ends within `PATIENCE`.
    const TURNS: usize;

    /// Returns one answer for each question, in their order.
    fn run(&self, questions: &[Self::Question]) -> impl Future<Output = Result<Vec<Self::Answer>, Error>> + Send;
}

/// The callers of a statement.
pub struct Batches<S: BatchStatement>(Arc<Shared<S>>);

struct Shared<S: BatchStatement> {
    statement: S,
    queue: Mutex<Queue<S>>,
}

struct Queue<S: BatchStatement> {
    waiting: VecDeque<Waiting<S>>,
    /// The batches that are under way.
    running: usize,
}

struct Waiting<S: BatchStatement> {
    question: S::Question,
    caller: oneshot::Sender<Result<S::Answer, Error>>,
}

impl<S: BatchStatement> Batches<S> {
    #[must_use]
    pub fn new(statement: S) -> Self {
        Self(Arc::new(Shared { statement, queue: Mutex::new(Queue { waiting: VecDeque::new(), running: 0 }) }))
    }

    /// Asks alone if a turn is free, and else in the next batch. After the timeout the outcome is unknown. An error of the batch is the
    /// error of each of its callers. A caller that is cancelled does not disturb the others: if its batch is under way, its
    /// answer is dropped.
    pub async fn ask(&self, question: S::Question, limit: Duration) -> Result<S::Answer, Error> {
        let answer = match self.0.take_turn(question) {
            Place::Turn(turn, question) => timeout(limit, turn.alone(question)).await,
            Place::Waiting(mut answer) => {
                let mut soon = timeout(PATIENCE, &mut answer).await;
                if soon.is_err() {
                    self.0.add_turn();
                    soon = timeout(limit, answer).await;
                }
                soon.map(|answer| answer.unwrap_or_else(|_| Err(lost())))
            }
        };
        answer.unwrap_or_else(|_| Err(Error::Unavailable("no answer in time; the outcome is unknown".into())))
    }
}

/// The error of a batch that ended without an answer.
fn lost() -> Error {
    Error::Unavailable("the batch ended without an answer; the outcome is unknown".into())
}

/// Where a caller stands.
enum Place<S: BatchStatement> {
    /// It has a turn, and keeps its question.
    Turn(Turn<S>, S::Question),
    /// It waits for the next batch.
    Waiting(oneshot::Receiver<Result<S::Answer, Error>>),
}

impl<S: BatchStatement> Shared<S> {
    fn queue(&self) -> MutexGuard<'_, Queue<S>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a free turn, or a place in the queue.
    fn take_turn(self: &Arc<Self>, question: S::Question) -> Place<S> {
        let mut queue = self.queue();
        if queue.running < S::TURNS {
            queue.running += 1;
            return Place::Turn(Turn { shared: self.clone(), has_begun: true }, question);
        }
        let (caller, answer) = oneshot::channel();
        queue.waiting.push_back(Waiting { question, caller });
        Place::Waiting(answer)
    }

    /// Has another task run what waits, unless there are enough turns.
    fn add_turn(self: &Arc<Self>) {
        let mut queue = self.queue();
        if !queue.waiting.is_empty() && queue.running < MAX_TURNS {
            queue.running += 1;
            drop(queue);
            tokio::spawn(Turn { shared: self.clone(), has_begun: false }.run());
        }
    }

    /// Returns the next batch, without the callers who do not wait any more; empty: nothing waits.
    fn next_batch(&self) -> Vec<Waiting<S>> {
        let mut queue = self.queue();
        queue.waiting.retain(|waiting| !waiting.caller.is_closed());
        let size = queue.waiting.len().min(MAX_BATCH);
        queue.waiting.drain(..size).collect()
    }

    /// Gives a turn back, unless something waits; `false`: the turn has to take it.
    fn end_turn(&self) -> bool {
        let mut queue = self.queue();
        let is_over = queue.waiting.is_empty();
        queue.running -= usize::from(is_over);
        is_over
    }

    /// Gives a turn back. What waits gets no answer.
    fn give_up(&self) {
        let mut queue = self.queue();
        queue.running -= 1;
        let waiting = mem::take(&mut queue.waiting);
        drop(queue);
        drop(waiting);
    }
}

/// The right to run batches. When it is dropped, another task runs what waits.
struct Turn<S: BatchStatement> {
    shared: Arc<Shared<S>>,
    /// A task that never began belongs to a runtime that is shutting down.
    has_begun: bool,
}

impl<S: BatchStatement> Turn<S> {
    /// Runs one question, in the task of its caller.
    async fn alone(self, question: S::Question) -> Result<S::Answer, Error> {
        let answers = self.shared.statement.run(&[question]).await?;
        answers.into_iter().next().ok_or_else(lost)
    }

    /// Runs what waits, until nothing does.
    async fn run(mut self) {
        self.has_begun = true;
        loop {
            let batch = self.shared.next_batch();
            if batch.is_empty() {
                return;
            }
            let (questions, callers): (Vec<_>, Vec<_>) =
                batch.into_iter().map(|waiting| (waiting.question, waiting.caller)).unzip();
            match self.shared.statement.run(&questions).await {
                Ok(answers) => {
                    for (caller, answer) in callers.into_iter().zip(answers) {
                        drop(caller.send(Ok(answer)));
                    }
                }
                Err(error) => {
                    for caller in callers {
                        drop(caller.send(Err(error.clone())));
                    }
                }
            }
        }
    }
}

/// Also if the caller was cancelled, or a statement panicked: what waits is run.
impl<S: BatchStatement> Drop for Turn<S> {
    fn drop(&mut self) {
        if !self.has_begun {
            return self.shared.give_up();
        }
        if self.shared.end_turn() {
            return;
        }
        let next = Self { shared: self.shared.clone(), has_begun: false };
        // Without a runtime it is dropped.
        if let Ok(runtime) = Handle::try_current() {
            runtime.spawn(next.run());
        }
    }
}

#[cfg(test)]
mod tests;
