/** What sessions and their protection remember. */
import type { Migration } from '../../../kernel/database/migration.ts';

/** How the user calls the device of a session. */
const sessionNames = 'alter table penstock.sessions add column name text';

/**
 * Where users have signed in before: the browser or app (`device`), the part of the net (`network`), and the exact
 * address last seen there. Decides whether a sign-in is news, and whose attempts are not held back by those of strangers.
 */
const knownDevices = `
  create table penstock.known_devices (
    user_id uuid not null references "app"."User" ("_id") on delete cascade,
    device text not null,
    network text not null,
    address text not null,
    seen_at timestamptz(3) not null default now(),
    primary key (user_id, device, network)
  );
  create index known_devices_by_age on penstock.known_devices (seen_at);
`;

export const protectionMigrations: readonly Migration[] = [
  { id: 'protection-0001-session-names', run: async (database) => void (await database.query({ text: sessionNames })) },
  { id: 'protection-0002-known-devices', run: async (database) => void (await database.query({ text: knownDevices })) },
];
