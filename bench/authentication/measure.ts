/** The measurements: a platform of its own, asked over HTTP about accounts that there are and that there are not. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { readSettings } from '../../src/kernel/settings/settings.ts';
import { type Platform, startPlatform } from '../../src/platform.ts';
import { seededRandom } from '../statistics.ts';

type Kind = 'known' | 'unknown';

/** Milliseconds of each request. */
export interface RouteTimes {
  readonly route: string;
  readonly known: readonly number[];
  readonly unknown: readonly number[];
}

export interface Measured {
  readonly routes: readonly RouteTimes[];
  readonly serverVersion: string;
}

interface Route {
  readonly name: string;
  readonly path: string;
  readonly body: (email: string) => Readonly<Record<string, string>>;
  /** Creates accounts: an unknown address is one only once. */
  readonly registers?: boolean;
}

const password = 'correct horse battery staple';
const routes: readonly Route[] = [
  {
    name: 'login, wrong password',
    path: '/authentication/local',
    body: (email) => ({ email, password: 'a wrong password' }),
  },
  {
    name: 'forgotten password',
    path: '/authentication/forgot-password',
    body: (email) => ({ email }),
  },
  { name: 'magic link', path: '/authentication/magic-link', body: (email) => ({ email }) },
  { name: 'code by mail', path: '/authentication/email-code', body: (email) => ({ email }) },
  {
    name: 'verification mail again',
    path: '/authentication/local/resend-verification',
    body: (email) => ({ email }),
  },
  {
    name: 'wrong verification code',
    path: '/authentication/local/verify-email',
    body: (email) => ({ email, code: '000000' }),
  },
  {
    name: 'registration',
    path: '/authentication/local/new',
    body: (email) => ({ email, password }),
    registers: true,
  },
];

const configuration = {
  local: { verification: { required: true, send_email: true, method: 'code' } },
  magic_link: { enabled: true },
  email_code: { enabled: true },
};

/** Mail is written after the answer; the next request must not be charged for it. */
const PAUSE_MS = 60;
/** Unmeasured requests at the beginning of each route. */
const WARM_UP = 10;

export async function measureRoutes(
  requests: number,
  print: (line: string) => void,
): Promise<Measured> {
  const dataDir = await mkdtemp(join(tmpdir(), 'penstock-authentication-'));
  const masterKey = 'a master key for measurements only';
  const platform = await startPlatform({
    settings: readSettings({ ...environment, MASTER_KEY: masterKey, PENSTOCK_DATA_DIR: dataDir }),
  });
  try {
    const client = createClient(platform, masterKey);
    await client.configure();
    print(`Making ${requests} accounts`);
    for (let i = 0; i < requests; i += 1) await client.createAccount(knownEmail(i));
    const measured: RouteTimes[] = [];
    for (const route of routes) {
      print(route.name);
      measured.push(await measureRoute(route, requests, client));
    }
    return { routes: measured, serverVersion: platform.database.version };
  } finally {
    await platform.close();
    await rm(dataDir, { recursive: true, force: true });
  }
}

/** The addresses of clients come from a header here, so that no budget is used up. */
const environment = {
  CLIENT_HTTP_PORT: '0',
  CLIENT_SOCKET_PORT: '-1',
  ADMIN_HTTP_PORT: '0',
  LOG_LEVEL: 'silent',
  TRUSTED_PROXIES: '127.0.0.1',
};

const knownEmail = (i: number): string => `known-${String(i).padStart(6, '0')}@example.com`;
const unknownEmail = (i: number, round: string): string =>
  `${round}-${String(i).padStart(6, '0')}@example.com`;

async function measureRoute(route: Route, requests: number, client: Client): Promise<RouteTimes> {
  const times = { known: [] as number[], unknown: [] as number[] };
  const asked = { known: 0, unknown: 0 };
  for (const kind of shuffledKinds(requests + WARM_UP)) {
    const i = asked[kind];
    asked[kind] += 1;
    const email =
      kind === 'known'
        ? knownEmail(i % requests)
        : unknownEmail(i, route.registers ? 'newly' : 'nobody');
    const elapsed = await client.time(route.path, route.body(email));
    if (i >= WARM_UP) times[kind].push(elapsed);
    await sleep(PAUSE_MS);
  }
  return { route: route.name, ...times };
}

/**
 * Both kinds equally often, in an order that chance decides. Pairs would not do: within a pair each kind follows the
 * other, and what a request leaves behind (a warm processor, mail still to be written) would count for one kind only.
 */
function shuffledKinds(each: number): readonly Kind[] {
  const random = seededRandom(7);
  const kinds = Array.from(
    { length: 2 * each },
    (_, i): Kind => (i % 2 === 0 ? 'known' : 'unknown'),
  );
  return kinds
    .map((kind) => ({ kind, place: random() }))
    .toSorted((a, b) => a.place - b.place)
    .map(({ kind }) => kind);
}

interface Client {
  configure(): Promise<void>;
  createAccount(email: string): Promise<void>;
  /** Milliseconds until the whole answer is there. */
  time(path: string, body: object): Promise<number>;
}

function createClient({ addresses }: Platform, masterKey: string): Client {
  let sent = 0;
  const post = async (
    url: string,
    body: object,
    headers: Record<string, string>,
    method = 'POST',
  ): Promise<number> => {
    const response = await fetch(url, {
      method,
      body: JSON.stringify(body),
      headers: { 'content-type': 'application/json', ...headers },
    });
    const text = await response.text();
    if (response.status === 429 || response.status >= 500)
      throw new Error(`${url} answered ${response.status} ${text}`);
    return response.status;
  };
  const admin = async (path: string, body: object, method?: string): Promise<void> => {
    const status = await post(`${addresses.admin}${path}`, body, { masterkey: masterKey }, method);
    if (status !== 200) throw new Error(`${path} answered ${status}`);
  };
  return {
    configure: () => admin('/config/authentication', { config: configuration }, 'PATCH'),
    createAccount: (email) => admin('/authentication/users', { email, password }),
    async time(path, body) {
      sent += 1;
      const address = `10.${(sent >> 16) & 255}.${(sent >> 8) & 255}.${sent & 255}`;
      const begin = performance.now();
      await post(`${addresses.client}${path}`, body, { 'x-forwarded-for': address });
      return performance.now() - begin;
    },
  };
}
