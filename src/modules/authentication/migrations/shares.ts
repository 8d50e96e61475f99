/** What invitations to shared objects need. */
import type { Migration } from '../../../kernel/database/migrate.ts';

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
