/** What all parts of the measurement work with: a platform, Socket.IO alone, and accounts. */
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { type Platform, startPlatform } from '../platform.ts';

export interface Account {
  readonly userId: string;
  readonly token: string;
}

interface Sent {
  readonly body?: object;
  /** Of a user; else the call is an operator's. */
  readonly token?: string;
}

export interface Setting {
  readonly platform: Platform;
  readonly bareOrigin: string;
  readonly barePid: number;
  /** Throws for what is refused. */
  api(method: string, path: string, sent?: Sent): Promise<Readonly<Record<string, string>>>;
  accounts(count: number): Promise<readonly Account[]>;
  close(): Promise<void>;
}

export async function openSetting(nodeArguments: readonly string[]): Promise<Setting> {
  const folder = await mkdtemp(join(tmpdir(), 'penstock-bench-'));
  const child = fork(fileURLToPath(new URL('bare.ts', import.meta.url)));
  const [port] = (await once(child, 'message')) as [number];
  const platform = await startPlatform({ dataDir: join(folder, 'data'), nodeArguments });
  child.send((await platform.database()).connection);
  await once(child, 'message');
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
    return (await answer.json()) as Readonly<Record<string, string>>;
  };
  await api('PATCH', '/config/router', {
    body: {
      config: { rateLimit: { maxRequests: 1_000_000 }, realtime: { eventsPerSecond: 10_000 } },
    },
  });
  await api('PATCH', '/config/chat', {
    body: { config: { rateLimit: { messagesPer10s: 100_000 } } },
  });
  let made = 0;
  const account = async (): Promise<Account> => {
    const body = { email: `bench${made++}@example.com`, password: 'Battery-Staple-17' };
    await api('POST', '/authentication/local/new', { body, token: '' });
    const { accessToken: token = '' } = await api('POST', '/authentication/local', {
      body,
      token: '',
    });
    const { _id: userId = '' } = await api('GET', '/authentication/user', { token });
    return { userId, token };
  };
  return {
    platform,
    bareOrigin: `http://127.0.0.1:${port}`,
    barePid: child.pid ?? 0,
    api,
    async accounts(count) {
      const all: Account[] = [];
      for (let n = 0; n < count; n += 1) all.push(await account());
      return all;
    },
    async close() {
      await platform.stop();
      child.kill();
      await rm(folder, { recursive: true, force: true });
    },
  };
}
