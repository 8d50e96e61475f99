/** What teams need beside their schema: two rules that the schema language cannot say, and invitations. */
import type { Queryable } from '../../../kernel/database/database.ts';
import type { Migration } from '../../../kernel/database/migrate.ts';

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
 * Customers do not share one room of names: a team without a parent has its name among those of its maker, and
 * operators' teams have theirs among each other.
 */
const makers = `
  drop index "app".teams_by_name;
  create unique index teams_by_name on "app"."Team" ("parentTeam", "name") where "parentTeam" is not null;
  create unique index teams_root_names on "app"."Team" ("name", "madeBy") nulls not distinct where "parentTeam" is null;
`;

/**
 * Of teams that were there before, nobody wrote down who made them. Those that a user owns, and what is below them,
 * count as users': such a team is neither exported nor pruned, and an operator can take it over.
 */
const knownMakers = `
  with recursive owned as (
    select t."_id" as id, t."parentTeam" as parent, (
      select min(r.subject_id) from penstock.tuples r
      where r.resource_type = 'Team' and r.resource_id = t."_id"::text and r.relation = 'owner'
        and r.subject_type = 'User' and r.subject_relation = '' and r.subject_id <> '*') as maker
    from "app"."Team" t
  ), tree (id, maker) as (
    select id, maker from owned where parent is null
    union all
    select o.id, coalesce(o.maker, tree.maker) from owned o join tree on o.parent = tree.id
  )
  update "app"."Team" t set "madeBy" = tree.maker from tree
  where tree.id = t."_id" and tree.maker is not null and not t."isDefault"
`;

async function findMakers(database: Queryable): Promise<void> {
  await database.query({ text: makers });
  // The authorization module has its tables only where it was there before; without it there are no teams of users.
  const { rows } = await database.query<{ found: boolean }>({
    text: `select to_regclass('penstock.tuples') is not null as found`,
  });
  if (rows[0]?.found) await database.query({ text: knownMakers });
}

/** Members whom another user added without asking them. Who accepts an invitation of the team is none of them any more. */
const unasked = `
  create table penstock.team_unasked (
    team_id uuid not null references "app"."Team" ("_id") on delete cascade,
    user_id uuid not null references "app"."User" ("_id") on delete cascade,
    primary key (team_id, user_id)
  );
  create index team_unasked_of_user on penstock.team_unasked (user_id);
`;

/**
 * `team_invites`: one per team and address; without an address it is persistent. `hash` is of the token that the
 * inviter got, `mailed_hash` of the one that only the mailbox got. `invited_by` is null for an operator's.
 */
export const teamMigrations: readonly Migration[] = [
  { id: 'teams-0001-rules', run: async (database) => void (await database.query({ text: rules })) },
  {
    id: 'teams-0002-invites',
    run: async (database) => void (await database.query({ text: invites })),
  },
  { id: 'teams-0003-makers', run: findMakers },
  {
    id: 'teams-0004-unasked',
    run: async (database) => void (await database.query({ text: unasked })),
  },
];

/* What invitations to shared objects need. */

/** One per object, relation and address; `hash` is of the token that only the mailbox got. `share_ends_at` is about what is given. */
const invitations = `
  create table penstock.share_invitations (
    id uuid primary key,
    hash text not null unique,
    email text not null,
    resource_type text collate "C" not null,
    resource_id text collate "C" not null,
    relation text collate "C" not null,
    invited_by uuid not null references "app"."User" ("_id") on delete cascade,
    share_ends_at timestamptz(3),
    created_at timestamptz(3) not null default now(),
    expires_at timestamptz(3) not null
  );
  create unique index share_invitations_of_object on penstock.share_invitations (resource_type, resource_id, relation, email);
  create index share_invitations_to_address on penstock.share_invitations (email);
  create index share_invitations_by_user on penstock.share_invitations (invited_by);
  create index share_invitations_by_end on penstock.share_invitations (expires_at);
`;

export const shareMigrations: readonly Migration[] = [
  {
    id: 'shares-0001-invitations',
    run: async (database) => void (await database.query({ text: invitations })),
  },
];
