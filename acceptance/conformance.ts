/**
 * `npm run conformance [file]`: asks all relationship cases of a file (ours unless another one is
 * given) of a fresh platform over HTTP, and prints what differs.
 */
import { randomUUID } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { readSettings } from '../src/kernel/settings/settings.ts';
import { startPlatform } from '../src/platform.ts';
import { type Api, createApi } from '../test/support/api.ts';
import { conditionCases, ownCases, readCases } from './conformance/cases.ts';
import { type CaseResult, runCase } from './conformance/run.ts';

const print = (text: string): void => void process.stdout.write(`${text}\n`);

function report(results: readonly CaseResult[]): boolean {
  const failed = results.filter(({ failures }) => failures.length > 0);
  for (const { id, failures } of failed)
    print(`${id}\n${failures.map((failure) => `  ${failure}`).join('\n')}`);
  const asked = results.reduce((sum, result) => sum + result.asked, 0);
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

const [file] = process.argv.slice(2);
const cases =
  file === undefined
    ? [...(await readCases(ownCases)), ...(await readCases(conditionCases))]
    : await readCases(resolve(file));
const results = await withFreshPlatform(async (admin) => {
  const done: CaseResult[] = [];
  for (const one of cases) done.push(await runCase(admin, one));
  return done;
});
process.exitCode = report(results) ? 0 : 1;
