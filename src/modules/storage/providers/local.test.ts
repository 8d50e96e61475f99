/** The local provider on a real folder. */
import { execFile } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import {
  lstat,
  mkdir,
  mkdtemp,
  readdir,
  readlink,
  rm,
  symlink,
  utimes,
  writeFile,
} from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { bytes, read, refused, type } from './conformance/bench.ts';
import { describeProvider } from './conformance.ts';
import { pathOfKey } from './local/key-path.ts';
import { createLocalProvider } from './local.ts';
import { type ObjectPlace, ProviderError, type StorageProvider } from './provider.ts';

const newRoot = (): Promise<string> => mkdtemp(join(tmpdir(), 'storage-local-'));

describeProvider(
  'local',
  async () => {
    const root = await newRoot();
    const provider = await createLocalProvider({ root });
    return { provider, close: () => rm(root, { recursive: true, force: true }) };
  },
  { keepsContentType: false },
);

let root: string;
let provider: StorageProvider;
beforeAll(async () => {
  root = await newRoot();
  provider = await createLocalProvider({ root });
});
afterAll(() => rm(root, { recursive: true, force: true }));

async function newBucket(): Promise<string> {
  const bucket = `b-${randomUUID()}`;
  await provider.createBucket(bucket);
  return bucket;
}

test('nobody else of the machine may read what is there', async () => {
  const place = { bucket: await newBucket(), key: 'a/b.txt' };
  await provider.put(place, bytes('x'), type);
  const mode = async (...path: string[]) => (await lstat(join(root, ...path))).mode & 0o777;
  expect(await mode(place.bucket)).toBe(0o700);
  expect(await mode(place.bucket, 'd-a')).toBe(0o700);
  expect(await mode(place.bucket, pathOfKey(place.key))).toBe(0o600);
});

test('links are never followed, neither on the way nor at its end', async () => {
  const outside = await newRoot();
  await writeFile(join(outside, 'f-secret'), 'secret');
  const bucket = await newBucket();
  await symlink(outside, join(root, bucket, 'd-way'));
  await symlink(join(outside, 'f-secret'), join(root, bucket, 'f-end'));
  await symlink(outside, join(root, 'linked-bucket'));
  for (const key of ['way/secret', 'end']) {
    await expect(provider.get({ bucket, key })).rejects.toEqual(refused('INVALID_PLACE'));
    await expect(provider.copy({ bucket, key }, { bucket, key: 'x' })).rejects.toMatchObject({
      problem: expect.stringMatching('INVALID_PLACE|NOT_FOUND'),
    });
  }
  for (const key of ['way/new', 'way/deep/new', 'way/secret'])
    for (const unseen of [false, true])
      await expect(
        provider.put({ bucket, key }, bytes('x'), { ...type, isNew: unseen, unseen }),
      ).rejects.toBeInstanceOf(ProviderError);
  for (const key of ['way/new', 'way/deep/new', 'way/secret'])
    await expect(provider.put({ bucket, key }, bytes('x'), type)).rejects.toEqual(
      refused('INVALID_PLACE'),
    );
  await expect(provider.delete({ bucket, key: 'way/secret' })).rejects.toEqual(
    refused('INVALID_PLACE'),
  );
  await expect(
    provider.put({ bucket: 'linked-bucket', key: 'x' }, bytes('x'), type),
  ).rejects.toEqual(refused('NOT_FOUND'));
  expect((await provider.list(bucket, '')).objects).toEqual([]);
  expect(await readdir(outside)).toEqual(['f-secret']);
  // A link in the place of an object is replaced, not written through.
  await provider.put({ bucket, key: 'end' }, bytes('new'), type);
  expect((await read(provider, { bucket, key: 'end' })).toString()).toBe('new');
  await rm(outside, { recursive: true, force: true });
});

test('what is kept open for the next reader is never what was deleted or replaced', async () => {
  const place = { bucket: await newBucket(), key: 'read often' };
  const pieces = async () => {
    let text = '';
    for await (const piece of provider.pieces?.(place, { start: 0, end: 2 }) ?? [])
      text += Buffer.from(piece).toString();
    return text;
  };
  await provider.put(place, bytes('old'), type);
  expect(await Promise.all([pieces(), pieces()])).toEqual(['old', 'old']);
  await provider.put(place, bytes('new'), type);
  expect(await pieces()).toBe('new');
  // A reader that has begun ends with what it began with.
  await provider.put(place, bytes('x'.repeat(600_000)), type);
  const begun = provider.pieces?.(place, { start: 0, end: 599_999 });
  let length = (await begun?.next())?.value.length;
  await provider.delete(place);
  for await (const piece of begun ?? []) length += piece.length;
  expect(length).toBe(600_000);
  await expect(pieces()).rejects.toEqual(refused('NOT_FOUND'));
});

