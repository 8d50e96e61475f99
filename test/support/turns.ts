/** How often others have their turn beside a piece of work, whatever the speed of the machine. */
import { vi } from 'vitest';

/**
 * Turns of the event loop that `work` leaves to others. Each look at the clock finds a slice of time over, so that work in
 * slices gives way after each step.
 */
export async function turnsDuring(work: () => Promise<unknown>): Promise<number> {
  const began = performance.now();
  let looks = 0;
  const clock = vi.spyOn(performance, 'now').mockImplementation(() => began + 1_000 * ++looks);
  let turns = 0;
  let running = true;
  const count = (): void => {
    if (!running) return;
    turns += 1;
    setImmediate(count);
  };
  setImmediate(count);
  try {
    await work();
    return turns;
  } finally {
    running = false;
    clock.mockRestore();
  }
}
