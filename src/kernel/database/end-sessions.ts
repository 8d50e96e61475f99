/** Ends the sessions of one process at the server, for a stop whose time is over. */
import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import { type ClientOptions, clientConfig, sessionMark } from './connection.ts';

/** A session that does not end within this many ms ends when its statement lets it. */
const PATIENCE_MS = 3_000;
const POLL_MS = 20;

/** All at once: PostgreSQL's own waiting goes from one to the next, a tenth of a second each. */
const text = `select pg_terminate_backend(pid) from pg_stat_activity
  where pid <> pg_backend_pid() and right(application_name, length($1)) = $1`;

/** Ends all sessions that carry the mark of this instance, and waits until they are gone. Rejects when the server cannot be asked. */
export async function endSessions(options: ClientOptions): Promise<void> {
  const mark = sessionMark(options.modes);
  if (mark === '') return;
  const client = new pg.Client(clientConfig(options));
  client.on('error', () => undefined);
  try {
    await client.connect();
    const until = performance.now() + PATIENCE_MS;
    while (((await client.query(text, [mark])).rowCount ?? 0) > 0 && performance.now() < until) await sleep(POLL_MS);
  } finally {
    await client.end().catch(() => undefined);
  }
}
