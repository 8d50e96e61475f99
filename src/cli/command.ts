/** One word of the command line. */
export interface Command {
  readonly name: string;
  /** For `--help`. */
  readonly summary: string;
  /** Takes arguments of its own; others refuse them. */
  readonly takesArguments?: boolean;
  /** Answers the exit code. A `StartError` is printed as one line and exits with 1. */
  run(args: readonly string[]): Promise<number>;
}
