/** Connections for long maintenance, each opened for its work and closed after it. */
import pg from 'pg';
import type { Logger } from '../telemetry/logger.ts';
import { type ClientOptions, clientConfig, prepareSession } from './connection.ts';
import type { Queryable } from './database.ts';
import { toPublicError } from './failures.ts';

export interface Sessions {
  run<T>(work: (session: Queryable) => Promise<T>): Promise<T>;
  /** Cuts off what still runs. */
  close(): Promise<void>;
}

export function createSessions(connection: ClientOptions, log: Logger): Sessions {
  const open = new Set<pg.Client>();

  return {
    async run(work) {
      const client = new pg.Client(clientConfig(connection));
      client.on('error', (error) => log.warn({ err: error }, 'A connection for maintenance was lost'));
      open.add(client);
      try {
        await client.connect();
        await prepareSession(client, connection);
        // Whatever the server or the role has as its default.
        await client.query('set statement_timeout = 0');
        return await work({ query: (statement) => runOn(client, statement) });
      } catch (error) {
        throw toPublicError(error);
      } finally {
        open.delete(client);
        await client.end().catch(() => undefined);
      }
    },
    // Ending a client in the middle of a statement cuts its connection.
    close: async () => void (await Promise.all([...open].map((client) => client.end().catch(() => undefined)))),
  };
}

const runOn: <R>(client: pg.Client, statement: Parameters<Queryable['query']>[0]) => Promise<{ rows: R[]; count: number }> = async (
  client,
  { text, values },
) => {
  const { rows, rowCount } = await client.query(text, values ? [...values] : []);
  return { rows, count: rowCount ?? 0 };
};
