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
import { conditionCases, ownCases, readCases } from './conformance/cases.ts';
import { isPublicForm, readPublicCases } from './conformance/forms/read.ts';
import { type PublicResult, runPublicCase } from './conformance/public-run.ts';
import { type CaseResult, runCase } from './conformance/run.ts';

const print = (text: string): void => void process.stdout.write(`${text}\n`);

function report(results: readonly (CaseResult & Partial<PublicResult>)[]): boolean {
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

type Asking = (admin: Api) => Promise<CaseResult & Partial<PublicResult>>;

async function askingOf(file: string): Promise<readonly Asking[]> {
  if (isPublicForm(file))
    return (await readPublicCases(file)).map((one) => (admin) => runPublicCase(admin, one));
  return (await readCases(file)).map((one) => (admin) => runCase(admin, one));
}

const files = process.argv.slice(2).map((file) => resolve(file));
const asking =
  files.length === 0
    ? [ownCases, conditionCases].map((file) => askingOf(fileURLToPath(file)))
    : files.map(askingOf);
const results = await withFreshPlatform(async (admin) => {
  const done: (CaseResult & Partial<PublicResult>)[] = [];
  for (const ask of (await Promise.all(asking)).flat()) done.push(await ask(admin));
  return done;
});
process.exitCode = report(results) ? 0 : 1;
