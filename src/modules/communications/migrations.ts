/** The outbox of messages to people. */
import type { Migration } from '../../kernel/database/migration.ts';

/**
 * `content_sealed` holds what is to be sent, encrypted, since it carries links and codes that open
 * accounts; it is erased when the message was sent. `status`: queued, sending (since `claimed_at`),
 * sent, captured (sandbox), failed.
 */
const messages = `
  create table penstock.messages (
    id uuid primary key,
    channel text not null,
    recipient text not null,
    user_id uuid,
    template text,
    status text not null,
    attempts integer not null default 0,
    content_sealed text,
    error text,
    created_at timestamptz(3) not null default now(),
    claimed_at timestamptz(3),
    finished_at timestamptz(3)
  );
  create index messages_by_time on penstock.messages (created_at desc, id desc);
  create index messages_of_recipient on penstock.messages (recipient, created_at desc);
  create index messages_of_user on penstock.messages (user_id) where user_id is not null;
`;

export const migrations: readonly Migration[] = [
  { id: '0001-messages', run: async (database) => void (await database.query({ text: messages })) },
];
