/**
 * No secret leaves the platform. Marks every secret that a platform can hold, then looks for the marks in whatever
 * it gives out: every GET route of both surfaces, the state export, MCP tools, metrics, its output, and all that it
 * stores, which is what a backup holds (CWE-200, CWE-312, CWE-532; spec/core.md 14 rows 6 and 7, check 15.8).
 */
import { generateKeyPairSync, randomBytes } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { generateSync } from 'otplib';
import type pg from 'pg';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { proveArchive } from '../src/backup/archive-reader.ts';
import { dump } from '../src/backup/dump.ts';
import { connectToSource } from '../src/backup/source.ts';
import type { Api, Json } from '../test/support/api.ts';
import { freePort } from '../test/support/free-port.ts';
import { silentLog } from '../test/support/log.ts';
import { expectStatus, type TestUser } from '../test/support/node.ts';
import { liftLimits } from '../test/support/permissions.ts';
import { type SpawnedPlatform, spawnPlatform } from '../test/support/spawn.ts';
import { removeFolder, temporaryFolder } from '../test/support/temporary-folder.ts';
import { waitFor } from '../test/support/wait-for.ts';
import { fillState } from './state-example.ts';

const marks = new Map<string, string>();
let counter = 0;

/** A secret that is nowhere else, remembered by what it is. */
function mark(what: string): string {
  counter += 1;
  return remember(what, `mArk-${counter}-${crypto.randomUUID()}`);
}

/** A secret that the platform made. */
function remember(what: string, secret: string): string {
  if (secret.length < 8) throw new Error(`${what} is too short to be looked for: "${secret}"`);
  marks.set(what, secret);
  return secret;
}

/** The secrets in a text, by what they are. Also as they look inside of JSON and addresses. */
const found = (text: string, except: readonly string[] = []): string[] =>
  [...marks].flatMap(([what, secret]) => {
    const looks = [secret, JSON.stringify(secret).slice(1, -1), encodeURIComponent(secret)];
    return !except.includes(what) && looks.some((look) => text.includes(look)) ? [what] : [];
  });

const environment = () => ({
  MASTER_KEY: mark('master key'),
  MASTER_KEY_PREVIOUS: mark('previous master key'),
  CONFIG_ENCRYPTION_KEY: mark('configuration key'),
  ADMIN_INITIAL_PASSWORD: mark('first admin password'),
  METRICS_TOKEN: mark('metrics token'),
  SECRET_SOMETHING_ELSE: mark('secret for imports'),
  LOG_LEVEL: 'debug',
});

/** A value for a sensitive key; some must be real keys, and of one with lines a line is looked for. */
function secretFor(what: string): string {
  if (what.endsWith('signingSecret')) return remember(what, randomBytes(32).toString('hex'));
  if (!what.endsWith('privateKey')) return mark(what);
  const { privateKey } = what.endsWith('dkim.privateKey')
    ? generateKeyPairSync('rsa', { modulusLength: 2048 })
    : generateKeyPairSync('ec', { namedCurve: 'P-256' });
  const pem = privateKey.export({ format: 'pem', type: 'pkcs8' }).toString();
  remember(what, pem.split('\n')[1] ?? '');
  return pem;
}

/** Sets every sensitive key of every configuration to a mark of its own; answers how many. */
async function markConfigurations(admin: Api): Promise<number> {
  const { modules } = expectStatus(await admin.get('/config/docs'), 200, 'docs').body;
  let count = 0;
  for (const [module, keys] of Object.entries<Json>(modules)) {
    for (const { key } of keys.filter(({ sensitive }: Json) => sensitive)) {
      const path = key.replaceAll('<name>', 'custom').split('.');
      const patch = path.reduceRight(
        (inner: unknown, name: string) => ({ [name]: inner }),
        secretFor(`${module}.${key}`),
      );
      expectStatus(
        await admin.patch(`/config/${module}`, { config: patch }),
        200,
        `${module}.${key}`,
      );
      count += 1;
    }
  }
  return count;
}

/** The account of a user with one of every secret that accounts have. */
async function markUser(platform: SpawnedPlatform): Promise<TestUser> {
  const user = await platform.registerUser({
    email: 'somebody@example.com',
    password: mark('user password'),
  });
  remember('access token', user.accessToken);
  remember('refresh token', user.refreshToken);
  const factor = expectStatus(
    await user.api.post('/authentication/twoFa/enable', { method: 'authenticator' }),
    200,
    'second factor',
  ).body;
  remember('TOTP secret of a user', factor.secret);
  await platform.client.post('/authentication/forgot-password', { email: user.email });
  const link = await waitFor(async () => {
    const { messages } = (await platform.admin.get('/communications/messages')).body;
    const texts = await Promise.all(
      messages.map(({ _id }: Json) => platform.admin.get(`/communications/messages/${_id}`)),
    );
    return texts.flatMap(({ body }) => body.content?.links ?? []).at(0);
  });
  remember('one-time token', /[\w-]{20,}$/.exec(link)?.[0] ?? '');
  return user;
}

