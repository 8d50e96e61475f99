import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, mkdtemp, readdir, readFile, rm, stat, utimes, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { mountSmallDisk } from '../../../test/support/small-disk.ts';
import { StartError } from '../start-error.ts';
import type { Logger } from '../telemetry/logger.ts';
import { openDataFolder, restoreMarker } from './data-folder.ts';

const warnings: string[] = [];
const log: Logger = {
  debug() {},
  info() {},
  warn: (_, message) => void warnings.push(message),
  error() {},
  child: () => log,
};
let parent = '';
let dataDir = '';

const settings = (change: { masterKey?: string; databaseUrl?: string; dataDir?: string } = {}) => ({
  dataDir,
  masterKey: undefined,
  databaseUrl: undefined,
  ...change,
});

beforeEach(async () => {
  parent = await mkdtemp(join(tmpdir(), 'penstock-test-folder-'));
  dataDir = join(parent, 'data');
  warnings.length = 0;
});

afterEach(() => rm(parent, { recursive: true, force: true }));

it('makes a private folder and keeps the secrets it made in a private file', async () => {
  const folder = await openDataFolder(settings(), log);
  const first = await folder.masterKey();
  await folder.rememberAdminPassword('admin', 'correct horse');
  expect(first).toMatch(/^[\w-]{43}$/);
  expect(await folder.masterKey()).toBe(first);
  expect((await stat(dataDir)).mode & 0o777).toBe(0o700);
  expect((await stat(join(dataDir, 'secrets.json'))).mode & 0o777).toBe(0o600);
  const kept = JSON.parse(await readFile(join(dataDir, 'secrets.json'), 'utf8'));
  expect(kept).toMatchObject({
    masterKey: first,
    admin: { username: 'admin', password: 'correct horse' },
  });
  await folder.close();

  const again = await openDataFolder(settings(), log);
  expect(await again.masterKey()).toBe(first);
  await again.close();
});

it('hands over what it made once, also when that was at a start that failed', async () => {
  const failed = await openDataFolder(settings(), log);
  const masterKey = await failed.masterKey();
  await failed.rememberAdminPassword('admin', 'correct horse');
  await failed.close();

  const folder = await openDataFolder(settings(), log);
  await folder.masterKey();
  expect(await folder.takeUnseen()).toEqual({
    masterKey,
    admin: { username: 'admin', password: 'correct horse' },
  });
  expect(await folder.takeUnseen()).toEqual({});
  await folder.rememberAdminPassword('admin', 'battery staple');
  expect(await folder.takeUnseen()).toEqual({
    admin: { username: 'admin', password: 'battery staple' },
  });
  await folder.close();
});

it('makes the folders above it', async () => {
  const nested = join(parent, 'a', 'b', 'data');
  const folder = await openDataFolder(settings({ dataDir: nested }), log);
  expect((await stat(join(parent, 'a'))).mode & 0o777).toBe(0o700);
  await folder.close();
});

it.runIf(process.platform === 'linux')('refuses a place where no folder can be made', async () => {
  await expect(openDataFolder(settings({ dataDir: '/proc/version' }), log)).rejects.toThrow(
    /is a file/,
  );
  await expect(openDataFolder(settings({ dataDir: '/proc/version/below' }), log)).rejects.toThrow(
    /lies below one/,
  );
  await expect(openDataFolder(settings({ dataDir: '/proc/penstock' }), log)).rejects.toThrow(
    /cannot be used \(ENOENT\)/,
  );
});

it('prefers the key of the environment and warns about a weak one', async () => {
  const folder = await openDataFolder(settings({ masterKey: 'M4ST3RK3Y' }), log);
  expect(await folder.masterKey()).toBe('M4ST3RK3Y');
  expect(warnings.join()).toContain('MASTER_KEY is a published default');
  await folder.close();
});

it('makes no key for data that was written with a key of the environment', async () => {
  const first = await openDataFolder(settings({ masterKey: 'a key of the environment' }), log);
  await first.masterKey();
  await first.noteDatabase();
  await first.close();

  const second = await openDataFolder(settings(), log);
  await expect(second.masterKey()).rejects.toThrow(/set MASTER_KEY to the same value again/);
  expect(await stat(join(dataDir, 'secrets.json')).catch(() => undefined)).toBeUndefined();
  await second.close();
});

it('refuses a damaged secrets file', async () => {
  const folder = await openDataFolder(settings(), log);
  await writeFile(join(dataDir, 'secrets.json'), '{"masterKey": 7}');
  await expect(folder.masterKey()).rejects.toThrow(/secrets.json is damaged/);
  await folder.close();
});

it('lets one process in at a time and names the one that is inside', async () => {
  const folder = await openDataFolder(settings(), log);
  await expect(openDataFolder(settings(), log)).rejects.toThrow(
    new StartError(
      `The data folder ${dataDir} is in use by process ${process.pid}: stop it, or set PENSTOCK_DATA_DIR to another folder`,
    ),
  );
  await folder.close();
  await (await openDataFolder(settings(), log)).close();
});

