/** Who holds the process of the embedded server: this process itself, or the supervisor above it. */
import { type ChildProcess, spawn } from 'node:child_process';
import { open } from 'node:fs/promises';

/** How the server's shell is started. */
export interface ServerStart {
  readonly shell: string;
  readonly args: readonly string[];
  /** Working directory: the data folder. */
  readonly cwd: string;
  readonly env: NodeJS.ProcessEnv;
  readonly uid?: number | undefined;
  readonly gid?: number | undefined;
  /** Everything that the server prints is added to it. */
  readonly logFile: string;
  readonly socketFolder: string;
}

export interface ServerExit {
  readonly code: number | null;
  readonly signal: string | null;
}

export interface ServerKeeper {
  /** False for a process that only finds the server which another one starts. */
  readonly opens: boolean;
  /** Whether the server runs, and the folder of its socket: a restarted one must be where the others look for it. */
  find(): Promise<{ readonly running: boolean; readonly socketFolder?: string }>;
  /** Starts it. Rejects when that is not possible. */
  start(options: ServerStart): Promise<void>;
  /** Runs `listener` once, at the next end of the server. */
  onExit(listener: (exit: ServerExit) => void): void;
  /** Asks the server to shut down. */
  stop(): void;
}

/** Holds the server in this process: it ends with us, however we end. */
export function createOwnKeeper(): ServerKeeper {
  let child: ChildProcess | undefined;
  const listeners: ((exit: ServerExit) => void)[] = [];

  const onEnd = (own: ChildProcess, exit: ServerExit): void => {
    own.stdin?.destroy();
    for (const listener of listeners.splice(0)) listener(exit);
  };

  return {
    opens: true,
    find: async () => ({ running: false }),
    async start({ shell, args, cwd, env, uid, gid, logFile }) {
      const log = await open(logFile, 'a', 0o600);
      const identity = {
        ...(uid === undefined ? {} : { uid }),
        ...(gid === undefined ? {} : { gid }),
      };
      try {
        // A session of its own: Ctrl-C in the terminal is for us, we stop the server when we no longer need it.
        const own = spawn(shell, args, {
          cwd,
          env,
          ...identity,
          stdio: ['pipe', log.fd, log.fd],
          detached: true,
        });
        child = own;
        // The pipe breaks when the shell is gone before us; its exit says the same.
        own.stdin?.on('error', () => undefined);
        own.once('exit', (code, signal) => onEnd(own, { code, signal }));
        own.once('error', () => onEnd(own, { code: 1, signal: null }));
      } finally {
        await log.close();
      }
    },
    onExit: (listener) => void listeners.push(listener),
    stop: () => void child?.stdin?.end(),
  };
}