async function markAdmins(platform: SpawnedPlatform): Promise<void> {
  const { admin, adminAnonymous } = platform;
  const first = remember('admin token', await platform.adminLogin());
  const asAdmin = adminAnonymous.with({ authorization: `Bearer ${first}` });
  const { secret } = expectStatus(
    await asAdmin.put('/toggle-twofa', { enableTwoFa: true }),
    200,
    'admin factor',
  ).body;
  remember('TOTP secret of an admin', secret);
  const { backupCodes } = expectStatus(
    await asAdmin.post('/verify-qr-code', { code: generateSync({ secret }) }),
    200,
    'admin code',
  ).body;
  remember('backup code of an admin', backupCodes[0]);
  const password = mark('password of a second admin');
  expectStatus(await admin.post('/admins', { username: 'second', password }), 200, 'second admin');
  remember(
    'API token',
    expectStatus(await admin.post('/api-tokens', { name: 'reader' }), 200, 'API token').body.token,
  );
  const client = expectStatus(
    await admin.post('/router/security/client', { platform: 'IOS' }),
    200,
    'app',
  ).body;
  remember('app secret', client.clientSecret);
}

/** Refused calls with secrets in them, which is how they get into logs. */
async function sendSecretsWrongly({
  client,
  adminAnonymous,
  admin,
}: SpawnedPlatform): Promise<void> {
  const secret = (what: string): string => marks.get(what) ?? '';
  await adminAnonymous.get('/config', { headers: { masterkey: `${secret('master key')}x` } });
  await adminAnonymous.get('/config', {
    headers: { authorization: `Bearer ${secret('API token')}x` },
  });
  await client.get('/authentication/user', {
    headers: { authorization: `Bearer ${secret('access token')}x` },
  });
  await client.post('/authentication/local', {
    email: 'somebody@example.com',
    password: secret('user password'),
    extra: 1,
  });
  await client.post('/authentication/local', `{"password": "${secret('user password')}`);
  await admin.post('/login', {
    username: secret('first admin password'),
    password: secret('first admin password'),
  });
  await admin.patch('/config/communications', { config: { email: secret('master key') } });
  await admin.post('/state/import', {
    secrets: { 'a.b': secret('configuration key') },
    modules: { nowhere: {} },
  });
}

/** Answers of every GET route, asked with whatever might stand in its path. */
async function everyAnswer(
  api: Api,
  values: readonly string[],
): Promise<readonly { readonly route: string; readonly text: string }[]> {
  const { paths } = (await api.get('/swagger.json')).body;
  const routes = Object.entries<Json>(paths).filter(([, item]) => item.get !== undefined);
  const answers: { route: string; text: string }[] = [];
  for (const [route] of routes) {
    const addresses = route.includes('{')
      ? values.map((value) => route.replaceAll(/\{\w+\}/g, encodeURIComponent(value)))
      : [route];
    for (const address of addresses) {
      // What would go on for minutes ends by itself.
      const options = route.endsWith('/stream') ? { query: { seconds: 1 } } : {};
      const { text, headers } = await api.get(address, options);
      answers.push({ route, text: `${text}\n${JSON.stringify([...headers])}` });
    }
  }
  return answers;
}

/** Every row of every table, as text. */
async function* everyRow(
  client: pg.Client,
): AsyncGenerator<{ readonly table: string; readonly text: string }> {
  const { rows: tables } = await client.query<{ name: string }>(
    `select format('%I.%I', n.nspname, c.relname) as name from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace
     where c.relkind in ('r', 'p') and n.nspname not in ('pg_catalog', 'information_schema')`,
  );
  for (const { name } of tables) {
    const { rows } = await client.query<{ row: string }>(`select t::text as row from ${name} t`);
    for (const { row } of rows) yield { table: name, text: row };
  }
}

