/** What a run of the example does, from signing in to signing out. */
import { type Api, createApi } from './api.ts';
import { type Dataset, generate } from './generate.ts';
import { type Listener, signInAsNewListener } from './listener.ts';
import { createSchemas, differences, existingSchemas, loadRows, removeSchemas } from './load.ts';
import { tableNames } from './schemas.ts';
import type { ExampleSettings } from './settings.ts';
import { takeTour } from './tour.ts';

export interface Visit {
  /** Removes the store first. */
  readonly reset: boolean;
  readonly print: (line: string) => void;
}

const startClean = 'Start clean: npm run example -- --reset';
const seconds = (since: number): string => `${((performance.now() - since) / 1000).toFixed(1)} s`;

async function load(
  admin: Api,
  { api }: Listener,
  dataset: Dataset,
  print: Visit['print'],
): Promise<void> {
  const start = performance.now();
  await createSchemas(admin);
  print(`Made ${tableNames.length} schemas in ${seconds(start)}`);
  const loading = performance.now();
  let total = 0;
  await loadRows(api, dataset, (table, rows) => {
    total += rows;
    print(`  ${String(rows).padStart(5)}  ${table}`);
  });
  print(`Loaded ${total} rows in ${seconds(loading)}`);
}

/** Brings the store into the platform, or makes sure that it is there, whole. */
async function ensureStore(admin: Api, listener: Listener, { reset, print }: Visit): Promise<void> {
  const dataset = generate();
  const stored = await existingSchemas(admin);
  if (reset) await removeSchemas(admin, stored);
  if (reset || stored.length === 0) return load(admin, listener, dataset, print);
  if (stored.length < tableNames.length)
    throw new Error(
      `Only ${stored.length} of ${tableNames.length} schemas are there. ${startClean}`,
    );
  const wrong = await differences(listener.api, dataset);
  if (wrong.length > 0)
    throw new Error(`The store is not complete (${wrong.join(', ')}). ${startClean}`);
  print(`The music store is there already. ${startClean}`);
}

/** Loads the store unless it is there, then reads from it as a new user. */
export async function visitStore(
  { adminOrigin, clientOrigin, masterKey }: ExampleSettings,
  visit: Visit,
): Promise<void> {
  const start = performance.now();
  const listener = await signInAsNewListener(clientOrigin);
  visit.print(`Signed in at ${clientOrigin} as ${listener.email}`);
  await ensureStore(createApi(adminOrigin, { masterkey: masterKey }), listener, visit);
  visit.print('');
  await takeTour(listener.api, createApi(clientOrigin), visit.print);
  await listener.signOut();
  visit.print(`\nDone in ${seconds(start)}`);
}
