/**
 * Asks a process that hangs in one piece of JavaScript what it is doing, through Node's debugger,
 * which answers in the middle of a loop or a regular expression. The debugger listens on the
 * loopback address, and only from now until the process is ended, a moment later.
 *
 * Usage: node examine-stuck.mjs <pid> <port>; prints {operation, requestId, stack} as JSON.
 */
import { setTimeout as sleep } from 'node:timers/promises';

const ATTEMPTS = 30;
const PAUSE_MS = 100;
/** Set by src/kernel/supervisor.ts. */
const question = `JSON.stringify(globalThis[Symbol.for('penstock.running')]?.() ?? {})`;

const [pid, port] = process.argv.slice(2).map(Number);

async function debuggerAddress() {
  process.kill(pid, 'SIGUSR1');
  for (let attempt = 0; attempt < ATTEMPTS; attempt += 1) {
    const list = await fetch(`http://127.0.0.1:${port}/json/list`).then(
      (response) => response.json(),
      () => undefined,
    );
    if (list?.[0]) return list[0].webSocketDebuggerUrl;
    await sleep(PAUSE_MS);
  }
  throw new Error('The debugger does not answer');
}

const socket = new WebSocket(await debuggerAddress());
socket.addEventListener('open', () =>
  socket.send(
    JSON.stringify({
      id: 1,
      method: 'Runtime.evaluate',
      params: { expression: question, returnByValue: true },
    }),
  ),
);
socket.addEventListener('message', ({ data }) => {
  const { id, result } = JSON.parse(data);
  if (id !== 1) return;
  process.stdout.write(result?.result?.value ?? '{}', () => process.exit(0));
});
