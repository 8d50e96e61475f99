/** Every GET of both surfaces, read through Prism, which compares calls and answers with the description. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type Api, createApi, type Json } from '../../test/support/api.ts';
import { freePort } from '../../test/support/free-port.ts';
import { expectStatus, type TestUser } from '../../test/support/node.ts';
import type { TestPlatform } from '../../test/support/platform.ts';
import { removeFolder, temporaryFolder } from '../../test/support/temporary-folder.ts';
import { waitFor } from '../../test/support/wait-for.ts';
import { musicPlatform } from './music.ts';

const prism = fileURLToPath(import.meta.resolve('@stoplight/prism-cli/dist/index.js'));

let platform: TestPlatform;
let folder: string;
let user: TestUser;
beforeAll(async () => {
  folder = await temporaryFolder('prism');
  platform = await musicPlatform();
  user = await platform.registerUser();
  await fill(platform);
}, 60_000);
afterAll(async () => {
  await platform.close();
  await removeFolder(folder);
});

interface Proxy {
  readonly api: Api;
  readonly process: ChildProcess;
}

/** Prism before a surface, with its description. */
async function proxyOf(description: Json, upstream: string): Promise<Proxy> {
  const port = await freePort();
  const file = join(folder, `${port}.json`);
  await writeFile(file, JSON.stringify(description));
  const args = [prism, 'proxy', file, upstream, '--port', `${port}`, '--cors', 'false'];
  const process_ = spawn(process.execPath, args, { stdio: 'ignore' });
  const api = createApi(`http://127.0.0.1:${port}`);
  await waitFor(() => api.get('/ready'), { timeoutMs: 60_000, what: 'Prism' });
  return { api, process: process_ };
}

async function end({ process: process_ }: Proxy): Promise<void> {
  process_.kill();
  if (process_.exitCode === null && process_.signalCode === null) await once(process_, 'exit');
}

/** Answers that do not end. */
const streams: ReadonlySet<string> = new Set([
  ...['/listen', '/authorization/changes/stream', '/functions/logs/stream'],
]);

/** Something for the lists to answer. */
async function fill({ client, admin, registerUser }: TestPlatform): Promise<void> {
  const { userId } = await registerUser();
  const made = async (api: Api, path: string, body: unknown) =>
    expectStatus(await api.post(path, body), 200, path).body;
  const { _id: album } = await made(client, '/database/Album', { title: 'Blue' });
  await made(client, '/database/Track', { name: 'River', album });
  await made(admin, '/api-tokens', { name: 'CI' });
  await made(admin, '/email/templates', { name: 'hello', subject: 'Hello', body: 'Hello' });
  await made(admin, '/admin/forms', {
    name: 'Contact',
    fields: [{ name: 'email', type: 'email' }],
  });
  await made(admin, '/authorization/roles', { name: 'editor', permissions: ['Album:read'] });
  await made(user.api, '/chat/rooms', { roomName: 'Music', users: [userId] });
}

/** Ids or names of what lists answer, by the path of the list. */
type Known = ReadonlyMap<string, { readonly id?: string; readonly name?: string }>;

/** What a call must be given, with an example of each. */
function requiredOf(description: Json, path: string): readonly Json[] {
  const { parameters: shared, get } = description.paths[path];
  const parameters = [...shared, ...(get.parameters ?? [])].map(({ $ref, ...own }: Json) =>
    $ref ? description.components.parameters[$ref.slice($ref.lastIndexOf('/') + 1)] : own,
  );
  return parameters
    .filter(({ required }) => required)
    .map(({ name, in: place, example, schema }) => {
      const value = example ?? schema.default ?? schema.enum?.[0];
      expect(value, `an example for ${name} of ${path}`).toBeDefined();
      return { name, place, value };
    });
}

/** The path with what the lists above it answered, or with what the description gives as examples. */
function callOf(description: Json, path: string, known: Known): string {
  const query = new URLSearchParams();
  let filled = path;
  for (const { name, place, value } of requiredOf(description, path)) {
    if (place === 'path') {
      const found = known.get(path.slice(0, path.indexOf(`/{${name}}`)));
      const real = /name|module/i.test(name) ? found?.name : found?.id;
      filled = filled.replace(`{${name}}`, encodeURIComponent(real ?? value));
    } else for (const each of [value].flat()) query.append(name, `${each}`);
  }
  return query.size > 0 ? `${filled}?${query}` : filled;
}

function firstOf(body: Json): { id?: string; name?: string } {
  const [first] = [body, ...Object.values(body ?? {})].filter(Array.isArray).flat();
  return { id: first?._id ?? first?.id, name: first?.name ?? first?.moduleName };
}

/** What does not fit the description, and how many GETs were answered with what they are for. */
async function readAll(description: Json, api: Api) {
  const paths = Object.keys(description.paths).sort((a, b) => a.length - b.length);
  const known = new Map<string, { id?: string; name?: string }>();
  const violations: string[] = [];
  let answered = 0;
  for (const path of paths) {
    const call = callOf(description, path, known);
    const answer = await waitFor(async () => {
      const one = await api.get(call);
      // A machine that is busy is not ready for a moment.
      return one.status === 503 ? undefined : one;
    });
    if (answer.status === 200) {
      known.set(path, firstOf(answer.body));
      answered += 1;
    }
    const found = answer.headers.get('sl-violations');
    if (found || answer.status >= 500)
      violations.push(`${call} -> ${answer.status} ${found ?? answer.text}`);
  }
  return { violations, answered };
}

/** Prism reads it faster without the rest. */
const onlyGets = ({ paths, ...description }: Json): Json => ({
  ...description,
  paths: Object.fromEntries(
    Object.entries<Json>(paths).flatMap(([path, { get, parameters = [] }]) =>
      get && !streams.has(path) ? [[path, { get, parameters }]] : [],
    ),
  ),
});

/** Reads all through a Prism of its own. */
async function check(surface: Api, headers: Readonly<Record<string, string>>) {
  const description = onlyGets((await surface.get('/swagger.json')).body);
  const proxy = await proxyOf(description, surface.baseUrl);
  try {
    return await readAll(description, proxy.api.with(headers));
  } finally {
    await end(proxy);
  }
}

describe('every GET answers what the description says', () => {
  it('on the client surface', async () => {
    const headers = { authorization: `Bearer ${user.accessToken}` };
    const { violations, answered } = await check(platform.client, headers);
    expect(violations).toEqual([]);
    expect(answered).toBeGreaterThan(30);
  }, 120_000);

  it('on the admin surface', async () => {
    const { violations, answered } = await check(platform.admin, { masterkey: platform.masterKey });
    expect(violations).toEqual([]);
    expect(answered).toBeGreaterThan(100);
  }, 120_000);
});
