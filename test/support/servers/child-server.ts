import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { descendants } from '../processes.ts';

/** A foreign server (PostgreSQL, Redis) for the time of a test. */
export interface ChildServerOptions {
  readonly command: string;
  readonly args: readonly string[];
  /** Throw-away folder, removed once the server is gone, however this process ended. */
  readonly folder: string;
  /** What the server prints when it takes connections. */
  readonly ready: RegExp;
  /** How to ask it to stop. */
  readonly stopSignal: 'INT' | 'TERM';
  /** Runs as this user and group; as ourselves unless set. */
  readonly uid?: number;
  readonly keepFolder?: boolean;
}

export interface ChildServer {
  /** True until the server has ended. */
  running(): boolean;
  /** To the server itself. */
  signal(signal: NodeJS.Signals): Promise<void>;
  stop(): Promise<void>;
}

/**
 * The server lives below a small shell that waits for either its end or the end of our pipe: should
 * this process be killed, the pipe breaks, the server stops and its folder goes.
 */
const lifeline = `
folder=$1 signal=$2; shift 2
trap "" INT HUP TERM
exec 3<&0
"$@" 3<&- </dev/null & server=$!
{ cat <&3 >/dev/null; kill -"$signal" "$server"; } 2>/dev/null &
exec 3<&-
wait "$server"; status=$?
[ -n "$folder" ] && rm -rf "$folder"
exit "$status"
`;

const startTimeoutMs = 30_000;

/** Starts a server and answers once it takes connections; an error carries what it printed last. */
export async function startChildServer(options: ChildServerOptions): Promise<ChildServer> {
  const folder = options.keepFolder ? '' : options.folder;
  const child = spawn(
    'sh',
    ['-c', lifeline, 'lifeline', folder, options.stopSignal, options.command, ...options.args],
    {
      cwd: options.folder,
      detached: true,
      stdio: ['pipe', 'pipe', 'pipe'],
      ...(options.uid === undefined ? {} : { uid: options.uid, gid: options.uid }),
    },
  );
  const exited = once(child, 'exit').then(() => child.stdin?.destroy());
  await outputMatches(child, options);
  return {
    running: () => child.exitCode === null && child.signalCode === null,
    async signal(signal) {
      const servers = (await descendants(child.pid ?? 0)).filter(({ command }) =>
        command.startsWith(options.command),
      );
      for (const { pid } of servers) process.kill(pid, signal);
    },
    async stop() {
      child.stdin?.destroy();
      await exited;
    },
  };
}

async function outputMatches(child: ChildProcess, options: ChildServerOptions): Promise<void> {
  let output = '';
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  const fail = (why: string) => {
    child.stdin?.destroy();
    reject(new Error(`${options.command} ${why}:\n${output.slice(-2000)}`));
  };
  const timer = setTimeout(() => fail(`was not ready after ${startTimeoutMs} ms`), startTimeoutMs);
  const read = (chunk: Buffer) => {
    output = (output + chunk.toString()).slice(-20_000);
    if (options.ready.test(output)) resolve();
  };
  child.stdout?.on('data', read);
  child.stderr?.on('data', read);
  child.once('error', (error) => fail(error.message));
  child.once('exit', (code) => fail(`ended with code ${code} before it was ready`));
  try {
    await promise;
  } finally {
    clearTimeout(timer);
  }
}
