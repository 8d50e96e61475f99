/**
 * A sandbox process: the only place where user code runs. It begins with what it needs, gives up its rights, and from then
 * on talks to the platform through one socket. It ends when that socket ends.
 */
import { readdirSync } from 'node:fs';
import { Socket } from 'node:net';
import { setPriority } from 'node:os';
import {
  encodeFrame,
  FrameReader,
  type FromSandbox,
  type LoadedSource,
  type ToSandbox,
} from '../protocol.ts';
import type { Source } from './compile.ts';
import { examine } from './examine.ts';
import { Programs } from './programs.ts';
import { SandboxRun } from './run.ts';
import { CROWD } from './run-words.ts';
import { isParserBroken, NoParser, placesOf } from './typescript.ts';
import { watch as watchOfProcess } from './watch.ts';

/** Of the socket to the platform. */
const CHANNEL = 3;
/** How often what runs is looked at. */
const WATCH_MS = 10;
/** `nobody` of every base image. */
const NOBODY = 65_534;

/** Megabytes that the process may have before what uses most is ended. */
const mostMegabytes = Number(process.argv[2] ?? 1_024);
/** Of the threads of isolates; this one keeps its own, so that it can end what they do. */
const isolateNiceness = Number(process.argv[3] ?? 0);

function giveUpRights(): void {
  if (process.getuid?.() === 0) {
    process.setgroups?.([]);
    process.setgid?.(NOBODY);
    process.setuid?.(NOBODY);
  }
}

/** Read into again and again: a piece of memory for each read costs more than copying what most of them bring. */
const received = Buffer.allocUnsafeSlow(65_536);
const socket = new Socket({
  ...{ fd: CHANNEL, readable: true, writable: true },
  onread: {
    buffer: received,
    callback(bytes) {
      reader.push(Buffer.from(received.subarray(0, bytes)));
      return true;
    },
  },
});
/** `process.exit` would wait for the isolates, and code that never ends would go on without the platform. */
const end = (): unknown => process.kill(process.pid, 'SIGKILL');
socket.on('close', end).on('error', end);

let corked = false;
function send(header: FromSandbox, text = ''): void {
  if (!corked) {
    corked = true;
    socket.cork();
    setImmediate(() => {
      corked = false;
      socket.uncork();
    });
  }
  socket.write(encodeFrame(header, text));
}

/** None where the system does not list them. */
function ownThreads(): readonly string[] {
  try {
    return readdirSync('/proc/self/task');
  } catch {
    return [];
  }
}

/** Threads come and go with what runs in isolates, and begin with the niceness of this one. */
let lowered: ReadonlySet<string> = new Set();

/** A crowd of isolates would leave this thread no time to begin and to end their runs. Where threads cannot be listed, nothing changes. */
function lowerIsolates(): void {
  const threads = ownThreads();
  for (const thread of threads) {
    if (Number(thread) === process.pid || lowered.has(thread)) continue;
    try {
      setPriority(Number(thread), isolateNiceness);
    } catch {
      // It has ended meanwhile, or is lower already.
    }
  }
  lowered = new Set(threads);
}

/** The thread that looks at this one keeps its niceness as well. */
async function keepWatch(): Promise<void> {
  const before = new Set(ownThreads());
  await watchOfProcess().ready();
  lowered = new Set([...lowered, ...ownThreads().filter((thread) => !before.has(thread))]);
}

const programs = new Programs();
const runs = new Map<number, SandboxRun>();
let watching: NodeJS.Timeout | undefined;

/** Milliseconds of processor time that the process has used. */
function ownCpuMs(): number {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1_000;
}

let usedBefore = 0;

/**
 * What an isolate says that it has used counts the time in which it waited for a processor. All together have used no
 * more than the process.
 */
function watch(): void {
  if (runs.size === 0) {
    clearInterval(watching);
    watching = undefined;
    return;
  }
  const now = performance.now();
  const used = ownCpuMs();
  let claimed = 0;
  let computing = 0;
  for (const run of runs.values()) {
    const own = run.claim();
    claimed += own;
    if (own > 0) computing += 1;
  }
  const share = claimed > 0 ? Math.min(1, (used - usedBefore) / claimed) : 1;
  usedBefore = used;
  for (const run of runs.values()) run.watch(now, share, computing);
  if (computing > CROWD) lowerIsolates();
  if (process.memoryUsage.rss() > mostMegabytes * 1_048_576) endLargest();
}

/** Which isolate has the memory cannot be asked while it runs: what uses the processor most is what fills it. */
function endLargest(): void {
  let most: SandboxRun | undefined;
  for (const run of runs.values()) if (!most || run.cpuMs > most.cpuMs) most = run;
  most?.end('memory');
}

function begin(message: Extract<ToSandbox, { t: 'run' }>, input: string): void {
  const { id, key, leftMs, limits } = message;
  const known = programs.sourceOf(key);
  if (!known) {
    send({ t: 'missing', id });
    return;
  }
  const source = { file: known.file, places: () => run.doing(() => placesOf(known)) };
  const deadlineAt = performance.now() + leftMs;
  const run: SandboxRun = new SandboxRun({
    ...{ id, key, source, limits, input, deadlineAt, send, done: finish },
    again: (one, sandbox) => programs.beginAgain(key, one, sandbox),
  });
  runs.set(id, run);
  if (!watching) {
    usedBefore = ownCpuMs();
    watching = setInterval(watch, WATCH_MS);
  }
  programs.start(key, run);
}

function finish(run: SandboxRun, fit: boolean): void {
  runs.delete(run.id);
  const { sandbox, parts } = run;
  if (!sandbox) {
    programs.withdraw(parts.key, run.id);
    return;
  }
  programs.release(parts.key, sandbox, fit, run.spentMs);
}

const notExamined = { name: 'Error', message: 'The code could not be examined' };

async function check(
  { id, file }: Extract<ToSandbox, { t: 'check' }>,
  code: string,
): Promise<void> {
  try {
    const { facts, text } = await examine(code, file);
    send({ t: 'checked', id, facts }, text);
    if (isParserBroken()) send({ t: 'worn' });
  } catch (error) {
    // The platform hears of that with the text that has broken the parser, and asks another process.
    if (error instanceof NoParser) return;
    const facts = { form: 'body', language: 'javascript', packages: [] } as const;
    send({ t: 'checked', id, facts: { ...facts, error: notExamined } });
  }
}

function receive(message: ToSandbox, text: string): void {
  switch (message.t) {
    case 'load': {
      const source: Source = {
        ...(JSON.parse(text) as LoadedSource),
        form: message.form,
        file: message.file,
      };
      programs.load(message.key, source);
      break;
    }
    case 'drop':
      programs.drop(message.key);
      break;
    case 'check':
      void check(message, text);
      break;
    case 'run':
      begin(message, text);
      break;
    case 'answer':
      runs.get(message.id)?.answer(message, text);
      break;
    case 'cancel':
      runs.get(message.id)?.end('cancelled');
  }
}

const reader = new FrameReader<ToSandbox>(receive);
giveUpRights();
void keepWatch();
// What user code leaves behind must not end the process for others.
process.on('unhandledRejection', () => undefined);
send({ t: 'ready' });
