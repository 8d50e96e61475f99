/**
 * Servers that suites share are started in the main process of the test runner, each when the first
 * suite asks for it, and stopped when the run ends. Suites ask over a unix socket (`fixtures.ts`), so
 * that it makes no difference in which thread or process they run. Each worker of the run has database
 * servers of its own: what a server remembers of old rows depends on the transactions of all its databases.
 */
import { createServer, type ServerResponse } from 'node:http';
import { join } from 'node:path';
import { startEmbeddedForTests, startedDataFolder } from './embedded.ts';
import { findPostgres, oldestMajor, startPostgres } from './postgres.ts';
import { provideRedis } from './redis.ts';

/** What a suite may ask for, and the answer: a value, or why it cannot be had here. */
export type Fixture = { readonly value: string } | { readonly missing: string };

export type FixtureName = 'embedded' | 'external15' | 'redis-program' | 'started-data';

/** The same for all workers. */
const ofAll: ReadonlySet<string> = new Set<FixtureName>(['redis-program', 'started-data']);

export interface FixtureBroker {
  readonly socket: string;
  close(): Promise<void>;
}

interface Stoppable {
  stop(): Promise<void>;
}

/** @param folder where the servers keep their data. */
export async function startFixtureBroker(folder: string): Promise<FixtureBroker> {
  const running: Stoppable[] = [];
  const started = new Map<string, Promise<Fixture>>();

  const keep = (server: Stoppable & { url: string }): Fixture => {
    running.push(server);
    return { value: server.url };
  };
  const starters: Readonly<Record<FixtureName, (worker: string) => Promise<Fixture>>> = {
    embedded: async (worker) =>
      keep(await startEmbeddedForTests(join(folder, `embedded-${worker}`))),
    external15: async () => {
      const programs = await findPostgres(oldestMajor);
      return 'missing' in programs ? programs : keep(await startPostgres(programs.path, folder));
    },
    'redis-program': async () => {
      const program = await provideRedis();
      return 'missing' in program ? program : { value: program.path };
    },
    'started-data': async () => ({ value: await startedDataFolder(join(folder, 'started-data')) }),
  };

  /** `/name/worker` */
  const provide = (path: string): Promise<Fixture> => {
    const [, name, worker = ''] = path.split('/');
    const start = Object.entries(starters).find(([known]) => known === name)?.[1];
    if (!start) return Promise.reject(new Error(`There is no fixture "${name}"`));
    const key = ofAll.has(name ?? '') ? `/${name}` : path;
    const fixture = started.get(key) ?? start(worker);
    started.set(key, fixture);
    return fixture;
  };

  const socket = join(folder, 'fixtures');
  const server = createServer(
    (request, response) => void answer(response, provide(request.url ?? '')),
  );
  await new Promise<void>((resolve) => server.listen(socket, resolve));
  server.unref();

  return {
    socket,
    async close() {
      server.closeAllConnections();
      server.close();
      await Promise.all(running.map((one) => one.stop()));
    },
  };
}

async function answer(response: ServerResponse, fixture: Promise<Fixture>): Promise<void> {
  try {
    response.end(JSON.stringify(await fixture));
  } catch (error) {
    response.writeHead(500).end(String(error instanceof Error ? error.stack : error));
  }
}
