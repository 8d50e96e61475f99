/** Errors that name the place in the imported document. */
import { PenstockError } from '../errors.ts';

/**
 * Runs work on one document. What it refuses is refused with `place` in front of every path, and as a 400
 * where the work would say 404: within a document, a thing that is missing is a mistake of the document.
 */
export async function placed<T>(place: string, work: () => T | Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    throw error instanceof PenstockError && error.status < 500 ? withPlace(error, place) : error;
  }
}

function withPlace(error: PenstockError, place: string): PenstockError {
  const problems = error.errors ?? [{ path: '', rule: 'valid', message: error.message }];
  const errors = problems.map((problem) => ({ ...problem, path: problem.path === '' ? place : `${place}.${problem.path}` }));
  const { code, status, retryAfter, detail } = error;
  return new PenstockError(code, status === 404 ? 400 : status, error.message, {
    message: errors.map(({ path, message }) => `${path}: ${message}`).join('; '),
    errors,
    ...(retryAfter === undefined ? {} : { retryAfter }),
    ...(detail === undefined ? {} : { detail }),
    cause: error,
  });
}
