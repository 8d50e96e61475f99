/**
 * The embedded PostgreSQL as a child of the supervisor. Workers say how it is started and are told
 * when it ends; when it runs, they find it here. Whatever is known about PostgreSQL stays with them.
 */
import { spawn } from 'node:child_process';
import { closeSync, openSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';

/** It writes everything to the disk before it ends. */
const STOP_TIMEOUT_MS = 20_000;

/** `onExit` is told `{code, signal}` when the server ends. */
export function createHeldServer(onExit) {
  let child;
  let socketFolder;

  const facts = () => (child ? { running: true, socketFolder } : { running: false, socketFolder });

  return {
    facts,
    /** `options`: `{shell, args, cwd, env, uid, gid, logFile, socketFolder}`. Answers `{error}` when it cannot be started. */
    start({ shell, args, cwd, env, uid, gid, logFile, socketFolder: sockets }) {
      if (child) return facts();
      socketFolder = sockets;
      let log;
      try {
        log = openSync(logFile, 'a', 0o600);
        const own = spawn(shell, args, {
          cwd,
          env,
          uid,
          gid,
          stdio: ['pipe', log, log],
          detached: true,
        });
        child = own;
        own.stdin.on('error', () => undefined);
        const end = (code, signal) => {
          if (child !== own) return;
          own.stdin.destroy();
          child = undefined;
          onExit({ code, signal });
        };
        own.once('error', () => end(1, null));
        own.once('exit', end);
      } catch (error) {
        child = undefined;
        return { running: false, error: error.message };
      } finally {
        if (log !== undefined) closeSync(log);
      }
      return facts();
    },
    /** Closing its standard input tells the shell around it to shut it down (src/kernel/database/embedded/lifeline.ts). */
    async stop() {
      const own = child;
      if (!own) return;
      const gone = new Promise((resolve) => own.once('exit', resolve));
      own.stdin.end();
      await Promise.race([gone, sleep(STOP_TIMEOUT_MS, undefined, { ref: false })]);
    },
  };
}
