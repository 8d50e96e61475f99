/** Where the platform is and how to get in: from the environment, else from the platform's data folder. */
import { readFile } from 'node:fs/promises';
import { resolve } from 'node:path';

export interface ExampleSettings {
  /** For example `http://127.0.0.1:3000`. */
  readonly clientOrigin: string;
  readonly adminOrigin: string;
  readonly masterKey: string;
}

type Environment = Readonly<Record<string, string | undefined>>;

async function storedMasterKey(env: Environment): Promise<string> {
  const file = resolve(env.PENSTOCK_DATA_DIR ?? '.penstock', 'secrets.json');
  const text = await readFile(file, 'utf8').catch((cause: unknown) => {
    throw new Error(`No master key: set MASTER_KEY, or run this where ${file} can be read`, {
      cause,
    });
  });
  const { masterKey } = JSON.parse(text) as { masterKey?: string };
  if (!masterKey)
    throw new Error(
      `${file} holds no master key: set MASTER_KEY to the one that the platform was started with`,
    );
  return masterKey;
}

export async function readExampleSettings(env: Environment): Promise<ExampleSettings> {
  return {
    clientOrigin: env.CLIENT_URL ?? `http://127.0.0.1:${env.CLIENT_HTTP_PORT ?? 3000}`,
    adminOrigin: env.ADMIN_URL ?? `http://127.0.0.1:${env.ADMIN_HTTP_PORT ?? 3030}`,
    masterKey: env.MASTER_KEY || (await storedMasterKey(env)),
  };
}
