/** The text of `--help`. */
import { settingsHelp } from '../kernel/settings.ts';
import type { Command } from './command.ts';

export function helpText(commands: readonly Command[]): string {
  const width = Math.max(...commands.map(({ name }) => name.length));
  const list = commands.map(({ name, summary }) => `  ${name.padEnd(width)}  ${summary}`).join('\n');
  return `Usage: penstock [command]      (or: npm start -- [options])

Commands (start when none is given):
${list}

Options:
  --help     this text
  --version  the version

Environment [default]:
${settingsHelp()}
`;
}
