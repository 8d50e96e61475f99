import { PenstockError } from './errors.ts';

/**
 * A reason not to start that the operator can remove: one line that says what
 * is wrong and what to do. The command line prints it and exits with 1.
 */
export class StartError extends Error {
  constructor(message: string, options?: { cause?: unknown }) {
    super(message, options);
    this.name = 'StartError';
  }
}

/** From here on a status says that a part which is needed fails us now. */
const NOT_NOW = 503;

/** What the system says of a file or folder is for the operator, whoever wanted to use it. */
const fileTroubles: ReadonlyMap<unknown, string> = new Map([
  ['EACCES', 'this user has no right to it'],
  ['EPERM', 'this user has no right to it'],
  ['EROFS', 'its file system is read only'],
  ['ENOSPC', 'there is no room left on the disk'],
  ['EDQUOT', 'this user has no room left on the disk'],
  ['ENOTDIR', 'what stands above it is no folder'],
  ['EISDIR', 'it is a folder'],
  ['ENAMETOOLONG', 'its name is too long'],
  ['EMFILE', 'too many files are open'],
  ['ENFILE', 'too many files are open'],
]);

function fileTrouble(error: unknown): string | undefined {
  if (!(error instanceof Error)) return undefined;
  const { code, path } = error as NodeJS.ErrnoException;
  const trouble = fileTroubles.get(code);
  if (trouble === undefined) return undefined;
  return path === undefined
    ? `A file cannot be used: ${trouble} (${code})`
    : `${path} cannot be used: ${trouble} (${code})`;
}

/** What the command line prints: one line for what the operator can mend or wait for; anything else is ours to mend. */
export function explainFailure(error: unknown, { withStack }: { withStack: boolean }): string {
  if (error instanceof StartError) return error.message;
  // A full disk, a database that went away, a table that is in use.
  if (error instanceof PenstockError && error.status >= NOT_NOW) return error.message;
  const trouble = fileTrouble(error);
  if (trouble !== undefined) return trouble;
  const bug = `${error instanceof Error ? error.message : String(error)} (this is a bug, please report it; LOG_LEVEL=debug shows where)`;
  return withStack && error instanceof Error ? `${bug}\n${error.stack}` : bug;
}
