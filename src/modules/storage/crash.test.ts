/**
 * A process that dies between any two steps of a write, a move or a deletion. Each step is a point: from it on nothing
 * of that process works any more. What another process finds then is mended by reconciling, to one copy or none.
 */
import { randomUUID } from 'node:crypto';
import { Readable } from 'node:stream';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { guarded, Life, mortalDatabase } from '../../../test/support/mortal.ts';
import {
  bytesOf as bytes,
  openTestStorage,
  type TestStorage,
} from '../../../test/support/storage-services.ts';
import { waitFor } from '../../../test/support/wait-for.ts';
import { type Caller, system } from '../../kernel/caller.ts';
import type { Queryable } from '../../kernel/database/database.ts';
import { newId } from '../../kernel/ids.ts';
import type { Platform } from '../../platform.ts';
import type { StorageProvider } from './providers/provider.ts';
import { recountOwners } from './queries/counters.ts';
import { expiredResumable } from './queries/resumable.ts';
import { contentKeyOf } from './services/naming.ts';
import { createStorageServices, type StorageServices } from './services/storage-services.ts';

const operator = system('crash test');

let storage: TestStorage;
let caller: Caller;
let platform: Platform;
let provider: StorageProvider;
let alive: StorageServices;

beforeAll(async () => {
  storage = await openTestStorage('crash');
  ({ platform, provider, caller } = storage);
  alive = createStorageServices(storage.partsOf(platform.kernel.database, provider));
  for (const name of ['first-one', 'second-one'])
    await alive.containers.create(operator, name, false);
});
afterAll(() => storage?.close());

/** The same services in a process with that much life. */
const mortal = (life: Life): StorageServices =>
  createStorageServices(
    storage.partsOf(
      mortalDatabase(platform.kernel.database, life),
      guarded(life, provider, ['put', 'copy', 'delete', 'head', 'createBucket']),
    ),
  );

const query = (text: string) => (platform.kernel.database as Queryable).query({ text });

/** What another process does after the death of one: the clock moves on, and everything is compared. */
async function mend(): Promise<void> {
  // What owners use is right before anything is mended.
  expect(await recountOwners(platform.kernel.database, false)).toBe(0);
  await query(`update penstock.storage_uploads set expires_at = now() - interval '1 second'`);
  await query(`update penstock.storage_resumable set expires_at = now(), locked_until = now()`);
  for (const row of await expiredResumable(platform.kernel.database, 100))
    await alive.resumable.remove(row);
  let { task } = await alive.tasks.start(operator, 'reconcile', { dryRun: false });
  await waitFor(async () => {
    task = await alive.tasks.find(task._id);
    return task.finishedAt !== null;
  });
}

async function objects(): Promise<readonly string[]> {
  const found: string[] = [];
  for (const bucket of ['first-one', 'second-one'])
    for (const { key } of (await provider.list(bucket, '')).objects)
      if (contentKeyOf(key) !== undefined) found.push(`${bucket}/${key}`);
  return found.sort();
}

/** Every content is there once, nothing else is, and what is counted is what there is. */
async function expectSound(): Promise<readonly { _id: string; container: string; text: string }[]> {
  await waitFor(async () => {
    const { rows } = await query(
      `select bucket || '/' || key as place from (select "bucket" as bucket, "objectKey" as key from "app"."File" where "generation" > 0) f order by 1`,
    );
    const places = rows.map(({ place }) => String(place)).sort();
    return JSON.stringify(places) === JSON.stringify(await objects());
  });
  const { rows: left } = await query('select id from penstock.storage_uploads');
  expect(left).toEqual([]);
  const { rows } = await query(`select "_id", "container" from "app"."File" order by "_id"`);
  const { rows: counted } = await query(
    `select c."fileCount" + coalesce((select sum(g.files) from penstock.storage_growth g where g.container = c."name"), 0) as counted,
       count(f."_id") as files from "app"."_StorageContainer" c
     left join "app"."File" f on f."container" = c."name" and f."generation" > 0 group by c."_id"`,
  );
  for (const { counted: known, files } of counted) expect(Number(known)).toBe(Number(files));
  expect(await recountOwners(platform.kernel.database, false)).toBe(0);
  return Promise.all(
    rows.map(async ({ _id, container }) => ({
      _id: String(_id),
      container: String(container),
      text: (await alive.delivery.bytes(await alive.files.find(String(_id)), 1_000)).toString(),
    })),
  );
}

interface Scenario {
  /** What is there before. */
  readonly before: 'nothing' | 'a file' | 'a folder';
  /** `id`: of what is there before. */
  run(services: StorageServices, id: string): Promise<unknown>;
  /** What may be there afterwards: container and content of each file. */
  readonly outcomes: readonly (readonly (readonly [container: string, text: string])[])[];
}

