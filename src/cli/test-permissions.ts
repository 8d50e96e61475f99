/** `penstock test permissions <file> ...`: holds permission test files, without a server and without a database. */
import { readFile } from 'node:fs/promises';
import { parse } from 'yaml';
import { StartError } from '../kernel/start-error.ts';
import {
  problemLines,
  readPermissionTests,
  resultLines,
  runPermissionTests,
} from '../modules/authorization/index.ts';

export const testUsage =
  'Usage: penstock test permissions <file.yaml> ... (see docs/guides/permission-tests.md)';

/** Answers the exit code: 0 when everything holds. Throws `StartError` for what cannot be read. */
export async function testPermissions(
  args: readonly string[],
  print: (text: string) => void,
): Promise<number> {
  const [what, ...files] = args;
  if (what !== 'permissions' || files.length === 0) throw new StartError(testUsage);
  let failed = false;
  for (const file of files) {
    const { lines, holds } = await testFile(file);
    print(`${holds ? 'ok' : 'FAILED'} ${file}\n${lines.join('\n')}\n`);
    failed ||= !holds;
  }
  return failed ? 1 : 0;
}

interface Outcome {
  readonly lines: readonly string[];
  readonly holds: boolean;
}

async function testFile(file: string): Promise<Outcome> {
  const tests = readPermissionTests(await readDocument(file));
  if ('length' in tests) return { lines: problemLines(tests), holds: false };
  const result = await runPermissionTests(tests);
  return { lines: resultLines(result), holds: result.failures.length === 0 };
}

/** YAML, and with it JSON. */
async function readDocument(file: string): Promise<unknown> {
  const text = await readFile(file, 'utf8').catch((error: NodeJS.ErrnoException) => {
    throw new StartError(`${file} cannot be read (${error.code ?? error.message})`, {
      cause: error,
    });
  });
  try {
    return parse(text) as unknown;
  } catch (error) {
    // Beside problems of the text: aliases that would grow without end.
    throw new StartError(
      `${file} is not valid YAML: ${error instanceof Error ? error.message : String(error)}`,
      { cause: error },
    );
  }
}
