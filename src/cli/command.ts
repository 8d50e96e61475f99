import { settingsHelp } from '../kernel/settings/settings.ts';

/** One word of the command line. */
export interface Command {
  readonly name: string;
  /** For `--help`. */
  readonly summary: string;
  /** Takes arguments of its own; others refuse them. */
  readonly takesArguments?: boolean;
  /** What `--help` behind its name says; that of the whole command line where there is nothing more to say. */
  usage?(): Promise<string>;
  /** Answers the exit code. A `StartError` is printed as one line and exits with 1. */
  run(args: readonly string[]): Promise<number>;
}

/* The text of `--help`. */

export function helpText(commands: readonly Command[]): string {
  const width = Math.max(...commands.map(({ name }) => name.length));
  const list = commands
    .map(({ name, summary }) => `  ${name.padEnd(width)}  ${summary}`)
    .join('\n');
  return `Usage: penstock [command]      (or: npm start -- [options])

Commands (start when none is given):
${list}

Options:
  --help     this text; behind a command, that of the command
  --version  the version

Environment [default]:
${settingsHelp()}
`;
}
