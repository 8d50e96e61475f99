/** The command line: picks the command, prints what failed, sets the exit code. */
import { type Command, helpText } from './cli/command.ts';
import { explainFailure, StartError } from './kernel/start-error.ts';
import { version } from './kernel/version.ts';

/** Loaded only when they run: `--help` answers at once. */
const commands: readonly Command[] = [
  {
    name: 'start',
    summary: 'runs the platform',
    run: async () => (await import('./cli/start.ts')).start(),
  },
  {
    name: 'backup',
    summary:
      '<file>: writes everything into one file, also while the platform runs; verify <file>: proves a backup',
    takesArguments: true,
    usage: async () => (await import('./cli/backup.ts')).backupUsage,
    run: async (args) => (await import('./cli/backup.ts')).backup(args),
  },
  {
    name: 'restore',
    summary: '<file>: puts a backup into an empty data folder or database',
    takesArguments: true,
    usage: async () => (await import('./cli/backup.ts')).backupUsage,
    run: async (args) => (await import('./cli/backup.ts')).restore(args),
  },
  {
    name: 'state',
    summary: 'plan|apply|export <file or folder>: the state of a running platform as files',
    takesArguments: true,
    usage: async () => (await import('./cli/state/arguments.ts')).stateUsage,
    run: async (args) => (await import('./cli/state.ts')).state(args),
  },
  {
    name: 'functions',
    summary:
      'pull|push <folder>, logs: functions as files, stored as they are written, and what they log',
    takesArguments: true,
    usage: async () => (await import('./cli/functions.ts')).functionsUsage,
    run: async (args) => (await import('./cli/functions.ts')).functions(args),
  },
  {
    name: 'doctor',
    summary: 'looks at the installation and says what to do; --json for programs',
    takesArguments: true,
    usage: async () => (await import('./cli/doctor.ts')).doctorUsage,
    run: async (args) => (await import('./cli/doctor.ts')).doctor(args),
  },
  {
    name: 'test',
    summary: 'permissions <file.yaml> ...: holds permission tests',
    takesArguments: true,
    usage: async () => (await import('./cli/test-permissions.ts')).testUsage,
    run: async (args) =>
      (await import('./cli/test-permissions.ts')).testPermissions(
        args,
        (text) => void process.stdout.write(text),
      ),
  },
];

async function main(args: readonly string[]): Promise<number> {
  if (args.includes('--help') || args.includes('-h')) {
    const asked = commands.find(({ name }) => name === args[0]);
    process.stdout.write(asked?.usage ? `${await asked.usage()}\n` : helpText(commands));
    return 0;
  }
  if (args.includes('--version') || args.includes('-v')) {
    process.stdout.write(`${version}\n`);
    return 0;
  }
  const [name = 'start', ...rest] = args;
  const command = commands.find((each) => each.name === name);
  if (!command) throw new StartError(`There is no command "${name}": see penstock --help`);
  if (rest.length > 0 && !command.takesArguments)
    throw new StartError(`"${name}" knows no argument "${rest[0]}": see penstock --help`);
  return command.run(rest);
}

try {
  process.exit(await main(process.argv.slice(2)));
} catch (error) {
  process.stderr.write(
    `${explainFailure(error, { withStack: process.env.LOG_LEVEL === 'debug' })}\n`,
  );
  process.exit(1);
}