it('lets exactly one in when many come at once, also over the lock of a dead process', async () => {
  await (await openDataFolder(settings(), log)).close();
  const dead = spawnSync('true').pid;
  const lock = {
    pid: dead,
    startedAt: '1',
    place: await placeOfThisProcess(),
    host: 'here',
    id: 'x',
  };
  await writeFile(join(dataDir, 'lock'), JSON.stringify(lock));
  const results = await Promise.allSettled(
    Array.from({ length: 8 }, () => openDataFolder(settings(), log)),
  );
  const winners = results.filter((result) => result.status === 'fulfilled');
  expect(winners).toHaveLength(1);
  await winners[0]?.value.close();
});

/** As the lock itself writes it. */
async function placeOfThisProcess(): Promise<string> {
  const folder = await openDataFolder(settings(), log);
  const { place } = JSON.parse(await readFile(join(dataDir, 'lock'), 'utf8'));
  await folder.close();
  return place;
}

it('takes over after kill -9', async () => {
  const script = `import(${JSON.stringify(join(import.meta.dirname, 'data-folder.ts'))})
    .then(({ openDataFolder }) => openDataFolder(${JSON.stringify({ dataDir })}, {}))
    .then(() => { console.log('in'); setInterval(() => {}, 1000); });`;
  const child = spawn(process.execPath, ['-e', script], { stdio: ['ignore', 'pipe', 'inherit'] });
  await once(child.stdout, 'data');
  await expect(openDataFolder(settings(), log)).rejects.toThrow(
    `is in use by process ${child.pid}:`,
  );
  child.kill('SIGKILL');
  await once(child, 'exit');
  await (await openDataFolder(settings(), log)).close();
});

it('believes a process elsewhere as long as it touches the lock', async () => {
  await (await openDataFolder(settings(), log)).close();
  const file = join(dataDir, 'lock');
  await writeFile(
    file,
    JSON.stringify({ pid: 1, startedAt: '1', place: 'elsewhere', host: 'other', id: 'x' }),
  );
  for (const behindMs of [0, 3_600_000]) {
    const touch = async (): Promise<void> => {
      const now = new Date(Date.now() - behindMs);
      await utimes(file, now, now);
    };
    await touch();
    const beating = setInterval(() => void touch(), 50);
    await expect(openDataFolder(settings(), log)).rejects.toThrow(
      'is in use by process 1 on other',
    );
    clearInterval(beating);
  }
});

it.each([
  ['long ago', -60_000],
  ['in the future', 3_600_000],
])(
  'takes over from a process elsewhere that is silent: touched %s',
  { timeout: 40_000 },
  async (_, ms) => {
    await (await openDataFolder(settings(), log)).close();
    const file = join(dataDir, 'lock');
    await writeFile(
      file,
      JSON.stringify({ pid: 1, startedAt: '1', place: 'elsewhere', host: 'other', id: 'x' }),
    );
    const touched = new Date(Date.now() + ms);
    await utimes(file, touched, touched);
    await (await openDataFolder(settings(), log)).close();
  },
);

it('leaves nothing of a lock behind on a full disk', async ({ skip }) => {
  await mkdir(dataDir);
  const disk = await mountSmallDisk(dataDir, 1);
  if (!disk) return skip();
  try {
    await disk.fill();
    await expect(openDataFolder(settings(), log)).rejects.toMatchObject({ code: 'ENOSPC' });
    expect(await readdir(dataDir)).toEqual(['filler']);
  } finally {
    await disk.unmount();
  }
});

it('refuses a folder in which a restore was killed while it put files in their places', async () => {
  await (await openDataFolder(settings(), log)).close();
  await writeFile(restoreMarker(dataDir), '');
  await expect(openDataFolder(settings(), log)).rejects.toThrow('was killed before it ended');
  await rm(restoreMarker(dataDir));
  await (await openDataFolder(settings(), log)).close();
});

it('refuses the layout of a newer version and says when the data comes from elsewhere now', async () => {
  const embedded = await openDataFolder(settings(), log);
  await embedded.noteDatabase();
  await embedded.close();
  const external = settings({ databaseUrl: 'postgres://x/y' });
  await (await openDataFolder(external, log)).close();
  expect(warnings.splice(0).join()).toContain('embedded database, which is not used');
  // That database was never reached, so the folder still belongs to the embedded one.
  await (await openDataFolder(settings(), log)).close();
  expect(warnings).toEqual([]);
  await writeFile(join(dataDir, 'VERSION'), 'layout 2\nengine embedded\n');
  await expect(openDataFolder(settings(), log)).rejects.toThrow('written by a newer version');
});
