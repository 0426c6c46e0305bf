-- An invitation waits until its addressee answers it. The answer stays with the row until the invitation expires:
-- a declined invitation looks pending to the workspace, and accepting twice gives the same answer.
alter table invitations
    add column answer      text check (answer in ('accepted', 'declined')),
    add column answered_at timestamptz;

-- Invitations are found by their id when they are answered, and the addresses of an account by the account.
create unique index invitations_by_id on invitations (id);
create index invitations_by_inviter on invitations (invited_by);
create index emails_by_user on emails (user_id);

-- Workspaces whose invitations a user does not want to see. The name is the one the user blocked: a stranger's later
-- names are not shown to them.
create table blocked_workspaces (
    user_id      uuid not null,
    workspace_id uuid not null,
    name         text not null,
    blocked_at   timestamptz not null,
    primary key (user_id, workspace_id)
);

create index blocked_workspaces_by_workspace on blocked_workspaces (workspace_id);
