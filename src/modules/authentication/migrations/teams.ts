/** What teams need beside their schema: two rules that the schema language cannot say, and invitations. */
import type { Migration } from '../../../kernel/database/migration.ts';

/** Teams without a parent share one room of names: for the index, no parent is a parent like any other. */
const rules = `
  create unique index teams_by_name on "app"."Team" ("parentTeam", "name") nulls not distinct;
  create unique index teams_default on "app"."Team" ((true)) where "isDefault";
`;

const invites = `
  create table penstock.team_invites (
    id uuid primary key,
    team_id uuid not null references "app"."Team" ("_id") on delete cascade,
    email text,
    role text not null,
    user_data jsonb,
    hash text not null unique,
    mailed_hash text unique,
    invited_by uuid references "app"."User" ("_id") on delete cascade,
    created_at timestamptz(3) not null default now(),
    expires_at timestamptz(3),
    check ((email is null) = (expires_at is null))
  );
  create unique index team_invites_of_team on penstock.team_invites (team_id, email);
  create index team_invites_to_address on penstock.team_invites (email) where email is not null;
  create index team_invites_by_user on penstock.team_invites (invited_by) where invited_by is not null;
  create index team_invites_by_end on penstock.team_invites (expires_at) where expires_at is not null;
`;

/**
 * `team_invites`: one per team and address; without an address it is persistent. `hash` is of the token that the
 * inviter got, `mailed_hash` of the one that only the mailbox got. `invited_by` is null for an operator's.
 */
export const teamMigrations: readonly Migration[] = [
  { id: 'teams-0001-rules', run: async (database) => void (await database.query({ text: rules })) },
  { id: 'teams-0002-invites', run: async (database) => void (await database.query({ text: invites })) },
];