const none = [] as const;
const old = ['first-one', 'old'] as const;
const scenarios: Readonly<Record<string, Scenario>> = {
  'an upload': {
    before: 'nothing',
    run: (services) =>
      services.files.create(caller, { name: 'x', container: 'first-one' }, bytes('new')),
    outcomes: [none, [['first-one', 'new']]],
  },
  'a replacement': {
    before: 'a file',
    run: (services, id) => services.files.update(caller, id, {}, bytes('new')),
    outcomes: [[old], [['first-one', 'new']]],
  },
  'a move to another container': {
    before: 'a file',
    run: (services, id) => services.files.update(caller, id, { container: 'second-one' }),
    outcomes: [[old], [['second-one', 'old']]],
  },
  'a signed upload': {
    before: 'a file',
    async run(services, id) {
      const { address } = await services.signedUploads.beginAgain(caller, id, {}, 3);
      const upload = new URL(address.url, 'http://host').searchParams.get('upload') ?? '';
      const { source, size } = bytes('new');
      const signal = new AbortController().signal;
      await services.signedUploads.receive(id, upload, {
        source,
        length: size,
        contentType: '',
        signal,
      });
    },
    outcomes: [[old], [['first-one', 'new']]],
  },
  'a resumable upload': {
    before: 'nothing',
    async run({ resumable }) {
      const id = newId();
      const request = { name: 'x', container: 'first-one' };
      await resumable.create(caller, { id, size: 3, request, metadata: null });
      for (const piece of ['ne', 'w']) {
        const signal = new AbortController().signal;
        const lock = await resumable.lock(id, signal, () => undefined);
        try {
          const row = await resumable.find(caller, id);
          const body = Readable.from([Buffer.from(piece)]);
          await resumable.append(caller, row, lock.token, body);
          await resumable.finish(caller, await resumable.find(caller, id));
        } finally {
          await lock.release();
        }
      }
    },
    outcomes: [none, [['first-one', 'new']]],
  },
  'a deletion': {
    before: 'a file',
    run: (services, id) => services.files.remove(caller, id),
    outcomes: [[old], none],
  },
  'a copy': {
    before: 'a file',
    run: (services, id) =>
      services.files.copy(caller, id, { name: randomUUID(), container: 'second-one' }),
    outcomes: [[old], [old, ['second-one', 'old']]],
  },
  'the deletion of a folder': {
    before: 'a folder',
    run: (services, id) => services.folders.remove(caller, id, true),
    outcomes: [[old, old], none],
  },
};

async function prepare(before: Scenario['before']): Promise<string> {
  if (before === 'nothing') return '';
  const container = 'first-one';
  const write = (folder: string) =>
    alive.files.create(caller, { name: randomUUID(), container, folder }, bytes('old'));
  if (before === 'a file') return (await write('/'))._id;
  const { _id, name } = await alive.folders.create(caller, { name: randomUUID(), container });
  await write(name);
  await write(`${name}below/`);
  return _id;
}

describe('a process that dies in the middle of', () => {
  it.each(Object.entries(scenarios))(
    '%s leaves one copy or none',
    async (_name, scenario) => {
      const { before, run, outcomes } = scenario;
      const seen = new Set<string>();
      let died = true;
      for (let last = 0; died; last++) {
        const id = await prepare(before);
        const life = new Life(last);
        died = await run(mortal(life), id).then(
          () => false,
          (error: unknown) => {
            if (life.steps <= last) throw error;
            return true;
          },
        );
        await mend();
        const found = await expectSound();
        const outcome = found.map(({ container, text }) => [container, text]).sort();
        expect(outcomes, `killed at step ${last}`).toContainEqual(outcome);
        seen.add(JSON.stringify(outcome));
        for (const { _id } of found) await alive.files.remove(caller, _id);
        if (before === 'a folder') await removeAgain(id);
        await expectSound();
      }
      expect(seen.size).toBe(outcomes.length);
    },
    120_000,
  );
});

/** Whatever was left of a folder, deleting it once more ends it. */
async function removeAgain(id: string): Promise<void> {
  await alive.folders.remove(caller, id, true).catch((error: unknown) => {
    expect(error).toMatchObject({ code: 'FOLDER_NOT_FOUND' });
  });
  const { rows } = await query('select "name" from "app"."_StorageFolder"');
  expect(rows).toEqual([]);
}

describe('a process that dies while 20 uploads share the places that they name', () => {
  const textOf = (n: number) => `content ${n}`;
  /** Those that were acknowledged, by the number of their content. */
  const uploadAll = async (life: Life): Promise<ReadonlyMap<string, number>> => {
    const { files } = mortal(life);
    const container = 'first-one';
    const sent = await Promise.allSettled(
      Array.from({ length: 20 }, (_, n) =>
        files.create(caller, { name: randomUUID(), container }, bytes(textOf(n))),
      ),
    );
    await life.over();
    return new Map(
      sent.flatMap((one, n) => (one.status === 'fulfilled' ? [[one.value._id, n] as const] : [])),
    );
  };

  it('has every acknowledged file whole, and nothing stays behind of the others', async () => {
    const unhurt = new Life(Number.POSITIVE_INFINITY);
    expect((await uploadAll(unhurt)).size).toBe(20);
    const { steps } = unhurt;
    // Those that are acknowledged are so by the last steps.
    const early = [1, steps / 5, (2 * steps) / 5, (3 * steps) / 5].map(Math.floor);
    const late = [28, 22, 16, 11, 6, 1].map((before) => steps - before);
    const counts: number[] = [];
    for (const last of [...early, ...late]) {
      await clear();
      const acknowledged = await uploadAll(new Life(last));
      for (const [id, n] of acknowledged)
        expect(await textIn(id), `killed at step ${last}, and not mended`).toBe(textOf(n));
      const found = new Map((await mended()).map(({ _id, text }) => [_id, text]));
      for (const [id, n] of acknowledged)
        expect(found.get(id), `killed at step ${last}`).toBe(textOf(n));
      // What was not acknowledged is whole, or is not there.
      for (const text of found.values()) expect(text).toMatch(/^content \d+$/);
      counts.push(acknowledged.size);
    }
    expect(counts, 'some of them, and not all').toContainEqual(
      expect.toSatisfy((count: number) => count > 0 && count < 20),
    );
    await clear();
    expect(await mended()).toEqual([]);
  }, 120_000);

  const textIn = async (id: string) =>
    (await alive.delivery.bytes(await alive.files.find(id), 1_000)).toString();
  const mended = async () => {
    await mend();
    return expectSound();
  };
  const clear = async () => {
    for (const { _id } of await mended()) await alive.files.remove(caller, _id);
  };
});
