/**
 * The music store: loads the Chinook-like sample into a running platform and
 * reads from it as a signed-in user. `npm run example -- --help` explains.
 */
import { parseArgs } from 'node:util';
import { readExampleSettings } from './settings.ts';
import { visitStore } from './store.ts';

const help = `Loads a music store (11 tables, 15,607 rows) into a running Penstock and reads from it.

  npm run example               load it unless it is there already, then read
  npm run example -- --reset    remove the eleven schemas with their rows first

Environment
  CLIENT_URL         http://127.0.0.1:3000 (or the port in CLIENT_HTTP_PORT)
  ADMIN_URL          http://127.0.0.1:3030 (or the port in ADMIN_HTTP_PORT)
  MASTER_KEY         the platform's master key; otherwise it is read from the data folder
  PENSTOCK_DATA_DIR  .penstock`;

const print = (line: string): void => console.log(line);

async function main(): Promise<void> {
  const { values } = parseArgs({
    options: { reset: { type: 'boolean', default: false }, help: { type: 'boolean', short: 'h' } },
  });
  if (values.help) return print(help);
  await visitStore(await readExampleSettings(process.env), { reset: values.reset, print });
}

main().catch((error: unknown) => {
  console.error(error instanceof Error ? error.message : error);
  process.exitCode = 1;
});
