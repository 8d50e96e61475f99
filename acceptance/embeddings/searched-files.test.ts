/**
 * Files as what is searched, without a record that holds them: by name, by what stands in them and by what that means, each
 * for whoever may have its content (specification embeddings.md 5.7, storage.md).
 */
import { mkdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Json } from '../../test/support/api.ts';
import type { TestUser } from '../../test/support/node.ts';
import { createTestPlatform, type TestPlatform } from '../../test/support/platform.ts';
import { type FakeService, startFakeService } from '../../test/support/servers/fake-service.ts';
import { waitFor } from '../../test/support/wait-for.ts';
import { sendForm } from '../storage/requests.ts';

const DIMENSIONS = 4;
const USERS = 3;
const FILES = 45;
const ROUNDS = 4;

let platform: TestPlatform;
let fake: FakeService;
const users: TestUser[] = [];
const user = (at: number): TestUser => users[at] as TestUser;

let seed = 357;
const random = (): number => {
  seed = (seed * 1_103_515_245 + 12_345) % 2_147_483_648;
  return seed / 2_147_483_648;
};
const pick = <T>(list: readonly T[]): T => list[Math.floor(random() * list.length)] as T;
const point = (): number[] =>
  Array.from({ length: DIMENSIONS }, () => Math.round((random() * 2 - 1) * 1_000) / 1_000);
const textOf = (at: readonly number[]): string => `(${at.join()})`;
/** Texts without a point are nowhere near one. */
const pointOf = (text: string): number[] =>
  /\(([-\d.,]+)\)/.exec(text)?.[1]?.split(',').map(Number) ?? [0, 0, 0, 0];

beforeAll(async () => {
  platform = await createTestPlatform();
  fake = await startFakeService();
  fake.answer = (request) => {
    if (request.path === '/scan')
      return { body: { result: request.text.includes('virus') ? 'infected' : 'clean' } };
    const data = request
      .json()
      .input.map((text: string, index: number) => ({ index, embedding: pointOf(text) }));
    return { body: { data } };
  };
  for (let i = 0; i < USERS; i += 1) users.push(await platform.registerUser());
  const endpoint = `${fake.url}/v1/embeddings`;
  const models = [{ name: 'points', dimensions: DIMENSIONS }];
  await configure('embeddings', {
    providers: { 'openai-compatible': { endpoint, models, allowInternal: true } },
    queue: { retryFailedMs: 1_000 },
  });
  await configure('storage', { authorization: { enabled: true } });
  await configure('router', { rateLimit: { maxRequests: 1_000_000 } });
  // Before its configuration, so that it is the backfill that finds it.
  await upload(0, 'early.txt', 'An early aardvark');
  const words = { provider: 'none', language: 'english', sourceFields: ['name', 'content'] };
  await save({ targetField: 'words', ...words });
  const meaning = { provider: 'openai-compatible', sourceFields: ['content'] };
  await save({ targetField: 'meaning', ...meaning });
});
afterAll(async () => {
  await platform?.close();
  await fake?.close();
});

async function configure(module: string, config: Json): Promise<void> {
  const answer = await platform.admin.patch(`/config/${module}`, { config });
  expect(answer.status, answer.text).toBe(200);
}
async function save(body: Json): Promise<void> {
  const answer = await platform.admin.post('/embeddings/configs', { schemaName: 'File', ...body });
  expect(answer.status, answer.text).toBe(200);
}

interface UploadOptions {
  readonly fields?: Record<string, string>;
  readonly type?: string;
}
async function upload(
  owner: number,
  name: string,
  content: string | Buffer,
  options: UploadOptions = {},
): Promise<string> {
  const { status, body } = await sendForm(platform, user(owner), [name, content], options);
  expect(status, JSON.stringify(body)).toBe(200);
  return body.id;
}

const search = (body: Json, as: TestUser) =>
  as.api.post('/embeddings/search', { schemaName: 'File', ...body });
async function found(body: Json, at: number): Promise<Json[]> {
  const asked = { schemaName: 'File', limit: 100, userId: user(at).userId, ...body };
  const answer = await platform.admin.post('/embeddings/search', asked);
  expect(answer.status, answer.text).toBe(200);
  return answer.body.hits;
}
const byWords = (text: string, at: number, more: Json = {}) =>
  found({ targetField: 'words', mode: 'keyword', typos: false, text, ...more }, at);
