/**
 * Looks at what runs on the thread of the process, from a thread of its own: what holds it for too long loses its isolate.
 * V8 could bound each part by itself, but that begins or wakes a thread for each of them, which takes longer than most
 * parts. This one counts its looks, and not the clock: while it has no processor itself, the part may have none either.
 *
 * It is the thread of an isolate with our own code, which is given isolates in order to end them. No user code is in it.
 */
import ivm from 'isolated-vm';

const LOOK_MS = 7;
/** Looks at one part after the first, until it is ended. */
const MAX_LOOKS = 2;
/** Looks without anything to see before it sleeps until it is woken. */
const IDLE_LOOKS = 4;
/** Not for ever: a process that ends waits for it. */
const SLEEP_MS = 1_000;

/** Places in the shared memory. A part has a number; one that was ended leaves `ENDED` in its place. */
const PART = 0;
const SLOT = 1;
const ASLEEP = 2;
const ASKED = 3;
const NEVER = 4;
const PLACES = 5;
const NOTHING = 0;
const ENDED = -1;
const MAX_PARTS = 2 ** 30;

const code = `(function (buffer) {
  'use strict';
  const shared = new Int32Array(buffer);
  const isolates = new Map();
  let taken = 0;
  function take(slot, isolate, gone) {
    isolates.set(slot, isolate);
    for (const one of JSON.parse(gone)) isolates.delete(one);
    taken += 1;
  }
  function rest(idle) {
    if (idle <= ${IDLE_LOOKS}) {
      Atomics.wait(shared, ${NEVER}, 0, ${LOOK_MS});
      return idle;
    }
    Atomics.store(shared, ${ASLEEP}, 1);
    if (Atomics.load(shared, ${ASKED}) <= taken) Atomics.wait(shared, ${PART}, ${NOTHING}, ${SLEEP_MS});
    Atomics.store(shared, ${ASLEEP}, 0);
    return 0;
  }
  function end(part) {
    if (Atomics.compareExchange(shared, ${PART}, part, ${ENDED}) !== part) return;
    try {
      isolates.get(Atomics.load(shared, ${SLOT})).dispose();
    } catch {}
  }
  function look() {
    let seen = 0, looks = 0, idle = 0;
    while (Atomics.load(shared, ${ASKED}) <= taken) {
      idle = rest(idle);
      const part = Atomics.load(shared, ${PART});
      looks = part === seen ? looks + 1 : 0;
      idle = part > 0 ? 0 : idle + 1;
      seen = part;
      if (part > 0 && looks >= ${MAX_LOOKS}) end(part);
    }
  }
  return [take, look];
})`;

type EntryReference = ivm.Reference<(...args: unknown[]) => unknown>;

/** Without it nothing would be bounded. */
const endProcess = (): void => void process.kill(process.pid, 'SIGKILL');

class Watch {
  readonly #shared = new Int32Array(new SharedArrayBuffer(4 * PLACES));
  readonly #isolate = new ivm.Isolate({ memoryLimit: 8, onCatastrophicError: endProcess });
  readonly #take: EntryReference;
  readonly #look: EntryReference;
  #gone: number[] = [];
  #lastSlot = 0;
  #part = 0;

  constructor() {
    const context = this.#isolate.createContextSync();
    const script = this.#isolate.compileScriptSync(code, { filename: 'penstock:watch' });
    const make = script.runSync(context, { reference: true }) as unknown as EntryReference;
    const buffer = new ivm.ExternalCopy(this.#shared.buffer).copyInto();
    const list = make.applySync(undefined, [buffer], {
      result: { reference: true },
    }) as unknown as ivm.Reference<readonly unknown[]>;
    const entry = (at: number): EntryReference =>
      list.getSync(at, { reference: true }) as unknown as EntryReference;
    this.#take = entry(0);
    this.#look = entry(1);
  }

  /** Its thread is there, and nothing else of it. */
  async ready(): Promise<void> {
    await this.#isolate.getHeapStatistics();
  }

  /** Answers how to name it from now on. */
  add(isolate: ivm.Isolate): number {
    this.#lastSlot += 1;
    const gone = JSON.stringify(this.#gone.splice(0));
    this.#take.applyIgnored(undefined, [this.#lastSlot, isolate, gone] as never);
    this.#look.applyIgnored(undefined, []);
    // What it has to do is in its line before it is called away.
    Atomics.add(this.#shared, ASKED, 1);
    Atomics.notify(this.#shared, PART);
    return this.#lastSlot;
  }

  forget(slot: number): void {
    this.#gone.push(slot);
  }

  /** From now on until `leave` the isolate runs on this thread. */
  enter(slot: number): void {
    const shared = this.#shared;
    if (this.#isolate.isDisposed) endProcess();
    this.#part = (this.#part % MAX_PARTS) + 1;
    Atomics.store(shared, SLOT, slot);
    Atomics.store(shared, PART, this.#part);
    if (Atomics.load(shared, ASLEEP) !== 0) Atomics.notify(shared, PART);
  }

  /** False: it took too long, and its isolate is ended. */
  leave(): boolean {
    const was = Atomics.compareExchange(this.#shared, PART, this.#part, NOTHING);
    if (was === this.#part) return true;
    Atomics.store(this.#shared, PART, NOTHING);
    return false;
  }
}

let made: Watch | undefined;

/** One for the process. */
export function watch(): Watch {
  made ??= new Watch();
  return made;
}
