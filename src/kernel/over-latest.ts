/** A change of what is read first and stored whole, made over what is stored at that moment. */
import { errors } from './errors.ts';

/** Rounds against others who change the same. Each lost round means that a change of theirs was stored. */
const ATTEMPTS = 50;

/**
 * Runs `work`, which reads, decides and stores if what it has read is the latest still, until it has stored. It answers
 * nothing where somebody else was faster, and finds what they have stored when it reads again. Throws 409 when that goes on.
 */
export async function overLatest<T>(what: string, work: () => Promise<T | undefined>): Promise<T> {
  for (let attempt = 1; attempt <= ATTEMPTS; attempt += 1) {
    const stored = await work();
    if (stored !== undefined) return stored;
  }
  throw errors.CONFLICT({
    message: `${what} is being changed by others all the time: try again`,
    retryAfter: 1,
  });
}
