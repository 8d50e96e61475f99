/** What the operating system says, in the words of providers. */
import { ProviderError, type ProviderProblem } from '../provider.ts';

const problems = new Map<string, ProviderProblem>([
  ['ENOENT', 'NOT_FOUND'],
  ['ENOTDIR', 'NOT_FOUND'],
  ['ENOTEMPTY', 'NOT_EMPTY'],
  ['ENOSPC', 'NO_SPACE'],
  ['EDQUOT', 'NO_SPACE'],
  ['EFBIG', 'NO_SPACE'],
  ['EACCES', 'REFUSED'],
  ['EPERM', 'REFUSED'],
  ['EROFS', 'REFUSED'],
  ['ELOOP', 'INVALID_PLACE'],
  ['ENAMETOOLONG', 'INVALID_PLACE'],
  ['ABORT_ERR', 'ABORTED'],
]);

export const codeOf = (error: unknown): string | undefined =>
  error instanceof Error && 'code' in error && typeof error.code === 'string'
    ? error.code
    : undefined;

/** Errors without a meaning of their own (EIO, EMFILE, ...) are `UNAVAILABLE`: another try may work. */
export function diskErrorOf(error: unknown): ProviderError {
  if (error instanceof ProviderError) return error;
  const message = error instanceof Error ? error.message : String(error);
  return new ProviderError(problems.get(codeOf(error) ?? '') ?? 'UNAVAILABLE', message, {
    cause: error,
  });
}

/** Runs work on files; what fails is a `ProviderError`. */
export async function onDisk<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    throw diskErrorOf(error);
  }
}

/** Runs work for which a missing file is an answer of its own. */
export async function unlessMissing<T>(work: () => Promise<T>): Promise<T | undefined> {
  try {
    return await work();
  } catch (error) {
    const code = codeOf(error);
    if (code === 'ENOENT' || code === 'ENOTDIR') return undefined;
    throw diskErrorOf(error);
  }
}
