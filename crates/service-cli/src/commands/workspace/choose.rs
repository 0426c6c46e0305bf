//! Chooses the workspace of a new token.

use service_api::workspaces::PERSONAL;

use super::{NamedSpace, list_workspaces, read_named};
use crate::{
    connection::Connection,
    context::Context,
    failure::{Failure, FailureCode},
    output,
    prompt::InputLines,
    workspace_selection::SelectionSource,
};

/// Chooses the workspace of a token: the one that an option or a setting names, or the one that the user answers to
/// `question`. Without a terminal the user has to name it: it is never guessed.
pub(in crate::commands) async fn choose_space(
    context: &Context,
    connection: &Connection,
    personal: bool,
    question: &str,
) -> Result<NamedSpace, Failure> {
    if personal {
        return Ok(NamedSpace::personal());
    }
    match (connection.workspace_id(), connection.workspace.source) {
        (Some(PERSONAL), _) => Ok(NamedSpace::personal()),
        (Some(id), SelectionSource::Saved) => {
            Ok(NamedSpace { id: id.to_owned(), name: connection.workspace.name.clone() })
        }
        (Some(id), _) => Ok(read_named(context, connection, id).await?),
        (None, _) if context.terminal().can_prompt() => prompt_for_space(context, connection, question).await,
        (None, _) => {
            Err(Failure::new(FailureCode::Usage, "A workspace is required.")
                .hint("Use --workspace-id <id> or --personal"))
        }
    }
}

/// Asks the user for one of their spaces, and marks the current one.
pub(super) async fn prompt_for_space(
    context: &Context,
    connection: &Connection,
    question: &str,
) -> Result<NamedSpace, Failure> {
    let mut spaces = vec![NamedSpace::personal()];
    spaces.extend(list_workspaces(context, connection).await?.into_iter().map(NamedSpace::from));
    for (number, space) in spaces.iter().enumerate() {
        let mark = if connection.workspace_id() == Some(&space.id) { " *" } else { "" };
        output::print_instruction(&format!("  {}. {}{mark}", number + 1, space.label()));
    }
    let mut lines = InputLines::read();
    loop {
        let answer = lines.ask(question).await?;
        let index = answer.parse::<usize>().ok().and_then(|number| number.checked_sub(1));
        if index.is_some_and(|index| index < spaces.len()) {
            return Ok(spaces.swap_remove(index.unwrap_or_default()));
        }
    }
}
