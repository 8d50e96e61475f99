/**
 * `npm run conformance [files]`: asks all relationship cases of files (ours unless others are given) of a fresh
 * platform over HTTP, and prints what differs. Files may have the forms in which OpenFGA (`tests.yaml`, `store.fga.yaml`)
 * and SpiceDB (validation YAML) publish theirs; what cannot be said or asked here is told with its reason.
 */
import { randomUUID } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { readSettings } from '../src/kernel/settings/settings.ts';
import { startPlatform } from '../src/platform.ts';
import { type Api, createApi } from '../test/support/api.ts';
import { conditionCases, ownCases } from './conformance/cases.ts';
import { type Outcome, readFiles } from './conformance/files.ts';

const print = (text: string): void => void process.stdout.write(`${text}\n`);

function report(results: readonly Outcome[]): boolean {
  const left = results.filter(({ unmapped = [] }) => unmapped.length > 0);
  for (const { id, unmapped = [] } of left)
    print(`${id}: not asked\n${unmapped.map((reason) => `  ${reason}`).join('\n')}`);
  const failed = results.filter(({ failures }) => failures.length > 0);
  for (const { id, failures } of failed)
    print(`${id}\n${failures.map((failure) => `  ${failure}`).join('\n')}`);
  const asked = results.reduce((sum, result) => sum + result.asked, 0);
  const reasons = left.reduce((sum, { unmapped = [] }) => sum + unmapped.length, 0);
  if (reasons > 0) print(`${reasons} parts of ${left.length} cases were not asked, see above`);
  print(
    `${results.length - failed.length} of ${results.length} cases pass (${asked} checks and lists)`,
  );
  return failed.length === 0;
}

/** A platform with nothing in it, which goes away with what it kept. */
async function withFreshPlatform<T>(work: (admin: Api) => Promise<T>): Promise<T> {
  const dataDir = await mkdtemp(join(tmpdir(), 'penstock-conformance-'));
  const masterKey = randomUUID();
  const environment = {
    CLIENT_HTTP_PORT: '0',
    CLIENT_SOCKET_PORT: '-1',
    ADMIN_HTTP_PORT: '0',
    LOG_LEVEL: 'error',
  };
  try {
    const settings = readSettings({
      ...environment,
      MASTER_KEY: masterKey,
      PENSTOCK_DATA_DIR: dataDir,
    });
    const platform = await startPlatform({ settings });
    try {
      return await work(createApi(platform.addresses.admin, { masterkey: masterKey }));
    } finally {
      await platform.close();
    }
  } finally {
    await rm(dataDir, { recursive: true, force: true, maxRetries: 20, retryDelay: 100 });
  }
}

const files = process.argv.slice(2).map((file) => resolve(file));
const own = [ownCases, conditionCases].map((file) => fileURLToPath(file));
const { asking, unread } = await readFiles(files.length === 0 ? own : files);
for (const text of unread) process.stderr.write(`${text}\n`);
if (unread.length > 0) process.exitCode = 1;
else {
  const results = await withFreshPlatform(async (admin) => {
    const done: Outcome[] = [];
    for (const ask of asking) done.push(await ask(admin));
    return done;
  });
  process.exitCode = report(results) ? 0 : 1;
}