const names = (hits: readonly Json[]): string[] => hits.map(({ document }) => document.name);
const until = (what: string, probe: () => Promise<boolean>) =>
  waitFor(probe, { timeoutMs: 60_000, everyMs: 50, what });
const relate = async (subject: string, relation: string, resource: string) => {
  const made = await platform.admin.post('/authorization/relations', {
    ...{ subject, relation, resource },
  });
  expect(made.status, made.text).toBe(200);
};

describe('by words', () => {
  let secret = '';

  beforeAll(async () => {
    const long = `${'Filler that says nothing. '.repeat(2_000)}The <tusk> & 🦔 narwhal.`;
    secret = await upload(0, 'sea.txt', long);
    await upload(1, 'open.html', '<p>A narwhal for everybody</p>', {
      fields: { isPublic: 'true' },
      type: 'text/html',
    });
    await until('words of files', async () => (await byWords('narwhal', 0)).length === 2);
    await until('the backfill', async () => (await byWords('aardvark', 0)).length === 1);
  });

  it('finds what stands in files for those who may have it, as lists show files', async () => {
    const own = await byWords('narwhal', 0);
    expect(names(own).sort()).toEqual(['open.html', 'sea.txt']);
    expect(names(await byWords('narwhal', 1))).toEqual(['open.html']);
    expect(names(await byWords('early', 0))).toEqual(['early.txt']);
    expect(await byWords('early or aardvark or filler', 2)).toEqual([]);
    const { body } = await user(0).api.get(`/storage/file/${secret}`);
    expect(own.find(({ document }) => document._id === secret)?.document).toMatchObject(body);
    expect(JSON.stringify(own)).not.toMatch(/objectKey|"bucket"|containerId|folderIds/);
  });

  it('marks the words and counts values, of what the caller may have alone', async () => {
    const more = { highlight: true, facets: ['mimeType'], targetField: 'words', text: 'narwhals' };
    const asked = { ...more, mode: 'keyword', schemaName: 'File' };
    const own = await search(asked, user(0));
    expect(own.status, own.text).toBe(200);
    const hit = own.body.hits.find(({ document }: Json) => document._id === secret);
    expect(hit.highlights.content).toContain('&#38; 🦔 <mark>narwhal</mark>');
    const counts = (facets: Json) => facets.mimeType.map(({ count }: Json) => count);
    expect(counts(own.body.facets)).toEqual([1, 1]);
    const theirs = await search(asked, user(2));
    expect(names(theirs.body.hits)).toEqual(['open.html']);
    expect(counts(theirs.body.facets)).toEqual([1]);
  });

  it('is for nobody who has not signed in, and looks at no hidden field', async () => {
    const body = { schemaName: 'File', targetField: 'words', mode: 'keyword', text: 'narwhal' };
    expect((await platform.client.post('/embeddings/search', body)).status).toBe(401);
    const asked = (more: Json) =>
      platform.admin.post('/embeddings/search', { ...body, ...more, userId: user(0).userId });
    for (const filter of [{ objectKey: 'x' }, { bucket: 'x' }, { 'containerId.name': 'x' }])
      expect((await asked({ filter })).status).toBe(400);
    for (const more of [{ groupBy: 'bucket' }, { facets: ['objectKey'] }, { select: ['bucket'] }]) {
      const { status } = await asked(more);
      expect([400, 403], JSON.stringify(more)).toContain(status);
    }
    const config = (sourceFields: string[]) =>
      platform.admin.post('/embeddings/configs', {
        ...{ schemaName: 'File', targetField: 'other', provider: 'none', sourceFields },
      });
    for (const field of ['objectKey', 'containerId', 'size', 'nothing'])
      expect((await config([field])).status, field).toBe(400);
  });

  it('follows rights, contents and the end of a file at once', async () => {
    const id = await upload(0, 'moving.txt', 'A wandering albatross');
    await until('the new file', async () => (await byWords('albatross', 0)).length === 1);
    expect(await byWords('albatross', 1)).toEqual([]);
    await relate(`User:${user(1).userId}`, 'reader', `File:${id}`);
    expect(names(await byWords('albatross', 1))).toEqual(['moving.txt']);
    const query = { subject: `User:${user(1).userId}`, relation: 'reader', resource: `File:${id}` };
    const gone = await platform.admin.delete('/authorization/relations', { query });
    expect(gone.status, gone.text).toBe(200);
    expect(await byWords('albatross', 1)).toEqual([]);
    const data = Buffer.from('A flightless kakapo').toString('base64');
    const changed = await platform.admin.patch(`/storage/files/${id}`, { data });
    expect(changed.status, changed.text).toBe(200);
    await until('the new content', async () => (await byWords('kakapo', 0)).length === 1);
    expect(await byWords('albatross', 0)).toEqual([]);
    expect((await user(0).api.delete(`/storage/file/${id}`)).status).toBe(200);
    expect(await byWords('kakapo', 0)).toEqual([]);
  });

  it('finds nothing of what modules keep for themselves, and takes bytes that are no text', async () => {
    const data = Buffer.from('A confidential ocelot').toString('base64');
    const file = { container: 'module-forms', name: 'answer.txt', data };
    const kept = await platform.admin.post('/storage/files', file);
    expect(kept.status, kept.text).toBe(200);
    const odd = `${'text '.repeat(200)}\0 quokka \ud800`;
    await upload(0, 'odd.txt', Buffer.from(odd, 'utf8'));
    await upload(0, 'last.txt', 'A numbat');
    await until('the last file', async () => (await byWords('numbat', 0)).length === 1);
    await until('a file with a zero', async () => (await byWords('odd', 0)).length === 1);
    const body = { schemaName: 'File', targetField: 'words', mode: 'keyword', text: 'ocelot' };
    const answer = await platform.admin.post('/embeddings/search', body);
    expect([answer.status, answer.body.hits]).toEqual([200, []]);
  });
});