test('a reader gets one version as a whole, however often it is replaced meanwhile', async () => {
  const place = { bucket: await newBucket(), key: 'replaced often' };
  const size = 600_000;
  const put = (letter: string) => provider.put(place, bytes(letter.repeat(size)), type);
  const letters = async (): Promise<readonly string[]> => {
    const seen = new Set<string>();
    let length = 0;
    for await (const piece of provider.pieces?.(place, { start: 0, end: size - 1 }) ?? []) {
      length += piece.length;
      for (const at of [0, piece.length - 1]) seen.add(String.fromCharCode(piece[at] ?? 0));
    }
    expect(length).toBe(size);
    return [...seen];
  };
  await put('a');
  for (const letter of 'bcdefghijklm') {
    const reads = [letters(), letters()];
    await put(letter);
    for (const seen of await Promise.all(reads)) expect(seen).toHaveLength(1);
    expect(await letters()).toEqual([letter]);
  }
});

test.skipIf(process.platform !== 'linux')(
  'what is deleted or replaced leaves the disk with its last reader, not later',
  async () => {
    const bucket = await newBucket();
    const gone = async (): Promise<number> => {
      const numbers = await readdir('/proc/self/fd');
      const paths = await Promise.all(
        numbers.map((number) => readlink(`/proc/self/fd/${number}`).catch(() => '')),
      );
      return paths.filter((path) => path.includes(bucket) && path.endsWith('(deleted)')).length;
    };
    const places = ['a', 'b', 'c'].map((key) => ({ bucket, key }));
    const [deleted, replaced, reading] = places as [ObjectPlace, ObjectPlace, ObjectPlace];
    const pieces = (place: ObjectPlace) => provider.pieces?.(place, { start: 0, end: 599_999 });
    for (const place of places) {
      await provider.put(place, bytes('x'.repeat(600_000)), type);
      for await (const piece of pieces(place) ?? []) expect(piece.length).toBeGreaterThan(0);
    }
    const begun = pieces(reading);
    await begun?.next();
    await provider.delete(deleted);
    await provider.put(replaced, bytes('y'), type);
    await provider.delete(reading);
    expect(await gone()).toBe(1);
    await begun?.return(undefined);
    expect(await gone()).toBe(0);
  },
);

/** Reads more files than are kept open, takes all numbers that are left, and reads another file. */
const scarce = `
  import { openSync } from 'node:fs';
  import { createLocalProvider } from ${JSON.stringify(new URL('local.ts', import.meta.url).href)};
  const provider = await createLocalProvider({ root: process.argv[1] });
  const read = async (key) => {
    for await (const piece of provider.pieces({ bucket: 'few', key }, { start: 0, end: 0 })) return piece.length;
  };
  for (let i = 0; i < 20; i += 1) await read('f' + i);
  try { for (;;) openSync('/dev/null'); } catch (error) { console.log(error.code); }
  console.log(await read('last'));
`;

test.skipIf(process.platform !== 'linux')(
  'files that are kept open are closed where the process may open no more',
  async () => {
    const few = await newRoot();
    const filled = await createLocalProvider({ root: few });
    await filled.createBucket('few');
    for (const key of [...Array.from({ length: 20 }, (_, i) => `f${i}`), 'last'])
      await filled.put({ bucket: 'few', key }, bytes('x'), type);
    const command = 'ulimit -n 256; exec "$0" --input-type=module -e "$1" "$2"';
    const { stdout } = await promisify(execFile)('sh', [
      '-c',
      command,
      process.execPath,
      scarce,
      few,
    ]);
    expect(stdout.trim().split('\n')).toEqual(['EMFILE', '1']);
    await rm(few, { recursive: true, force: true });
  },
);

test('empty folders go with the last file, and puts do not mind', async () => {
  const bucket = await newBucket();
  const once = async (at: number) => {
    const place = { bucket, key: `deep/er/${at % 3}/${at}` };
    await provider.put(place, bytes('x'), type);
    await provider.delete(place);
  };
  for (let round = 0; round < 10; round++)
    await Promise.all(Array.from({ length: 20 }, (_, at) => once(at)));
  expect(await readdir(join(root, bucket))).toEqual([]);
});

test('what failed writes left behind goes at the next start, what is younger stays', async () => {
  const left = await newRoot();
  for (const folder of ['.tmp', '.uploads']) await mkdir(join(left, folder));
  const old = new Date(Date.now() - 40 * 24 * 3_600_000);
  for (const path of ['.tmp/old', '.tmp/new', '.uploads/old', '.uploads/new']) {
    await writeFile(join(left, path), 'half');
    if (path.endsWith('old')) await utimes(join(left, path), old, old);
  }
  await createLocalProvider({ root: left });
  expect(await readdir(join(left, '.tmp'))).toEqual(['new']);
  expect(await readdir(join(left, '.uploads'))).toEqual(['new']);
  await rm(left, { recursive: true, force: true });
});

test('failed writes leave no temporary file', async () => {
  const bucket = await newBucket();
  const body = Readable.from(
    (async function* () {
      yield Buffer.alloc(3_000_000);
      throw new Error('gone');
    })(),
  );
  await expect(provider.put({ bucket, key: 'x' }, body, type)).rejects.toThrow('gone');
  expect(await readdir(join(root, '.tmp'))).toEqual([]);
});

test('a folder that cannot be used says so', async () => {
  const file = join(root, 'a-file');
  await writeFile(file, '');
  await expect(createLocalProvider({ root: file })).rejects.toMatchObject({
    problem: expect.any(String),
  });
});
