/** The files of a conformance run, in whichever form they are. */
import type { Api } from '../../test/support/api.ts';
import { readCases } from './cases.ts';
import { isPublicForm, readPublicCases } from './forms/read.ts';
import { type PublicResult, runPublicCase } from './public-run.ts';
import { type CaseResult, runCase } from './run.ts';

export type Outcome = CaseResult & Partial<PublicResult>;
type Asking = (admin: Api) => Promise<Outcome>;

interface ReadFiles {
  readonly asking: readonly Asking[];
  /** Files that cannot be read, each with the reason. */
  readonly unread: readonly string[];
}

export async function readFiles(files: readonly string[]): Promise<ReadFiles> {
  const read = await Promise.allSettled(files.map(askingOf));
  const unread = read.flatMap((one, at) =>
    one.status === 'rejected' ? [`${files[at]} cannot be read: ${reasonOf(one.reason)}`] : [],
  );
  return { asking: read.flatMap((one) => (one.status === 'fulfilled' ? one.value : [])), unread };
}

async function askingOf(file: string): Promise<readonly Asking[]> {
  if (isPublicForm(file))
    return (await readPublicCases(file)).map((one) => (admin) => runPublicCase(admin, one));
  return (await readCases(file)).map((one) => (admin) => runCase(admin, one));
}

function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  return 'code' in error && error.code === 'ENOENT' ? 'there is no such file' : error.message;
}
