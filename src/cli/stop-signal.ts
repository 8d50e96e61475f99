/** When to stop: a signal, a word of the supervisor, or the end of the process that started us. */
import type { Supervisor } from '../kernel/supervisor.ts';

/** Two signals within this many ms are one: a terminal and a launcher may both pass on the same Ctrl-C. */
const SAME_PRESS_MS = 400;

const exitCodes = { SIGINT: 130, SIGTERM: 143, SIGHUP: 129 } as const;

export interface StopSignal {
  /** Resolves at the first request to stop, with its name. */
  readonly requested: Promise<string>;
}

/**
 * Listens for requests to stop. Without a supervisor a second one while the first is being obeyed ends
 * the process at once; the embedded database still shuts down cleanly, it notices by its lifeline. With
 * one, only the supervisor decides about haste: systemd signals all processes of a service at once.
 */
export function listenForStop(supervisor: Supervisor | undefined): StopSignal {
  const { promise: requested, resolve } = Promise.withResolvers<string>();
  let firstAt: number | undefined;

  const onRequest = (name: string, exitCode: number): void => {
    if (firstAt === undefined) {
      firstAt = performance.now();
      resolve(name);
    } else if (!supervisor && performance.now() - firstAt > SAME_PRESS_MS) {
      process.exit(exitCode);
    }
  };

  for (const [name, exitCode] of Object.entries(exitCodes))
    process.on(name, () => onRequest(name, exitCode));
  supervisor?.onStop(resolve);
  // Started with a channel to the launcher: without the launcher nobody could stop us.
  if (process.connected) process.once('disconnect', () => resolve('the end of the launcher'));
  return { requested };
}
