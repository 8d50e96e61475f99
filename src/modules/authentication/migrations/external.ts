/** Table of the accounts at other providers with which users sign in. */
import type { Migration } from '../../../kernel/database/migration.ts';

/** `provider` and `subject` are the only key: an e-mail address changes hands, a subject does not. */
const identities = `
  create table penstock.identities (
    id uuid primary key,
    provider text not null,
    subject text not null,
    user_id uuid not null references "app"."User" ("_id") on delete cascade,
    email text,
    email_verified boolean not null default false,
    data jsonb not null default '{}',
    linked_at timestamptz(3) not null default now(),
    last_used_at timestamptz(3) not null default now(),
    unique (provider, subject)
  );
  create index identities_of_user on penstock.identities (user_id);
`;

export const externalMigrations: readonly Migration[] = [
  { id: 'external-0001-identities', run: async (database) => void (await database.query({ text: identities })) },
];
