/** Code of guides, run against a platform as it stands there. */
import { execFile } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { io } from 'socket.io-client';
import type { Json } from '../../test/support/api.ts';
import type { TestPlatform } from '../../test/support/platform.ts';
import { projectRoot } from '../routes.ts';

export type Names = Readonly<Record<string, unknown>>;
export type Fetch = (url: string | URL, init?: Json) => Promise<Response>;

export const textOfGuide = (guide: string): Promise<string> =>
  readFile(join(projectRoot, `docs/guides/${guide}.md`), 'utf8');

/** The code blocks of a guide by their kind, such as `js client`; those of one kind behind one another. */
export async function blocksOf(guide: string): Promise<ReadonlyMap<string, string>> {
  const text = await textOfGuide(guide);
  const blocks = new Map<string, string>();
  for (const [, kind = '', code = ''] of text.matchAll(/^```([^\n]+)\n([\s\S]*?)^```$/gm))
    blocks.set(kind, (blocks.get(kind) ?? '') + code);
  return blocks;
}

export interface GuideRunner {
  /** Runs a program; what it would import is given. Answers the variables in `answers`. */
  run(code: string | undefined, given: Names, answers?: string): Promise<Json>;
  /** Runs shell commands. Throws for what the platform refused. */
  runCommands(code: string | undefined): Promise<void>;
}

const AsyncFunction = (async () => undefined).constructor as new (
  ...code: string[]
) => (...values: unknown[]) => Promise<Json>;

export function createGuideRunner({ addresses, masterKey }: TestPlatform): GuideRunner {
  const here = (code: string | undefined): string => {
    if (code === undefined) throw new Error('The guide has no such block');
    return code
      .replaceAll(/http:\/\/127\.0\.0\.1:3000|https:\/\/api\.example\.com/g, addresses.client)
      .replaceAll('http://127.0.0.1:3030', addresses.admin);
  };
  return {
    async run(code, given, answers = '') {
      const program = here(code)
        .replaceAll(/^import [^\n]+\n/gm, '')
        .replaceAll(/^export /gm, '');
      const names = { process: { env: { KEY: masterKey } }, ...given };
      const call = new AsyncFunction(...Object.keys(names), `${program}\nreturn { ${answers} };`);
      return call(...Object.values(names));
    },
    async runCommands(code) {
      const { stdout } = await promisify(execFile)('bash', ['-euo', 'pipefail', '-c', here(code)], {
        env: { ...process.env, KEY: masterKey },
      });
      if (stdout === '' || stdout.includes('"status":4')) throw new Error(`refused: ${stdout}`);
    },
  };
}

/** The client of the guide for browsers, with what a page would give it. */
export async function pageClient({ run }: GuideRunner, given: Names = {}): Promise<Json> {
  const answers = 'ApiError, session, signUp, signIn, signOut, request, live';
  return run((await blocksOf('browser-clients')).get('js client'), { io, ...given }, answers);
}
