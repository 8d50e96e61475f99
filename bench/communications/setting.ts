/** What all parts of the measurement work with: a platform, its database, accounts, and what it costs. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pg from 'pg';
import { cpuTime, familyCpuTime } from '../machine.ts';
import { type Platform, startPlatform } from '../platform.ts';

interface Sent {
  readonly body?: object;
  /** Of a user; else the call is an operator's. */
  readonly token?: string;
}

export interface Account {
  readonly userId: string;
  readonly token: string;
}

/** Microseconds of CPU, in the platform's process and in PostgreSQL. */
export interface Cost {
  readonly node: number;
  readonly postgres: number;
}

export interface Setting {
  readonly platform: Platform;
  readonly rows: (text: string, values?: readonly unknown[]) => Promise<readonly Row[]>;
  /** Throws for what is refused. */
  readonly api: (method: string, path: string, sent?: Sent) => Promise<Row>;
  readonly account: () => Promise<Account>;
  /** What each of `count` runs costs on the average; a fifth as many run before, unmeasured. */
  readonly costOf: (count: number, run: () => Promise<unknown>) => Promise<Cost>;
  readonly close: () => Promise<void>;
}

type Row = Readonly<Record<string, unknown>>;

/** One part of the report: what stands under its heading. */
export type Part = (setting: Setting, options: { readonly size: number }) => Promise<string>;

export async function openSetting(nodeArguments: readonly string[]): Promise<Setting> {
  const dataDir = await mkdtemp(join(tmpdir(), 'penstock-bench-'));
  const platform = await startPlatform({ dataDir, nodeArguments });
  const { connection, pid } = await platform.database();
  const database = new pg.Client(connection);
  await database.connect();
  const api: Setting['api'] = async (method, path, { body, token } = {}) => {
    const { clientOrigin, adminOrigin, masterKey } = platform;
    const answer = await fetch(`${token === undefined ? adminOrigin : clientOrigin}${path}`, {
      method,
      headers: {
        ...(token === undefined
          ? { masterkey: masterKey }
          : token !== '' && { authorization: `Bearer ${token}` }),
        ...(body && { 'content-type': 'application/json' }),
      },
      ...(body && { body: JSON.stringify(body) }),
    });
    if (!answer.ok) throw new Error(`${method} ${path}: ${answer.status} ${await answer.text()}`);
    return (await answer.json()) as Row;
  };
  await api('PATCH', '/config/router', {
    body: { config: { rateLimit: { maxRequests: 1_000_000 } } },
  });
  let made = 0;
  const spent = (): Cost => ({ node: cpuTime(platform.pid), postgres: familyCpuTime(pid) });
  return {
    platform,
    api,
    rows: async (text, values = []) => (await database.query(text, [...values])).rows,
    async account() {
      const body = { email: `bench${made++}@example.com`, password: 'Battery-Staple-17' };
      await api('POST', '/authentication/local/new', { body, token: '' });
      const signedIn = await api('POST', '/authentication/local', { body, token: '' });
      const token = String(signedIn.accessToken);
      const { _id: userId } = await api('GET', '/authentication/user', { token });
      return { userId: String(userId), token };
    },
    async costOf(count, run) {
      for (let n = 0; n < count / 5; n += 1) await run();
      const before = spent();
      for (let n = 0; n < count; n += 1) await run();
      const after = spent();
      return {
        node: (after.node - before.node) / count,
        postgres: (after.postgres - before.postgres) / count,
      };
    },
    async close() {
      await database.end();
      await platform.stop();
      await rm(dataDir, { recursive: true, force: true });
    },
  };
}
