/**
 * The supervisor: starts the processes of the platform (workers), replaces those that crash or whose
 * event loop stands still, and holds the embedded PostgreSQL, so that the database outlives a worker.
 * It is the process that stands behind `npm start` anyway, and has no dependencies.
 *
 * Workers talk to it over the channel of Node: see src/kernel/supervisor.ts for the messages.
 */
import { spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { rm } from 'node:fs/promises';
import { constants } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';
import { createHeldServer } from './held-server.mjs';
import { createPrograms } from './programs.mjs';
import { createWatchdog } from './watchdog.mjs';

/** One worker that crashes more often than this within a minute: starting it again does not help. */
const CRASHES_PER_MINUTE = 5;
const MINUTE_MS = 60_000;
/** The first replacement comes at once, the next ones after 250, 500, 1,000 ms. */
const BACK_OFF_MS = 250;
/** Two signals within this many ms are one: a terminal and npm may both pass on the same Ctrl-C. */
const SAME_PRESS_MS = 400;

/** One JSON object per line, like the log of the platform. */
export const report = (level, fields, message) =>
  void process.stderr.write(
    `${JSON.stringify({ level, time: new Date().toISOString(), ...fields, message })}\n`,
  );

/**
 * Runs the platform until it is told to stop; answers the exit code.
 * `command`: `{program, flags, args, cwd, env}` of one worker.
 */
export function supervise(command) {
  return new Supervisor(command).run();
}

class Supervisor {
  #command;
  /** Tells what its workers leave in the data folder from what those of earlier runs have left. */
  #run = randomUUID();
  #workers = new Map();
  #server = createHeldServer((exit) => this.#tellFirst({ type: 'database.exited', ...exit }));
  #programs = createPrograms();
  #lockFile;
  #started = false;
  #stopping = false;
  #failed = false;
  /** When each worker crashed in the last minute, by its slot: what hits all of them once is no circle. */
  #crashes = new Map();
  #watchdog = createWatchdog(report);
  #done;

  constructor(command) {
    this.#command = command;
  }

  async run() {
    const done = new Promise((resolve) => {
      this.#done = resolve;
    });
    this.#listenForSignals();
    this.#start(0);
    const code = await done;
    this.#watchdog.close();
    await this.#server.stop();
    if (this.#lockFile) await rm(this.#lockFile, { force: true }).catch(() => undefined);
    return code;
  }

  async #start(slot, again = false) {
    const { program, flags, args, cwd, env } = this.#command;
    const inspectPort = await this.#watchdog.reservePort();
    if (this.#stopping) return this.#finishIfAlone(0);
    const child = spawn(
      program,
      [...flags, ...(inspectPort ? [`--inspect-port=127.0.0.1:${inspectPort}`] : []), ...args],
      {
        cwd,
        env: {
          ...env,
          PENSTOCK_RUN: this.#run,
          PENSTOCK_WORKER: String(slot),
          PENSTOCK_WORKER_AGAIN: again ? '1' : '',
        },
        stdio: ['inherit', 'inherit', 'inherit', 'ipc'],
      },
    );
    const worker = { slot, child, ready: false, inspectPort, program };
    this.#workers.set(slot, worker);
    child.on('message', (message) => this.#onMessage(worker, message));
    let ended = false;
    const end = (code, signal, error) => {
      if (ended) return;
      ended = true;
      if (error) report('error', { error: error.message }, `${program} could not be started`);
      this.#onExit(worker, code ?? (signal ? 128 + (constants.signals[signal] ?? 0) : 1), signal);
    };
    child.once('error', (error) => end(1, null, error));
    child.once('exit', (code, signal) => end(code, signal));
  }

  #onMessage(worker, message) {
    switch (message?.type) {
      case 'alive':
        return this.#watchdog.beat(worker);
      case 'lock':
        this.#lockFile = message.file;
        return;
      case 'ready':
        return this.#onReady(worker, message);
      case 'database.find':
        return send(worker, { type: 'database.found', id: message.id, ...this.#server.facts() });
      case 'database.start':
        return send(worker, {
          type: 'database.started',
          id: message.id,
          ...this.#server.start(message.options),
        });
      case 'program.start':
        return this.#programs.start(worker.child, message);
      case 'database.stop':
        return void this.#server.stop();
    }
  }

  #onReady(worker, { workers, watchdogMs }) {
    worker.ready = true;
    this.#watchdog.watch(worker, watchdogMs);
    if (this.#started || this.#stopping) return;
    this.#started = true;
    // The others come when the first has made or migrated the database.
    for (let slot = 1; slot < workers; slot += 1) void this.#start(slot);
  }

  #onExit(worker, code, signal) {
    this.#workers.delete(worker.slot);
    this.#watchdog.forget(worker);
    this.#programs.endOf(worker.child);
    const fields = {
      worker: worker.slot,
      pid: worker.child.pid,
      code,
      ...(signal ? { signal } : {}),
    };
    if (this.#stopping || !this.#started) {
      // A start that failed has said why, unless it was killed, as the system does when memory is short.
      if (signal && !this.#stopping)
        report('error', fields, 'The platform was killed before it served: start it again');
      if (code !== 0) this.#failed = true;
      return this.#finishIfAlone(code);
    }
    // Somebody asked this one process to end: it is replaced, and nothing is wrong.
    if (code === 0) return void this.#start(worker.slot, true);
    const now = performance.now();
    const earlier = this.#crashes.get(worker.slot) ?? [];
    const crashes = [...earlier.filter((at) => now - at < MINUTE_MS), now];
    this.#crashes.set(worker.slot, crashes);
    if (crashes.length > CRASHES_PER_MINUTE) {
      report(
        'error',
        fields,
        `The platform crashed ${crashes.length} times within a minute and is not started again: the lines above say why`,
      );
      this.#failed = true;
      return this.#stop('SIGTERM');
    }
    report('error', fields, 'A process of the platform ended by itself and is replaced');
    void this.#replace(worker.slot, crashes.length);
  }

  async #replace(slot, crashes) {
    const wait = crashes < 2 ? 0 : BACK_OFF_MS * 2 ** (crashes - 2);
    await sleep(wait);
    if (this.#stopping) this.#finishIfAlone(0);
    else await this.#start(slot, true);
  }

  #finishIfAlone(code) {
    if (this.#workers.size === 0) this.#done(this.#failed ? code || 1 : 0);
  }

  #stop(signal) {
    this.#stopping = true;
    for (const worker of this.#workers.values()) send(worker, { type: 'stop', signal });
    this.#finishIfAlone(0);
  }

  #listenForSignals() {
    let firstAt;
    const onSignal = (signal) => {
      firstAt ??= performance.now();
      if (!this.#stopping) return this.#stop(signal);
      if (performance.now() - firstAt <= SAME_PRESS_MS) return;
      this.#failed = true;
      for (const worker of this.#workers.values()) worker.child.kill('SIGKILL');
    };
    for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'])
      process.on(signal, () => onSignal(signal));
    this.#stopWithNpm();
  }

  /** npm that is killed tells nobody: without this the platform would run on. */
  #stopWithNpm() {
    if (process.env.npm_lifecycle_event === undefined) return;
    const npm = process.ppid;
    const watch = setInterval(() => {
      if (process.ppid === npm) return;
      clearInterval(watch);
      if (!this.#stopping) this.#stop('SIGTERM');
    }, 250);
    watch.unref();
  }

  #tellFirst(message) {
    const first = this.#workers.get(0);
    if (first) send(first, message);
  }
}

/** The worker may have gone in this moment. */
function send(worker, message) {
  if (worker.child.connected) worker.child.send(message, () => undefined);
}
