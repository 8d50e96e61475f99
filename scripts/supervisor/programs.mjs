/**
 * Programs that workers want beside them, such as the sandboxes of functions. A worker is a large process, and to start
 * another one from there takes it 15 to 30 ms, in which it answers nobody; this process is small. The worker gets the
 * program's socket: nothing that is said through it passes here. src/kernel/child-programs.ts is the other end.
 */
import { spawn } from 'node:child_process';

/** Characters of what it says before it dies. */
const LAST_WORDS = 2_000;

export function createPrograms() {
  /** Of each worker, by its process. */
  const running = new Map();

  return {
    /** Starts what `program.start` of a worker's process asks for: `{id, program, args, channel}`. */
    start(worker, { id, program, args, channel }) {
      // `onLost`: the worker has gone meanwhile.
      const tell = (message, socket, onLost = () => undefined) => {
        if (!worker.connected) return onLost();
        worker.send({ id, ...message }, socket, (error) => error && onLost());
      };
      let child;
      try {
        child = spawn(program, args, {
          env: {},
          cwd: '/',
          stdio:
            channel === 0 ? ['pipe', 'ignore', 'ignore'] : ['ignore', 'ignore', 'pipe', 'pipe'],
          detached: process.platform !== 'win32',
        });
      } catch (error) {
        return tell({ type: 'program.failed', error: error.message });
      }
      child.once('error', (error) => tell({ type: 'program.failed', error: error.message }));
      if (child.pid === undefined) {
        // Without any pipe there is no list of them.
        for (const stream of child.stdio ?? []) stream?.destroy();
        return;
      }
      const own = running.get(worker) ?? new Set();
      running.set(worker, own.add(child));
      let said = '';
      child.stderr?.on('data', (chunk) => {
        said = (said + chunk.toString('utf8')).slice(-LAST_WORDS);
      });
      child.once('exit', (code, signal) => {
        own.delete(child);
        tell({ type: 'program.ended', how: signal ?? `code ${code}`, said });
      });
      const started = { type: 'program.started', pid: child.pid };
      tell(started, child.stdio[channel], () => child.kill('SIGKILL'));
    },
    /** A worker has ended: what runs for it ends too, also what stands still and cannot notice. */
    endOf(worker) {
      for (const child of running.get(worker) ?? []) child.kill('SIGKILL');
      running.delete(worker);
    },
  };
}