describe('contents that are not for everybody who sees the file', () => {
  it('are searched by those alone who have the action that contents ask for', async () => {
    const id = await upload(0, 'guarded.txt', 'A shy pangolin');
    await relate(`User:${user(1).userId}`, 'reader', `File:${id}`);
    await save({ targetField: 'names', provider: 'none', sourceFields: ['name'] });
    await until('its words', async () => (await byWords('pangolin', 1)).length === 1);
    const byName = async (at: number) =>
      names(await byWords('guarded', at, { targetField: 'names' }));
    await until('its name', async () => (await byName(1)).length === 1);
    const { body: current } = await platform.admin.get('/authorization/resources/File');
    const { name, relations, permissions } = current;
    const define = async (actions: object) => {
      const body = { name, relations, permissions: actions };
      const answer = await platform.admin.patch('/authorization/resources/File', body);
      expect(answer.status, answer.text).toBe(200);
    };
    await define({ ...permissions, download: ['owner', 'editor'] });
    await configure('storage', { authorization: { contentAction: 'download' } });
    const more = { highlight: true, facets: ['name'] };
    const asked = { schemaName: 'File', targetField: 'words', mode: 'keyword', text: 'pangolin' };
    const theirs = await search({ ...asked, ...more }, user(1));
    expect(theirs.body).toMatchObject({ hits: [], facets: { name: [] } });
    expect(await byName(1)).toEqual(['guarded.txt']);
    expect(names(await byWords('pangolin', 0))).toEqual(['guarded.txt']);
    await relate(`User:${user(1).userId}`, 'editor', `File:${id}`);
    expect(names(await byWords('pangolin', 1))).toEqual(['guarded.txt']);
    await configure('storage', { authorization: { contentAction: '' } });
    await define(permissions);
  });

  it('hold up no other file when their bytes are gone', async () => {
    const name = 'damaged';
    expect((await platform.admin.post('/storage/containers', { name })).status).toBe(200);
    // Nothing is read before its bytes are gone.
    await configure('embeddings', { enabled: false });
    const fields = { container: name };
    await upload(0, 'lost.txt', 'A lost lemur', { fields });
    const folder = join(platform.dataDir, 'storage', name);
    await rm(folder, { recursive: true });
    await mkdir(folder);
    await upload(0, 'whole.txt', 'A whole lemur', { fields });
    await configure('embeddings', { enabled: true });
    await until('the other one', async () => (await byWords('lemur', 0)).length === 1);
    expect(names(await byWords('lemur', 0))).toEqual(['whole.txt']);
    await until('what is said of it', async () => {
      const { body } = await platform.admin.get('/embeddings/status?schemaName=File');
      return body.generationQueue.delayed + body.generationQueue.failed > 0;
    });
    const { body } = await user(0).api.get('/storage/files?limit=100&of=readable');
    const lost = body.files.find((one: Json) => one.name === 'lost.txt');
    expect((await platform.admin.delete(`/storage/files/${lost._id}`)).status).toBe(200);
  });

  it('are not read while they are examined, nor when something was found in them', async () => {
    await configure('storage', { scan: { url: `${fake.url}/scan` } });
    await upload(0, 'clean.txt', 'A harmless okapi');
    await upload(0, 'harmful.txt', 'An okapi with a virus');
    await until('the clean one', async () => (await byWords('okapi', 0)).length === 1);
    await until('what was found', async () => {
      const { body } = await user(0).api.get('/storage/files?limit=100&of=readable');
      return body.files.some((one: Json) => one.name === 'harmful.txt' && one.scan === 'infected');
    });
    await configure('storage', { scan: { url: '' } });
    await upload(0, 'behind.txt', 'An ibex');
    await until('what came later', async () => (await byWords('ibex', 0)).length === 1);
    expect(names(await byWords('okapi or virus', 0))).toEqual(['clean.txt']);
    expect(names(await byWords('harmful', 0))).toEqual(['harmful.txt']);
  });
});

