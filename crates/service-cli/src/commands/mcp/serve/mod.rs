//! `service mcp serve`: passes the messages of an MCP client from standard input to the MCP endpoint, and the answers back.
//!
//! Only JSON-RPC is written to standard output. The command uses the MCP tokens that `service mcp login` stored, and refreshes
//! them under the same lock as every other process. It never creates tokens and never prompts: without tokens that work, every
//! request is answered with an error that names `service mcp login`.

mod bridge;
mod input;
mod message;

use std::{rc::Rc, sync::Arc, time::Duration};

use tokio::{
    sync::Semaphore,
    task::{JoinSet, LocalSet},
    time::timeout,
};

use self::{
    bridge::Bridge,
    input::{Line, MAX_LINE_BYTES, read_lines},
    message::{INVALID_REQUEST, Message, error_answer},
};
use crate::{context::Context, failure::Failure};

/// The number of messages that are sent at once. Further ones wait in the client.
const MAX_CONCURRENT_MESSAGES: usize = 32;
/// How long to wait for answers after the client has closed standard input.
const FINISH_TIMEOUT: Duration = Duration::from_secs(10);

pub(super) async fn run(context: &Context) -> Result<(), Failure> {
    let origin = context.origin()?;
    let saved = context.saved_mcp_tokens(&origin)?;
    let bridge = Rc::new(Bridge::new(context.client(&origin)?, saved));
    // The tasks share what is not made for several threads, and the command has only one.
    LocalSet::new().run_until(serve(bridge)).await;
    Ok(())
}

/// Answers messages until standard input ends, or standard output is closed.
async fn serve(bridge: Rc<Bridge>) {
    let (mut lines, mut tasks) = (read_lines(), JoinSet::new());
    let slots = Arc::new(Semaphore::new(MAX_CONCURRENT_MESSAGES));
    loop {
        let line = tokio::select! {
            line = lines.recv() => line,
            () = bridge.output_closed() => return,
        };
        while tasks.try_join_next().is_some() {}
        let Some(line) = line else { break };
        let Some((message, line)) = parse_line(&bridge, line) else { continue };
        // A cancellation does not wait for the request that it cancels.
        bridge.cancel(&message);
        let Ok(slot) = slots.clone().acquire_owned().await else { return };
        let bridge = bridge.clone();
        tasks.spawn_local(async move {
            bridge.forward(&message, line).await;
            drop(slot);
        });
    }
    // The tasks are dropped if they take longer.
    drop(timeout(FINISH_TIMEOUT, async { while tasks.join_next().await.is_some() {} }).await);
}

/// Parses a line. If it is no message, it is answered, and `None` is returned.
fn parse_line(bridge: &Bridge, line: Line) -> Option<(Message, Vec<u8>)> {
    let line = match line {
        Line::Message(line) if line.is_empty() => return None,
        Line::Message(line) => line,
        Line::TooLong { id } => {
            let text = format!("The message is too large. The maximum is {} MiB.", MAX_LINE_BYTES / 1024 / 1024);
            bridge.write(&error_answer(&id, INVALID_REQUEST, &text));
            return None;
        }
    };
    match Message::parse(&line) {
        Ok(message) => Some((message, line)),
        Err(answer) => {
            bridge.write(&answer);
            None
        }
    }
}
