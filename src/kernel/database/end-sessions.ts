/** Ends the sessions of one process at the server, for a stop whose time is over. */
import pg from 'pg';
import { type ClientOptions, clientConfig, sessionMark } from './connection.ts';

/** A session that does not end within this many ms ends when its statement lets it. */
const PATIENCE_MS = 3_000;

const text = `select pg_terminate_backend(pid, $2) from pg_stat_activity
  where pid <> pg_backend_pid() and right(application_name, length($1)) = $1`;

/** Ends all sessions that carry the mark of this instance, and waits until they are gone. Rejects when the server cannot be asked. */
export async function endSessions(options: ClientOptions): Promise<void> {
  const mark = sessionMark(options.modes);
  if (mark === '') return;
  const client = new pg.Client(clientConfig(options));
  client.on('error', () => undefined);
  try {
    await client.connect();
    await client.query(text, [mark, PATIENCE_MS]);
  } finally {
    await client.end().catch(() => undefined);
  }
}