describe('by every door', () => {
  const params = { schemaName: 'File', targetField: 'words', mode: 'keyword', text: 'aardvark' };

  it('finds by GraphQL and MCP what REST finds', async () => {
    const query =
      'mutation ($params: postEmbeddingsSearchRequest!) { postEmbeddingsSearch(params: $params) { hits { document } } }';
    const own = await user(0).api.post('/graphql', { query, variables: { params } });
    expect(names(own.body.data.postEmbeddingsSearch.hits), own.text).toEqual(['early.txt']);
    const theirs = await user(1).api.post('/graphql', { query, variables: { params } });
    expect(theirs.body.data.postEmbeddingsSearch.hits).toEqual([]);
    const tool = await platform.admin.post('/mcp?modules=embeddings', {
      ...{ jsonrpc: '2.0', id: 1, method: 'tools/call' },
      params: { name: 'post_embeddings_search', arguments: params },
    });
    const { hits } = JSON.parse(tool.body.result.content[0].text).data;
    expect(names(hits)).toEqual(['early.txt']);
  });

  it('finds files in the search of everything by what stands in them', async () => {
    const query = { text: 'aardvar', kinds: 'file' };
    const { body } = await platform.admin.get('/search', { query });
    expect(body.results.map(({ kind, title }: Json) => [kind, title])).toEqual([
      ['file', 'early.txt'],
    ]);
    expect(body.incomplete).toEqual([]);
  });

  it('tells how far it is, and is part of the state', async () => {
    const { body } = await platform.admin.get('/embeddings/status?schemaName=File');
    expect(body.configs).toHaveLength(3);
    expect(body.configs[0].current).toMatchObject({ lagSeconds: expect.any(Number) });
    const { body: able } = await platform.admin.get('/embeddings/capabilities?schemaName=File');
    expect(able.capabilities.supported).toBe(true);
  });
});

