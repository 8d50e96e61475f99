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
