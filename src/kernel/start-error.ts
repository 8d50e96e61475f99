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

/** What the command line prints: one line for what the operator can mend or wait for; anything else is ours to mend. */
export function explainFailure(error: unknown, { withStack }: { withStack: boolean }): string {
  if (error instanceof StartError) return error.message;
  // A full disk, a database that went away, a table that is in use.
  if (error instanceof PenstockError && error.status >= NOT_NOW) return error.message;
  const bug = `${error instanceof Error ? error.message : String(error)} (this is a bug, please report it; LOG_LEVEL=debug shows where)`;
  return withStack && error instanceof Error ? `${bug}\n${error.stack}` : bug;
}