describe('by meaning, in a random world', () => {
  interface Known {
    at: readonly number[];
    readonly owner: number;
    readonly readers: Set<number>;
    open: boolean;
  }
  const world = new Map<string, Known>();
  let made = 0;

  const create = async () => {
    const at = point();
    const owner = Math.floor(random() * USERS);
    const open = random() < 0.2;
    made += 1;
    const fields: Record<string, string> = open ? { isPublic: 'true' } : {};
    // A line before it, so that where it stands in the text counts.
    const content = `A file about a place\n${textOf(at)}`;
    const id = await upload(owner, `place-${made}.txt`, content, { fields });
    world.set(id, { at, owner, readers: new Set([owner]), open });
  };
  const mayRead = ({ readers, open }: Known, reader: number) => open || readers.has(reader);
  const byHand = (query: readonly number[], reader: number, limit: number): string[] => {
    const dot = (a: readonly number[], b: readonly number[]) =>
      a.reduce((sum, x, i) => sum + x * (b[i] ?? 0), 0);
    const cosine = (at: readonly number[]) => dot(at, query) / Math.sqrt(dot(at, at));
    return [...world]
      .filter(([, one]) => mayRead(one, reader))
      .sort(([, a], [, b]) => cosine(b.at) - cosine(a.at))
      .slice(0, limit)
      .map(([id]) => id);
  };
  /** Only places, not the other files of this test. */
  const filter = { name: { $like: 'place-%' } };
  const nearest = async (query: readonly number[], reader: number, limit: number) => {
    const asked = { targetField: 'meaning', text: textOf(query), limit, filter };
    return (await found(asked, reader)).map(({ document }) => document._id);
  };
  const followed = () =>
    until('vectors of all files', async () => {
      const { body } = await platform.admin.get('/embeddings/status?schemaName=File');
      const { waiting, active, delayed } = body.generationQueue;
      const passages = body.configs.find((one: Json) => one.targetField === 'meaning')?.current
        .passages;
      return waiting + active + delayed === 0 && passages >= world.size;
    });
  /** A change of a file has been heard of when what came after it was. */
  const marked = async () => {
    await create();
    const [id] = [...world].at(-1) ?? [];
    const { at, owner } = world.get(String(id)) as Known;
    await until(
      'the last file',
      async () => (await nearest(at, owner, 1))[0] === id || world.size === 0,
    );
    await followed();
  };

  const change = async () => {
    for (let i = 0; i < 3; i += 1) {
      const [id, one] = pick([...world]);
      world.delete(id);
      expect((await user(one.owner).api.delete(`/storage/file/${id}`)).status).toBe(200);
    }
    for (let i = 0; i < 4; i += 1) {
      const [id, one] = pick([...world]);
      const reader = Math.floor(random() * USERS);
      if (one.readers.has(reader)) continue;
      one.readers.add(reader);
      await relate(`User:${user(reader).userId}`, 'reader', `File:${id}`);
    }
    for (let i = 0; i < 2; i += 1) {
      const [id, one] = pick([...world]);
      one.open = !one.open;
      const changed = await platform.admin.patch(`/storage/files/${id}`, { isPublic: one.open });
      expect(changed.status, changed.text).toBe(200);
    }
    for (let i = 0; i < 3; i += 1) {
      const [id, one] = pick([...world]);
      one.at = point();
      const data = Buffer.from(`Now here\n${textOf(one.at)}`).toString('base64');
      const changed = await platform.admin.patch(`/storage/files/${id}`, { data });
      expect(changed.status, changed.text).toBe(200);
    }
  };

  it('finds exactly the best that each may have, while files and rights change', async () => {
    for (let i = 0; i < FILES; i += 1) await create();
    for (let round = 0; round < ROUNDS; round += 1) {
      await marked();
      for (let reader = 0; reader < USERS; reader += 1)
        for (let i = 0; i < 3; i += 1) {
          const query = point();
          const limit = 1 + Math.floor(random() * 12);
          expect(await nearest(query, reader, limit), `round ${round}`).toEqual(
            byHand(query, reader, limit),
          );
        }
      await change();
    }
  }, 120_000);

  it('shows the passage of a file, and finds what is like it', async () => {
    await marked();
    const [id, { at, owner }] = [...world].at(-1) as [string, Known];
    const [hit] = await found(
      { targetField: 'meaning', text: textOf(at), limit: 1, filter },
      owner,
    );
    expect(hit?.document._id).toBe(id);
    expect(hit?.matchedChunk.preview).toBe(`A file about a place\n${textOf(at)}`);
    const like = { schemaName: 'File', targetField: 'meaning', documentId: id, filter, limit: 5 };
    const alike = await search(like, user(owner));
    expect(alike.status, alike.text).toBe(200);
    const expected = byHand(at, owner, 6).filter((one) => one !== id);
    expect(alike.body.hits.map(({ document }: Json) => document._id)).toEqual(expected.slice(0, 5));
    const stranger = users.findIndex((_, other) => !mayRead(world.get(id) as Known, other));
    if (stranger >= 0) expect((await search(like, user(stranger))).status).toBe(404);
    expect((await search({ ...like, documentId: 'nothing' }, user(owner))).status).toBe(404);
  });
});
