/**
 * Replaces a worker whose event loop stands still: it sends a sign of life every second, and when
 * none has come for long enough it is asked what it does (examine-stuck.mjs), reported and ended.
 * In the supervisor and not in a thread of the worker: a thread costs 18 MB in each of them.
 */
import { spawn } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { fileURLToPath } from 'node:url';

const LOOK_EVERY_MS = 500;
/** A stuck worker has this many ms to say what it does. */
const EXAMINE_MS = 5_000;

const examiner = fileURLToPath(new URL('examine-stuck.mjs', import.meta.url));

export function createWatchdog(report) {
  const watched = new Set();

  const look = () => {
    for (const worker of watched) {
      // Counted in looks and not in time: a supervisor that was paused itself must not take that for silence.
      if (!isPaused(worker.child.pid)) worker.silentMs += LOOK_EVERY_MS;
      if (worker.silentMs < worker.limitMs) continue;
      watched.delete(worker);
      void end(worker);
    }
  };
  const timer = setInterval(look, LOOK_EVERY_MS);
  timer.unref();

  const end = async (worker) => {
    const { child, slot, limitMs } = worker;
    const found = await examine(worker);
    report(
      'error',
      { worker: slot, pid: child.pid, ...found },
      `The event loop of this process did not turn for ${limitMs / 1000} s: it is ended and replaced`,
    );
    child.kill('SIGKILL');
  };

  return {
    /** For the debugger of Node, which only opens when a stuck worker is examined. Nothing when the operator debugs themselves. */
    reservePort: () =>
      /--inspect/.test(process.env.NODE_OPTIONS ?? '') ? Promise.resolve(undefined) : freePort(),
    watch(worker, limitMs) {
      if (!limitMs || !worker.inspectPort) return;
      worker.limitMs = limitMs;
      worker.silentMs = 0;
      watched.add(worker);
    },
    beat(worker) {
      worker.silentMs = 0;
    },
    forget: (worker) => void watched.delete(worker),
    close: () => clearInterval(timer),
  };
}

/** Whether somebody stopped the process on purpose (SIGSTOP, a debugger). Linux only. */
function isPaused(pid) {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
    return /^[Tt]/.test(stat.slice(stat.lastIndexOf(')') + 2));
  } catch {
    return false;
  }
}

/** A port of the loopback address that is free now; nothing when there is none. */
function freePort() {
  return new Promise((resolve) => {
    const server = createServer();
    server.once('error', () => resolve(undefined));
    server.listen(0, '127.0.0.1', () => {
      const { port } = server.address();
      server.close(() => resolve(port));
    });
  });
}

/** What the worker is doing: `{operation, requestId, stack}`; empty when it does not say. */
function examine({ child, inspectPort, program }) {
  return new Promise((resolve) => {
    const helper = spawn(program, [examiner, String(child.pid), String(inspectPort)], {
      stdio: ['ignore', 'pipe', 'ignore'],
    });
    const timer = setTimeout(() => helper.kill('SIGKILL'), EXAMINE_MS);
    let text = '';
    helper.stdout.on('data', (chunk) => (text += chunk));
    helper.once('error', () => resolve({}));
    helper.once('close', () => {
      clearTimeout(timer);
      try {
        resolve(JSON.parse(text));
      } catch {
        resolve({});
      }
    });
  });
}