describe('a platform whose every secret is marked', () => {
  let platform: SpawnedPlatform;
  let user: TestUser;
  let values: readonly string[];
  let metricsPort: number;
  let folder: string;

  beforeAll(async () => {
    metricsPort = await freePort();
    folder = await temporaryFolder('secrets');
    platform = await spawnPlatform({
      env: { ...environment(), METRICS_PORT: String(metricsPort) },
    });
    const { admin } = platform;
    await liftLimits(admin);
    await fillState(admin);
    // Second factors are off by default, and a link needs a page.
    const secretConfig = {
      twoFa: { enabled: true },
      local: { forgot_password_redirect_uri: 'https://app.example.com/reset' },
    };
    expectStatus(
      await admin.patch('/config/authentication', { config: secretConfig }),
      200,
      'second factors',
    );
    expect(await markConfigurations(admin)).toBeGreaterThan(15);
    user = await markUser(platform);
    await markAdmins(platform);
    await sendSecretsWrongly(platform);
    const { clients } = (await admin.get('/router/security/client')).body;
    const { tokens } = (await admin.get('/api-tokens')).body;
    const { messages } = (await admin.get('/communications/messages')).body;
    const { teams } = (await admin.get('/authentication/teams')).body;
    const { schemas } = (await admin.get('/database/schemas', { query: { search: 'User' } })).body;
    const ids = [...clients, ...tokens, ...messages, ...teams, ...schemas].map(
      ({ _id }: Json) => _id,
    );
    values = [
      user.userId,
      'me',
      'User',
      'communications',
      'authentication',
      'core',
      ...new Set(ids),
    ];
  }, 180_000);
  afterAll(async () => {
    await platform?.dispose();
    if (folder) await removeFolder(folder);
  });

  it('shows none in the answer of any GET route', async () => {
    // What was captured instead of being sent is there for operators to read.
    const readable: Readonly<Record<string, readonly string[]>> = {
      '/communications/messages/{id}': ['one-time token'],
    };
    const answers = [
      ...(await everyAnswer(platform.admin, values)),
      ...(await everyAnswer(user.api, values)),
    ];
    expect(answers.length).toBeGreaterThan(100);
    const leaks = answers.flatMap(({ route, text }) =>
      found(text, readable[route]).map((what) => `${route}: ${what}`),
    );
    expect([...new Set(leaks)]).toEqual([]);
  }, 120_000);

  it('shows none in an export, a plan, or an MCP answer', async () => {
    const { admin } = platform;
    const exported = expectStatus(
      await admin.get('/state/export', { query: { format: 'yaml' } }),
      200,
      'export',
    ).text;
    const plan = await admin.post('/state/plan', {
      configs: { modules: { communications: { sms: { maxPerRecipient: 9 } } } },
    });
    const call = (name: string) =>
      admin.post(
        '/mcp?modules=all',
        { jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name, arguments: {} } },
        { headers: { accept: 'application/json, text/event-stream' } },
      );
    const tools = await Promise.all(
      ['get_config', 'get_apitokens', 'get_state_export', 'get_router_security_client'].map(call),
    );
    for (const { text } of tools) expect(text).toContain('"success":true');
    expect(found([exported, plan.text, ...tools.map(({ text }) => text)].join('\n'))).toEqual([]);
  });

  it('shows none in its metrics and in what it prints', async () => {
    const headers = { authorization: `Bearer ${marks.get('metrics token')}` };
    const metrics = await fetch(`http://127.0.0.1:${metricsPort}/metrics`, { headers });
    expect(metrics.status).toBe(200);
    expect(found(await metrics.text())).toEqual([]);
    const printed = platform.stdout() + platform.stderr();
    expect(printed).toContain('"level"');
    expect(found(printed)).toEqual([]);
    expect(found(await readFile(join(platform.dataDir, 'logs/postgres.log'), 'utf8'))).toEqual([]);
  });

  it('keeps none in clear in any table, and names none in a backup', async () => {
    const { client, close } = await connectToSource(
      { dataDir: platform.dataDir, databaseUrl: undefined },
      silentLog,
    );
    try {
      const leaks = new Set<string>();
      for await (const { table, text } of everyRow(client))
        for (const what of found(text)) leaks.add(`${table}: ${what}`);
      expect([...leaks]).toEqual([]);
      const path = join(folder, 'backup.penstock');
      await dump({
        client,
        path,
        dataDir: platform.dataDir,
        withKeys: false,
        keys: {
          masterKey: undefined,
          masterKeyPrevious: undefined,
          configEncryptionKey: undefined,
        },
        onProgress: () => undefined,
      });
      const { manifest, header } = await proveArchive(path, () => undefined);
      expect(found(JSON.stringify({ manifest, header }))).toEqual([]);
    } finally {
      await close();
    }
  }, 60_000);
});
