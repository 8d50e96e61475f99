/**
 * Reads for whoever has a right that is asked for beside them: before, so that nothing is read for others, and after, so
 * that nothing is shown that was written once it had gone (docs/decisions/560-rights-to-files-are-confirmed.md).
 */

/** A right that comes and goes all the time: the last answer holds by what it was a moment before. */
const MAX_ATTEMPTS = 10;

/**
 * What `read` comes to while `ask`, which throws for who may not, lets it through. `isSame`: whether what the right was and
 * what it is now lead to the same; where they do not, it is read again.
 */
export async function readWhile<R, T>(
  ask: () => Promise<R>,
  read: (right: R) => Promise<T>,
  isSame: (before: R, now: R) => boolean = () => true,
): Promise<T> {
  let right = await ask();
  for (let attempt = 1; ; attempt += 1) {
    const answer = await read(right);
    const now = await ask();
    if (attempt === MAX_ATTEMPTS || isSame(right, now)) return answer;
    right = now;
  }
}
