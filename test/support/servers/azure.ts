/** Microsoft's emulator of Azure Blob Storage, as a process with a folder of its own. */
import { spawn } from 'node:child_process';
import { createRequire } from 'node:module';
import { freePort } from '../free-port.ts';
import { endAfterFile } from '../left-behind.ts';
import { removeFolder, temporaryFolder } from '../temporary-folder.ts';
import { waitFor } from '../wait-for.ts';

export interface TestAzure {
  readonly connectionString: string;
  close(): Promise<void>;
}

/** The emulator's account is public knowledge. */
const account = 'devstoreaccount1';
const key =
  'Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==';

export async function startTestAzure(): Promise<TestAzure> {
  const script = createRequire(import.meta.url).resolve('azurite/dist/src/blob/main.js');
  const folder = await temporaryFolder('azure');
  const port = await freePort();
  const address = ['--blobHost', '127.0.0.1', '--blobPort', String(port)];
  const quiet = ['--silent', '--disableTelemetry', '--skipApiVersionCheck', '--location', folder];
  const child = spawn(process.execPath, [script, ...address, ...quiet], { stdio: 'ignore' });
  const ended = new Promise<void>((resolve) => child.once('exit', () => resolve()));
  const close = async () => {
    child.kill('SIGKILL');
    await ended;
    forget();
    await removeFolder(folder);
  };
  const forget = endAfterFile(child, close);
  const endpoint = `http://127.0.0.1:${port}/${account}`;
  await waitFor(() =>
    fetch(endpoint).then(
      () => true,
      () => false,
    ),
  );
  return {
    connectionString: `AccountName=${account};AccountKey=${key};BlobEndpoint=${endpoint};`,
    close,
  };
}
