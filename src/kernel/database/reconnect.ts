/** How connections that were lost come back. */
import { setTimeout as sleep } from 'node:timers/promises';

const FIRST_DELAY_MS = 20;
const LONGEST_DELAY_MS = 2_000;

/** Tries until it works or `givenUp` answers true, waiting longer each time. */
export async function keepTrying(attempt: () => Promise<void>, givenUp: () => boolean): Promise<void> {
  for (let delay = FIRST_DELAY_MS; !givenUp(); delay = Math.min(delay * 2, LONGEST_DELAY_MS)) {
    try {
      return await attempt();
    } catch {
      // The loss itself was logged; each further attempt would only repeat it.
      await sleep(delay, undefined, { ref: false });
    }
  }
}
